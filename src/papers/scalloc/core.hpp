// SPDX-License-Identifier: MIT
// All of scalloc but the threads of the process: arena, span pool, front end and LABs, for one set of parameters. The
// process has one (scalloc.hpp), tests make others.
#pragma once

#include "base/text.hpp"
#include "papers/scalloc/registry.hpp"

namespace coffer {
struct Statistics;
}

namespace coffer::scalloc {

class Core {
 public:
  // false: no memory; it may be called again.
  bool start(const Parameters& parameters);

  // The functions below are for requests that spans serve (allocate), and for blocks in the arena. `lab` is the
  // caller's.
  COFFER_INLINE bool contains(uptr address) const { return arena_.contains(address); }
  COFFER_INLINE Span* span_around(uptr address) const { return arena_.span_around(address); }

  // size is at most kLargestBlock. nullptr: no memory.
  void* allocate(Lab* lab, usize size);
  // As the shim's, with alignment over 16. nullptr also where no span can serve: see fits_aligned.
  void* allocate_aligned(Lab* lab, usize size, usize alignment);
  static bool fits_aligned(usize size, usize alignment);
  // `lab` may be nullptr.
  void deallocate(Lab* lab, void* block);
  usize usable_size(void* block) const;

  bool trim() { return pool_.trim(); }
  Registry& registry() { return registry_; }
  SpanPool& pool() { return pool_; }
  Arena& arena() { return arena_; }
  FrontEnd& front_end() { return front_end_; }
  bool accounts() const { return parameters_.account; }

  void fork_prepare();
  void fork_parent();
  void fork_child(Lab* own);

  // walk.cpp. Figures may contradict each other while other threads allocate; check wants them outside.
  void statistics(Statistics& statistics) const;
  usize fragmentation_by_walk() const;
  usize check();
  void describe(Text& text) const;

 private:
  template <class Fn>
  void for_each_span(Fn&& fn) const;
  usize check_span(const Span* span) const;
  usize check_lists(const Span* span, State state) const;

  Parameters parameters_;
  Arena arena_;
  SpanPool pool_;
  FrontEnd front_end_;
  Registry registry_;
};

}  // namespace coffer::scalloc
