// SPDX-License-Identifier: MIT
// What the papers' allocators ask of the simulated kernel, and Coffer does not.
#include "os/os.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "machine.hpp"

namespace simulation {
namespace {

constexpr u64 kBytes = 4 * kPageBytes;

u64 page_faults(Machine& machine) {
  const auto found = machine.counts().system.find("page fault");
  return found == machine.counts().system.end() ? 0 : found->second;
}

void touch(const void* memory) {
  g_machine->access(reinterpret_cast<uptr>(memory), 1, Access::write, {nullptr, nullptr, 0});
}

TEST(Kernel, AMappingGrowsWithItsContent) {
  Machine machine(Shape{}, Costs{}, 1);
  machine.run([] {
    char* const memory = static_cast<char*>(coffer::os::map(kBytes, kPageBytes));
    ASSERT_NE(memory, nullptr);
    std::memset(memory, 7, kBytes);
    char* const grown = static_cast<char*>(coffer::os::grow(memory, kBytes, 3 * kBytes));
    ASSERT_NE(grown, nullptr);
    EXPECT_EQ(grown[0], 7);
    EXPECT_EQ(grown[kBytes - 1], 7);
    EXPECT_EQ(grown[kBytes], 0);
    EXPECT_EQ(grown[3 * kBytes - 1], 0);
  });
}

TEST(Kernel, MappingsAreAligned) {
  Machine machine(Shape{}, Costs{}, 1);
  machine.run([] {
    constexpr u64 kAlignment = u64{1} << 20;
    EXPECT_EQ(reinterpret_cast<uptr>(coffer::os::map(kBytes, kAlignment)) % kAlignment, 0u);
  });
}

TEST(Kernel, WhatWasDecommittedFaultsAnew) {
  Machine machine(Shape{}, Costs{}, 1);
  machine.run([&machine] {
    void* const memory = coffer::os::map(kBytes, kPageBytes);
    touch(memory);
    touch(memory);
    EXPECT_EQ(page_faults(machine), 1u);
    ASSERT_TRUE(coffer::os::decommit(memory, kBytes));
    ASSERT_TRUE(coffer::os::commit(memory, kBytes));
    EXPECT_EQ(*static_cast<char*>(memory), 0);
    touch(memory);
    EXPECT_EQ(page_faults(machine), 2u);
  });
}

}  // namespace
}  // namespace simulation
