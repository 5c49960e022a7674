// SPDX-License-Identifier: MIT
// A scalloc for a test, with the parameters that it wants, beside the process's.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "fresh.hpp"
#include "papers/scalloc/core.hpp"

namespace coffer::scalloc {

inline Parameters small_parameters() {
  Parameters parameters;
  parameters.arena = usize{1} << 32;
  parameters.stacks = 4;
  return parameters;
}

// One a process: the tests are FRESH_TESTs.
inline Core& start_core(const Parameters& parameters = small_parameters()) {
  static constinit Core core;
  EXPECT_TRUE(core.start(parameters));
  return core;
}

// A LAB and what a thread with it does.
struct User {
  explicit User(Core& the_core, u32 thread = 1) : core(the_core), lab(the_core.registry().attach(thread)) {
    EXPECT_NE(lab, nullptr);
  }
  void* allocate(usize size) { return core.allocate(lab, size); }
  void deallocate(void* block) { core.deallocate(lab, block); }
  void end() {
    core.registry().detach(lab);
    lab = nullptr;
  }
  std::vector<void*> allocate_many(usize count, usize size) {
    std::vector<void*> blocks;
    for (usize i = 0; i < count; ++i) blocks.push_back(allocate(size));
    return blocks;
  }
  void deallocate_all(const std::vector<void*>& blocks) {
    for (void* block : blocks) deallocate(block);
  }

  Core& core;
  Lab* lab;
};

inline Span* span_of(Core& core, const void* block) { return core.span_around(reinterpret_cast<uptr>(block)); }
inline State state_of(Core& core, const void* block) { return load_epoch(span_of(core, block)).state(); }

// Pages of [from, from + bytes) that are resident.
usize resident_pages(const void* from, usize bytes);
// Whether a child that writes to `address` dies of it.
bool faults(void* address);

}  // namespace coffer::scalloc
