// SPDX-License-Identifier: MIT
#include "span/colour.hpp"

#include "os/os.hpp"
#include "span/choices.hpp"

namespace coffer {

namespace {

constexpr u64 kGolden = 0x9e3779b97f4a7c15u;  // 2^64 over the golden ratio
// 64 over the golden ratio, about: one after the other, the indices 0, 39, 14, 53 ... are far apart, and all come.
constexpr u32 kIndexStep = 39;
static_assert(kCacheSets % 2 == 0 && kIndexStep % 2 == 1 && kIndexStep < kCacheSets);
constexpr usize kMostInFirstSlice = 1024;
constexpr u32 kMostPages = 3;  // so that the lines before the first block fit a byte
static_assert(kMostPages * kCarvePage / kCacheLine + kCacheSets <= 256 && kCarvePage / kCacheLine % kCacheSets == 0);

Owned<u64> g_seed;
// By class and line. Only what a program's classes use is ever touched.
Atomic<u32> g_population[kClasses][kCacheSets];
Atomic<u8> g_last[kClasses];

}  // namespace

void colours_start() { g_seed.set(g_span_choices.coloured.get() != 0 ? os::random_seed() : 0); }

void colours_after_fork() { g_seed.set((g_seed.get() ^ os::monotonic_ns()) * kGolden >> 8); }

u32 take_colour_line(ClassIndex size_class, const ClassLayout& layout) {
  if (layout.colours == 1 || g_span_choices.coloured.get() == 0) return 0;
  // relaxed, all: only which line is the better one.
  u32 line = g_last[size_class].load(relaxed);
  if (line == 0) line = static_cast<u32>((g_seed.get() + size_class * kGolden) >> 32);
  u32 best = 0;
  u32 fewest = ~u32{0};
  for (u32 i = 0; i < layout.colours && fewest > 0; ++i) {
    line = (line + layout.colour_step) % layout.colours;
    const u32 spans = g_population[size_class][line].load(relaxed);
    if (spans >= fewest) continue;
    fewest = spans;
    best = line;
  }
  g_population[size_class][best].fetch_add(1, relaxed);
  g_last[size_class].store(static_cast<u8>(best == 0 ? layout.colours : best), relaxed);
  return best;
}

void give_colour_line(const Span* span) {
  const ClassLayout layout = span_shape(class_layout(span->size_class.get()), lowest_bit(span->slices.get()));
  if (layout.colours == 1 || g_span_choices.coloured.get() == 0) return;
  const u32 line = span->first_line.get() % kCacheSets;              // without the pages
  g_population[span->size_class.get()][line].fetch_sub(1, relaxed);  // relaxed: as above
}

u32 page_colour(const ClassLayout& layout, u32 place) {
  if (layout.block_bytes <= kSliceBytes || layout.colours == 1 || g_span_choices.coloured.get() == 0) return 0;
  const usize used = (layout.colours - 1) * kCacheLine + layout.stride().length(layout.capacity);
  const usize room = ((kSliceBytes << layout.slices_log2) - used) / kCarvePage;
  const u64 colours = room < kMostPages ? room + 1 : kMostPages + 1;
  return static_cast<u32>(fraction_of_place(place) * colours >> 32);
}

u32 colour_population(ClassIndex size_class, u32 line) {
  return g_population[size_class][line].load(relaxed);  // relaxed: a figure
}

u32 index_of_place(u32 place) { return (static_cast<u32>(g_seed.get()) + place * kIndexStep) % kCacheSets; }

u32 fraction_of_place(u32 place) { return static_cast<u32>((g_seed.get() + place * kGolden) >> 32); }

u32 start_block(const Span* span) {
  const u32 index = span->start_index.get();
  if (index == kNoStartIndex) return 0;
  const Stride stride = stride_of(span);
  const usize first = first_offset(span);
  // Small blocks begin in the first slice, whose blocks are freed fastest.
  const u32 slices = stride.bytes <= kMostInFirstSlice ? 1 : span->slices.get();
  const usize page = index % (slices * kPagesPerSlice) * kCarvePage;
  const auto at = [&](usize offset) { return offset <= first ? 0 : stride.at_or_after(offset - first); };
  // In its page, or else the page's first block, or where there is none, block 0.
  usize block = at(page + index * kCacheLine);
  if (block >= at(page + kCarvePage)) block = at(page);
  return block < at(page + kCarvePage) && block < span->capacity.get() ? static_cast<u32>(block) : 0;
}

}  // namespace coffer
