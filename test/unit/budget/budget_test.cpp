// SPDX-License-Identifier: MIT
#include "budget/budget.hpp"

#include <gtest/gtest.h>

#include "fresh.hpp"
#include "worker.hpp"

namespace coffer {
namespace {

usize charged() { return budget().charged.load(relaxed); }
void limit(usize bytes) { budget().limit.store(bytes + 1, relaxed); }

FRESH_TEST(Budget, WithoutALimitEverythingIsChargedAndAllowed) {
  EXPECT_FALSE(is_limited());
  EXPECT_TRUE(charge(usize{1} << 50));
  EXPECT_EQ(charged(), usize{1} << 50);
  uncharge(usize{1} << 50);
  budget().limit.store(kLimitNone, relaxed);
  EXPECT_FALSE(is_limited());
  EXPECT_TRUE(charge(7));
  EXPECT_EQ(charged(), 7u);
}

FRESH_TEST(Budget, TheLimitCanBeReachedAndNotPassed) {
  limit(100);
  EXPECT_TRUE(is_limited());
  EXPECT_FALSE(charge(101));
  EXPECT_EQ(charged(), 0u) << "what fails charges nothing";
  EXPECT_TRUE(charge(60));
  EXPECT_FALSE(charge(41));
  EXPECT_TRUE(charge(40));
  EXPECT_FALSE(charge(1));
  EXPECT_TRUE(charge(0));
  uncharge(1);
  EXPECT_TRUE(charge(1)) << "what goes counts again at once";
  EXPECT_FALSE(charge(~usize{0})) << "no overflow";
}

FRESH_TEST(Budget, ALoweredLimitFailsOnlyWhatIsNew) {
  EXPECT_TRUE(charge(100));
  limit(50);
  EXPECT_TRUE(charge(0));
  EXPECT_FALSE(charge(1));
  charge_anyway(10);
  EXPECT_EQ(charged(), 110u);
  uncharge(61);
  EXPECT_FALSE(charge(2));
  EXPECT_TRUE(charge(1));
}

FRESH_TEST(Budget, ThreadsNeverPassItTogether) {
  constexpr usize kLimit = 1000;
  limit(kLimit);
  std::atomic<usize> highest{0};
  test::run_together(4, [&](unsigned number) {
    for (usize i = 0; i < 50'000; ++i) {
      const usize bytes = 100 + (i * number) % 400;
      if (!charge(bytes)) continue;
      const usize now = charged();
      usize before = highest.load();
      while (now > before && !highest.compare_exchange_weak(before, now)) {
      }
      uncharge(bytes);
    }
  });
  EXPECT_LE(highest.load(), kLimit);
  EXPECT_EQ(charged(), 0u);
  EXPECT_TRUE(charge(kLimit));
}

}  // namespace
}  // namespace coffer
