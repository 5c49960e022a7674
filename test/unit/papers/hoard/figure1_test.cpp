// SPDX-License-Identifier: MIT
// Figure 1 of paper 1, picture by picture: f = 1/4, K = 0, two threads with a heap each, superblocks of four blocks.
//
// Its caption and section 3.2 count another way than section 3.1: there heap 2 keeps its superblock "because heap 2 is
// still more than 1/4 full", and heap 1, with two blocks of eight in use, has not crossed the threshold. That is the
// rule u < (1 - f) a with f = 3/4. So the pictures are run with that; with f = 1/4 as section 3.1 has it, what becomes
// of them is the last test.
#include "heaps.hpp"

namespace coffer::test {
namespace {

struct Figure {
  usize size = 0;
  u32 size_class = 0;
  void* x1 = nullptr;
  void* x2 = nullptr;
  void* y[4] = {};
  Superblock* partly = nullptr;  // of heap 1
  Superblock* empty = nullptr;   // of heap 1
};

Figure start_figure(config::EmptyFraction f) {
  changeable_options().f = f;
  changeable_options().k = 0;
  changeable_options().heaps = 2;
  start_hoard();
  Figure figure;
  figure.size = request_with_capacity(4);
  figure.size_class = g_hoard.classes.of(figure.size);
  return figure;
}

// "Initially, the global heap is empty, heap 1 has two superblocks (one partially full, one empty), and heap 2 has a
// completely-full superblock."
void make_initial_state(Figure& figure) {
  use_heap(1);
  std::vector<void*> x = allocate_many(5, figure.size);
  figure.x1 = x[0];
  figure.x2 = x[1];
  figure.partly = superblock_at(x[0]);
  figure.empty = superblock_at(x[4]);
  coffer_free(x[4]);
  coffer_free(x[2]);
  coffer_free(x[3]);
  use_heap(2);
  for (void*& y : figure.y) y = coffer_malloc(figure.size);
}

FRESH_TEST(HoardFigure1, PictureByPicture) {
  Figure figure = start_figure(config::EmptyFraction::three_quarters);
  make_initial_state(figure);
  const u32 c = figure.size_class;
  const auto expect = [&](u32 global, u32 heap1, u32 heap2, u32 partly_used, u32 heap2_used) {
    EXPECT_EQ(superblocks_in(0, c), global);
    EXPECT_EQ(superblocks_in(1, c), heap1);
    EXPECT_EQ(superblocks_in(2, c), heap2);
    EXPECT_EQ(figure.partly->used, partly_used);
    EXPECT_EQ(figure.empty->used, 0u);
    EXPECT_EQ(superblock_at(figure.y[0])->used, heap2_used);
    EXPECT_EQ(coffer_check(), 0u);
  };
  expect(0, 2, 1, 2, 4);

  // Top left: t1: x9 = malloc(s). "Hoard selects the fullest superblock in heap 1."
  use_heap(1);
  void* x9 = coffer_malloc(figure.size);
  EXPECT_EQ(superblock_at(x9), figure.partly);
  expect(0, 2, 1, 3, 4);

  // Top right: t1: free(y4). It goes back to heap 2, and heap 2 keeps its superblock.
  coffer_free(figure.y[3]);
  EXPECT_EQ(owner_of(figure.y[0]), heap_at(2));
  expect(0, 2, 1, 3, 3);

  // Bottom left: t2: free(x2). "This free does not cause heap 1 to cross the emptiness threshold" ...
  use_heap(2);
  coffer_free(figure.x2);
  expect(0, 2, 1, 2, 3);

  // Bottom right: t2: free(x9). "... but the next free (of x9) does. Hoard then moves the completely-free superblock
  // from heap 1 to the global heap."
  coffer_free(x9);
  EXPECT_EQ(figure.empty->owner.load(relaxed), global_heap());
  EXPECT_EQ(figure.partly->owner.load(relaxed), heap_at(1));
  expect(1, 1, 1, 1, 3);
}

// Section 3.3: "when thread 1 frees y4, Hoard returns this memory to y4's superblock and not to thread 1's heap."
FRESH_TEST(HoardFigure1, TheFreedBlockIsNotReusedByTheThreadThatFreedIt) {
  Figure figure = start_figure(config::EmptyFraction::three_quarters);
  make_initial_state(figure);
  use_heap(1);
  coffer_free(figure.y[3]);
  for (int i = 0; i < 8; ++i) EXPECT_NE(superblock_at(coffer_malloc(figure.size)), superblock_at(figure.y[0]));
  use_heap(2);
  EXPECT_EQ(coffer_malloc(figure.size), figure.y[3]);
}

// With f = 1/4 as section 3.1 counts, heap 1 may not even come to its first state: with four blocks of eight in use it
// is more than 1/4 empty, and the empty superblock goes at the free that empties it.
FRESH_TEST(HoardFigure1, BySection31TheEmptySuperblockGoesAtOnce) {
  Figure figure = start_figure(config::EmptyFraction::quarter);
  use_heap(1);
  std::vector<void*> x = allocate_many(5, figure.size);
  coffer_free(x[4]);
  EXPECT_EQ(superblocks_in(0, figure.size_class), 1u);
  EXPECT_EQ(superblocks_in(1, figure.size_class), 1u);
  // 3 of 4 in use: exactly 1/4 empty, which is not more than f. Then 2 of 4, which is.
  coffer_free(x[3]);
  EXPECT_EQ(superblocks_in(1, figure.size_class), 1u);
  coffer_free(x[2]);
  EXPECT_EQ(superblocks_in(1, figure.size_class), 0u);
  EXPECT_EQ(superblocks_in(0, figure.size_class), 2u);
  EXPECT_EQ(coffer_check(), 0u);
}

}  // namespace
}  // namespace coffer::test
