// SPDX-License-Identifier: MIT
// The allocator under test, whichever COFFER_ALLOCATOR_HEADER names. Compiled so that its fast paths are recorded.
#include COFFER_ALLOCATOR_HEADER

#include "program.hpp"

namespace simulation::subject {

const char* const name = SIMULATION_SUBJECT;

void* allocate(std::size_t size) {
  void* const block = coffer::Allocator::allocate_fast(size);
  return block != nullptr ? block : coffer::Allocator::allocate(size);
}

void release(void* block) { coffer::Allocator::deallocate(block); }

}  // namespace simulation::subject
