// SPDX-License-Identifier: MIT
// A process that has used all address space and freed all of it; one thread gives the empty superblocks back to the
// system, to map a large block, and another asks for a small one meanwhile. What is on its way back is nobody's, but
// nothing is in use: the second thread must get its block, too.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "coffer/coffer.h"
#include "os/fake/fake.hpp"

namespace coffer::test {

struct Meanwhile {
  std::thread thread;
  std::atomic<bool> begun{false}, answered{false};
  void* block = nullptr;
};
inline Meanwhile g_meanwhile;

// At the first piece that goes back. The other thread gets a moment to be refused, and waits or comes back empty.
inline void ask_meanwhile() {
  if (g_meanwhile.begun.exchange(true)) return;
  g_meanwhile.thread = std::thread([] {
    g_meanwhile.block = coffer_malloc(1000);
    g_meanwhile.answered = true;
  });
  for (int i = 0; i < 200 && !g_meanwhile.answered; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// The heaps must keep no empty superblock where the other thread would find it.
inline void expect_memory_while_another_gives_back() {
  coffer_free(coffer_malloc(1));
  os::fake::set_address_space(os::fake::reserved_bytes() + (usize{8} << 20));
  std::vector<void*> blocks;
  while (void* block = coffer_malloc(1000)) blocks.push_back(block);
  ASSERT_GT(blocks.size(), 5000u);
  for (void* block : blocks) coffer_free(block);
  os::fake::set_at_release(&ask_meanwhile);
  void* large = coffer_malloc(usize{1} << 20);
  os::fake::set_at_release(nullptr);
  ASSERT_TRUE(g_meanwhile.begun);
  g_meanwhile.thread.join();
  EXPECT_NE(large, nullptr);
  EXPECT_NE(g_meanwhile.block, nullptr);
  EXPECT_EQ(coffer_check(), 0u);
}

}  // namespace coffer::test
