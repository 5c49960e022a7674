// SPDX-License-Identifier: MIT
// A paper's allocator as the API shim sees it (api/allocator.hpp). A header names its allocator so:
//   namespace coffer { using Allocator = papers::Adapter<papers::Hoard>; }
#pragma once

#include <string.h>

#include "config/config.hpp"
#include "os/os.hpp"
#include "papers/common/gauge.hpp"
#include "papers/common/paper.hpp"
#include "papers/common/process.hpp"

namespace coffer::papers {

template <PaperConcept P>
struct Adapter {
  // Every path of a paper takes a lock or an atomic step, so none is inlined into malloc.
  static COFFER_INLINE void* allocate_fast(usize) { return nullptr; }

  static void* allocate(usize size) {
    if (COFFER_UNLIKELY(!start_process(kHooks))) return nullptr;
    return P::allocate(size);
  }

  static void* allocate_zeroed(usize size) {
    void* block = allocate(size);
    if (block != nullptr && !P::is_zero(block)) memset(block, 0, size);
    return block;
  }

  static void* allocate_aligned(usize size, usize alignment) {
    if (COFFER_UNLIKELY(!start_process(kHooks))) return nullptr;
    return P::allocate_aligned(size, alignment);
  }

  static void deallocate(void* block) {
    if (COFFER_LIKELY(block != nullptr)) P::deallocate(block);
  }
  // No paper checks sizes.
  static void deallocate_sized(void* block, usize) { deallocate(block); }
  static void deallocate_object(void* block, usize) { deallocate(block); }

  static void* reallocate(void* block, usize size) {
    const usize have = P::usable_size(block);
    // A block that shrinks below half of what it has moves to a smaller one.
    if (size <= have && size >= have / 2) return block;
    if (void* resized = P::resize(block, size)) return resized;
    void* moved = P::allocate(size);
    if (moved == nullptr) return size <= have ? block : nullptr;  // one that shrinks can always stay as it is
    memcpy(moved, block, have < size ? have : size);
    P::deallocate(block);
    return moved;
  }

  static usize usable_size(void* block) { return P::usable_size(block); }

  static bool trim(usize) { return is_started() && P::trim(); }

  // The papers have no limit.
  static void set_limit(usize) {}
  static usize limit() { return 0; }

  static void statistics(Statistics& statistics) {
    if (is_started()) P::statistics(statistics);
    const Totals& all = totals();
    statistics.held = all.held.now();
    statistics.peak_held = all.held.peak();
    statistics.large = all.mapped.now();
    statistics.large_blocks = all.mapped_blocks.now();
    statistics.metadata = all.metadata.now();
    statistics.reserved = all.reserved.now() + all.held.now();
    statistics.committed = all.held.now();
    if (statistics.resident == 0) statistics.resident = all.held.now();
    statistics.system_calls = os::call_count();
  }
  static void figures(Figures& figures) {
    Statistics all;
    statistics(all);
    figures = all;
    for (usize c = 0; c < all.classes; ++c) {
      const ClassStatistics& entry = all.by_class[c];
      const usize free = entry.held > entry.live ? entry.held - entry.live : 0;
      if (entry.block_bytes != 0) figures.free_blocks += free / entry.block_bytes;
    }
  }
  static bool heap_statistics(u32, HeapStatistics&) { return false; }
  static void describe(Text& text) {
    if (is_started()) P::describe(text);
  }

  static usize check() { return is_started() ? P::check() : 0; }

  static void read_options() { config::load(); }
  static void handle_forks() { papers::handle_forks(); }

 private:
  static bool is_started() { return g_started.load(acquire) != 0; }  // acquire: as in start_process
  static constexpr Hooks kHooks = {&P::start, &P::thread_ended, &P::fork_prepare, &P::fork_parent, &P::fork_child};
};

}  // namespace coffer::papers
