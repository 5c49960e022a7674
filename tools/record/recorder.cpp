// Threads and their chunks: the recorder's slow path. All of it runs with signals blocked, so that no handler finds a
// state half changed.
#include "record/recorder.hpp"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "coffer/coffer.h"
#include "record/session.hpp"

namespace coffer::record {

namespace {

constinit Thread g_none{};  // the state of threads that have none; never written
pthread_key_t g_key;
constexpr u64 kFiguresEvery = 50'000'000;         // nanoseconds, at least
constexpr u64 kFiguresShare = 256;                // and of so many parts of the time they may take one
constexpr u64 kCollectorTimeout = 3'000'000'000;  // without a sign of life
constexpr u32 kRoom = trace::kMaxRecord + 8;

// What a thread that is ending remembers.
__thread u32 t_rounds;  // of the key's destructor
__thread bool t_ended;
__thread u32 t_number, t_sequence;
__thread u64 t_time;

class Masked {
 public:
  Masked() {
    sigset_t all;
    sigfillset(&all);
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &old_, 8);
  }
  ~Masked() {
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old_, nullptr, 8);
    errno = errno_;
  }

 private:
  int errno_ = errno;
  sigset_t old_;
};

// Takes the first element off a tagged list; index + 1, or 0. `next(index)` is an element's link. acquire: the element
// is as the one who put it there left it (release); acq_rel: and the next taker sees ours.
template <class Link>
u32 pop(std::atomic<u64>& list, u32 limit, Link next) {
  u64 seen = list.load(std::memory_order_acquire);
  for (;;) {
    const u32 first = static_cast<u32>(seen);
    if (first == 0 || first > limit) return 0;
    const u64 rest = ((seen >> 32) + 1) << 32 | next(first - 1).load(std::memory_order_relaxed);
    if (list.compare_exchange_weak(seen, rest, std::memory_order_acq_rel, std::memory_order_acquire)) return first;
  }
}

template <class Link>
void push(std::atomic<u64>& list, u32 index, Link next) {
  u64 seen = list.load(std::memory_order_relaxed);
  do {
    next(index).store(static_cast<u32>(seen), std::memory_order_relaxed);
  } while (!list.compare_exchange_weak(seen, ((seen >> 32) + 1) << 32 | (index + 1), std::memory_order_acq_rel,
                                       std::memory_order_relaxed));
}

std::atomic<u32>& state_link(u32 index) { return g_session.table->threads[index].next; }
std::atomic<u32>& chunk_link(u32 index) { return g_session.heads[index].next; }

void count_lost(trace::Lost why) {
  // relaxed: a count.
  g_session.area->lost[static_cast<u32>(why)].fetch_add(1, std::memory_order_relaxed);
}

// The chunks up to this one are accessible. Two threads may both do it: it is the same for both.
bool make_writable(u32 index) {
  // relaxed: mprotect itself is what must have happened, and a thread that sees an old value does it again.
  const u32 have = g_session.writable.load(std::memory_order_relaxed);
  if (index < have) return true;
  constexpr u32 kStep = 1024;
  u32 want = (index / kStep + 1) * kStep;
  if (want > g_session.capacity) want = g_session.capacity;
  if (syscall(SYS_mprotect, g_session.data + u64{have} * kChunkBytes, u64{want - have} * kChunkBytes,
              PROT_READ | PROT_WRITE) != 0) {
    return false;
  }
  u32 seen = have;
  while (seen < want && !g_session.writable.compare_exchange_weak(seen, want, std::memory_order_relaxed)) {
  }
  return true;
}

u32 try_take_chunk() {
  Area* const area = g_session.area;
  const u32 first = pop(area->free_list, g_session.capacity, chunk_link);
  if (first != 0) return first;
  // relaxed: limits may be a little late. The chunk is ours by the exchange alone.
  u64 allowed = kSpareChunks + u64{2} * area->attached.load(std::memory_order_relaxed);
  if (allowed > g_session.capacity) allowed = g_session.capacity;
  u32 fresh = area->fresh.load(std::memory_order_relaxed);
  while (fresh < allowed) {
    if (area->fresh.compare_exchange_weak(fresh, fresh + 1, std::memory_order_relaxed)) return fresh + 1;
  }
  return 0;
}

// Waits for the collector if it is behind. 0: it is gone.
u32 take_chunk() {
  Area* const area = g_session.area;
  u64 since = 0;
  u32 beat = 0;
  for (;;) {
    const u32 drained = area->drained.load(std::memory_order_acquire);  // pairs with the collector's, before it wakes
    if (area->closed.load(std::memory_order_acquire) != 0) return 0;    // pairs with the collector's store
    if (const u32 found = try_take_chunk(); found != 0) return found;
    const u32 now_beat = area->beat.load(std::memory_order_relaxed);  // relaxed: a sign of life
    const u64 now = kernel_ns();
    if (since == 0 || beat != now_beat) {
      since = now;
      beat = now_beat;
    } else if (now - since > kCollectorTimeout) {
      return 0;
    }
    const timespec patience{0, 20'000'000};
    // seq_cst: the collector raises `drained`, then looks here; we raise this, then futex looks at `drained`.
    area->waiting.fetch_add(1, std::memory_order_seq_cst);
    syscall(SYS_futex, &area->drained, FUTEX_WAIT, drained, &patience, nullptr, 0);
    area->waiting.fetch_sub(1, std::memory_order_relaxed);
  }
}

void hand_in(Thread* thread) {
  if (thread->head == nullptr) return;
  // release: the collector owns the chunk with all its records.
  thread->head->state.store(static_cast<u32>(ChunkState::full), std::memory_order_release);
  thread->head = nullptr;
  thread->cursor = thread->limit = thread->resting = thread->real_limit = thread->data = nullptr;
}

bool next_chunk(Thread* thread) {
  hand_in(thread);
  const u32 taken = take_chunk();
  if (taken == 0 || !make_writable(taken - 1)) {
    // Nobody takes records any more; the program goes on without.
    g_session.state.store(State::off, std::memory_order_relaxed);  // relaxed: others may see it late
    count_lost(trace::Lost::no_buffer);
    return false;
  }
  ChunkHead& head = g_session.heads[taken - 1];
  thread->data = g_session.data + u64{taken - 1} * kChunkBytes;
  thread->head = &head;
  // relaxed: `state` publishes all of this.
  head.used.store(0, std::memory_order_relaxed);
  head.thread = thread->number;
  head.sequence = thread->sequence++;
  // Not the time now: the record that needs this chunk may be a realloc that began a while ago.
  thread->base.block = 0;
  head.base_time = thread->base.time;
  head.state.store(static_cast<u32>(ChunkState::active), std::memory_order_release);  // pairs with the collector's
  thread->cursor = thread->data;
  thread->real_limit = thread->data + kChunkBytes - kRoom;
  thread->limit = thread->resting = g_stacks == Stacks::none && !kCounts ? thread->real_limit : kAlwaysSlow;
  return true;
}

void put(Thread* thread, const trace::Record& record) {
  open_record(thread);
  u8* const end = trace::encode(thread->cursor, record, thread->base);
  close_record(thread, end);
}

trace::Record plain(Op op, u64 a, u8 detail = 0) {
  trace::Record record;
  record.op = op;
  record.time = stamp_after();
  record.a = a;
  record.detail = detail;
  return record;
}

Thread* attach() {
  Table* const table = g_session.table;
  u32 index = pop(table->free_states, kMaxThreads, state_link);
  // relaxed: the index is ours by the addition alone.
  if (index == 0) index = table->fresh.fetch_add(1, std::memory_order_relaxed) + 1;
  if (index == 0 || index > kMaxThreads) {
    table->fresh.store(kMaxThreads, std::memory_order_relaxed);
    count_lost(trace::Lost::no_buffer);
    return nullptr;
  }
  Thread* const thread = &table->threads[index - 1];
  const bool is_back = t_ended && t_number != 0;
  thread->base = {is_back ? t_time : 0, 0};
  thread->owners = table->owners;
  thread->beat = &g_session.area->beat;
  thread->seen_beat = thread->stale = 0;
  thread->index = index - 1;
  // relaxed: a number of its own, by the addition alone; a count.
  thread->number = is_back ? t_number : g_session.area->threads.fetch_add(1, std::memory_order_relaxed) + 1;
  thread->sequence = is_back ? t_sequence : 0;
  thread->one_shot = t_ended ? 1 : 0;
  thread->stack_low = thread->stack_high = nullptr;
  g_session.area->attached.fetch_add(1, std::memory_order_relaxed);
  t_thread = thread;
  if (!next_chunk(thread)) {
    t_thread = &g_none;
    g_session.area->attached.fetch_sub(1, std::memory_order_relaxed);
    push(table->free_states, thread->index, state_link);
    return nullptr;
  }
  if (!is_back) put(thread, plain(Op::thread_start, static_cast<u64>(syscall(SYS_gettid))));
  if (!t_ended) pthread_setspecific(g_key, thread);
  return thread;
}

void detach(Thread* thread) {
  hand_in(thread);
  t_number = thread->number;
  t_sequence = thread->sequence;
  t_time = thread->base.time;
  t_thread = &g_none;
  g_session.area->attached.fetch_sub(1, std::memory_order_relaxed);  // relaxed: a count
  push(g_session.table->free_states, thread->index, state_link);
}

// Runs among the destructors of the thread's other keys, which may free. glibc calls four rounds of them; the last is
// taken for the thread's end.
void thread_ends(void* given) {
  Thread* const thread = static_cast<Thread*>(given);
  if (thread != t_thread || g_session.table->alive == 0) return;  // a fork child's first thread
  if (++t_rounds < 4 && pthread_setspecific(g_key, thread) == 0) return;
  if (prepare() == thread) put(thread, plain(Op::thread_end, 0));
  Masked masked;
  t_ended = true;
  detach(thread);
}

// What Coffer says of itself, now and then.
void put_figures(Thread* thread) {
  if (g_next.coffer_stats == nullptr) return;
  std::atomic<u64>& due = g_session.area->figures_due;
  const u64 now = kernel_ns();
  u64 seen = due.load(std::memory_order_relaxed);  // relaxed, twice: whoever wins does it, nothing hangs on it
  if (now < seen || !due.compare_exchange_strong(seen, now + kFiguresEvery, std::memory_order_relaxed)) return;
  struct coffer_stats stats{};
  if (g_next.coffer_stats(&stats, sizeof stats) != 0) return;
  const u64 took = kernel_ns() - now;
  // relaxed: as above.
  if (took * kFiguresShare > kFiguresEvery) due.store(now + took * kFiguresShare, std::memory_order_relaxed);
  put(thread, plain(Op::figure, stats.live, static_cast<u8>(trace::Figure::live)));
  put(thread, plain(Op::figure, stats.held, static_cast<u8>(trace::Figure::held)));
  put(thread, plain(Op::figure, stats.resident, static_cast<u8>(trace::Figure::allocator_resident)));
  put(thread, plain(Op::figure, stats.bound, static_cast<u8>(trace::Figure::bound)));
}

}  // namespace

__thread Thread* t_thread = &g_none;

u64 kernel_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<u64>(now.tv_sec) * 1'000'000'000 + static_cast<u64>(now.tv_nsec);
}

bool start_thread_ends() { return pthread_key_create(&g_key, thread_ends) == 0; }

Thread* prepare(Asks asks) {
  Thread* thread = t_thread;
  // A chunk, but no limit: a signal handler came in the middle of this thread's record.
  if (thread->resting != nullptr && thread->limit == nullptr) {
    count_lost(trace::Lost::signal_handler);
    return nullptr;
  }
  const State state = g_session.state.load(std::memory_order_relaxed);  // relaxed: start_session looks again
  if (state == State::off || state == State::trying) return nullptr;
  Masked masked;
  if (!start_session()) return nullptr;
  thread = t_thread;
  if (thread->head != nullptr) {
    if (thread->cursor >= thread->real_limit && !next_chunk(thread)) return nullptr;
  } else if (thread != &g_none && thread->number != 0) {
    if (!next_chunk(thread)) return nullptr;  // the last try found no chunk
  } else {
    thread = attach();
    if (thread == nullptr) return nullptr;
  }
  if (asks == Asks::may) put_figures(thread);
  return thread;
}

namespace {

// A thread that is already ending has its state for one record.
void finish(Thread* thread) {
  if (thread->one_shot == 0) return;
  Masked masked;
  detach(thread);
}

// The calling thread's state, ready for a record of any kind. There is none in the middle of a record; then, and when
// nothing is recorded, nullptr.
Thread* ready(Asks asks) {
  Thread* const thread = t_thread;
  if (thread->limit != nullptr && thread->cursor < thread->real_limit) return thread;
  return prepare(asks);
}

}  // namespace

void record_event(const trace::Record& record) {
  const bool of_the_system = record.op == Op::take || record.op == Op::give;
  Thread* const thread = ready(of_the_system ? Asks::never : Asks::may);
  if (thread == nullptr) return;
  const u8* const begin = thread->cursor;
  put(thread, record);
  if (of_the_system) thread->system_bytes += static_cast<u64>(thread->cursor - begin);
  finish(thread);
}

void note_allocation_slow(Op op, std::size_t size, void* block, u8 log2, const void* frame) {
  Thread* thread = ready(Asks::may);
  if (thread == nullptr) return;
  trace::Record record;
  record.op = op;
  record.a = size;
  record.b = reinterpret_cast<u64>(block);
  record.detail = log2;
  if (g_stacks != Stacks::none && block != nullptr) {
    record.stack = stack_number(thread, frame);
    if (thread == nullptr) return;
  }
  own(thread, record.b);
  record.time = stamp_after();
  add_instructions(record);
  put(thread, record);
  finish(thread);
}

void note_free_slow(void* block, std::size_t stated) {
  Thread* const thread = ready(Asks::may);
  if (thread == nullptr) return;
  trace::Record record;
  record.op = Op::free;
  record.a = stated;
  record.b = reinterpret_cast<u64>(block);
  own(thread, record.b);
  record.time = stamp_before();
  add_instructions(record);
  put(thread, record);
  finish(thread);
}

Realloc begin_realloc(void* block) {
  Thread* thread = ready(Asks::may);
  if (thread != nullptr) own(thread, reinterpret_cast<u64>(block));
  thread = t_thread;
  return {stamp_before(), thread->base.block, thread->system_bytes, thread->cursor};
}

void note_realloc(const Realloc& before, void* block, std::size_t size, void* result) {
  Thread* thread = t_thread;
  // If the allocator came here for its parts, they are recorded already. What it took from the system does not count.
  const auto added = static_cast<u64>(thread->cursor - before.place);
  if (added != thread->system_bytes - before.system_bytes &&
      (thread->base.block != before.last_block || added < kChunkBytes)) {
    return;
  }
  thread = ready(Asks::may);
  if (thread == nullptr) return;
  trace::Record record;
  record.time = before.begun;
  if (result == nullptr && size == 0) {  // freed, where the allocator takes it so
    record.op = Op::free;
    record.b = reinterpret_cast<u64>(block);
  } else {
    record.op = Op::realloc;
    record.a = size;
    record.b = reinterpret_cast<u64>(result);
    record.old = reinterpret_cast<u64>(block);
    own(thread, record.b);
    const u64 ended = stamp_after();
    record.duration = ended > before.begun ? ended - before.begun : 0;
  }
  add_instructions(record);
  put(thread, record);
  finish(thread);
}

void emit_stack(Thread*& thread, u32 number, const u64* frames, u32 count) {
  // Stacks are longer than other records: what is left of the chunk may be too short.
  if (static_cast<u64>(thread->real_limit - thread->cursor) < trace::stack_bytes(count)) {
    Masked masked;
    if (!next_chunk(thread)) {
      thread = nullptr;
      return;
    }
  }
  open_record(thread);
  u8* const end = trace::encode_stack(thread->cursor, stamp_after(), number, frames, count, thread->base);
  close_record(thread, end);
}

u64 new_stack_number() {
  return g_session.area->stacks.fetch_add(1, std::memory_order_relaxed) + 1;  // relaxed: a number
}

}  // namespace coffer::record

// Processes that never allocate are recorded too.
__attribute__((constructor)) static void coffer_record_begin() {
  using namespace coffer::record;
  const Counted counted;
  resolve();
  prepare();
}
