// SPDX-License-Identifier: MIT
// Threads at once, and what must hold when they are done.
#include <atomic>
#include <thread>

#include "os/fake/fake.hpp"
#include "papers/scalloc/ground.hpp"
#include "worker.hpp"

namespace coffer::scalloc {
namespace {

// Blocks on their way from thread to thread.
class Exchange {
 public:
  void* swap(usize place, void* block) { return places_[place % kPlaces].exchange(block); }
  template <class Fn>
  void for_each(Fn&& fn) {
    for (std::atomic<void*>& place : places_) fn(place.exchange(nullptr));
  }

 private:
  static constexpr usize kPlaces = 512;
  std::atomic<void*> places_[kPlaces] = {};
};

// Every thread allocates, writes, and frees what others allocated; threads end and begin.
void churn(const Parameters& parameters, int lives) {
  Core& core = start_core(parameters);
  static Exchange exchange;
  test::run_together(4, [&](unsigned seed) {
    u64 random = seed * 0x9e3779b97f4a7c15u;
    for (int life = 0; life < lives; ++life) {
      User user(core, seed);
      for (int i = 0; i < 3000; ++i) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const usize size = (random >> 60) != 0 ? 16 + (random >> 30) % 2000 : (random >> 30) % kLargestBlock;
        auto* block = static_cast<unsigned char*>(user.allocate(size));
        if (block != nullptr && size != 0) block[0] = block[size - 1] = static_cast<unsigned char>(seed);
        if (void* old = exchange.swap(random >> 45, block)) user.deallocate(old);
      }
      user.end();
    }
  });
  EXPECT_EQ(core.check(), 0u);
  User last(core, 9);
  exchange.for_each([&](void* block) {
    if (block != nullptr) last.deallocate(block);
  });
  last.end();
  EXPECT_EQ(core.check(), 0u);
  EXPECT_EQ(core.fragmentation_by_walk(), 0u);
}

FRESH_TEST(ScallocThreads, NothingIsLostAmongThreadsThatEnd) { churn(small_parameters(), 10); }

FRESH_TEST(ScallocThreads, NorAmongThreadsThatShareLabs) {
  Parameters parameters = small_parameters();
  parameters.lab = LabPolicy::core;
  churn(parameters, 10);
}

FRESH_TEST(ScallocThreads, NorWithLateReclaim) {
  Parameters parameters = small_parameters();
  parameters.reclaim = ReclaimPolicy::allocation;
  churn(parameters, 10);
}

FRESH_TEST(ScallocThreads, NorWithoutReuseAndWithOneStack) {
  Parameters parameters = small_parameters();
  parameters.reuse = false;
  parameters.stacks = 1;
  churn(parameters, 10);
}

// The last local and the last remote free of a span meet, again and again: one of them has to see it empty.
FRESH_TEST(ScallocThreads, TheLastTwoFreesOfASpanMeet) {
  Core& core = start_core();
  User owner(core, 1);
  constexpr int kRounds = 4000;
  std::atomic<void*> mail{nullptr};
  std::atomic<int> done{0};
  std::thread remote([&] {
    User other(core, 2);
    for (int i = 0; i < kRounds; ++i) {
      void* block = nullptr;
      while ((block = mail.exchange(nullptr)) == nullptr) std::this_thread::yield();
      other.deallocate(block);
      done.fetch_add(1);
    }
    other.end();
  });
  for (int i = 0; i < kRounds; ++i) {
    const std::vector<void*> blocks = owner.allocate_many(3, 512 * 1024);  // all of a span
    void* next = owner.allocate(512 * 1024);
    owner.deallocate(blocks[0]);
    mail.store(blocks[1]);
    for (int wait = i % 50; wait > 0; --wait) std::atomic_signal_fence(std::memory_order_seq_cst);
    owner.deallocate(blocks[2]);
    while (done.load() != i + 1) std::this_thread::yield();
    EXPECT_EQ(state_of(core, blocks[0]), State::free) << i;
    owner.deallocate(next);
  }
  remote.join();
  EXPECT_EQ(core.check(), 0u);
}

// The spans that trim goes through are on no stack meanwhile: a child would be without them.
FRESH_TEST(ScallocThreads, AForkWaitsForTrim) {
  static Core& core = start_core();
  static std::thread forks;
  static std::atomic<bool> forked{false};
  static usize inherited = 0;
  User user(core);
  user.deallocate_all(user.allocate_many(4000, 64));
  os::fake::set_at_purge([] {
    os::fake::set_at_purge(nullptr);
    forks = std::thread([] {
      core.fork_prepare();
      core.pool().for_each([](Span*) { ++inherited; });
      core.fork_parent();
      forked.store(true);
    });
    for (int i = 0; i < 1000 && !forked.load(); ++i) std::this_thread::yield();
  });
  EXPECT_TRUE(core.trim());
  forks.join();
  usize pooled = 0;
  core.pool().for_each([&](Span*) { ++pooled; });
  EXPECT_GT(pooled, 4u);
  EXPECT_EQ(inherited, pooled);
}

}  // namespace
}  // namespace coffer::scalloc
