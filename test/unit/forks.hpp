// SPDX-License-Identifier: MIT
// What the tests of fork children share.
#pragma once

#include <functional>

#include "heaps.hpp"
#include "pool/hints.hpp"

namespace coffer::test {

// Runs `expect` in a child, once its first slow call has resolved what is left.
inline void in_fork_child(const std::function<void()>& expect) {
  run_fresh([&] {
    EXPECT_FALSE(is_settled());
    settle_fork();
    EXPECT_EQ(g_pending.load(relaxed), 0u);
    EXPECT_EQ(check_everything(), 0u);
    EXPECT_EQ(forgotten_room(g_arenas.arenas[0]), 0u);
    expect();
    EXPECT_EQ(check_everything(), 0u);
  });
}

// A process with a heap of its own, and another thread that has one.
struct Two {
  Worker other;
  Heap* theirs = nullptr;
  Two() {
    start_heaps();
    own_heap();
    other.run([&] { theirs = own_heap(); });
  }
};

}  // namespace coffer::test
