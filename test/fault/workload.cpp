// SPDX-License-Identifier: MIT
#include "fault/workload.hpp"

#include <atomic>
#include <thread>
#include <utility>

namespace coffer::test {

HeldBlock Workload::take(void* at, std::size_t size, std::size_t alignment) {
  // Threads take blocks too, one at a time each with its own seed; only these two counters are shared.
  const std::uint64_t seed = std::atomic_ref(next_seed_).fetch_add(1) * 0x9e3779b97f4a7c15u;
  if (at == nullptr) {
    REQUIRE(errno == ENOMEM, "an allocation of %zu bytes failed with errno %d", size, errno);
    REQUIRE(may_fail_, "an allocation of %zu bytes failed though nothing is made to fail", size);
    std::atomic_ref(failures_).fetch_add(1);
    return {};
  }
  REQUIRE(reinterpret_cast<std::uintptr_t>(at) % alignment == 0, "block %p is not aligned to %zu", at, alignment);
  REQUIRE(coffer_malloc_usable_size(at) >= size, "block %p has %zu usable bytes of %zu", at,
          coffer_malloc_usable_size(at), size);
  return hold(at, size, seed);
}

void Workload::grow(HeldBlock& block, std::size_t size) {
  if (!block) return;
  verify(block, "before realloc");
  errno = 0;
  void* const at = coffer_realloc(block.at, size);
  if (at == nullptr) {
    // Growth may fail; a block that shrinks needs nothing, and could always stay where it is.
    REQUIRE(size > block.size, "realloc from %zu down to %zu bytes failed", block.size, size);
    take(nullptr, size);
    verify(block, "after a failed realloc");
    return;
  }
  const std::size_t kept = size < block.size ? size : block.size;
  const std::size_t damage = find_damage(at, block.size, kept, block.seed);
  REQUIRE(damage == kPatternGood, "block %p is damaged at offset %zu by realloc from %zu to %zu bytes", at, damage,
          block.size, size);
  block = take(at, size);
}

void Workload::end_of_phase(const char* phase) {
  for (const HeldBlock& block : blocks_) verify(block, phase);
  check_allocator(phase);
}

void Workload::free_every(std::size_t nth) {
  std::vector<HeldBlock> kept;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (i % nth != 0) {
      kept.push_back(blocks_[i]);
      continue;
    }
    errno = 4242;
    release(blocks_[i]);
    REQUIRE(errno == 4242, "free set errno to %d", errno);
  }
  blocks_ = std::move(kept);
}

void Workload::small_blocks() {
  for (const std::size_t size : {1, 16, 24, 64, 100, 128, 200, 500, 1024, 2000, 4096}) {
    for (int i = 0; i < 40; ++i) add(take(coffer_malloc(size), size));
  }
  // More than one span of a class.
  for (int i = 0; i < 1500; ++i) add(take(coffer_malloc(48), 48));
  free_every(3);
  end_of_phase("after small blocks");
}

void Workload::multi_slot_blocks() {
  for (const std::size_t size : {5000, 7000, 12000, 20000, 28000, 32768}) {
    for (int i = 0; i < 20; ++i) add(take(coffer_malloc(size), size));
  }
  free_every(2);
  end_of_phase("after multi-slot blocks");
}

void Workload::large_blocks() {
  for (const std::size_t size : {32 * kKiB + 1, 64 * kKiB, 100 * kKiB, 500 * kKiB, kMiB}) {
    for (int i = 0; i < 4; ++i) add(take(coffer_malloc(size), size));
  }
  for (const std::size_t size : {kMiB + 1, 2 * kMiB, 5 * kMiB}) {
    for (int i = 0; i < 2; ++i) add(take(coffer_malloc(size), size));
  }
  free_every(2);
  coffer_malloc_trim(0);
  add(take(coffer_malloc(4 * kMiB), 4 * kMiB));
  end_of_phase("after large blocks");
}

void Workload::aligned_blocks() {
  for (const std::size_t alignment : {32, 64, 512, 4096, 32768, 65536, 1 << 20, 2 << 20, 8 << 20, 16 << 20}) {
    for (const std::size_t size : {1, 100, 5000, 40000, 3 << 20}) {
      // Chunks are what large alignments are about, and small blocks what small ones are.
      if ((alignment >= kMiB) != (size >= kMiB) && size != 1) continue;
      add(take(coffer_aligned_alloc(alignment, size), size, alignment));
      void* result = nullptr;
      errno = coffer_posix_memalign(&result, alignment, size);
      add(take(result, size, alignment));
    }
  }
  free_every(2);
  end_of_phase("after aligned blocks");
}

void Workload::zeroed_blocks() {
  // Twice: the second time mostly in memory that was used before, some of it purged between.
  for (int round = 0; round < 2; ++round) {
    std::vector<HeldBlock> zeroed;
    for (const std::size_t size : {16ul, 100ul, 1000ul, 9000ul, 30000ul, 50 * kKiB, 700 * kKiB, 2 * kMiB, 5 * kMiB}) {
      void* const at = coffer_calloc(size, 1);
      if (at != nullptr) {
        const std::size_t found = find_nonzero(at, size);
        REQUIRE(found == kPatternGood, "calloc: block %p of %zu bytes is not zero at offset %zu", at, size, found);
      }
      if (const HeldBlock block = take(at, size)) zeroed.push_back(block);
    }
    for (HeldBlock& block : zeroed) release(block);
    coffer_malloc_trim(0);
  }
  end_of_phase("after zeroed blocks");
}

void Workload::growing_blocks() {
  // Through all kinds of blocks and back; two side by side, so that neither always finds room behind it.
  HeldBlock one = take(coffer_malloc(10), 10);
  HeldBlock two = take(coffer_malloc(10), 10);
  static constexpr std::size_t kSizes[] = {20,         100,  700,          3000,     20000,    40 * kKiB, 70 * kKiB,
                                           300 * kKiB, kMiB, 2 * kMiB + 1, 5 * kMiB, 9 * kMiB, 14 * kMiB, 10 * kMiB,
                                           3 * kMiB,   kMiB, 200 * kKiB,   30000,    500,      10};
  for (const std::size_t size : kSizes) {
    grow(one, size);
    grow(two, size);
  }
  // Room behind it: growth in place, where the allocator does it.
  HeldBlock last = take(coffer_malloc(2 * kMiB), 2 * kMiB);
  for (std::size_t size = 3 * kMiB; size <= 8 * kMiB; size += kMiB) grow(last, size);
  for (HeldBlock* block : {&one, &two, &last}) add(*block);
  end_of_phase("after growing blocks");
}

void Workload::work_of_thread(std::vector<HeldBlock>& mine, std::vector<HeldBlock>& to_free, std::uint64_t seed) {
  Random random(seed);
  for (int i = 0; i < 120; ++i) {
    const std::size_t size = i % 40 == 0 ? slice_run_size(random) : random.by_magnitude(1, 16 * kKiB);
    errno = 0;
    if (const HeldBlock block = take(coffer_malloc(size), size)) mine.push_back(block);
  }
  for (HeldBlock& block : to_free) release(block);
  to_free.clear();
  // The other half outlives the thread.
  for (std::size_t i = 0; i < mine.size() / 2; ++i) release(mine[i]);
  mine.erase(mine.begin(), mine.begin() + static_cast<std::ptrdiff_t>(mine.size() / 2));
}

void Workload::threads() {
  // One after another, each freeing blocks of the one before; then two at once.
  std::vector<HeldBlock> before;
  for (std::uint64_t i = 0; i < 3; ++i) {
    std::vector<HeldBlock> mine;
    std::thread([&] { work_of_thread(mine, before, i); }).join();
    before = std::move(mine);
  }
  std::vector<HeldBlock> left, right;
  std::vector<HeldBlock> half(before.begin() + static_cast<std::ptrdiff_t>(before.size() / 2), before.end());
  before.resize(before.size() / 2);
  std::thread one([&] { work_of_thread(left, before, 10); });
  std::thread two([&] { work_of_thread(right, half, 11); });
  one.join();
  two.join();
  for (HeldBlock& block : left) add(block);
  for (HeldBlock& block : right) add(block);
  end_of_phase("after threads");
}

void Workload::run_short() {
  small_blocks();
  multi_slot_blocks();
  large_blocks();
  threads();
  finish();
}

void Workload::run() {
  small_blocks();
  multi_slot_blocks();
  large_blocks();
  aligned_blocks();
  zeroed_blocks();
  growing_blocks();
  threads();
  finish();
}

void Workload::finish() {
  free_every(1);
  end_of_phase("after everything was freed");
  const std::size_t live = live_bytes();
  REQUIRE(live <= most_live_after_, "stats: live %zu after everything was freed", live);
  most_live_after_ = live;
  coffer_malloc_trim(0);
  end_of_phase("after the last trim");
}

}  // namespace coffer::test
