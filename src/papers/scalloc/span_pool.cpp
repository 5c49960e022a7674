// SPDX-License-Identifier: MIT
#include "papers/scalloc/span_pool.hpp"

#include "os/os.hpp"

namespace coffer::scalloc {

void SpanPool::start(Arena* arena, const Parameters& parameters) {
  const u32 wanted = parameters.stacks != 0 ? parameters.stacks : os::processors();
  arena_ = arena;
  stacks_ = wanted < kMostStacks ? wanted : kMostStacks;
  threshold_ = parameters.madvise ? parameters.madvise_threshold : ~usize{0};
}

// Listing 1 calls madvise from the threshold on; the text (and sections 7.5 and 7.7.1: none for blocks up to 256 bytes,
// whose spans are just that large) wants it strictly above.
void SpanPool::put(u32 thread, Span* span) {
  const u32 real_span = span->real_span.get();
  // A refusal of the kernel leaves the pages to be used again.
  if (is_over_threshold(real_span)) arena_->madvise_span(span);
  stack(real_span, thread % stacks_).put(*arena_, arena_->number(span));
}

Span* SpanPool::reuse_or_allocate(u32 core, u32 real_span) {
  if (const u32 number = stack(real_span, core).get(*arena_)) return arena_->span(number);
  // Any span of any size, small ones first: large ones have been purged, and are but an address. (Lines 34 to 38.) A
  // span that is put meanwhile behind us is missed; the arena has others.
  for (u32 size = 0; size < kRealSpanSizes; ++size) {
    for (u32 c = 0; c < stacks_; ++c) {
      if (const u32 number = stack(size, c).get(*arena_)) return arena_->span(number);
    }
  }
  return arena_->allocate_virtual_span(real_span_bytes(real_span));
}

Span* SpanPool::get(u32 thread, u32 size_class) {
  const u32 core = thread % stacks_;
  const u32 real_span = real_span_index(size_class);
  Span* span = reuse_or_allocate(core, real_span);
  if (span == nullptr) return nullptr;
  if (!arena_->resize(span, real_span_bytes(real_span))) {
    stack(span->real_span.get(), core).put(*arena_, arena_->number(span));
    return nullptr;
  }
  span->real_span.set(real_span);
  return span;
}

bool SpanPool::trim() {
  return trim_.trim([this] {
    bool any = false;
    for_each([&](Span* span) {
      if (span->purged.get() == 0) any |= arena_->madvise_span(span);
    });
    return any;
  });
}

}  // namespace coffer::scalloc
