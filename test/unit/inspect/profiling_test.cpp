// SPDX-License-Identifier: MIT
#include "inspect/profiling.hpp"
#include "inspect/watching.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "forks.hpp"
#include "guard/guard.hpp"
#include "heaps.hpp"
#include "large/large.hpp"
#include "mixed/mixed.hpp"
#include "observe/samples.hpp"
#include "observe/sampling.hpp"
#include "support/build.hpp"
#include "support/random.hpp"

namespace coffer {
namespace {

using namespace test;
namespace fake = os::fake;

// What the profile says, summed over all stacks.
struct Totals {
  double allocated_blocks = 0, allocated_bytes = 0, live_blocks = 0, live_bytes = 0;
};
Totals totals() {
  Totals sum;
  const Samples& samples = profile_samples();
  for (u32 i = 0; i < samples.stacks(); ++i) {
    const StackSums& one = samples.sums(i);
    sum.allocated_blocks += one.allocated_blocks;
    sum.allocated_bytes += one.allocated_bytes;
    sum.live_blocks += one.allocated_blocks - one.freed_blocks;
    sum.live_bytes += one.allocated_bytes - one.freed_bytes;
  }
  return sum;
}

void start_profile(usize mean, u64 seed = 1) {
  seed_samples(seed);
  start_heaps();
  profile_start(mean);
}

// A name for a file, gone at the end.
class File {
 public:
  explicit File(const char* name) : path_(std::filesystem::temp_directory_path() / (name + std::to_string(getpid()))) {}
  ~File() { std::filesystem::remove(path_); }
  const char* path() const { return path_.c_str(); }
  std::string content() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

 private:
  std::filesystem::path path_;
};

bool says_off() {
  const File file("coffer-off-");
  EXPECT_TRUE(profile_dump(file.path()));
  return file.content().find("sampling is off") != std::string::npos;
}

FRESH_TEST(Profile, NothingIsSampledUntilItIsAskedFor) {
  start_heaps();
  give_many(take_many(10'000));
  EXPECT_FALSE(samples_lists());
  EXPECT_FALSE(watches_lists());
  EXPECT_EQ(profile_samples().stacks(), 0u);
}

// With a mean of one byte every block is a sample, and the profile is exact.
FRESH_TEST(Profile, EveryBlockAtAMeanOfOneByte) {
  start_profile(1);
  Blocks blocks;
  usize bytes = 0;
  for (const usize size : {1, 16, 100, 1000, 5000, 32'000, 40'000, 3'000'000}) {
    for (u32 i = 0; i < 10; ++i) {
      blocks.push_back(take(size));
      std::memset(blocks.back(), 0x5a, size);
      EXPECT_GE(Allocator::usable_size(blocks.back()), size);
      bytes += size;
    }
  }
  const Totals all = totals();
  // The smallest class is 16 bytes: its blocks are missed by one in e^16.
  EXPECT_NEAR(all.allocated_blocks, static_cast<double>(blocks.size()), 0.01);
  EXPECT_NEAR(all.allocated_bytes, static_cast<double>(bytes), 1);
  EXPECT_NEAR(all.live_bytes, static_cast<double>(bytes), 1);
  EXPECT_EQ(check_everything(), 0u);
  give_many(blocks);
  EXPECT_NEAR(totals().live_bytes, 0, 1e-3);
  EXPECT_NEAR(totals().allocated_bytes, static_cast<double>(bytes), 1);
  EXPECT_EQ(profile_samples().live(), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

// The same of one block that comes and goes: its heap never has a second one on its list, and takes the shortest way
// that counts.
FRESH_TEST(Profile, OneBlockAgainAndAgain) {
  constexpr usize kMean = 8 * 1024, kSize = 1024, kCount = 100'000;
  start_profile(kMean, 42);
  for (usize i = 0; i < kCount; ++i) give(take(kSize));
  const double chance = sampling_probability(kSize, kMean);
  const double deviation = std::sqrt(static_cast<double>(kCount) * (1 - chance) / chance);
  EXPECT_NEAR(totals().allocated_blocks, static_cast<double>(kCount), 5 * deviation);
  EXPECT_NEAR(totals().live_bytes, 0, 1e-3);
  EXPECT_EQ(check_everything(), 0u);
}

// The sums are unbiased. Of blocks of size s and number n, with p = 1 - e^(-s/mean) the chance to be sampled, the sum
// of weights has mean n and variance n (1 - p) / p. Five deviations: one run in two million would fail, and this seed
// does not.
FRESH_TEST(Profile, SumsAreWhatWasAllocated) {
  constexpr usize kMean = 8 * 1024;
  start_profile(kMean, 42);
  for (const usize size : {16, 64, 200, 1000, 3000, 10'000, 30'000, 100'000}) {
    const Totals before = totals();
    const usize count = usize{60} << 20 >> (size < 64 ? 3 : 0);
    const usize blocks = count / size;
    Blocks some;
    for (usize i = 0; i < blocks; ++i) {
      some.push_back(take(size));
      // Lists are taken, used in part, and given back: what was not used must not count.
      if (some.size() > i % 97) {
        give_many(some);
        some.clear();
      }
    }
    give_many(some);
    const Totals after = totals();
    const ClassIndex c = size <= kLargestSmall ? class_of(size) : 0;
    const double bytes = size <= kLargestSmall ? class_layout(c).block_bytes : static_cast<double>(size);
    const double p = -std::expm1(-bytes / kMean);
    const double deviation = std::sqrt(static_cast<double>(blocks) * (1 - p) / p);
    EXPECT_NEAR(after.allocated_blocks - before.allocated_blocks, static_cast<double>(blocks), 5 * deviation + 1)
        << size;
    EXPECT_NEAR(after.allocated_bytes - before.allocated_bytes, static_cast<double>(blocks * size),
                (5 * deviation + 1) * static_cast<double>(size))
        << size;
    EXPECT_NEAR(after.live_blocks, 0, 1e-3);
  }
  EXPECT_EQ(check_everything(), 0u);
}

// The profile says the same with guards, which choose blocks by the same countdown; a block may be chosen for both.
FRESH_TEST(Profile, SumsAreTheSameWithGuards) {
  constexpr usize kMean = 8 * 1024, kCount = 6'000;
  start_profile(kMean, 42);
  usize guarded = 0;
  for (const usize guards : {usize{1}, usize{512}, kMean, usize{1} << 20}) {
    guards_start(guards);
    for (const usize size : {64, 1000, 30'000, 100'000}) {
      const Totals before = totals();
      const usize count = size < 10'000 ? kCount : kCount / 10;
      for (usize i = 0; i < count; ++i) {
        void* block = take(size);
        guarded += guard::owns(block) ? 1 : 0;
        give(block);
      }
      const Totals after = totals();
      const ClassIndex c = size <= kLargestSmall ? class_of(size) : 0;
      const double bytes = size <= kLargestSmall ? class_layout(c).block_bytes : static_cast<double>(size);
      const double p = -std::expm1(-bytes / kMean);
      const double deviation = std::sqrt(static_cast<double>(count) * (1 - p) / p);
      EXPECT_NEAR(after.allocated_blocks - before.allocated_blocks, static_cast<double>(count), 5 * deviation + 1)
          << size << " with guards at " << guards;
      EXPECT_NEAR(after.live_blocks, 0, 1e-3);
    }
  }
  EXPECT_GE(guarded, kCount);
  // Each of the two goes on when the other ends.
  profile_stop();
  const Totals stopped = totals();
  guards_start(1);
  void* block = take(2000);
  EXPECT_TRUE(guard::owns(block));
  give(block);
  EXPECT_EQ(totals().allocated_blocks, stopped.allocated_blocks);
  guards_start(0);
  EXPECT_FALSE(samples_lists());
  profile_start(1);
  block = take(3000);
  EXPECT_FALSE(guard::owns(block));
  give(block);
  EXPECT_GT(totals().allocated_blocks, stopped.allocated_blocks);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Profile, WhatIsLiveIsKnownByWhoeverFreesIt) {
  start_profile(4096, 5);
  Blocks blocks = take_many(20'000);
  const Totals full = totals();
  EXPECT_NEAR(full.live_bytes / (20'000 * kSize), 1, 0.1);
  Worker worker;
  worker.run([&] { give_now(blocks, 0, 10'000); });
  EXPECT_NEAR(totals().live_bytes / (10'000 * kSize), 1, 0.1);
  give_now(blocks, 10'000);
  EXPECT_NEAR(totals().live_bytes, 0, 1e-3);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Profile, AllDoorsAreSampled) {
  start_profile(1);
  const auto sampled = [](void* block) {
    const u32 before = profile_samples().live();
    give(block);
    return profile_samples().live() == before - 1;
  };
  char* zeroed = static_cast<char*>(Allocator::allocate_zeroed(3000));
  for (u32 i = 0; i < 3000; ++i) ASSERT_EQ(zeroed[i], 0);
  EXPECT_TRUE(sampled(zeroed));
  for (const usize alignment : {16, 64, 4096, 1 << 21}) {
    void* block = Allocator::allocate_aligned(100, alignment);
    EXPECT_EQ(reinterpret_cast<uptr>(block) % alignment, 0u);
    EXPECT_TRUE(sampled(block)) << alignment;
  }
  EXPECT_TRUE(sampled(Allocator::allocate_aligned(100'000, 4096)));
  char* grown = static_cast<char*>(take(500));
  std::memset(grown, 7, 500);
  for (const usize size : {600, 5000, 100'000, 3'000'000, 5'000'000, 200'000, 90}) {
    grown = static_cast<char*>(Allocator::reallocate(grown, size));
    EXPECT_EQ(grown[89], 7);
    EXPECT_EQ(profile_samples().live(), 1u) << size;
    EXPECT_NEAR(totals().live_bytes, static_cast<double>(size), 1);
  }
  EXPECT_TRUE(sampled(grown));
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Profile, StoppedItSamplesNothingAndForgetsNothing) {
  start_profile(1);
  void* first = take();
  profile_stop();
  EXPECT_FALSE(samples_lists());
  give_many(take_many(100));
  EXPECT_EQ(profile_samples().live(), 1u);
  EXPECT_TRUE(says_off());
  give(first);
  EXPECT_EQ(profile_samples().live(), 0u);
  empty_own_heap();  // what malloc has at hand comes unseen
  profile_start(1);
  EXPECT_FALSE(says_off());
  give(take());
  EXPECT_NEAR(totals().allocated_blocks, 2, 0.01);
}

FRESH_TEST(Profile, TheStackLeadsToTheCaller) {
  start_profile(1);
  give(take(100));
  const Samples& samples = profile_samples();
  ASSERT_GE(samples.stacks(), 2u);
  bool here = false;
  const uptr self = reinterpret_cast<uptr>(&Profile_TheStackLeadsToTheCaller);
  samples.for_each_frame(
      1, [&](u32 index) { here |= samples.address(index) >= self && samples.address(index) < self + 4000; });
  EXPECT_TRUE(here || kThreadSanitizer);
}

FRESH_TEST(Profile, AnyThreadsAtOnce) {
  start_profile(2000);
  run_together(4, [&](u32 index) {
    Random random(index + 1);
    Blocks blocks;
    for (u32 i = 0; i < (kThreadSanitizer ? 3000u : 30'000u); ++i) {
      blocks.push_back(take(16u << random.below(12)));
      if (blocks.size() > 200) {
        give_now(blocks);
        blocks.clear();
      }
      if (i % 1000 == 0) {
        index == 0 ? profile_stop() : profile_start(1000 + index);
        const File file("coffer-threads-");
        EXPECT_TRUE(profile_dump(file.path()));
      }
    }
    give_now(blocks);
  });
  EXPECT_EQ(profile_samples().live(), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Profile, AForkChildGoesOnWithItsOwn) {
  start_profile(1);
  const Blocks blocks = take_many(50);
  run_fresh([&] {
    EXPECT_EQ(profile_samples().live(), 50u);
    give_many(blocks);
    give_many(take_many(7));
    EXPECT_EQ(profile_samples().live(), 0u);
    const File file("coffer-child-");
    EXPECT_TRUE(profile_dump(file.path()));
    EXPECT_EQ(check_everything(), 0u);
  });
  EXPECT_EQ(profile_samples().live(), 50u);
  give_many(blocks);
}

FRESH_TEST(Profile, ForksWhileOthersSample) {
  start_profile(500);
  Atomic<u32> done;
  std::thread other([&] {
    while (done.load(seq_cst) == 0) take_and_give(100, 100);
  });
  for (u32 i = 0; i < 30; ++i) {
    EXPECT_EQ(status_of([] {
                take_and_give(100);
                const File file("coffer-forks-");
                EXPECT_TRUE(profile_dump(file.path()));
              }),
              0);
  }
  done.store(1, seq_cst);
  other.join();
}

FRESH_TEST(Profile, IsWrittenIntoAFileAtAnyMoment) {
  start_heaps();
  profile_start(100);
  give_many(take_many(50, 1000));
  const int file = os::memory_file();
  ASSERT_GE(file, 0);
  EXPECT_EQ(profile_write(file), Write::done);
  EXPECT_GT(lseek(file, 0, SEEK_END), 200);
  SpinLock& lock = const_cast<Samples&>(profile_samples()).lock;
  lock.lock();
  EXPECT_EQ(profile_write(file), Write::busy) << "and does not wait: it may be this thread that has them";
  lock.unlock();
  EXPECT_EQ(profile_write(file), Write::done);
  EXPECT_TRUE(os::close_file(file));
  EXPECT_EQ(profile_write(file), Write::failed);
}

// Neither waits for the other: the dump that cannot be made at once is made by whoever has the samples.
FRESH_TEST(Profile, SignalsMayComeAnywhere) {
  const std::string prefix = (std::filesystem::temp_directory_path() / "coffer-signals").string();
  changeable_options().profile_to = prefix.c_str();
  changeable_options().dump_signal = SIGRTMIN + 6;
  changeable_options().profile_signal = SIGRTMIN + 7;
  changeable_options().profile_rate = 300;
  start_heaps();
  watching_prepare();
  give(take());
  const pthread_t self = pthread_self();
  Atomic<u32> done;
  const auto dumps = [&] {
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::temp_directory_path())) {
      if (entry.path().string().rfind(prefix + "." + std::to_string(getpid()), 0) == 0) paths.push_back(entry.path());
    }
    return paths;
  };
  std::thread sender([&] {
    // Until there are some dumps, too: ThreadSanitizer makes one of signals that come close together.
    for (u32 i = 0; i < 150 || dumps().size() < 10; ++i) {
      pthread_kill(self, i % 3 == 0 ? SIGRTMIN + 6 : SIGRTMIN + 7);
      usleep(i < 150 ? 200 : 2000);
    }
    done.store(1, seq_cst);
  });
  while (done.load(seq_cst) == 0) give_many(take_many(50, 1000));
  sender.join();
  EXPECT_EQ(check_everything(), 0u);
  for (const std::filesystem::path& path : dumps()) {
    EXPECT_GT(std::filesystem::file_size(path), 200u);
    std::filesystem::remove(path);
  }
}

FRESH_TEST(Profile, AFileThatCannotBeWrittenIsNotLeftBehind) {
  start_profile(1);
  give(take());
  EXPECT_FALSE(profile_dump("/nonexistent/profile"));
  const File file("coffer-fault-");
  u64 calls = 0;
  for (u64 nth = 1;; ++nth) {
    fake::set_faults({.nth = nth, .kinds = fake::kFile});
    const bool written = profile_dump(file.path());
    calls = fake::counted_calls();
    const bool failed = fake::failed_calls() != 0;
    fake::stop_faults();
    EXPECT_EQ(written, !failed) << nth;
    EXPECT_EQ(access(file.path(), F_OK) == 0, written) << nth;
    if (!failed) break;
  }
  EXPECT_GE(calls, 4u) << "to make it, and to write its parts";
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Profile, WithoutMemoryForItTheProgramGoesOn) {
  for (const u32 kind : {fake::kReserve, fake::kCommit}) {
    run_fresh([&] {
      start_profile(1);
      give(take(usize{1} << 20));  // an arena, chunks
      fake::set_faults({.nth = 1, .duration = fake::Duration::from_then_on, .kinds = kind});
      const Blocks blocks = take_many(20, 100);
      fake::stop_faults();
      give_many(blocks);
      EXPECT_EQ(check_everything(), 0u);
    });
  }
}

FRESH_TEST(Profile, ADoubleFreeOfASampleIsReported) {
  const Outcome outcome = outcome_of([] {
    start_profile(1);
    void* block = take(100);
    give(block);
    give(block);
  });
  EXPECT_TRUE(outcome.aborted());
  EXPECT_NE(outcome.errors.find("free of 0x"), std::string::npos) << outcome.errors;
}

FRESH_TEST(Profile, LeaksAreNamedByTheirStacks) {
  const Outcome outcome = outcome_of([] {
    start_profile(1);
    const u32 volatile count = 5;  // so that there is one place in the code
    for (u32 i = 0; i < count; ++i) take(1000);
    give(take(50));
    print_leaks();
  });
  EXPECT_TRUE(outcome.succeeded());
  EXPECT_NE(outcome.errors.find("5000 bytes in 5 blocks are live at the end"), std::string::npos) << outcome.errors;
  EXPECT_NE(outcome.errors.find("5000 bytes in 5 blocks from"), std::string::npos);
  EXPECT_NE(outcome.errors.find("unit_inspect+0x"), std::string::npos) << outcome.errors;
  EXPECT_EQ(outcome.errors.find(" 50 bytes"), std::string::npos);
}

}  // namespace
}  // namespace coffer
