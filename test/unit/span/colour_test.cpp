// SPDX-License-Identifier: MIT
#include "span/colour.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "fresh.hpp"
#include "ground.hpp"
#include "span/choices.hpp"

namespace coffer {
namespace {

using test::cut_page;
using test::start_ground;

// With the seed that the kernel gives.
void start_coloured(bool flat = false) {
  start_ground();
  config::Options& options = test::changeable_options();
  options.placement = flat ? config::PlacementPolicy::flat : config::PlacementPolicy::index;
  options.colour = true;
  span_choices_start();
  colours_start();
}

std::vector<uptr> cut_all(Span* span) {
  std::vector<uptr> blocks;
  bool zero = false;
  while (Block* list = cut_page(span, &zero)) {
    for (Block* block = list; block != nullptr; block = next_of(block)) blocks.push_back(reinterpret_cast<uptr>(block));
  }
  return blocks;
}

// Every block once; pages whole and in a circle; the start block first.
void expect_whole(Span* span) {
  const u32 start = start_block(span);
  const std::vector<uptr> blocks = cut_all(span);
  ASSERT_EQ(blocks.size(), span->capacity.get());
  EXPECT_EQ(span->absent.get(), 0u);
  EXPECT_EQ(blocks[0], reinterpret_cast<uptr>(block_at(span, start)));
  if (span->block_bytes.get() <= 1024) {
    EXPECT_LT(blocks[0], span_start(span) + kSliceBytes) << "where frees are fast";
  }
  std::set<uptr> wanted;
  for (u32 i = 0; i < span->capacity.get(); ++i) wanted.insert(reinterpret_cast<uptr>(block_at(span, i)));
  EXPECT_EQ(std::set<uptr>(blocks.begin(), blocks.end()), wanted);
  std::set<uptr> pages;
  for (usize i = 0; i < blocks.size(); ++i) {
    const uptr page = blocks[i] / kCarvePage;
    if (i != 0 && blocks[i - 1] / kCarvePage == page) continue;
    EXPECT_TRUE(pages.insert(page).second) << "a page is carved once";
  }
}

FRESH_TEST(Colour, EveryBlockIsCutOnceFromTheStartBlockOn) {
  start_coloured();
  for (ClassIndex c = 0; c < kClasses; ++c) {
    for (u32 i = 0; i < 3; ++i) {
      Span* span = make_span(c, nullptr);
      ASSERT_NE(span, nullptr);
      expect_whole(span);
    }
  }
}

FRESH_TEST(Colour, NoStartIsTheFirstBlock) {
  start_coloured();
  for (ClassIndex c = 0; c < kClasses; ++c) {
    for (u32 i = 0; i < 3; ++i) {
      Span* span = make_span(c, nullptr, Start::first);
      ASSERT_NE(span, nullptr);
      EXPECT_EQ(start_block(span), 0u);
      expect_whole(span);
    }
  }
}

FRESH_TEST(Colour, FlatSpansHaveColoursToo) {
  start_coloured(true);
  for (ClassIndex c = 0; c < kClasses; ++c) {
    Span* span = make_span(c, nullptr);
    ASSERT_NE(span, nullptr);
    EXPECT_TRUE(stride_of(span).is_flat());
    expect_whole(span);
  }
}

FRESH_TEST(Colour, TheLeastUsedLineComesFirst) {
  start_coloured();
  for (ClassIndex c = 0; c < kSizeClasses; ++c) {
    const u32 colours = kLayout[c].colours;
    if (colours == 1) continue;
    std::vector<Span*> spans;
    for (u32 i = 0; i < 2 * colours; ++i) spans.push_back(make_span(c, nullptr));
    for (u32 line = 0; line < colours; ++line) ASSERT_EQ(colour_population(c, line), 2u) << c;
    // What ends makes room: the next span has its line again.
    const u32 line = spans[colours / 2]->first_line.get() % kCacheSets;
    end_span(spans[colours / 2]);
    EXPECT_EQ(colour_population(c, line), 1u);
    Span* span = make_span(c, nullptr);
    EXPECT_EQ(span->first_line.get() % kCacheSets, line);
    for (Span*& each : spans) {
      if (each != spans[colours / 2]) end_span(each);
    }
    end_span(span);
    for (u32 l = 0; l < colours; ++l) ASSERT_EQ(colour_population(c, l), 0u) << c;
  }
}

FRESH_TEST(Colour, FirstBlocksOfManySpansSpread) {
  start_coloured();
  for (const usize size : {usize{64}, usize{100}, usize{128}, usize{512}, usize{1024}, usize{4096}}) {
    std::vector<u32> full(kCacheSets);
    u32 used = 0;
    for (u32 i = 0; i < kCacheSets; ++i) {
      Span* span = make_span(class_of(size), nullptr);
      const uptr first = reinterpret_cast<uptr>(block_at(span, start_block(span)));
      used += full[first / kCacheLine % kCacheSets]++ == 0 ? 1 : 0;
    }
    // In the same place each time it would be one. Where blocks do not lie on every line of a page, two indices may
    // come to the same block.
    const bool every_line = size == 64 || size == 128 || size == 512;
    EXPECT_GE(used, every_line ? kCacheSets - 1 : kCacheSets / 2) << size;
  }
}

FRESH_TEST(Colour, OffMeansTheFirstLineAndAddressOrder) {
  start_ground();
  test::changeable_options().colour = false;
  span_choices_start();
  colours_start();
  for (ClassIndex c = 0; c < kClasses; ++c) {
    Span* span = make_span(c, nullptr);
    EXPECT_EQ(first_offset(span), kLayout[c].first);
    EXPECT_EQ(start_block(span), 0u);
    const std::vector<uptr> blocks = cut_all(span);
    EXPECT_TRUE(std::is_sorted(blocks.begin(), blocks.end()));
  }
}

FRESH_TEST(Colour, NeighbouringPlacesHaveAllIndices) {
  start_coloured();
  for (const u32 first : {0u, 1u, 17u, 1'000'000u}) {
    std::set<u32> seen;
    for (u32 i = 0; i < kCacheSets; ++i) seen.insert(index_of_place(first + i));
    EXPECT_EQ(seen.size(), kCacheSets);
  }
}

TEST(Colour, ProcessesDiffer) {
  std::set<std::string> starts;
  for (u32 i = 0; i < 6; ++i) {
    starts.insert(test::outcome_of([] {
                    start_coloured();
                    const Span* span = make_span(class_of(64), nullptr);
                    std::fprintf(stderr, "%u", start_block(span));
                  }).errors);
  }
  EXPECT_GT(starts.size(), 1u);
}

// Three or four blocks a span, each span on 64 pages: without pages 256 blocks of 64 KiB took 15 ns a step of a ring in
// random order, with them 2.4.
FRESH_TEST(PageColour, SpansOfBlocksOverASliceBeginOnDifferentPages) {
  start_coloured();
  const ClassIndex wide = compute_class(2 * kSliceBytes);
  std::set<uptr> pages;
  for (u32 i = 0; i < 64; ++i) {
    const Span* span = make_span(wide, nullptr);
    const usize first = first_offset(span);
    EXPECT_EQ(span->first_block, span_start(span) + first);
    EXPECT_LE(first + stride_of(span).length(span->capacity.get()), span->slices.get() * kSliceBytes);
    pages.insert(first / kCarvePage);
  }
  EXPECT_EQ(pages.size(), 4u);
}

FRESH_TEST(PageColour, OfOtherSpansIsNone) {
  start_coloured();
  for (ClassIndex c = 0; c < kClasses; ++c) {
    if (class_layout(c).block_bytes > kSliceBytes && c < kSizeClasses) continue;
    for (u32 place = 0; place < 16; ++place) EXPECT_EQ(page_colour(class_layout(c), place), 0u) << c;
  }
}

}  // namespace
}  // namespace coffer
