// SPDX-License-Identifier: MIT
#include "papers/scalloc/treiber_stack.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "worker.hpp"

namespace coffer::scalloc {
namespace {

struct Links {
  explicit Links(u32 count) : links(count + 1) {}
  Atomic<u32>& link(u32 number) { return links[number]; }
  std::vector<Atomic<u32>> links;
};

TEST(ScallocTreiberStack, IsAStack) {
  Links links(10);
  TreiberStack stack;
  EXPECT_EQ(stack.get(links), 0u);
  for (u32 i = 1; i <= 10; ++i) stack.put(links, i);
  EXPECT_FALSE(stack.empty());
  for (u32 i = 10; i >= 1; --i) EXPECT_EQ(stack.get(links), i);
  EXPECT_TRUE(stack.empty());
}

TEST(ScallocTreiberStack, TakesAndPutsAChain) {
  Links links(5);
  TreiberStack stack;
  EXPECT_EQ(stack.take_all(), 0u);
  for (u32 i = 1; i <= 3; ++i) stack.put(links, i);
  const u32 first = stack.take_all();
  EXPECT_EQ(first, 3u);
  EXPECT_TRUE(stack.empty());
  stack.put(links, 4);
  stack.put_chain(links, first, links.link(1));
  for (const u32 wanted : {3u, 2u, 1u, 4u}) EXPECT_EQ(stack.get(links), wanted);
}

// Each number is in one place at a time: on the stack or with one thread.
TEST(ScallocTreiberStack, ManyThreadsLoseAndDoubleNothing) {
  constexpr u32 kNumbers = 64;
  Links links(kNumbers);
  TreiberStack stack;
  std::vector<Atomic<u32>> held(kNumbers + 1);
  for (u32 i = 1; i <= kNumbers; ++i) stack.put(links, i);
  Atomic<u32> wrong;
  test::run_together(4, [&](unsigned seed) {
    for (int i = 0; i < 20'000; ++i) {
      const u32 number = stack.get(links);
      if (number == 0) continue;
      if (held[number].exchange(1, relaxed) != 0) wrong.fetch_add(1, relaxed);
      const u32 other = i % 7 == 0 ? stack.get(links) : 0;
      held[number].store(0, relaxed);
      stack.put(links, number);
      if (other != 0) stack.put(links, other);
      if (seed == 1 && i % 1000 == 0) {
        const u32 first = stack.take_all();
        u32 last = first;
        while (last != 0 && links.link(last).load(relaxed) != 0) last = links.link(last).load(relaxed);
        if (first != 0) stack.put_chain(links, first, links.link(last));
      }
    }
  });
  EXPECT_EQ(wrong.load(relaxed), 0u);
  u32 count = 0;
  while (stack.get(links) != 0) ++count;
  EXPECT_EQ(count, kNumbers);
}

}  // namespace
}  // namespace coffer::scalloc
