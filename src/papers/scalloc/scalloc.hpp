// SPDX-License-Identifier: MIT
// scalloc (paper 2: Aigner, Kirsch, Lippautz, Sokolova, OOPSLA 2015) as the API shim sees it.
//
//   malloc ── allocate_fast: hot span of the class, first block of its local list
//      └─ Scalloc::allocate ── Core ── FrontEnd::allocate: carve, remote list, reusable set, span pool, arena
//           └─ over 1 MiB: map_block
//   free ── xor test ── span of the address ── own and hot: its local list
//      │        └─ not in the arena: unmap_block
//      └─ Scalloc::deallocate_slow ── FrontEnd::deallocate: lists, then what follows from the number of free blocks
//
// docs/papers.md says what of the paper is where.
#pragma once

#include "papers/common/adapter.hpp"
#include "papers/scalloc/core.hpp"

namespace coffer::scalloc {

// What the fast paths read of the calling thread: its LAB and its owner word, if nobody shares the LAB; else a LAB
// without blocks and a word that no span has.
struct FastPath {
  Lab* lab;
  Owner owner;
};
extern __thread FastPath t_fast __attribute__((visibility("hidden"), tls_model("initial-exec")));
extern Core g_core __attribute__((visibility("hidden")));

struct Scalloc {
  static bool start();
  static void thread_ended(void* lab);
  static void fork_prepare() { g_core.fork_prepare(); }
  static void fork_parent() { g_core.fork_parent(); }
  static void fork_child();

  static COFFER_INLINE void* allocate_fast(usize size) {
    if (COFFER_UNLIKELY(size > kLargestBlock)) return nullptr;
    return pop_local(t_fast.lab->hot[class_of(size)].get());
  }
  static void* allocate(usize size);
  static void* allocate_aligned(usize size, usize alignment);

  static COFFER_INLINE void deallocate(void* block) {
    const uptr address = reinterpret_cast<uptr>(block);
    if (COFFER_LIKELY(g_core.contains(address))) {
      Span* span = g_core.span_around(address);
      // relaxed, all: an owner word and a hot state that are this thread's own were written by it; the flag: see
      // Core::allocate_aligned.
      if (COFFER_LIKELY(span->owner.load(relaxed) == t_fast.owner &&
                        Epoch(span->epoch.load(relaxed)).state() == State::hot && span->interior.load(relaxed) == 0)) {
        return push_local_hot(span, static_cast<Block*>(block));
      }
    }
    deallocate_slow(block);
  }
  static usize usable_size(void* block);
  static bool is_zero(void* block) { return !g_core.contains(reinterpret_cast<uptr>(block)); }
  static void* resize(void* block, usize size);
  static bool trim() { return g_core.trim(); }
  static void statistics(Statistics& statistics) { g_core.statistics(statistics); }
  static void describe(Text& text) { g_core.describe(text); }
  static usize check() { return g_core.check(); }

 private:
  static void deallocate_slow(void* block);
};

}  // namespace coffer::scalloc

namespace coffer {

struct Allocator : papers::Adapter<scalloc::Scalloc> {
  static COFFER_INLINE void* allocate_fast(usize size) { return scalloc::Scalloc::allocate_fast(size); }
};

}  // namespace coffer
