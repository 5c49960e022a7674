// SPDX-License-Identifier: MIT
#include "papers/cif/fullness.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace coffer::cif {
namespace {

constexpr u32 kQuarter = 2;  // empty_log2 of f = 1/4

TEST(Fullness, BoundsAreTheGroupsForEveryCapacity) {
  for (u32 log2 = 1; log2 <= 4; ++log2) {
    for (u32 capacity = 1; capacity <= 70; ++capacity) {
      for (u32 used = 0; used <= capacity; ++used) {
        const GroupBounds bounds = group_of(used, capacity, log2);
        ASSERT_LE(bounds.least, used);
        ASSERT_GE(bounds.most, used);
        ASSERT_LT(bounds.group, FullnessGroups::kGroups);
        for (u32 other = 0; other <= capacity; ++other) {
          const bool inside = other >= bounds.least && other <= bounds.most;
          ASSERT_EQ(inside, group_of(other, capacity, log2).group == bounds.group)
              << used << " and " << other << " of " << capacity;
        }
      }
    }
  }
}

TEST(Fullness, TheEdgeIsAtOneMinusF) {
  for (u32 log2 = 1; log2 <= 4; ++log2) {
    for (u32 capacity = 1; capacity <= 500; ++capacity) {
      for (u32 used = 0; used <= capacity; ++used) {
        const bool empty_enough = (u64{capacity - used} << log2) >= capacity;
        ASSERT_EQ(empty_enough, group_of(used, capacity, log2).group <= FullnessGroups::kLastEmptyEnough)
            << used << " of " << capacity;
      }
    }
  }
}

TEST(Fullness, FullerOnesAreInHigherGroups) {
  for (u32 capacity = 1; capacity <= 500; ++capacity) {
    for (u32 used = 1; used <= capacity; ++used) {
      ASSERT_GE(group_of(used, capacity, kQuarter).group, group_of(used - 1, capacity, kQuarter).group);
    }
  }
}

Filling with(u32 used, u32 capacity = 100) {
  Filling filling{};
  filling.used = used;
  filling.capacity = capacity;
  return filling;
}

TEST(Fullness, TheFullestWithRoomAndTheEmptiest) {
  FullnessGroups groups;
  EXPECT_EQ(groups.fullest(), nullptr);
  EXPECT_EQ(groups.emptiest(), nullptr);
  Filling full = with(100), nearly = with(99), half = with(50), nothing = with(0);
  groups.insert(&full, kQuarter);
  EXPECT_EQ(groups.fullest(), nullptr);
  groups.insert(&nearly, kQuarter);
  EXPECT_EQ(groups.emptiest(), nullptr);  // not f empty
  groups.insert(&half, kQuarter);
  groups.insert(&nothing, kQuarter);
  EXPECT_EQ(groups.fullest(), &nearly);
  EXPECT_EQ(groups.emptiest(), &nothing);
  groups.remove(&nearly);
  EXPECT_EQ(groups.fullest(), &half);
  groups.remove(&nothing);
  EXPECT_EQ(groups.emptiest(), &half);
}

TEST(Fullness, AFreeMovesToTheFrontATakeDoesNot) {
  FullnessGroups groups;
  Filling first = with(60), second = with(60);
  groups.insert(&first, kQuarter);
  groups.insert(&second, kQuarter);
  EXPECT_EQ(groups.fullest(), &second);
  --first.used;
  groups.gave(&first, kQuarter);
  EXPECT_EQ(groups.fullest(), &first);
  ++second.used;
  groups.took(&second, kQuarter);
  EXPECT_EQ(groups.fullest(), &first);
}

// Whatever happens, each is in the list of its group, once, and nothing else is.
TEST(Fullness, ManySteps) {
  FullnessGroups groups;
  std::vector<Filling> all(20);
  for (u32 i = 0; i < all.size(); ++i) {
    all[i] = with(0, 5 + i);
    groups.insert(&all[i], kQuarter);
  }
  u64 random = 1;
  for (int step = 0; step < 20'000; ++step) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    Filling& one = all[(random >> 33) % all.size()];
    if ((random >> 60) % 2 == 0 && one.used < one.capacity) {
      ++one.used;
      groups.took(&one, kQuarter);
    } else if (one.used > 0) {
      --one.used;
      groups.gave(&one, kQuarter);
      EXPECT_EQ(groups.first(one.group), &one);
    }
    usize found = 0;
    for (u32 g = 0; g < FullnessGroups::kGroups; ++g) {
      for (Filling* f = groups.first(g); f != nullptr; f = f->next) {
        ASSERT_EQ(group_of(f->used, f->capacity, kQuarter).group, g);
        ASSERT_EQ(f->next == nullptr || f->next->previous == f, true);
        ++found;
      }
    }
    ASSERT_EQ(found, all.size());
  }
}

}  // namespace
}  // namespace coffer::cif
