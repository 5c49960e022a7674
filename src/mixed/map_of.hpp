// SPDX-License-Identifier: MIT
// What the files of this folder share.
#pragma once

#include "mixed/mixed.hpp"

namespace coffer {

inline constexpr u32 kUnitsPerLine = kCacheLine / kQuantum;

inline u32 slice_index(const Arena* arena, const Span* span) { return static_cast<u32>(span - arena->spans); }

inline u64* map_words(const Span* slice) {
  const Arena* arena = arena_of_span(slice);
  return arena->unit_maps + usize{slice_index(arena, slice)} * kMapWords;
}

inline UnitMap map_of(const Span* span) { return {map_words(span), span->slices.get()}; }

// The slice of a page that has a number, and the page's record.
inline Span* slice_of(PageNumber number) { return span_at(static_cast<SpanNumber>(number / kPagesPerSlice)); }
inline PageRecord& record_of(PageNumber number) {
  return *UnitMap::record_in(map_words(slice_of(number)), number % kPagesPerSlice);
}

inline u32 unit_of(const Span* span, uptr address) { return static_cast<u32>((address - span_start(span)) / kQuantum); }

// Pages that units [from, to) touch.
inline u64 pages_of(u32 from, u32 to) {
  const u32 first = from / kUnitsPerPage;
  const u32 last = (to - 1) / kUnitsPerPage;
  return low_mask(last - first + 1) << first;
}

// A block that is on no list. What it was before may have left a mark, but not on a page that is absent, which the
// program touches first, if at all.
inline Block* fresh_block(uptr address, bool absent) {
  Block* block = reinterpret_cast<Block*>(address);
  if (kMisuseChecks && !absent) block->mark = 0;
  return block;
}

// Whether something was carved or freed in the span since the last tick ended; if not, whether all its idle pages went
// back, which nobody looks for again then.
enum class MixedAge : u8 { touched, seen, purged };
inline MixedAge age_of(const Span* span) { return static_cast<MixedAge>(span->quiet.get()); }
inline void set_age(Span* span, MixedAge age) { span->quiet.set(static_cast<u8>(age)); }

}  // namespace coffer
