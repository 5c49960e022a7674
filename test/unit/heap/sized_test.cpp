// SPDX-License-Identifier: MIT
// Frees with a size (release.cpp): what a block can have been asked for with, and what not.
#include <gtest/gtest.h>

#include "heap/refill.hpp"
#include "heaps.hpp"

namespace coffer {
namespace {

using namespace test;
using config::MixedPolicy;

void free_with_every_claim() {
  for (usize size = 0; size <= kLargestSmall + 100; size += size < 300 ? 1 : 97) {
    deallocate_as<Claim::object>(take(size), size);
    void* block = Allocator::reallocate(take(size), size / 2 + size / 5);
    deallocate_as<Claim::size>(block, size / 2 + size / 5);
    block = take(size);
    deallocate_as<Claim::object>(block, Allocator::usable_size(block));
    const usize alignment = usize{32} << size % 12;
    deallocate_as<Claim::size>(Allocator::allocate_aligned(size, alignment), size > alignment ? size : alignment);
    Worker other;
    if (size % 50 == 0) other.run([&, small = take(size)] { deallocate_as<Claim::object>(small, size); });
  }
}

FRESH_TEST(SizedFree, TakesEverySizeThatABlockCanHave) {
  start_heaps();
  free_with_every_claim();
}

FRESH_TEST(SizedFree, TakesEverySizeInMixedSpans) {
  start_heaps();
  changeable_options().mixed = config::MixedPolicy::always;
  free_with_every_claim();
}

FRESH_TEST(SizedFree, RefusesOtherClasses) {
  start_heaps();
  const auto refused = [](Claim claim, usize size, usize given, bool by_other) {
    const Outcome outcome = outcome_of([=] {
      void* block = take(size);
      const auto free_it = [=] {
        claim == Claim::object ? deallocate_as<Claim::object>(block, given) : deallocate_as<Claim::size>(block, given);
      };
      if (!by_other) return free_it();
      Worker other;
      other.run(free_it);
    });
    EXPECT_EQ(outcome.errors.find("given, the block has") != std::string::npos, outcome.aborted());
    return outcome.aborted();
  };
  for (const MixedPolicy policy : {MixedPolicy::never, MixedPolicy::always}) {
    changeable_options().mixed = policy;
    for (const bool by_other : {false, true}) {
      for (const usize size : {usize{1024}, usize{5000}, usize{40'000}}) {
        for (const Claim claim : {Claim::size, Claim::object}) {
          EXPECT_TRUE(refused(claim, size, 2 * size, by_other)) << size;
          EXPECT_TRUE(refused(claim, size, size / 3, by_other)) << size;
          EXPECT_TRUE(refused(claim, size, 1, by_other)) << size;
          EXPECT_FALSE(refused(claim, size, size, by_other)) << size;
        }
        EXPECT_TRUE(refused(Claim::object, size, size * 3 / 4, by_other)) << size;
        EXPECT_FALSE(refused(Claim::size, size, size * 3 / 4, by_other)) << size << ": realloc leaves it there";
      }
    }
  }
}

FRESH_TEST(SizedFree, BelievesSmallSizesOnceMemoryWasShort) {
  start_heaps();
  ClassIndex size_class = 0;
  Block* block = nullptr;
  bool zero = false;
  do {
    block = allocate_from_larger(++size_class, &zero);
    ASSERT_NE(block, nullptr);
    ASSERT_LT(size_class, kSizeClasses - 1);
  } while (Allocator::usable_size(block) < 2 * class_bytes(size_class) &&
           class_of(Allocator::usable_size(block)) == size_class);
  deallocate_as<Claim::object>(block, class_bytes(size_class));
}

}  // namespace
}  // namespace coffer
