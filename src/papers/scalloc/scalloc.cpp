// SPDX-License-Identifier: MIT
#include "papers/scalloc/scalloc.hpp"

#include "base/bits.hpp"
#include "config/config.hpp"
#include "papers/common/mapped.hpp"
#include "papers/common/word.hpp"

namespace coffer::scalloc {

constinit Core g_core;
__thread FastPath t_fast = {&g_no_lab, 0};

namespace {

// The calling thread's LAB, which it gets at its first allocation. Threads that end, and those for which there is none,
// use the common one.
Lab* own_lab() {
  if (papers::t_local != nullptr) return static_cast<Lab*>(papers::t_local);
  if (papers::thread_has_ended()) return g_core.registry().common();
  Lab* lab = g_core.registry().attach(papers::thread_number());
  if (lab == nullptr) return g_core.registry().common();
  if (lab->shared.get() == 0 && !g_core.accounts()) {
    t_fast = {lab, lab->owner.load(relaxed)};  // relaxed: made for this thread
  }
  papers::set_local(lab);
  return lab;
}

// A pointer that no span has is one to a mapping, or an error of the program.
void expect_mapped(void* block) { COFFER_ASSERT(papers::kind_of(papers::word_before(block)) == papers::Kind::mapped); }

}  // namespace

bool Scalloc::start() { return g_core.start(config::options()); }

void Scalloc::thread_ended(void* lab) {
  t_fast = {&g_no_lab, 0};
  g_core.registry().detach(static_cast<Lab*>(lab));
}

void Scalloc::fork_child() { g_core.fork_child(static_cast<Lab*>(papers::t_local)); }

// Over 1 MiB: a mapping with a header (section 5). The same where the arena has no span left: under a small limit of
// address space a virtual span for each thread and class is soon too much, and the paper's answer, to end the process,
// is none. There is no memory when the kernel has none.
void* Scalloc::allocate(usize size) {
  void* block = size <= kLargestBlock ? g_core.allocate(own_lab(), size) : nullptr;
  return block != nullptr ? block : papers::map_block(size, kStep);
}

void* Scalloc::allocate_aligned(usize size, usize alignment) {
  void* block = Core::fits_aligned(size, alignment) ? g_core.allocate_aligned(own_lab(), size, alignment) : nullptr;
  return block != nullptr ? block : papers::map_block(size, alignment);
}

void Scalloc::deallocate_slow(void* block) {
  if (g_core.contains(reinterpret_cast<uptr>(block))) {
    return g_core.deallocate(static_cast<Lab*>(papers::t_local), block);
  }
  expect_mapped(block);
  papers::unmap_block(block);
}

usize Scalloc::usable_size(void* block) {
  if (g_core.contains(reinterpret_cast<uptr>(block))) return g_core.usable_size(block);
  expect_mapped(block);
  return papers::mapped_size(block);
}

void* Scalloc::resize(void* block, usize size) {
  if (g_core.contains(reinterpret_cast<uptr>(block)) || size <= kLargestBlock) return nullptr;
  return papers::resize_mapped(block, size);
}

}  // namespace coffer::scalloc
