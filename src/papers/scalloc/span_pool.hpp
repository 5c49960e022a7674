// SPDX-License-Identifier: MIT
// The span pool (section 3.3, listing 1): empty spans, in an array of stacks by real-span size and core.
#pragma once

#include "papers/common/reclaim.hpp"
#include "papers/scalloc/arena.hpp"
#include "papers/scalloc/treiber_stack.hpp"

namespace coffer::scalloc {

inline constexpr u32 kMostStacks = 256;  // a real-span size; threads on more cores share

class SpanPool {
 public:
  // The stacks are one a core unless the parameters say otherwise.
  void start(Arena* arena, const Parameters& parameters);

  // `span` is free and its caller's alone.
  void put(u32 thread, Span* span);

  // A span with memory for the class; its state is free or expected. nullptr: no memory.
  Span* get(u32 thread, u32 size_class);

  // Gives back the pages of all spans in the pool, but for the first of each (the compaction call that section 3.3
  // mentions). True if any went.
  bool trim();

  // fork: the spans that trim goes through are on no stack meanwhile, and a child would be without them.
  void lock_for_fork() { trim_.lock_for_fork(); }
  void unlock_after_fork() { trim_.unlock_after_fork(); }

  u32 stacks() const { return stacks_; }
  // Calls fn(span) for each span on a stack; nobody else may use the pool meanwhile.
  template <class Fn>
  void for_each(Fn&& fn) {
    for (u32 i = 0; i < kRealSpanSizes * stacks_; ++i) {
      const u32 first = stack_[i].take_all();
      u32 last = 0;
      // relaxed: acquired with the stack.
      for (u32 number = first; number != 0; number = arena_->link(number).load(relaxed)) {
        fn(arena_->span(number));
        last = number;
      }
      if (first != 0) stack_[i].put_chain(*arena_, first, arena_->link(last));
    }
  }

 private:
  TreiberStack& stack(u32 real_span, u32 core) { return stack_[real_span * stacks_ + core]; }
  Span* reuse_or_allocate(u32 core, u32 real_span);
  bool is_over_threshold(u32 real_span) const { return real_span_bytes(real_span) > threshold_; }

  Arena* arena_ = nullptr;
  u32 stacks_ = 1;
  usize threshold_ = 0;
  papers::Reclaim trim_;
  TreiberStack stack_[kRealSpanSizes * kMostStacks];
};

}  // namespace coffer::scalloc
