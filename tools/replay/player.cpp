// SPDX-License-Identifier: MIT
#include "player.hpp"

#include <initializer_list>
#include <new>

namespace coffer::replay {

namespace {

constexpr uintptr_t kTagged = 1, kFilled = 2;
constexpr size_t kLine = 64;

constinit thread_local const Worker* t_worker = nullptr;

inline u64 tag_of(const Slot& slot) { return reinterpret_cast<uintptr_t>(&slot) * 0x9E3779B97F4A7C15u; }

// Others must run for us to go on; the longer it takes, the less we are in their way.
class Patience {
 public:
  void wait() {
    ++turns_;
    if (turns_ < 64) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    } else if (turns_ < 1024) {
      sched_yield();
    } else {
      const timespec pause{0, 50'000};
      nanosleep(&pause, nullptr);
    }
  }

 private:
  u64 turns_ = 0;
};

const char* name_of(Step step) {
  constexpr const char* kNames[kOperations] = {"malloc", "calloc", "posix_memalign", "realloc", "free"};
  return static_cast<u32>(step) < kOperations ? kNames[static_cast<u32>(step)] : "no call";
}

void on_crash(int signal_number) {
  const Worker* const worker = t_worker;
  if (worker != nullptr && worker->step != nullptr) {
    char text[256];
    // Relaxed: our own.
    const int length = snprintf(
        text, sizeof text, "signal %d at operation %zu of the trace: %s, %zu bytes, thread %zu\n", signal_number,
        static_cast<size_t>(worker->progress.load(std::memory_order_relaxed)), name_of(worker->step->kind()),
        static_cast<size_t>(worker->step->size()), static_cast<size_t>(worker->thread->number));
    [[maybe_unused]] const ssize_t wrote = write(STDERR_FILENO, text, static_cast<size_t>(length));
  }
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

}  // namespace

void report_crashes() {
  for (const int number : {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE}) {
    struct sigaction old;
    // Some allocators live by a handler of their own.
    if (sigaction(number, nullptr, &old) != 0 || old.sa_handler != SIG_DFL) continue;
    struct sigaction action{};
    action.sa_handler = on_crash;
    action.sa_flags = SA_NODEFER;
    sigaction(number, &action, nullptr);
  }
}

Player::Player(const PlanHead& head, const PlayOptions& options)
    : head_(head),
      options_(options),
      steps_(reinterpret_cast<const PlanStep*>(reinterpret_cast<const char*>(&head) + steps_offset(head))),
      workers_(own<Worker>(head.threads)),
      private_(own<Slot>(head.private_slots)),
      shared_(own<Slot>(head.shared_slots)),
      samples_(own<SampleResult>(head.samples)),
      stacks_(own<char*>(head.most_threads)) {
  const auto* const threads =
      reinterpret_cast<const PlanThread*>(reinterpret_cast<const char*>(&head) + threads_offset());
  for (size_t i = 0; i < head.threads; ++i) {
    (new (&workers_[i]) Worker)->thread = &threads[i];
  }
  // One less than threads: the first one is ours.
  for (size_t i = 1; i < head.most_threads; ++i) stacks_[free_stacks_++] = own<char>(kStackBytes);
}

void Player::fail(const Worker& worker, const char* what) const {
  // Relaxed: our own.
  const auto operation = static_cast<size_t>(worker.progress.load(std::memory_order_relaxed));
  stop(kAllocatorFailed, "operation %zu of the trace: %s(%zu) in thread %zu %s", operation,
       name_of(worker.step->kind()), static_cast<size_t>(worker.step->size()),
       static_cast<size_t>(worker.thread->number), what);
}

Slot& Player::slice_of(const Worker& worker, u32 number) {
  return (number & kShared) != 0 ? shared_[number & ~kShared] : private_[worker.thread->first_slot + number];
}

// Memory orders of slots: a shared one is filled with release and taken with acquire, so that what was written to the
// block is seen by the thread that takes it. A private one is used by one thread alone: relaxed.

uintptr_t Player::take(Slot& slot, bool is_shared) {
  if (!is_shared) return slot.load(std::memory_order_relaxed);
  uintptr_t value;
  for (Patience patience; (value = slot.load(std::memory_order_acquire)) == 0; patience.wait()) {
  }
  return value;
}

void Player::write_to(char* block, size_t size, size_t old_size) const {
  if (options_.touch == Touch::none || size == 0) return;
  if (size < 8) block[0] = 1;
  if (options_.touch == Touch::first) return;
  for (size_t at = old_size / kLine * kLine + kLine; at < size; at += kLine) static_cast<volatile char*>(block)[at] = 1;
  if (size > 8) static_cast<volatile char*>(block)[size - 1] = 1;
}

void Player::fill(const Worker& worker, u32 number, void* block, size_t size, size_t old_size) {
  Slot& slot = slice_of(worker, number);
  uintptr_t value = reinterpret_cast<uintptr_t>(block) | kFilled;
  write_to(static_cast<char*>(block), size, old_size);
  if (options_.touch != Touch::none && size >= 8) {
    const u64 tag = tag_of(slot);
    memcpy(block, &tag, 8);
    value |= kTagged;
  }
  slot.store(value, (number & kShared) != 0 ? std::memory_order_release : std::memory_order_relaxed);
}

void Player::check_zero(const Worker& worker, const char* block, size_t size) const {
  if (options_.touch == Touch::none) return;
  bool is_zero = true;
  for (size_t at = 0; at < size && at < 8; ++at) is_zero &= block[at] == 0;
  if (options_.touch == Touch::all && size > 0) {
    for (size_t at = kLine; at < size; at += kLine) is_zero &= block[at] == 0;
    is_zero &= block[size - 1] == 0;
  }
  if (!is_zero) fail(worker, "gave memory that is not zero");
}

void Player::check_tag(const Worker& worker, const Slot& slot, uintptr_t value, const char* when,
                       const void* block) const {
  if ((value & kTagged) == 0) return;
  u64 tag;
  memcpy(&tag, block, 8);
  if (tag != tag_of(slot)) fail(worker, when);
}

void Player::allocate(Worker& worker, const PlanStep& step) {
  const size_t size = step.size();
  void* block = nullptr;
  const u64 start = Ticks::now();
  switch (step.kind()) {
    case Step::calloc:
      block = calloc(1, size);
      break;
    case Step::aligned: {
      const size_t alignment = size_t{1} << step.other;
      if (posix_memalign(&block, alignment < sizeof(void*) ? sizeof(void*) : alignment, size) != 0) block = nullptr;
      break;
    }
    default:
      block = malloc(size);
      break;
  }
  const u64 ticks = Ticks::now() - start;
  worker.ticks[kAllocate] += ticks;
  worker.latency[kAllocate].add(ticks);
  if (block == nullptr && size != 0) fail(worker, "gave no memory");
  if ((reinterpret_cast<uintptr_t>(block) & ((uintptr_t{1} << step.other) - 1)) != 0) fail(worker, "is not aligned");
  if (block != nullptr && step.kind() == Step::calloc) check_zero(worker, static_cast<const char*>(block), size);
  // Before the block can be freed by another thread, so that no sum is below 0. Relaxed: a figure of ours, that
  // take_sample() reads; the slot's release and acquire order it with the taker's.
  worker.live.store(worker.live.load(std::memory_order_relaxed) + size, std::memory_order_relaxed);
  fill(worker, step.slot, block, block == nullptr ? 0 : size, 0);
}

void Player::reallocate(Worker& worker, const PlanStep& step, size_t old_size) {
  const size_t size = step.size();
  Slot& from = slice_of(worker, step.slot);
  const uintptr_t value = take(from, (step.slot & kShared) != 0);
  void* const old = reinterpret_cast<void*>(value & ~(kTagged | kFilled));
  const u64 start = Ticks::now();
  void* const block = realloc(old, size);
  const u64 ticks = Ticks::now() - start;
  worker.ticks[kReallocate] += ticks;
  worker.latency[kReallocate].add(ticks);
  if (block == nullptr && size != 0) fail(worker, "gave no memory");
  if (size >= 8) check_tag(worker, from, value, "lost what was in the block", block);
  // Relaxed: as above.
  worker.live.store(worker.live.load(std::memory_order_relaxed) + size - old_size, std::memory_order_relaxed);
  fill(worker, step.other, block, block == nullptr ? 0 : size, old_size);
}

void Player::release(Worker& worker, const PlanStep& step) {
  const Slot& slot = slice_of(worker, step.slot);
  const uintptr_t value = take(slice_of(worker, step.slot), (step.slot & kShared) != 0);
  void* const block = reinterpret_cast<void*>(value & ~(kTagged | kFilled));
  check_tag(worker, slot, value, "finds a block that somebody else has written to: it was given out twice", block);
  const u64 start = Ticks::now();
  free(block);
  const u64 ticks = Ticks::now() - start;
  worker.ticks[kFree] += ticks;
  worker.latency[kFree].add(ticks);
  // Relaxed: as above.
  worker.live.store(worker.live.load(std::memory_order_relaxed) - step.size(), std::memory_order_relaxed);
}

// A thread that is this far ahead of the slowest one waits for it: what is live at a time is then nearly what it was,
// however the system schedules. The slowest one never waits here, and what it may wait for elsewhere is done.
void Player::await_others(u64 sequence, u64& limit) {
  for (Patience patience;; patience.wait()) {
    u64 lowest = ~u64{0};
    for (size_t i = 0; i < head_.threads; ++i) {
      // Relaxed: nothing is read because of it; the slots order what must be ordered.
      const u64 progress = workers_[i].progress.load(std::memory_order_relaxed);
      lowest = progress < lowest ? progress : lowest;
    }
    limit = lowest + options_.lead;
    if (sequence <= limit) return;
  }
}

namespace {

// So many instructions, to one or two, of a loop that does nothing else.
void execute(u64 instructions) {
  u64 rounds = instructions / 2;
  if (rounds == 0) return;
#if defined(__x86_64__)
  __asm__ volatile("1: decq %0\n\tjnz 1b" : "+r"(rounds) : : "cc");
#elif defined(__aarch64__)
  __asm__ volatile("1: subs %0, %0, #1\n\tb.ne 1b" : "+r"(rounds) : : "cc");
#else
  for (; rounds != 0; --rounds) __asm__ volatile("" : "+r"(rounds));
#endif
}

}  // namespace

void Player::await_time(u64 ns) const {
  const u64 until = start_ns_ + ns;
  for (;;) {
    const u64 now = bench::clock_ns(CLOCK_MONOTONIC);
    if (now >= until) return;
    if (until - now < 60'000) continue;  // a sleep takes that long to end
    const u64 wake = until - 50'000;
    const timespec time{static_cast<time_t>(wake / 1'000'000'000), static_cast<long>(wake % 1'000'000'000)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr);
  }
}

void Player::take_sample(u32 number, u64 sequence) {
  u64 live = 0;
  // Relaxed: a figure, of some moment near this one.
  for (size_t i = 0; i < head_.threads; ++i) live += workers_[i].live.load(std::memory_order_relaxed);
  // One may be read before it allocated what another had freed when that was read.
  if (live > ~u64{0} / 2) live = 0;
  const size_t tables = bench::Memory::now().page_tables;
  // Relaxed: only the highest is wanted, and only in the end.
  if (tables > most_tables_.load(std::memory_order_relaxed)) most_tables_.store(tables, std::memory_order_relaxed);
  const u64 ns = bench::clock_ns(CLOCK_MONOTONIC) - start_ns_;
  samples_[number] = {sequence, ns, added_kib(gauge_.now()), live};
}

void Player::start(Worker& worker) {
  struct Argument {
    Player* player;
    Worker* worker;
  };
  // Before others can be ahead of it. Relaxed: pthread_create orders.
  worker.progress.store(worker.thread->first_sequence, std::memory_order_relaxed);
  if (free_stacks_ == 0) stop(kFailed, "the plan has more threads at a time than it says");
  worker.stack = stacks_[--free_stacks_];
  auto* const argument = new (worker.stack) Argument{this, &worker};  // the far end of the stack
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  int failure = pthread_attr_setstack(&attributes, worker.stack, kStackBytes);
  const auto body = [](void* at) -> void* {
    const Argument copy = *static_cast<Argument*>(at);
    copy.player->run(*copy.worker);
    return nullptr;
  };
  if (failure == 0) failure = pthread_create(&worker.handle, &attributes, body, argument);
  pthread_attr_destroy(&attributes);
  if (failure != 0) {
    stop(kFailed, "thread %zu of the trace cannot be started: %s", static_cast<size_t>(worker.thread->number),
         strerror(failure));
  }
}

void Player::join(Worker& worker) {
  pthread_join(worker.handle, nullptr);
  stacks_[free_stacks_++] = worker.stack;
}

void Player::run(Worker& worker) {
  t_worker = &worker;
  u64 sequence = worker.thread->first_sequence, limit = 0;
  size_t old_size = 0;
  const PlanStep* const end = steps_ + worker.thread->first_step + worker.thread->steps;
  for (const PlanStep* step = steps_ + worker.thread->first_step; step != end; ++step) {
    worker.step = step;
    sequence += step->advance();
    // Relaxed: see await_others().
    worker.progress.store(sequence, std::memory_order_relaxed);
    if (sequence > limit) await_others(sequence, limit);
    const Step kind = step->kind();
    switch (kind) {
      case Step::malloc:
      case Step::calloc:
      case Step::aligned:
        allocate(worker, *step);
        break;
      case Step::realloc:
        reallocate(worker, *step, old_size);
        break;
      case Step::free:
        release(worker, *step);
        break;
      case Step::advance:
        sequence += step->size();
        break;
      case Step::sample:
        take_sample(step->slot, sequence);
        break;
      case Step::start:
        start(workers_[step->slot]);
        break;
      case Step::join:
        join(workers_[step->slot]);
        break;
      case Step::wait:
        await_time(step->size());
        break;
      case Step::work:
        execute(step->size());
        break;
      case Step::old_size:
        old_size = step->size();
        break;
    }
    if (static_cast<u32>(kind) < kOperations) ++worker.done[static_cast<u32>(kind)];
  }
  worker.step = nullptr;
  // Relaxed: nobody waits for this thread any more.
  worker.progress.store(~u64{0}, std::memory_order_relaxed);
}

void Player::play() {
  populate_files();
  gauge_.now();  // what reading /proc touches is there from now on
  reset_peak();
  start_resident_ = bench::Memory::now().resident;
  start_kib_ = gauge_.now();
  const u64 faults = bench::fault_count();
  Ticks::start();
  const u64 processor_ns = bench::clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  start_ns_ = bench::clock_ns(CLOCK_MONOTONIC);
  // Relaxed: we are alone.
  workers_[0].progress.store(workers_[0].thread->first_sequence, std::memory_order_relaxed);
  run(workers_[0]);
  wall_ns_ = bench::clock_ns(CLOCK_MONOTONIC) - start_ns_;
  processor_ns_ = bench::clock_ns(CLOCK_PROCESS_CPUTIME_ID) - processor_ns;
  Ticks::stop();
  faults_ = bench::fault_count() - faults;
  finish();
}

// The peak is what the kernel saw of resident pages, with the page tables of the fullest sample.
void Player::finish() {
  const bench::Memory end = bench::Memory::now();
  final_kib_ = bench::memory_kib();
  // Relaxed: all threads have been joined.
  size_t tables = most_tables_.load(std::memory_order_relaxed);
  if (end.page_tables > tables) tables = end.page_tables;
  const size_t peak = end.peak_resident > start_resident_ ? end.peak_resident - start_resident_ : 0;
  const size_t start_tables = start_kib_ > start_resident_ ? start_kib_ - start_resident_ : 0;
  peak_kib_ = peak + (tables > start_tables ? tables - start_tables : 0);
  for (size_t i = 0; i < head_.samples; ++i) {
    if (samples_[i].kib > peak_kib_) peak_kib_ = samples_[i].kib;
  }
  if (final_kib() > peak_kib_) peak_kib_ = final_kib();
}

}  // namespace coffer::replay
