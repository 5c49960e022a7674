// SPDX-License-Identifier: MIT
// Random operations of many threads that hand blocks to each other.
//
//   many_threads [--seed N] [--lanes N] [--rounds N] [--ops N (a lane and round)]
//
// A lane is a row of threads, one after another, that take over each other's blocks: every thread leaves blocks behind
// that later threads, of its own or of another lane, verify, resize and free. Blocks change lanes through mailboxes.
// After each round all threads have ended; the main thread then looks at everything.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <deque>
#include <random>
#include <thread>
#include <vector>

#include "size_class/placement.hpp"
#include "support/arguments.hpp"
#include "support/build.hpp"
#include "support/held_block.hpp"
#include "support/mailbox.hpp"

namespace coffer::test {
namespace {

constexpr std::size_t kSlotsOfLane = 512;
constexpr std::uint64_t kLivesInRound = 6;  // threads of one lane, one after another
constexpr std::size_t kMostBytesOfLane = 24 * kMiB;

class Lane {
 public:
  Lane(std::uint64_t seed, std::deque<Mailbox>& mailboxes)
      : random_(seed), mailboxes_(mailboxes), blocks_(kSlotsOfLane) {}

  // The lane's thread for a round: starts the threads that work and waits for each.
  void run_round(std::uint64_t operations) {
    for (std::uint64_t life = 0; life < kLivesInRound; ++life) {
      window_ = random_.by_magnitude(8, kSlotsOfLane);
      free_percent_ = random_.between(10, 60);
      std::thread([&] { live(operations / kLivesInRound); }).join();
    }
  }

  std::vector<HeldBlock>& blocks() { return blocks_; }

 private:
  void live(std::uint64_t operations) {
    for (std::uint64_t i = 0; i < operations; ++i) step(blocks_[random_.below(window_)]);
  }

  void step(HeldBlock& block) {
    if (!block) {
      if (bytes_ < kMostBytesOfLane && random_.one_in(2)) {
        block = allocate_any(random_, mixed_size(random_));
        bytes_ += block.size;
      }
      return;
    }
    const std::uint64_t dice = random_.below(100);
    if (dice < free_percent_) {
      bytes_ -= block.size;
      release(block);
    } else if (dice < 75) {
      hand_over(block);
    } else if (dice < 85) {
      bytes_ -= block.size;
      resize(block, 1 + mixed_size(random_));
      bytes_ += block.size;
    } else {
      verify(block, "when looked at");
    }
  }

  // Puts the block into a mailbox and does something with what comes out.
  void hand_over(HeldBlock& block) {
    bytes_ -= block.size;
    block = mailboxes_[random_.below(mailboxes_.size())].swap(block);
    if (!block) return;
    const std::uint64_t dice = random_.below(4);
    if (dice < 2) {
      release(block);
      return;
    }
    if (dice == 2) resize(block, 1 + mixed_size(random_));
    bytes_ += block.size;
  }

  Random random_;
  std::deque<Mailbox>& mailboxes_;
  std::vector<HeldBlock> blocks_;
  std::size_t bytes_ = 0;
  std::size_t window_ = 0;
  std::uint64_t free_percent_ = 0;
};

// Asks for figures and gives memory back while others work: both look at what is not theirs.
void watch(const std::atomic<bool>& stop) {
  for (unsigned i = 0; !stop.load(std::memory_order_relaxed); ++i) {
    struct coffer_stats stats = {};
    REQUIRE(coffer_stats(&stats, sizeof stats) == 0, "coffer_stats failed");
    REQUIRE(stats.live <= stats.reserved, "stats: live %zu of %zu reserved", stats.live, stats.reserved);
    if (i % 8 == 7) coffer_malloc_trim(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// All threads have ended.
void check_at_rest(std::deque<Lane>& lanes, std::deque<Mailbox>& mailboxes) {
  check_allocator("at rest");
  struct Range {
    std::uintptr_t start, end;
  };
  std::vector<Range> ranges;
  std::size_t usable = 0;
  const auto look_at = [&](const HeldBlock& block) {
    if (!block) return;
    verify(block, "at rest");
    const auto start = reinterpret_cast<std::uintptr_t>(block.at);
    const std::size_t bytes = coffer_malloc_usable_size(block.at);
    // The colour of a large block, which lies before it, counts with it. Classes' blocks may be a line too long.
    const bool large = bytes > kLargestSmall + kCacheLine;
    usable += bytes + (large ? start % kSliceBytes : 0);
    ranges.push_back({start, start + bytes});
  };
  for (Lane& lane : lanes) {
    for (const HeldBlock& block : lane.blocks()) look_at(block);
  }
  for (Mailbox& mailbox : mailboxes) {
    const HeldBlock block = mailbox.swap({});
    look_at(block);
    mailbox.swap(block);
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.start < b.start; });
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    REQUIRE(ranges[i - 1].end <= ranges[i].start, "blocks %#zx .. %#zx and %#zx .. %#zx overlap", ranges[i - 1].start,
            ranges[i - 1].end, ranges[i].start, ranges[i].end);
  }
  const std::size_t live = live_bytes();
  REQUIRE(live == usable, "stats: live %zu, but the blocks held have %zu usable bytes", live, usable);
}

int many_threads(const Arguments& arguments) {
  constexpr std::uint64_t kOperations = kThreadSanitizer ? 6'000 : 300'000;
  constexpr std::uint64_t kRounds = kThreadSanitizer ? 4 : 8;
  const std::uint64_t seed = arguments.number("--seed", std::random_device{}());
  const std::uint64_t rounds = arguments.number("--rounds", kRounds);
  const std::uint64_t operations = arguments.number("--ops", kOperations);
  const std::size_t count = arguments.number("--lanes", 8);
  std::printf("seed %" PRIu64 ", %zu lanes, %" PRIu64 " rounds of %" PRIu64 " operations a lane\n", seed, count, rounds,
              operations);
  std::fflush(stdout);
  std::deque<Mailbox> mailboxes(4 * count);
  std::deque<Lane> lanes;
  for (std::size_t i = 0; i < count; ++i) lanes.emplace_back(seed + i, mailboxes);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    std::vector<std::thread> threads;
    for (Lane& lane : lanes) threads.emplace_back([&] { lane.run_round(operations); });
    std::atomic<bool> stop{false};
    std::thread watcher([&] { watch(stop); });
    for (std::thread& thread : threads) thread.join();
    stop.store(true, std::memory_order_relaxed);
    watcher.join();
    check_at_rest(lanes, mailboxes);
    if (round % 2 == 1) coffer_malloc_trim(0);
  }
  for (Mailbox& mailbox : mailboxes) {
    HeldBlock block = mailbox.swap({});
    if (block) release(block);
  }
  for (Lane& lane : lanes) {
    for (HeldBlock& block : lane.blocks()) {
      if (block) release(block);
    }
  }
  check_at_rest(lanes, mailboxes);
  coffer_malloc_trim(0);
  check_allocator("after the last trim");
  return 0;
}

}  // namespace
}  // namespace coffer::test

int main(int argc, char** argv) { return coffer::test::many_threads(coffer::test::Arguments(argc, argv)); }
