// SPDX-License-Identifier: MIT
// Threads and their records: the recorder's slow path. All of it runs with signals blocked, so that no handler finds a
// state half changed.
#include "record/recorder.hpp"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "coffer/coffer.h"
#include "record/chunks.hpp"
#include "record/session.hpp"

namespace coffer::record {

namespace {

constinit Thread g_none{};  // the state of threads that have none; never written
pthread_key_t g_key;
constexpr u64 kFiguresEvery = 50'000'000;  // nanoseconds, at least
constexpr u64 kFiguresShare = 256;         // and of so many parts of the time they may take one

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

std::atomic<u32>& state_link(u32 index) { return g_session.table->threads[index].next; }

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

u64 kernel_ns(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
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
  bool is_stale = true;
  if (g_stacks != Stacks::none && block != nullptr) {
    record.stack = stack_number(thread, frame);
    if (thread == nullptr) return;
    // The fast path asks that itself, and comes here where the answer was no.
    is_stale = kCounts || !is_fresh(thread, record.b);
  }
  if (is_stale) own(thread, record.b);
  record.time = is_stale ? stamp_after() : thread->base.time;
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

Realloc begin_realloc(void* block, const void* frame) {
  Thread* thread = ready(Asks::may);
  // Before the stamp: a stack that is new has a record of its own.
  const u32 stack = thread != nullptr && g_stacks != Stacks::none ? stack_number(thread, frame) : 0;
  if (thread != nullptr) own(thread, reinterpret_cast<u64>(block));
  thread = t_thread;
  return {stamp_before(), thread->base.block, place(), stack};
}

void note_realloc(const Realloc& before, void* block, std::size_t size, void* result) {
  Thread* thread = t_thread;
  // If the allocator came here for its parts, they are recorded already. What it took from the system does not count,
  // nor does a cursor that only went to another chunk.
  const bool only_next_chunk =
      thread->base.block == before.last_block && bytes_since(thread, before.seen) >= kChunkBytes;
  if (!only_took(thread, before.seen) && !only_next_chunk) return;
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
    if (result != nullptr) record.stack = before.stack;
    own(thread, record.b);
    const u64 ended = stamp_after();
    record.duration = ended > before.begun ? ended - before.begun : 0;
  }
  add_instructions(record);
  put(thread, record);
  finish(thread);
}

void emit_stack(Thread*& thread, u32 number, const u64* frames, u32 count) {
  open_record(thread);
  // Stacks are longer than other records: what is left of the chunk may be too short. Looked at within the record, for
  // a signal handler may have used up what was there before, and more.
  while (thread->real_limit - thread->cursor < std::ptrdiff_t{trace::stack_bytes(count)}) {
    leave_record(thread);
    const Masked masked;
    if (!next_chunk(thread)) {
      thread = nullptr;
      return;
    }
    open_record(thread);
  }
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
