// SPDX-License-Identifier: MIT
// papers/scalloc/span_pool.hpp for Relacy: a pool that gives each span out once, and writes to the blocks of a span
// that it gets, as another class would: whoever had them must be done with them.
#pragma once

#include "config/table.hpp"
#include "papers/scalloc/span.hpp"

namespace coffer::scalloc {

using Parameters = config::Options;
using config::LabPolicy;
using config::ReclaimPolicy;

class SpanPool {
 public:
  explicit SpanPool(Span* span) : span_(span) {}
  void put(u32, Span* span) {
    RL_ASSERT(span == span_ && !in_);
    for (u32 i = 0; i < blocks_of(1); ++i) span->block(i)->next.set(nullptr);
    span->local_first.set(nullptr);
    in_ = true;
  }
  Span* get(u32, u32) {
    if (given_) return nullptr;
    given_ = true;
    return span_;
  }
  // For the checks: outside of the simulation's memory.
  bool has_span() const { return in_; }

 private:
  Span* span_;
  bool given_ = false;
  bool in_ = false;
};

}  // namespace coffer::scalloc
