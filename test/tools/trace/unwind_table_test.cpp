// SPDX-License-Identifier: MIT
// Tables written byte by byte, and what the reader makes of them; also of those that are damaged.
#include "record/unwind_table.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace coffer::record {
namespace {

constexpr u64 kBase = 0x10000, kHeader = 0x400000, kFrames = 0x300000;
using Bytes = std::vector<u8>;

void add(Bytes& to, const Bytes& from) { to.insert(to.end(), from.begin(), from.end()); }
void add_word(Bytes& to, u64 value) {
  for (int i = 0; i < 4; ++i) to.push_back(static_cast<u8>(value >> 8 * i));
}

// An object with one common part and some functions.
class Object {
 public:
  // "zR", numbers of four bytes relative to their place; CFA sp + 8, the return address below it.
  explicit Object(Bytes letters = {'z', 'R', 0}, Bytes data = {0x1b}) {
    Bytes common{1};
    add(common, letters);
    add(common, {1, 0x78, 16, static_cast<u8>(data.size())});
    add(common, data);
    add(common, {0x0c, 7, 8, 0x80 + 16, 1});
    add_word(frames_, common.size() + 4);
    add_word(frames_, 0);
    add(frames_, common);
  }
  void function(u64 begin, u64 length, const Bytes& instructions) {
    starts_.push_back(begin);
    places_.push_back(kFrames + frames_.size());
    add_word(frames_, 13 + instructions.size());
    add_word(frames_, frames_.size());  // back to the common part
    add_word(frames_, begin - (kFrames + frames_.size()));
    add_word(frames_, length);
    frames_.push_back(0);
    add(frames_, instructions);
  }
  Bytes header() const {
    Bytes bytes{1, 0x1b, 0x03, 0x3b};
    add_word(bytes, kFrames - (kHeader + 4));
    add_word(bytes, starts_.size());
    for (std::size_t i = 0; i < starts_.size(); ++i) {
      add_word(bytes, starts_[i] - kHeader);
      add_word(bytes, places_[i] - kHeader);
    }
    return bytes;
  }
  const Bytes& frames() const { return frames_; }

 private:
  Bytes frames_;
  std::vector<u64> starts_, places_;
};

class Read {
 public:
  Read(const Bytes& header, const Bytes& frames) {
    FrameIndex index;
    const Image head{header.data(), header.size(), kHeader}, body{frames.data(), frames.size(), kFrames};
    has_index = read_index(head, index);
    if (!has_index) return;
    EXPECT_TRUE(read_frames(head, index, body, kBase, table));
  }
  explicit Read(const Object& object) : Read(object.header(), object.frames()) {}
  ~Read() { table.release(); }
  Rule at(u64 address) const { return table.find(static_cast<u32>(address - kBase)); }

  bool has_index = false;
  UnwindTable table;
};

Rule rule(Cfa cfa, int offset, SavedBp bp = SavedBp::same, int bp_offset = 0) {
  return {offset, static_cast<std::int16_t>(bp_offset), cfa, bp};
}

TEST(UnwindTable, AFunctionThatPushesItsFramePointer) {
  Object object;
  // push rbp; mov rbp, rsp; …; pop rbp; ret, and once more behind it.
  object.function(0x20000, 100, {0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x02, 90, 0x0a, 0xc6, 0x0c, 7, 8, 0x41, 0x0b});
  const Read read(object);
  ASSERT_TRUE(read.has_index);
  EXPECT_EQ(read.at(0x1ffff), Rule{});
  EXPECT_EQ(read.at(0x20000), rule(Cfa::sp, 8));
  EXPECT_EQ(read.at(0x20001), rule(Cfa::sp, 16, SavedBp::at_cfa, -16));
  EXPECT_EQ(read.at(0x20003), rule(Cfa::sp, 16, SavedBp::at_cfa, -16));
  EXPECT_EQ(read.at(0x20004), rule(Cfa::bp, 16, SavedBp::at_cfa, -16));
  EXPECT_EQ(read.at(0x20004 + 90), rule(Cfa::sp, 8));
  EXPECT_EQ(read.at(0x20004 + 91), rule(Cfa::bp, 16, SavedBp::at_cfa, -16)) << "as it was remembered";
  EXPECT_EQ(read.at(0x20000 + 100), Rule{}) << "behind its end";
}

TEST(UnwindTable, FunctionsInARowAndGaps) {
  Object object;
  object.function(0x20000, 16, {0x44, 0x0e, 48});
  object.function(0x20010, 16, {});
  object.function(0x21000, 16, {0x44, 0x0e, 0x80, 0x80, 0x04});
  const Read read(object);
  EXPECT_EQ(read.at(0x2000f), rule(Cfa::sp, 48));
  EXPECT_EQ(read.at(0x20010), rule(Cfa::sp, 8));
  EXPECT_EQ(read.at(0x20fff), Rule{});
  EXPECT_EQ(read.at(0x21004), rule(Cfa::sp, 65536)) << "a large frame";
}

TEST(UnwindTable, ExpressionsThatAreUnderstood) {
  Object object;
  // A realigned stack: the CFA lies at bp - 8, the caller's bp at bp.
  object.function(0x20000, 64, {0x10, 6, 2, 0x76, 0, 0x0f, 3, 0x76, 0x78, 6});
  object.function(0x20040, 64, {0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3a, 0x2a, 0x33, 0x24, 0x22});
  object.function(0x20080, 64, {0x0f, 4, 0x77, 0xa0, 1, 6});
  const Read read(object);
  EXPECT_EQ(read.at(0x20000), rule(Cfa::at_bp, -8, SavedBp::at_bp, 0));
  EXPECT_EQ(read.at(0x20040), rule(Cfa::plt, 10));
  EXPECT_EQ(read.at(0x20080), rule(Cfa::at_sp, 160));
}

TEST(UnwindTable, WhatIsNotUnderstoodHasNoRule) {
  Object object;
  object.function(0x20000, 16, {0x0c, 3, 8});                                // the CFA by rbx
  object.function(0x20010, 16, {0x0f, 2, 0x70, 0});                          // an expression of another kind
  object.function(0x20020, 16, {0x90, 2});                                   // the return address elsewhere
  object.function(0x20030, 16, {0x09, 16, 0});                               // in a register
  object.function(0x20040, 16, {0x44, 0x0e, 16, 0x3f});                      // no such instruction
  object.function(0x20050, 16, {0x44, 0x0e, 16, 0x02});                      // ends in the middle of one
  object.function(0x20060, 16, {0x0b});                                      // nothing was remembered
  object.function(0x20070, 16, {0x0c, 7, 0x80, 0x80, 0x80, 0x80, 0x80, 1});  // 32 GiB of stack
  object.function(0x20080, 16, {});
  const Read read(object);
  for (u64 at = 0x20000; at < 0x20040; at += 16) EXPECT_EQ(read.at(at), Rule{}) << std::hex << at;
  EXPECT_EQ(read.at(0x20043), rule(Cfa::sp, 8));
  EXPECT_EQ(read.at(0x20044), Rule{});
  EXPECT_EQ(read.at(0x20054), Rule{});
  EXPECT_EQ(read.at(0x20060), Rule{});
  EXPECT_EQ(read.at(0x20070), Rule{});
  EXPECT_EQ(read.at(0x20080), rule(Cfa::sp, 8)) << "one that is not understood does not hide the next";
}

TEST(UnwindTable, TheOutermostFunctionAndASignalsCaller) {
  Object object;
  object.function(0x20000, 16, {0x07, 16});
  EXPECT_EQ(Read(object).at(0x20004).cfa, Cfa::end);
  Object signal({'z', 'R', 'S', 0});
  signal.function(0x20000, 16, {});
  EXPECT_EQ(Read(signal).at(0x20004).cfa, Cfa::signal);
}

TEST(UnwindTable, LanguagesAndHandlersAreSkipped) {
  Object object({'z', 'P', 'L', 'R', 0}, {0x9b, 1, 2, 3, 4, 0x1b, 0x1b});
  object.function(0x20000, 16, {0x41, 0x0e, 32});
  EXPECT_EQ(Read(object).at(0x20001), rule(Cfa::sp, 32));
  Object unknown({'z', 'R', 'X', 0});
  unknown.function(0x20000, 16, {});
  EXPECT_EQ(Read(unknown).at(0x20001), Rule{});
}

TEST(UnwindTable, AnIndexOfAnotherKindIsNone) {
  Object object;
  object.function(0x20000, 16, {});
  for (const auto& [at, value] : {std::pair{0, 2}, {1, 0xff}, {2, 0x04}, {3, 0x1b}, {8, 200}, {8, 0}}) {
    Bytes header = object.header();
    header[static_cast<std::size_t>(at)] = static_cast<u8>(value);
    EXPECT_FALSE(Read(header, object.frames()).has_index) << at;
  }
  for (std::size_t size = 0; size < object.header().size(); ++size) {
    Bytes header = object.header();
    header.resize(size);
    EXPECT_FALSE(Read(header, object.frames()).has_index) << size;
  }
}

// Whatever stands there, nothing is read that is not there: vectors of exact size, which a sanitizer watches; and what
// comes out is sorted.
TEST(UnwindTable, DamagedTables) {
  Object object({'z', 'P', 'L', 'R', 0}, {0x9b, 1, 2, 3, 4, 0x1b, 0x1b});
  object.function(0x20000, 100, {0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x02, 90, 0x0a, 0xc6, 0x0c, 7, 8, 0x41, 0x0b});
  object.function(0x20064, 64, {0x10, 6, 2, 0x76, 0, 0x0f, 3, 0x76, 0x78, 6, 0x2e, 0x10, 0x16, 3, 1, 0x30});
  object.function(0x30000, 64, {0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3a, 0x2a, 0x33, 0x24, 0x22});
  std::mt19937 random(7);
  const auto below = [&](std::size_t most) { return static_cast<std::size_t>(random() % most); };
  u32 with_rows = 0;
  for (int i = 0; i < 20000; ++i) {
    Bytes header = object.header(), frames = object.frames();
    for (std::size_t changes = 1 + below(4); changes != 0; --changes) {
      Bytes& which = below(4) == 0 ? header : frames;
      which[below(which.size())] = static_cast<u8>(below(2) == 0 ? random() : 0xff);
    }
    if (below(8) == 0) frames.resize(below(frames.size()));
    frames.shrink_to_fit();
    const Read read(header, frames);
    if (read.table.size() != 0) ++with_rows;
    read.at(0x20010);
  }
  EXPECT_GT(with_rows, 5000u) << "most changes leave something to read";
}

}  // namespace
}  // namespace coffer::record
