// SPDX-License-Identifier: MIT
#include "inspect/profiling.hpp"

#include "config/config.hpp"
#include "exchange/inside.hpp"
#include "exchange/registry.hpp"
#include "guard/guard.hpp"
#include "inspect/description.hpp"
#include "inspect/signals.hpp"
#include "inspect/watching.hpp"
#include "large/large.hpp"
#include "mixed/mixed.hpp"
#include "observe/callers.hpp"
#include "observe/counters.hpp"
#include "observe/interpreted.h"
#include "observe/pprof.hpp"
#include "observe/samples.hpp"
#include "observe/sampling.hpp"
#include "span/choices.hpp"

namespace coffer {

Atomic<u32> g_live_samples;
Atomic<u32> g_sample_generation;

namespace {

constexpr u32 kLeaksShown = 20;
constexpr u32 kMostNumbers = 1000;  // of dumps of one process whose names are taken already

struct Profiling {
  Samples samples;
  Atomic<u64> mean;      // bytes; 0: never on
  Atomic<u8> on;         // 1: the profile is
  Atomic<u64> guarding;  // mean bytes from guarded block to guarded block; 0: there are none
  Atomic<u64> seed, drawn;
  Atomic<u32> dump_wanted;  // a signal came while somebody had the samples
  u32 dumps = 0;            // under the samples' lock
  u64 began_ns = 0;
  CallStack stack = {};  // under the lock, so that no handler has it on a small stack
};

constinit Profiling g_profiling;

// Nobody in the library asks for it, so the compiler and the linker have to be told.
#if __has_attribute(retain)
__attribute__((used, retain))
#else
__attribute__((used))
#endif
constinit const Description g_description = {{'C', 'o', 'f', 'f', 'e', 'r', ' ', 'r', 'e', 'c', 'o', 'r', 'd', 's'},
                                             sizeof(Description),
                                             records_fingerprint(),
                                             &g_description,
                                             &g_arenas,
                                             &g_profiling.samples,
                                             kHardening.rests ? 1 : 0};

u64 draw(usize mean) {
  Profiling& p = g_profiling;
  // relaxed, all: each number is used once, whoever gets it.
  return bytes_until_sample(mix_bits(p.seed.load(relaxed), p.drawn.fetch_add(1, relaxed)), mean);
}

usize mean_bytes() { return g_profiling.mean.load(relaxed); }  // relaxed: samples say with which mean they were taken
bool is_profiling() { return g_profiling.on.load(relaxed) != 0; }  // relaxed, both: a change shows a little later
usize guarding_mean() { return g_profiling.guarding.load(relaxed); }

// Bytes are chosen for the profile, and others for guards: two Poisson processes, which together are one. Its mean.
usize mean_of_both() {
  const usize guarding = guarding_mean();
  if (!is_profiling()) return guarding != 0 ? guarding : mean_bytes();
  if (guarding == 0) return mean_bytes();
  const double profile = static_cast<double>(mean_bytes()), guards = static_cast<double>(guarding);
  const double mean = profile / (profile + guards) * guards;
  return mean > 1 ? static_cast<usize>(mean) : 1;
}

double random_fraction() {
  Profiling& p = g_profiling;
  // relaxed, both: as in draw.
  return static_cast<double>(mix_bits(p.seed.load(relaxed), p.drawn.fetch_add(1, relaxed)) >> 11) * 0x1p-53;
}

// For what a block was chosen, of which `bytes` bytes are left from the first chosen one on. That is one of the two's,
// as their rates are; and the other may have chosen one of those behind it.
struct Chosen {
  bool profile, guard;
};
Chosen choose(usize bytes) {
  const usize profile = is_profiling() ? mean_bytes() : 0, guards = guarding_mean();
  if (guards == 0 || profile == 0) return {guards == 0, guards != 0};
  const double of_profile = static_cast<double>(guards) / (static_cast<double>(profile) + static_cast<double>(guards));
  const bool first = random_fraction() < of_profile;
  const bool second = random_fraction() < sampling_probability(bytes, first ? guards : profile);
  return {first || second, !first || second};
}

// Units until the next sample of the class, as they are kept.
u32 left_of(Watch* watch, ClassIndex size_class) {
  // relaxed: a mean that changed shows a little later.
  const u32 generation = g_sample_generation.load(relaxed);
  if (watch->generation.get() != generation) {
    for (Owned<u32>& left : watch->left) left.set(0);
    watch->generation.set(generation);
  }
  u32 left = watch->left[size_class].get();
  if (left == 0) {
    const u64 units = draw(mean_of_both()) / kSampleUnit + 1;
    left = units < ~u32{0} ? static_cast<u32>(units) : ~u32{0};
    watch->left[size_class].set(left);
  }
  return left;
}

// What people are told: a process that allocated nothing has not begun.
usize shown_mean() {
  const usize mean = mean_bytes();
  return mean != 0 ? mean : config::options().profile_rate;
}

u32 block_units(ClassIndex size_class) { return static_cast<u32>(class_layout(size_class).block_bytes / kSampleUnit); }

void dump_if_wanted();

// The samples, locked; a dump that was asked for meanwhile is made afterwards.
class Locked {
 public:
  Locked() { g_profiling.samples.lock.lock(); }
  ~Locked() {
    g_profiling.samples.lock.unlock();
    dump_if_wanted();
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
};

void record(void* block, usize size, double weight) {
  Profiling& p = g_profiling;
  const Locked locked;
  p.stack.count = find_callers(p.stack.frames, kMostFrames);
  if (&coffer_interpreted_stack != nullptr) {
    p.stack.count = coffer_interpreted_stack(p.stack.frames, p.stack.count, kMostFrames);
  }
  // relaxed: a figure, which others may change meanwhile.
  if (p.samples.add(block, size, weight, p.stack, counters().held.load(relaxed))) {
    g_live_samples.store(p.samples.live(), relaxed);  // relaxed: see forget_sample
  }
}

Block* block_to_sample(usize size, usize alignment) {
  constexpr u32 kSmallForSlice = 8 * 1024;
  if (alignment <= kQuantum) {
    // Whole lines, where other threads may get its neighbours.
    const usize unit = several_heaps() ? kCacheLine : kQuantum;
    const u32 bytes = static_cast<u32>(round_up(size != 0 ? size : 1, unit));
    if (Block* block = g_mixed_pool.take(bytes, 1)) return block;
    if (Block* block = g_mixed_pool.make(bytes, bytes <= kSmallForSlice ? 1 : kMaxSpanSlices)) return block;
  }
  bool zero = false;
  return static_cast<Block*>(allocate_large(size, alignment, &zero));
}

bool dump_locked(const char* path);

// Profiles without a name from the caller: PREFIX.PROCESS.NUMBER.pb.gz.
bool dump_by_number() {
  Profiling& p = g_profiling;
  const char* prefix = config::options().profile_to;
  for (u32 i = 0; i < kMostNumbers; ++i) {
    TextBuffer<320> path;
    path.add(prefix != nullptr ? prefix : "coffer").add('.').number(os::process_number()).add('.');
    path.number(++p.dumps).add(".pb.gz");
    path.terminate();
    const int file = os::create_file(path.data(), os::Existing::refuse);
    if (file >= 0 && os::close_file(file)) return dump_locked(path.data());
  }
  return false;
}

bool write_locked(int file) {
  Profiling& p = g_profiling;
  const u64 now = os::monotonic_ns();
  const auto since = [&](u64 when) { return p.began_ns != 0 && when > p.began_ns ? when - p.began_ns : 0; };
  const ProfileTimes times = {shown_mean(), os::unix_ns(), since(now), since(p.samples.peak_ns(now)), is_profiling()};
  return write_pprof(p.samples, times, file);
}

bool dump_locked(const char* path) {
  const int file = os::create_file(path, os::Existing::empty);
  if (file < 0) return false;
  const bool written = write_locked(file);
  if (os::close_file(file) && written) return true;
  os::remove_file(path);
  return false;
}

void say_failed() {
  constexpr char kFailed[] = "coffer: the heap profile could not be written\n";
  os::write_error(kFailed, sizeof kFailed - 1);
}

// A handler, or who asks from outside, may come before the process has started. A fork child has to know by then that
// it is one, or it waits for who had the lock.
bool try_lock_samples() {
  watch_for_forks();
  return g_profiling.samples.lock.try_lock();
}

void dump_if_wanted() {
  Profiling& p = g_profiling;
  // relaxed, here and in the handler: the flag publishes nothing, the lock does.
  while (p.dump_wanted.load(relaxed) != 0) {
    if (!try_lock_samples()) return;  // whoever has it looks when done
    if (p.dump_wanted.exchange(0, relaxed) != 0 && !dump_by_number()) say_failed();
    p.samples.lock.unlock();
  }
}

void dump_signalled(int) {
  g_profiling.dump_wanted.store(1, relaxed);  // relaxed: see dump_if_wanted
  dump_if_wanted();
}

void toggle_signalled(int) { is_profiling() ? profile_stop() : profile_start(0); }

// --- Leaks. ---

struct Frame {
  uptr address;
  Text* line;
};

void add_place(const os::Mapping& mapping, void* context) {
  const Frame& frame = *static_cast<const Frame*>(context);
  if (frame.address < mapping.begin || frame.address >= mapping.end) return;
  frame.line->add(' ').add(mapping.path).add('+').hex(frame.address - mapping.begin + mapping.offset);
}

void print_stack(u32 index) {
  const Samples& samples = g_profiling.samples;
  const StackSums& sums = samples.sums(index);
  TextBuffer<160> head;
  head.add("coffer: leaks: ").number(static_cast<u64>(sums.allocated_bytes - sums.freed_bytes + 0.5)).add(" bytes in ");
  head.number(static_cast<u64>(sums.allocated_blocks - sums.freed_blocks + 0.5)).add(" blocks from");
  os::write_line(head);
  samples.for_each_frame(index, [&](u32 address) {
    TextBuffer<600> line;
    line.add("coffer:   ").hex(samples.address(address));
    Frame frame = {samples.address(address), &line};
    os::for_each_code_mapping(&add_place, &frame);
    coffer_interpreted place;
    if (&coffer_interpreted_place != nullptr && coffer_interpreted_place(frame.address, &place) != 0) {
      line.add(' ').add(place.function).add(' ').add(place.file).add(':').number(place.line);
    }
    os::write_line(line);
  });
}

double live_bytes(u32 index) {
  const StackSums& sums = g_profiling.samples.sums(index);
  return sums.allocated_blocks - sums.freed_blocks > 0.5 ? sums.allocated_bytes - sums.freed_bytes : 0;
}

}  // namespace

void* sample_small(usize size, ClassIndex size_class, usize alignment) {
  const SlowPath path;
  Inside inside;
  Heap* heap = inside.own();
  if (heap == nullptr || heap->blocks[size_class].get() != nullptr) return nullptr;
  Watch* watch = watch_of(heap);
  heap->watch.set(watch);
  if (watch == nullptr) return nullptr;
  const u32 before = left_of(watch, size_class) - 1;
  if (before >= block_units(size_class)) return nullptr;
  const Chosen chosen = choose((block_units(size_class) - before) * kSampleUnit);
  void* block = chosen.guard ? guard::allocate(size, alignment) : nullptr;
  if (block == nullptr && chosen.profile) block = block_to_sample(size, alignment);
  // For the profile a block that has no place is tried again; for guards the next one will do.
  if (block != nullptr || !chosen.profile) watch->left[size_class].set(0);
  if (block == nullptr) return nullptr;
  watch->blocks[size_class].set(watch->blocks[size_class].get() + 1);
  if (chosen.profile) record(block, size, sampling_weight(class_layout(size_class).block_bytes, mean_bytes()));
  return block;
}

void* guard_large(usize size, usize alignment) {
  const usize mean = guarding_mean();
  // Its fresh pages cost as much as its guards, and more. So that a program pays no more for large blocks than for
  // small ones, all are as likely as the smallest of them.
  if (mean == 0 || size > guard::kMostSize || draw(mean) >= kLargestSmall) return nullptr;
  void* block = guard::allocate(size, alignment);
  if (block != nullptr) large_taken(block, size);
  return block;
}

void sample_large(void* block, usize size) {
  if (!is_profiling()) return;
  const usize mean = mean_bytes();
  if (draw(mean) < size) record(block, size, sampling_weight(size, mean));
}

void forget_sample_slow(void* block) {
  Profiling& p = g_profiling;
  const Locked locked;
  if (p.samples.remove(block)) g_live_samples.store(p.samples.live(), relaxed);  // relaxed: see forget_sample
}

void sample_resized(void* before, void* after, usize size) {
  if (COFFER_LIKELY(g_live_samples.load(relaxed) == 0)) return;  // relaxed: see forget_sample
  Profiling& p = g_profiling;
  bool known = false;
  double weight = 0;
  {
    const Locked locked;
    known = p.samples.remove(before, &weight);
    g_live_samples.store(p.samples.live(), relaxed);  // relaxed: as above
  }
  if (known) record(after, size, weight);
}

u32 blocks_before_sample(Watch* watch, ClassIndex size_class) {
  const u32 blocks = (left_of(watch, size_class) - 1) / block_units(size_class);
  return blocks != 0 ? blocks : 1;  // 1: who did not ask, or had no memory for the sample
}

void count_taken(Watch* watch, ClassIndex size_class, u32 count) {
  const u64 units = u64{count} * block_units(size_class);
  const u32 left = left_of(watch, size_class);
  watch->left[size_class].set(left > units ? static_cast<u32>(left - units) : 1);
}

void count_returned(Watch* watch, ClassIndex size_class, u32 count) {
  const u64 left = left_of(watch, size_class) + u64{count} * block_units(size_class);
  watch->left[size_class].set(left < ~u32{0} ? static_cast<u32>(left) : ~u32{0});
}

namespace {

// What was drawn for other means is drawn anew.
void sample_anew() {
  Profiling& p = g_profiling;
  // relaxed, all: a heap that sees the flag first draws once more when it sees the generation.
  if (p.seed.load(relaxed) == 0) p.seed.store(os::random_seed() | 1, relaxed);
  g_sample_generation.fetch_add(1, relaxed);
  is_profiling() || guarding_mean() != 0 ? begin_sampling() : end_sampling();
}

}  // namespace

void profile_start(usize mean) {
  Profiling& p = g_profiling;
  if (mean == 0) mean = config::options().profile_rate;
  if (p.began_ns == 0) p.began_ns = os::monotonic_ns();
  p.mean.store(mean, relaxed);  // relaxed, both: see sample_anew
  p.on.store(1, relaxed);
  sample_anew();
}

void profile_stop() {
  g_profiling.on.store(0, relaxed);  // relaxed: as above
  sample_anew();
}

void guards_start(usize mean) {
  g_profiling.guarding.store(mean, relaxed);  // relaxed: as above
  sample_anew();
}

bool profile_dump(const char* path) {
  const Locked locked;
  if (path != nullptr) return dump_locked(path);
  const bool done = dump_by_number();
  if (!done) say_failed();
  return done;
}

Write profile_write(int file) {
  Profiling& p = g_profiling;
  if (!try_lock_samples()) return Write::busy;
  const bool written = write_locked(file);
  p.samples.lock.unlock();
  dump_if_wanted();
  return written ? Write::done : Write::failed;
}

void print_leaks() {
  Profiling& p = g_profiling;
  const Locked locked;
  double blocks = 0, bytes = 0;
  for (u32 i = 0; i < p.samples.stacks(); ++i) {
    const double live = live_bytes(i);
    if (live <= 0) continue;
    bytes += live;
    blocks += p.samples.sums(i).allocated_blocks - p.samples.sums(i).freed_blocks;
  }
  TextBuffer<200> line;
  line.add("coffer: leaks: ").number(static_cast<u64>(bytes + 0.5)).add(" bytes in ");
  line.number(static_cast<u64>(blocks + 0.5)).add(" blocks are live at the end (a sample each ");
  line.number(shown_mean()).add(" bytes)");
  if (p.samples.dropped() != 0) line.add(", ").number(p.samples.dropped()).add(" samples lost for want of memory");
  os::write_line(line);
  double before = 1e300;
  u32 last = 0;
  for (u32 shown = 0; shown < kLeaksShown; ++shown) {
    // The largest after the last one shown; among equals by index.
    u32 best = ~u32{0};
    for (u32 i = 0; i < p.samples.stacks(); ++i) {
      const double live = live_bytes(i);
      if (live <= 0 || live > before || (live == before && i <= last)) continue;
      if (best == ~u32{0} || live > live_bytes(best)) best = i;
    }
    if (best == ~u32{0}) return;
    print_stack(best);
    before = live_bytes(best);
    last = best;
  }
}

COFFER_COLD void profiling_prepare() {
  const config::Options& options = config::options();
  catch_signal("profile_signal", options.profile_signal, &toggle_signalled);
  catch_signal("dump_signal", options.dump_signal, &dump_signalled);
}

COFFER_COLD void profiling_start() {
  const config::Options& options = config::options();
  if (options.profile || options.leaks) profile_start(0);
  if (options.guard_sample != 0) guards_start(options.guard_sample);
}

COFFER_COLD void profiling_end() {
  const config::Options& options = config::options();
  if (options.profile) profile_dump(nullptr);
  if (options.leaks) print_leaks();
}

void profiling_after_fork() {
  Profiling& p = g_profiling;
  if (!p.samples.lock.forget_others()) return;
  p.samples.forget();
  g_live_samples.store(0, relaxed);  // relaxed: the child has one thread
}

const Samples& profile_samples() { return g_profiling.samples; }

void seed_samples(u64 seed) {
  g_profiling.seed.store(seed, relaxed);  // relaxed, both: a test with one thread
  g_profiling.drawn.store(0, relaxed);
}

}  // namespace coffer
