// SPDX-License-Identifier: MIT
#include "size_class/size_class.hpp"

#include <gtest/gtest.h>

namespace coffer {
namespace {

TEST(SizeClass, StepsOfSixteenThenEightToADoubling) {
  for (ClassIndex c = 0; c < 8; ++c) EXPECT_EQ(class_bytes(c), 16 * (c + 1));
  EXPECT_EQ(class_bytes(8), 144u);
  EXPECT_EQ(class_bytes(15), 256u);
  EXPECT_EQ(class_bytes(16), 288u);
  for (ClassIndex c = 16; c < kSizeClasses; ++c) EXPECT_EQ(class_bytes(c), 2 * class_bytes(c - 8)) << c;
  EXPECT_EQ(class_bytes(kSizeClasses - 1), kLargestSmall);
}

TEST(SizeClass, ClassesAscendInMultiplesOfTheQuantum) {
  for (ClassIndex c = 0; c < kClasses; ++c) {
    EXPECT_EQ(class_bytes(c) % kQuantum, 0u) << c;
    if (c > 0 && c != kSizeClasses) {
      EXPECT_GT(class_bytes(c), class_bytes(c - 1)) << c;
    }
  }
}

TEST(SizeClass, EverySizeGetsTheSmallestClassThatHoldsIt) {
  ClassIndex smallest = 0;
  for (usize size = 0; size <= kLargestSmall; ++size) {
    while (class_bytes(smallest) < size) ++smallest;
    ASSERT_EQ(compute_class(size), smallest) << size;
    ASSERT_EQ(class_of(size), smallest) << size;
  }
}

TEST(SizeClass, TwinsAreStepsOf128ThenFourToADoubling) {
  for (u32 i = 0; i < 8; ++i) EXPECT_EQ(class_bytes(kSizeClasses + i), 128 * (i + 1));
  for (ClassIndex c = kSizeClasses + 12; c < kClasses; ++c) EXPECT_EQ(class_bytes(c), 2 * class_bytes(c - 4)) << c;
  for (ClassIndex c = kSizeClasses; c < kClasses; ++c) {
    EXPECT_EQ(class_bytes(class_of(class_bytes(c))), class_bytes(c)) << "a twin of no class";
  }
  EXPECT_EQ(class_bytes(kClasses - 1), kLargestSmall);
}

TEST(SizeClass, WasteStaysWithinAnEighth) {
  for (usize size = 128; size <= kLargestSmall; ++size) {
    ASSERT_LE((class_bytes(class_of(size)) - size) * 8, size) << size;
  }
}

}  // namespace
}  // namespace coffer
