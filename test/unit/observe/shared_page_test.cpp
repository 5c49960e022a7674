// SPDX-License-Identifier: MIT
#include "observe/shared_page.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <string>

#include "fresh.hpp"
#include "observe/counters.hpp"
#include "observe/statistics.hpp"
#include "os/os.hpp"

namespace coffer {
namespace {

// As another process sees it.
std::unique_ptr<page::Page> read_page(const char* path) {
  auto copied = std::make_unique<page::Page>();
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.read(reinterpret_cast<char*>(copied.get()), sizeof *copied)) << path;
  return copied;
}

u64 figure_of(const page::Copy& copy, page::Figure figure) { return copy.figures[figure].load(relaxed); }

// Readers in other languages count on these.
static_assert(offsetof(page::Header, process) == 48 && offsetof(page::Header, program) == 80);
static_assert(offsetof(page::Header, turn) == 96 && offsetof(page::Header, now) == 104);
static_assert(sizeof(page::Class) == 48 && sizeof(page::Heap) == 48 && offsetof(page::Copy, figures) == 8);

FRESH_TEST(SharedPage, IsAFileOfTheUserAlone) {
  SharedPage page;
  EXPECT_FALSE(page.is_open());
  ASSERT_TRUE(page.open(41));
  struct stat status = {};
  ASSERT_EQ(stat(page.path(), &status), 0) << page.path();
  EXPECT_EQ(status.st_mode, mode_t{S_IFREG | 0600});
  EXPECT_EQ(static_cast<usize>(status.st_size), page::kFileBytes);
  EXPECT_GE(static_cast<usize>(status.st_blocks) * 512, page::kFileBytes) << "a full file system is found out now";
  const auto copied = read_page(page.path());
  const page::Header& header = copied->header;
  EXPECT_EQ(std::memcmp(header.magic, page::kMagic, sizeof header.magic), 0);
  EXPECT_EQ(header.version, page::kVersion);
  EXPECT_EQ(header.process, static_cast<u64>(getpid()));
  EXPECT_EQ(header.refresh_signal, 41u);
  EXPECT_EQ(header.turn.load(relaxed), 0u);
  EXPECT_LE(header.copies_offset + 2 * header.copy_bytes, header.page_bytes);
  const std::string path = page.path();
  page.close();
  EXPECT_FALSE(page.is_open());
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

FRESH_TEST(SharedPage, TheNewestCopyIsWholeWhileTheOtherIsWritten) {
  SharedPage page;
  ASSERT_TRUE(page.open(0));
  Statistics statistics = {};
  Allocated allocated;
  for (u64 turn = 1; turn <= 5; ++turn) {
    statistics.live = 1000 + turn;
    statistics.classes = 2;
    statistics.by_class[1].live = 50 + turn;
    allocated.by_class[1] = 70 + turn;
    page.begin();
    page.add_heap(3, {1, 10 * turn, 20, 30}, 99);
    {
      const auto copied = read_page(page.path());
      const page::Page& view = *copied;
      EXPECT_EQ(view.header.turn.load(relaxed), turn - 1);
      if (turn > 1) {
        EXPECT_EQ(figure_of(view.copies[(turn - 1) % 2], page::live), 1000 + turn - 1);
        EXPECT_EQ(view.copies[(turn - 1) % 2].begin.load(relaxed), turn - 1);
      }
      EXPECT_NE(view.copies[turn % 2].begin.load(relaxed), view.copies[turn % 2].end.load(relaxed));
    }
    page.write(statistics, allocated, 7, 8);
    const auto copied = read_page(page.path());
    const page::Page& view = *copied;
    const page::Copy& copy = view.copies[turn % 2];
    EXPECT_EQ(view.header.turn.load(relaxed), turn);
    EXPECT_EQ(copy.begin.load(relaxed), turn);
    EXPECT_EQ(copy.end.load(relaxed), turn);
    EXPECT_EQ(figure_of(copy, page::live), 1000 + turn);
    EXPECT_EQ(copy.classes_used.load(relaxed), 2u);
    EXPECT_EQ(copy.classes[1].live.load(relaxed), 50 + turn);
    EXPECT_EQ(copy.classes[1].allocated_blocks.load(relaxed), 70 + turn);
    ASSERT_EQ(copy.heaps_used.load(relaxed), 1u);
    EXPECT_EQ(copy.heaps[0].held.load(relaxed), 10 * turn);
    EXPECT_EQ(copy.heaps[0].allocated_blocks.load(relaxed), 99u);
  }
  page.close();
}

FRESH_TEST(SharedPage, MoreHeapsThanEntriesAreLeftOut) {
  SharedPage page;
  ASSERT_TRUE(page.open(0));
  page.begin();
  for (u32 i = 0; i < page::kHeapEntries + 10; ++i) page.add_heap(i, {1, i, 0, 0}, i);
  page.write({}, {}, 0, 0);
  const auto copied = read_page(page.path());
  const page::Copy& copy = copied->copies[1];
  EXPECT_EQ(copy.heaps_used.load(relaxed), page::kHeapEntries);
  EXPECT_EQ(copy.heaps[page::kHeapEntries - 1].index.load(relaxed), page::kHeapEntries - 1);
  page.close();
}

// In whatever order they come: of more spans than entries, those with most free bytes stay.
FRESH_TEST(SharedPage, OfMoreSpansThanEntriesThoseWithMostFreeAreShown) {
  constexpr u64 kSpans = 3 * page::kSpanEntries;
  for (const u64 step : {u64{1}, kSpans - 1, u64{719}}) {  // growing, falling, mixed; each prime to their number
    SharedPage page;
    ASSERT_TRUE(page.open(0));
    page.begin();
    u64 free = 0;
    for (u64 i = 0; i < kSpans; ++i) {
      free = (free + step) % kSpans;
      page.add_span({4096 + free, 64, 1, 2, 9000, 9000 - free, 5});
      if (i == 2) {
        EXPECT_EQ(read_page(page.path())->copies[1].spans_used.load(relaxed), 3u);
      }
    }
    page.write({}, {}, 0, 0);
    const auto copied = read_page(page.path());
    const page::Copy& copy = copied->copies[1];
    EXPECT_EQ(copy.span_entries.load(relaxed), page::kSpanEntries);
    EXPECT_EQ(copy.span_fields.load(relaxed), sizeof(page::Span) / sizeof(u64));
    ASSERT_EQ(copy.spans_used.load(relaxed), page::kSpanEntries);
    std::set<u64> shown;
    for (const page::Span& span : copy.spans) {
      const u64 its = span.address.load(relaxed) - 4096;
      EXPECT_EQ(span.live.load(relaxed), 9000 - its);
      EXPECT_EQ(span.owner.load(relaxed), 2u);
      shown.insert(its);
    }
    EXPECT_EQ(shown.size(), page::kSpanEntries) << "none twice";
    EXPECT_EQ(*shown.begin(), kSpans - page::kSpanEntries) << step;
    page.close();
  }
}

FRESH_TEST(SharedPage, WhatNeedsNoWalkIsWrittenWhenItChanged) {
  SharedPage page;
  ASSERT_TRUE(page.open(0));
  const auto now = [&](page::now::Figure figure) {
    const auto copied = read_page(page.path());
    return copied->header.now[figure].load(relaxed);
  };
  counters().held.store(4096, relaxed);
  page.write_now();
  EXPECT_EQ(now(page::now::held), 4096u);
  const u64 time = now(page::now::now_ns);
  EXPECT_NE(time, 0u);
  page.write_now();
  EXPECT_EQ(now(page::now::now_ns), time) << "nothing changed";
  counters().dirty.store(1, relaxed);
  page.write_now();
  EXPECT_GT(now(page::now::now_ns), time);
  page.close();
}

FRESH_TEST(SharedPage, TakesThePlaceOfItsOwnOldOne) {
  SharedPage page, after_exec;
  ASSERT_TRUE(page.open(0));
  struct stat before = {}, after = {};
  ASSERT_EQ(stat(page.path(), &before), 0);
  ASSERT_TRUE(after_exec.open(0));
  EXPECT_STREQ(after_exec.path(), page.path());
  ASSERT_EQ(stat(page.path(), &after), 0);
  EXPECT_NE(before.st_ino, after.st_ino) << "who watches the old one must see that it is not the process's any more";
  after_exec.close();
}

FRESH_TEST(SharedPage, RemovesPagesOfTheGoneAndNoOthers) {
  char own[kPagePathBytes];
  ASSERT_TRUE(page_path(0, own));
  const std::string prefix(own, std::strlen(own) - std::to_string(getpid()).size());
  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  waitpid(gone, nullptr, 0);
  // Of one that is gone, of one that lives, and names that are none of ours.
  const std::string names[] = {prefix + std::to_string(gone), prefix + std::to_string(getppid()),
                               prefix + std::to_string(gone) + "x", prefix + "0", prefix + "99999999999999999999"};
  for (const std::string& name : names) close(open(name.c_str(), O_CREAT | O_WRONLY, 0600));
  SharedPage page;
  ASSERT_TRUE(page.open(0));
  EXPECT_NE(access(names[0].c_str(), F_OK), 0) << names[0];
  for (usize i = 1; i < std::size(names); ++i) EXPECT_EQ(access(names[i].c_str(), F_OK), 0) << names[i];
  for (const std::string& name : names) unlink(name.c_str());
  page.close();
}

FRESH_TEST(SharedPage, AFileThatIsALinkIsNotFollowed) {
  char own[kPagePathBytes];
  ASSERT_TRUE(page_path(0, own));
  const std::string victim = std::string(own) + ".victim";
  close(open(victim.c_str(), O_CREAT | O_WRONLY, 0600));
  ASSERT_EQ(symlink(victim.c_str(), own), 0);
  SharedPage page;
  ASSERT_TRUE(page.open(0));
  struct stat status = {};
  ASSERT_EQ(stat(victim.c_str(), &status), 0);
  EXPECT_EQ(status.st_size, 0);
  ASSERT_EQ(lstat(page.path(), &status), 0);
  EXPECT_TRUE(S_ISREG(status.st_mode));
  unlink(victim.c_str());
  page.close();
}

FRESH_TEST(SharedPage, OneThatWasForgottenTakesNoMoreFigures) {
  SharedPage page;
  ASSERT_TRUE(page.open(0));
  const std::string path = page.path();
  page.forget();
  page.begin();
  page.add_heap(0, {}, 0);
  page.write({}, {}, 0, 0);
  page.write_now();
  page.close();
  EXPECT_EQ(access(path.c_str(), F_OK), 0) << "it is the parent's";
  unlink(path.c_str());
}

}  // namespace
}  // namespace coffer
