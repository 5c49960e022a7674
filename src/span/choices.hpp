// SPDX-License-Identifier: MIT
// What the options choose about spans: the empty fraction f and the least size of a span. Set once, before the first
// span is made, and read wherever a span is made or judged; malloc's and free's fast paths read neither.
#pragma once

#include "base/atomic.hpp"
#include "base/bits.hpp"
#include "config/config.hpp"
#include "policy/listed.hpp"
#include "size_class/placement.hpp"

namespace coffer {

struct SpanChoices {
  Owned<u32> reuse_shift{coffer::reuse_shift(config::EmptyFraction::quarter)};  // log2 of 2 / f
  Owned<u32> least_slices_log2;  // a class gets at least so many slices, or what its layout gives it
  Owned<u8> flat;                // kFlatLayout in place of kLayout
  Owned<u8> all_on_lines;        // blocks of a cache line and more start on one
  Owned<u8> coloured;            // spans start at different places
  Owned<u8> large_coloured;      // large blocks, too
};
inline constinit SpanChoices g_span_choices;

inline const ClassLayout& class_layout(ClassIndex size_class) {
  if (COFFER_UNLIKELY(g_span_choices.all_on_lines.get() != 0)) size_class = class_on_lines(size_class);
  return COFFER_UNLIKELY(g_span_choices.flat.get() != 0) ? kFlatLayout[size_class] : kLayout[size_class];
}

// What a span of the class is when it is made.
inline ClassLayout shape_of(ClassIndex size_class) {
  return span_shape(class_layout(size_class), g_span_choices.least_slices_log2.get());
}

inline void span_choices_start() {
  const config::Options& options = config::options();
  g_span_choices.reuse_shift.set(reuse_shift(options.empty_fraction));
  g_span_choices.flat.set(options.placement == config::PlacementPolicy::flat ? 1 : 0);
  g_span_choices.all_on_lines.set(options.align == config::AlignPolicy::all ? 1 : 0);
  g_span_choices.coloured.set(options.colour ? 1 : 0);
  g_span_choices.large_coloured.set(options.colour && options.placement != config::PlacementPolicy::flat ? 1 : 0);
  u32 log2 = 0;
  while ((kSliceBytes << log2) < options.span && (1u << log2) < kMaxSpanSlices) ++log2;
  g_span_choices.least_slices_log2.set(log2);
}

}  // namespace coffer
