// SPDX-License-Identifier: MIT
// glibc's functions that look into malloc.
#include <coffer/coffer.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/base.hpp"

namespace coffer {
namespace {

constexpr usize kLarge = 5'000'000;

#ifdef __GLIBC__  // musl has no such types
TEST(Mallinfo, SumsUp) {
  const struct mallinfo2 before = coffer_mallinfo2();
  std::vector<void*> blocks;
  for (int i = 0; i < 1000; ++i) blocks.push_back(coffer_malloc(1000));
  void* large = coffer_malloc(kLarge);
  const struct mallinfo2 info = coffer_mallinfo2();
  EXPECT_EQ(info.arena, info.uordblks + info.fordblks);
  EXPECT_GE(info.uordblks + info.hblkhd, before.uordblks + before.hblkhd + 1'000'000 + kLarge);
  EXPECT_EQ(info.hblks, before.hblks + 1);
  EXPECT_GE(info.hblkhd, before.hblkhd + kLarge);
  EXPECT_EQ(info.smblks, 0u);
  EXPECT_EQ(info.fsmblks, 0u);
  coffer_free(large);
  for (void* block : blocks) coffer_free(block);
  const struct mallinfo2 after = coffer_mallinfo2();
  EXPECT_EQ(after.hblks, before.hblks);
  EXPECT_LT(after.uordblks, info.uordblks);
}

TEST(Mallinfo, NarrowFiguresAreTheWideOnes) {
  const struct mallinfo2 wide = coffer_mallinfo2();
  const struct mallinfo narrow = coffer_mallinfo();
  ASSERT_LT(wide.arena, usize{1} << 31);
  EXPECT_EQ(static_cast<usize>(narrow.hblks), wide.hblks);
  EXPECT_EQ(static_cast<usize>(narrow.hblkhd), wide.hblkhd);
}

TEST(Mallinfo, NarrowFiguresSaturate) {
  void* block = coffer_malloc(usize{5} << 30);
  if (block == nullptr) GTEST_SKIP() << "no 5 GiB of address space here";
  EXPECT_GE(coffer_mallinfo2().hblkhd, usize{5} << 30);
  EXPECT_EQ(coffer_mallinfo().hblkhd, INT32_MAX);
  coffer_free(block);
}
#endif

std::string info_text() {
  char* text = nullptr;
  size_t length = 0;
  FILE* stream = open_memstream(&text, &length);
  EXPECT_EQ(coffer_malloc_info(0, stream), 0);
  std::fclose(stream);
  std::string result(text, length);
  std::free(text);
  return result;
}

usize count(const std::string& text, const std::string& part) {
  usize found = 0;
  for (usize at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(MallocInfo, HasGlibcsElements) {
  std::vector<void*> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(coffer_malloc(100));
  const std::string text = info_text();
  EXPECT_EQ(text.rfind("<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n", 0), 0u) << text;
  EXPECT_EQ(text.substr(text.size() - 10), "</malloc>\n");
  for (const char* element : {"<heap nr=\"0\">", "</heap>", "<sizes>", "</sizes>", "<total type=\"mmap\" "}) {
    EXPECT_EQ(count(text, element), 1u) << element;
  }
  for (const char* element : {"<total type=\"fast\" ", "<total type=\"rest\" ", "<system type=\"current\" ",
                              "<system type=\"max\" ", "<aspace type=\"total\" ", "<aspace type=\"mprotect\" "}) {
    EXPECT_EQ(count(text, element), 2u) << element;
  }
  EXPECT_EQ(count(text, "<size "), count(text, "<size from=\""));
  EXPECT_GE(count(text, "<size "), 1u);
  for (void* block : blocks) coffer_free(block);
}

TEST(MallocInfo, RefusesOptionsAndNoStream) {
  EXPECT_EQ(coffer_malloc_info(1, stderr), EINVAL);
  EXPECT_EQ(coffer_malloc_info(0, nullptr), EINVAL);
}

TEST(MallocStats, GoesToStderr) {
  testing::internal::CaptureStderr();
  coffer_malloc_stats();
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.rfind("Arena 0:\nsystem bytes     = ", 0), 0u) << text;
  EXPECT_EQ(count(text, "Total (incl. mmap):\n"), 1u);
  EXPECT_EQ(count(text, "in use bytes     = "), 2u);
  EXPECT_EQ(count(text, "system calls     = "), 1u);
  EXPECT_EQ(text.back(), '\n');
}

#ifdef __GLIBC__  // its header has the names
TEST(Mallopt, KnowsGlibcsParameters) {
  for (int parameter : {M_MXFAST, M_NLBLKS, M_GRAIN, M_KEEP, M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_MMAP_MAX,
                        M_CHECK_ACTION, M_PERTURB, M_ARENA_TEST, M_ARENA_MAX}) {
    EXPECT_EQ(coffer_mallopt(parameter, 1), 1) << parameter;
  }
  for (int parameter : {0, 5, 100, -9, -100}) EXPECT_EQ(coffer_mallopt(parameter, 1), 0) << parameter;
}
#endif

TEST(MallocTrim, GivesFreeMemoryBack) {
  std::vector<void*> blocks;
  for (int i = 0; i < 200; ++i) {
    blocks.push_back(coffer_malloc(20'000));
    std::memset(blocks.back(), 1, 20'000);
  }
  for (void* block : blocks) coffer_free(block);
  coffer_malloc_trim(0);
#ifdef __GLIBC__
  EXPECT_EQ(coffer_mallinfo2().keepcost, 0u);
#endif
  EXPECT_EQ(coffer_malloc_trim(0), 0);
}

}  // namespace
}  // namespace coffer
