// SPDX-License-Identifier: MIT
// A server's mixed load, each call of malloc and free timed for itself: what the slowest of them take. (server.cpp has
// sockets, whose time hides the allocator's; its calls are few, and latency= includes the clock.)
//
// Each thread serves requests. A request takes a few short-lived blocks, 16 to 256 bytes, a buffer for the answer, 256
// bytes to 16 KiB, and one time in 50 a buffer of 64 KiB to 1 MiB; it replaces an entry of the thread's cache, of 16
// bytes to 32 KiB, as many in each octave, or, one time in 200, a large one of 64 to 512 KiB; then it frees its blocks.
// One old entry in ten goes to the next thread, which frees it. Every page of a block is written, outside the time.
//
// Time is the processor's counter, less what its reading costs. A call of over slow_us microseconds is noted with its
// kind (a block over 32 KiB is large) and whether the thread was taken off the processor since the last note, which a
// gap of that length between two calls makes too: such a call's time is not the allocator's. So are the page faults
// that it took, if the kernel lets a program count its own (slow.faults_known=1). list=1 prints the notes on stderr.
// Results, for KIND malloc and free: KIND_p50_ns, _p99_ns, _p999_ns, _p9999_ns, _max_ns, and KIND_longest_ns, the
// longest without calls that were taken off; for KIND small_malloc, large_malloc, small_free and large_free:
// slow.KIND.count, .switched (how many of them were taken off), .faulted (how many of the others took page faults),
// .longest_ns, of those not taken off, and .plain_ns, of those without either: system calls, locks, lists, interrupts.
// 0 where there is none. An operation is a request.
#include <linux/perf_event.h>
#include <sys/syscall.h>

#include <algorithm>

#include "suite.hpp"

namespace {

constexpr size_t kLarge = 32'768, kShort = 6, kNotes = 10'000;

enum Call : size_t { kSmallMalloc, kLargeMalloc, kSmallFree, kLargeFree, kCalls };
constexpr const char* kCallNames[kCalls] = {"small_malloc", "large_malloc", "small_free", "large_free"};

struct Note {
  Call call;
  bool switched, waited;  // taken off the processor; gave it up by itself, as for a lock
  size_t size;
  uint64_t ticks, request, faults;
};

// The page faults of the thread, read without a system call: the kernel writes a record for each into a ring that the
// program maps, and how much it wrote in all stands in the ring's first page.
class Faults {
 public:
  Faults() {
    perf_event_attr wanted{};
    wanted.size = sizeof wanted;
    wanted.type = PERF_TYPE_SOFTWARE;
    wanted.config = PERF_COUNT_SW_PAGE_FAULTS;
    wanted.sample_period = 1;
    wanted.sample_type = PERF_SAMPLE_IP;
    wanted.exclude_kernel = wanted.exclude_hv = 1;
    const long file = syscall(SYS_perf_event_open, &wanted, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (file < 0) return;
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    void* ring = mmap(nullptr, 2 * page, PROT_READ, MAP_SHARED, static_cast<int>(file), 0);
    if (ring != MAP_FAILED) page_ = static_cast<const perf_event_mmap_page*>(ring);
  }

  bool known() const { return page_ != nullptr; }
  uint64_t count() const { return known() ? __atomic_load_n(&page_->data_head, __ATOMIC_RELAXED) / kRecord : 0; }

 private:
  static constexpr uint64_t kRecord = sizeof(perf_event_header) + sizeof(uint64_t);
  const perf_event_mmap_page* page_ = nullptr;
};

struct Log {
  suite::Histogram malloc, free;
  uint64_t malloc_longest, free_longest;  // of calls in which the thread was not taken off
  size_t slow[kCalls], switched[kCalls], faulted[kCalls], kept;
  uint64_t longest[kCalls], plain[kCalls];
  bool knows_faults;
  Note notes[kNotes];  // the first
};

struct Block {
  Block* next;
  size_t size;
};

struct alignas(128) Inbox {
  std::atomic<Block*> first{nullptr};
};

struct State {
  size_t threads, entries, requests;
  uint64_t slow;  // ticks
  Inbox* inboxes;
  Log* logs;
  std::atomic<uint64_t> checksum{0};
};

// Takes the times of one thread's calls.
class Timer {
 public:
  Timer(Log& log, uint64_t slow) : log_(log), slow_(slow) {
    log_.knows_faults = faults_.known();
    see_switches();
    last_ = suite::Ticks::now();
  }

  Block* allocate(size_t size) {
    uint64_t start = begin();
    Block* block = static_cast<Block*>(malloc(size));
    end(start, size > kLarge ? kLargeMalloc : kSmallMalloc, size);
    suite::require(block != nullptr, "malloc failed");
    bench::touch(block, size);
    *block = {nullptr, size};
    return block;
  }

  void release(Block* block) {
    size_t size = block->size;
    bool whole = size >= sizeof(Block) && size < (1 << 22) &&
                 (size == sizeof(Block) || reinterpret_cast<char*>(block)[size - 1] == 1);
    suite::require(whole, "a block was damaged");
    block->size = 0;
    uint64_t start = begin();
    free(block);
    end(start, size > kLarge ? kLargeFree : kSmallFree, size);
  }

  uint64_t request = 0;

 private:
  uint64_t begin() {
    faults_before_ = faults_.count();
    uint64_t start = suite::Ticks::now();
    if (start - last_ <= slow_) return start;
    // Something took the processor between two calls: it is not the next call's.
    see_switches();
    return suite::Ticks::now();
  }

  void end(uint64_t start, Call call, size_t size) {
    uint64_t now = suite::Ticks::now(), took = now - start;
    took = took > suite::Ticks::overhead() ? took - suite::Ticks::overhead() : 1;
    bool is_malloc = call <= kLargeMalloc;
    (is_malloc ? log_.malloc : log_.free).add(took);
    bool switched = took > slow_ && note(call, size, took);
    uint64_t& longest = is_malloc ? log_.malloc_longest : log_.free_longest;
    if (!switched && took > longest) longest = took;
    last_ = took > slow_ ? suite::Ticks::now() : now;
  }

  [[gnu::noinline]] bool note(Call call, size_t size, uint64_t took) {
    uint64_t off = off_, waits = waits_, faults = faults_.count() - faults_before_;
    see_switches();
    bool switched = off != off_;
    ++log_.slow[call];
    log_.switched[call] += switched;
    if (!switched) {
      log_.longest[call] = std::max(log_.longest[call], took);
      if (faults == 0) log_.plain[call] = std::max(log_.plain[call], took);
      log_.faulted[call] += faults != 0;
    }
    if (log_.kept < kNotes) log_.notes[log_.kept++] = {call, switched, waits != waits_, size, took, request, faults};
    return switched;
  }

  void see_switches() {
    rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    off_ = static_cast<uint64_t>(usage.ru_nivcsw);
    waits_ = static_cast<uint64_t>(usage.ru_nvcsw);
  }

  Log& log_;
  Faults faults_;
  uint64_t slow_, last_ = 0, off_ = 0, waits_ = 0, faults_before_ = 0;
};

size_t octave_size(suite::Random& random, size_t low, size_t octaves) {
  size_t from = low << random.below(octaves);
  return random.between(from, from * 2);
}

void send(Inbox& inbox, Block* block) {
  block->next = inbox.first.load(std::memory_order_relaxed);
  while (!inbox.first.compare_exchange_weak(block->next, block, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

void empty_inbox(Inbox& inbox, Timer& timer) {
  if (inbox.first.load(std::memory_order_relaxed) == nullptr) return;
  for (Block* block = inbox.first.exchange(nullptr, std::memory_order_acquire); block != nullptr;) {
    Block* next = block->next;
    timer.release(block);
    block = next;
  }
}

uint64_t serve(State& state, size_t thread, Block** cache, suite::Random& random, Timer& timer) {
  uint64_t bytes = 0;
  Block* own[kShort + 2];
  size_t count = 0;
  auto take = [&](size_t size) {
    own[count] = timer.allocate(size);
    bytes += size;
    return own[count++];
  };
  empty_inbox(state.inboxes[thread], timer);
  for (size_t words = random.between(2, kShort); words > 0; --words) take(random.between(16, 256));
  take(octave_size(random, 256, 6));
  if (random.below(50) == 0) take(octave_size(random, 65'536, 4));
  Block*& entry = cache[random.below(state.entries)];
  bool remote = random.below(10) == 0;
  if (entry != nullptr) {
    if (remote) {
      send(state.inboxes[(thread + 1) % state.threads], entry);
    } else {
      timer.release(entry);
    }
  }
  size_t size = random.below(200) == 0 ? octave_size(random, 65'536, 3) : octave_size(random, 16, 11);
  entry = timer.allocate(size);
  bytes += size;
  while (count > 0) timer.release(own[--count]);
  return bytes;
}

void run_thread(suite::Run& run, State& state, suite::Barrier& barrier, size_t thread) {
  Block** cache = suite::table<Block*>(state.entries);
  suite::Random random(run.seed() * 1000 + thread);
  Timer timer(state.logs[thread], state.slow);
  uint64_t bytes = 0;
  run.start(thread);
  for (; timer.request < state.requests; ++timer.request) bytes += serve(state, thread, cache, random, timer);
  run.stop();
  barrier.wait();  // nobody sends any more
  // The rest is no part of the load: its times go to a log of their own, which nobody reads.
  Log* rest = suite::table<Log>(1);
  Timer unread(*rest, ~uint64_t{0});
  empty_inbox(state.inboxes[thread], unread);
  for (size_t i = 0; i < state.entries; ++i) {
    if (cache[i] != nullptr) unread.release(cache[i]);
  }
  bench::drop_table(rest, 1);
  state.checksum.fetch_add(suite::mix(bytes), std::memory_order_relaxed);
}

void merge(Log& all, const Log& other) {
  all.malloc.merge(other.malloc);
  all.free.merge(other.free);
  all.malloc_longest = std::max(all.malloc_longest, other.malloc_longest);
  all.free_longest = std::max(all.free_longest, other.free_longest);
  for (size_t call = 0; call < kCalls; ++call) {
    all.slow[call] += other.slow[call];
    all.switched[call] += other.switched[call];
    all.faulted[call] += other.faulted[call];
    all.longest[call] = std::max(all.longest[call], other.longest[call]);
    all.plain[call] = std::max(all.plain[call], other.plain[call]);
  }
  all.knows_faults = all.knows_faults && other.knows_faults;
}

void report(suite::Run& run, const char* kind, const suite::Histogram& times, uint64_t longest) {
  char key[64];
  auto put = [&](const char* figure, double value) {
    snprintf(key, sizeof key, "%s_%s_ns", kind, figure);
    run.add(key, value);
  };
  put("p50", times.quantile_ns(0.5));
  put("p99", times.quantile_ns(0.99));
  put("p999", times.quantile_ns(0.999));
  put("p9999", times.quantile_ns(0.9999));
  put("max", times.most_ns());
  put("longest", suite::Ticks::to_ns(longest));
}

void report_slow(suite::Run& run, const Log& log) {
  for (size_t call = 0; call < kCalls; ++call) {
    const auto put = [&](const char* figure, double value) {
      char key[64];
      snprintf(key, sizeof key, "slow.%s.%s", kCallNames[call], figure);
      run.add(key, value);
    };
    put("count", static_cast<double>(log.slow[call]));
    put("switched", static_cast<double>(log.switched[call]));
    put("faulted", static_cast<double>(log.faulted[call]));
    put("longest_ns", suite::Ticks::to_ns(log.longest[call]));
    put("plain_ns", suite::Ticks::to_ns(log.plain[call]));
  }
  run.add("slow.faults_known", log.knows_faults ? 1 : 0);
}

void list_notes(const State& state) {
  for (size_t thread = 0; thread < state.threads; ++thread) {
    const Log& log = state.logs[thread];
    for (size_t i = 0; i < log.kept; ++i) {
      const Note& note = log.notes[i];
      fprintf(stderr, "thread=%zu request=%zu call=%s size=%zu us=%.1f faults=%zu%s%s\n", thread,
              static_cast<size_t>(note.request), kCallNames[note.call], note.size,
              suite::Ticks::to_ns(note.ticks) / 1000, static_cast<size_t>(note.faults),
              note.switched ? " taken off the processor" : "", note.waited ? " waited" : "");
    }
  }
}

// How long a tick is has to be known before the first call.
void measure_ticks() {
  suite::Ticks::start();
  timespec pause = {0, 20'000'000};
  nanosleep(&pause, nullptr);
  suite::Ticks::stop();
}

}  // namespace

int main(int argc, char** argv) {
  suite::Run run(argc, argv, "tails", "of no paper", "a server's mixed load, each malloc and free timed");
  State state{};
  state.threads = run.threads(2);
  state.entries = run.number("entries", 5'000, "entries of a thread's cache");
  size_t slow_us = run.number("slow_us", 20, "microseconds from which a call is noted", 1, 1'000'000);
  bool list = run.number("list", 0, "1: a line on stderr for each call that is noted", 0, 1) != 0;
  state.requests = run.scaled("requests", 400'000, "requests of all threads together") / state.threads + 1;
  run.begin(state.threads);

  measure_ticks();
  state.slow = suite::Ticks::of_ns(static_cast<double>(slow_us) * 1000);
  state.inboxes = suite::table<Inbox>(state.threads);
  state.logs = suite::table<Log>(state.threads);
  suite::Barrier barrier(state.threads);
  bench::run_threads(state.threads, [&](size_t thread) { run_thread(run, state, barrier, thread); });
  suite::Ticks::stop();
  if (list) list_notes(state);
  for (size_t i = 1; i < state.threads; ++i) merge(state.logs[0], state.logs[i]);
  report(run, "malloc", state.logs[0].malloc, state.logs[0].malloc_longest);
  report(run, "free", state.logs[0].free, state.logs[0].free_longest);
  report_slow(run, state.logs[0]);
  run.report(state.threads * state.requests, state.checksum);
}
