// SPDX-License-Identifier: MIT
// What each size class needs its spans for, counted so that a bound on what is held follows from it without looking at
// what is held (docs/design/bound.md, theorem 1; Hoard, paper 1, section 3.2 and appendix).
//
//   used(c)    bytes of the private spans of class c, whole, and of the shared ones without the blocks that were free
//              when they became shared
//   high(c)    the highest `used` since the class last had no span
//   makers(c)  threads between their last look for a listed span of c and the span that they make, the most at a time
//
// A span of c is made only if no listed one is there to be adopted: then at most f / 2 of each shared span is free, so
// that all spans of c together have at most high(c) / (1 - f / 2) bytes, at that time and until the next one is made.
// Between a thread's look and its span others may list some: one span for each of the makers.
#pragma once

#include "arena/descriptor.hpp"

namespace coffer {

// Called at the transitions of spans (span.cpp, sharing.hpp). `bytes` of a shared span: of the blocks that were
// free when it became so (shared_base). Constant time, no lock.
void span_made(const Span* span);                       // also raises `high`
void span_adopted(ClassIndex size_class, usize bytes);  // shared -> private, before it happens; also raises `high`
void span_shared(ClassIndex size_class, usize bytes);   // private -> shared
void span_ended(const Span* span, usize bytes);         // bytes: 0 for one that was private

// A thread looks for a listed span of the class, and makes one if there is none, while this object lives.
class Maker {
 public:
  explicit Maker(ClassIndex size_class);
  ~Maker();
  Maker(const Maker&) = delete;
  Maker& operator=(const Maker&) = delete;

 private:
  ClassIndex size_class_;
};
u32 most_makers(ClassIndex size_class);  // at the same time, so far

usize class_used(ClassIndex size_class);
usize class_high(ClassIndex size_class);
u32 class_spans(ClassIndex size_class);
// For fork children, whose counts may have lost a step of a vanished thread: sets what a walk found.
void set_class_used(ClassIndex size_class, usize bytes, u32 spans);

}  // namespace coffer
