// SPDX-License-Identifier: MIT
// What an allocator of a paper is asked for: less than the API shim asks (api/allocator.hpp). The rest is made of it,
// once, in adapter.hpp: the start, calloc, realloc, null pointers, what no paper has.
#pragma once

#include <concepts>

#include "base/base.hpp"
#include "base/text.hpp"
#include "observe/statistics.hpp"

namespace coffer::papers {

// Every function is static and thread safe. Sizes are at most PTRDIFF_MAX. Pointers are as allocate and
// allocate_aligned gave them, and never null.
template <class P>
concept PaperConcept = requires(void* block, void* local, usize n, Statistics& statistics, Text& text) {
  // See Hooks in process.hpp. All other functions are called after a start that succeeded, but for the four marked *.
  { P::start() } -> std::same_as<bool>;
  { P::thread_ended(local) } -> std::same_as<void>;
  { P::fork_prepare() } -> std::same_as<void>;
  { P::fork_parent() } -> std::same_as<void>;
  { P::fork_child() } -> std::same_as<void>;
  // A block of at least n bytes, aligned to 16; nullptr: no memory. n may be 0.
  { P::allocate(n) } -> std::same_as<void*>;
  // allocate_aligned(size, alignment): a power of two over 16; the sum of both is at most PTRDIFF_MAX.
  { P::allocate_aligned(n, n) } -> std::same_as<void*>;
  { P::deallocate(block) } -> std::same_as<void>;
  // Bytes that may be used from the pointer on; never 0 (realloc to what a program may use must not free the block).
  { P::usable_size(block) } -> std::same_as<usize>;
  // Whether a block that allocate just gave is known to be zero (it has a mapping of its own, say).
  { P::is_zero(block) } -> std::same_as<bool>;
  // The block, made n > 0 bytes long without copying, here or elsewhere; nullptr: that is not to be had.
  { P::resize(block, n) } -> std::same_as<void*>;
  // * Gives memory back to the system; true if any went. Papers that keep what they have: false.
  { P::trim() } -> std::same_as<bool>;
  // * live, held, large and by_class at least; the adapter fills in what totals() knows.
  { P::statistics(statistics) } -> std::same_as<void>;
  // * Lines "name = number" for malloc_stats: the paper's own counts.
  { P::describe(text) } -> std::same_as<void>;
  // * Verifies every invariant; number of violations. Other threads must be outside.
  { P::check() } -> std::same_as<usize>;
};

}  // namespace coffer::papers
