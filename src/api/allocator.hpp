// SPDX-License-Identifier: MIT
// What the API shim asks of an allocator. The shim (this folder) is written once, against this concept; it is compiled
// with the allocator named by COFFER_ALLOCATOR_HEADER, which must define coffer::Allocator.
//
// The allocator knows nothing of errno, of PTRDIFF_MAX or of argument checks: the shim does. Every function is static,
// noexcept by compilation, and thread safe.
#pragma once

#include <concepts>

#include "base/base.hpp"

namespace coffer {

struct Figures;  // observe/statistics.hpp
struct Statistics;
struct HeapStatistics;

template <class A>
concept AllocatorConcept = requires(void* block, usize n, u32 index, Figures& figures, Statistics& statistics,
                                    HeapStatistics& heap_statistics) {
  // Fast path only: a block of at least n bytes, rounded up to 16, or nullptr when the fast path cannot serve (n
  // may be anything).
  { A::allocate_fast(n) } -> std::same_as<void*>;
  // A block of at least n bytes (n <= PTRDIFF_MAX), aligned to 16; nullptr when memory is exhausted.
  { A::allocate(n) } -> std::same_as<void*>;
  // The same, all n bytes zero.
  { A::allocate_zeroed(n) } -> std::same_as<void*>;
  // allocate_aligned(size, alignment): alignment a power of two, any size of it.
  { A::allocate_aligned(n, n) } -> std::same_as<void*>;
  // block may be nullptr. Aborts with a report on a bad pointer.
  { A::deallocate(block) } -> std::same_as<void>;
  // The same; aborts with a report also if the block cannot have been allocated with n bytes.
  { A::deallocate_sized(block, n) } -> std::same_as<void>;   // free_sized
  { A::deallocate_object(block, n) } -> std::same_as<void>;  // operator delete
  // block not nullptr, n > 0; nullptr leaves the block as it was.
  { A::reallocate(block, n) } -> std::same_as<void*>;
  // Bytes the caller may use; block not nullptr. Aborts with a report on a bad pointer.
  { A::usable_size(block) } -> std::same_as<usize>;
  // Gives back all physical memory that can go, except about `n` bytes; true if any went.
  { A::trim(n) } -> std::same_as<bool>;
  // The limit on what may be resident, in bytes; 0: none. Past it, allocation fails.
  { A::set_limit(n) } -> std::same_as<void>;
  { A::limit() } -> std::same_as<usize>;
  // statistics: with classes, and 5 KiB; figures: without.
  { A::statistics(statistics) } -> std::same_as<void>;
  { A::figures(figures) } -> std::same_as<void>;
  // false: there is no heap of that index.
  { A::heap_statistics(index, heap_statistics) } -> std::same_as<bool>;
  // Verifies every invariant; number of violations. Other threads must be outside.
  { A::check() } -> std::same_as<usize>;
  // Has the options read, if they are not.
  { A::read_options() } -> std::same_as<void>;
  // Registers its fork handlers, once. May allocate.
  { A::handle_forks() } -> std::same_as<void>;
};

// What an allocator may have beside that: to be watched. Others are not.
template <class A>
concept WatchedAllocator = requires(usize n, const char* path) {
  // The library was loaded, and the options read; the process ends.
  { A::loaded() } -> std::same_as<void>;
  { A::ending() } -> std::same_as<void>;
  // Sampling, with n bytes from sample to sample (0: as the options say), and its end; the profile to a file (nullptr:
  // one that gets a name), false: it cannot be written.
  { A::profile_start(n) } -> std::same_as<void>;
  { A::profile_stop() } -> std::same_as<void>;
  { A::profile_dump(path) } -> std::same_as<bool>;
};

}  // namespace coffer
