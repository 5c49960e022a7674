// SPDX-License-Identifier: MIT
// How a claimed span becomes nobody's, or ends.
#pragma once

#include "span/class_use.hpp"
#include "span/shortage.hpp"
#include "span/span.hpp"

namespace coffer {

// A claimed span that nobody else can be at work on: makes it shared, listed, or ends it. Its owner field is none
// already. insert(span) puts a listed span into the partial pool; false: it became empty meanwhile. Returns whether it
// was listed.
//
// While memory is exhausted every shared span with a free block is listed. Whoever begins such a time does so first,
// and then looks at all spans; here the span is shared first, and then the time looked at. All four are sequentially
// consistent, so one of the two sees the other.
template <class Insert>
bool share_span(Span* span, Insert&& insert) {
  // Read now, for afterwards the span is anybody's. Counted only when it can be found: until then it counts as private.
  const ClassIndex size_class = span->size_class.get();
  const usize bytes = shared_base_bytes(span);
  switch (mark_shared(span)) {
    case ShareResult::shared:
      span_shared(size_class, bytes);
      if (COFFER_LIKELY(!is_short_after_sharing()) || !list_early(span)) return false;
      if (!insert(span)) end_span(span);
      return true;
    case ShareResult::empty:
      end_span(span);
      return false;
    case ShareResult::listed:
      break;
  }
  const bool inserted = insert(span);
  span_shared(size_class, bytes);
  if (!inserted) end_span(span);
  return true;
}

}  // namespace coffer
