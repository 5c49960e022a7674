// SPDX-License-Identifier: MIT
// Reader and writer: what is written is read again, in an order that can be replayed, and nothing malformed passes.
#include "trace/reader.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "trace/writer.hpp"

namespace coffer::trace {
namespace {

class TraceFile {
 public:
  TraceFile() : path_(testing::TempDir() + "coffer_reader_test." + std::to_string(getpid())) {}
  ~TraceFile() { ::unlink(path_.c_str()); }
  const std::string& path() const { return path_; }
  std::string bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string path_;
};

Record make(Op op, u64 time, u64 a, u64 b, u8 detail = 0) {
  Record record;
  record.op = op;
  record.time = time;
  record.a = a;
  record.b = b;
  record.detail = detail;
  return record;
}

Record make_realloc(u64 time, u64 size, u64 old, u64 to, u64 duration) {
  Record record = make(Op::realloc, time, size, to);
  record.old = old;
  record.duration = duration;
  return record;
}

std::vector<Event> read(const std::string& bytes, Summary* summary = nullptr) {
  Reader reader(from_memory(bytes.data(), bytes.size()));
  std::vector<Event> events;
  for (Event event; reader.next(event);) events.push_back(event);
  if (summary != nullptr) *summary = reader.summary();
  return events;
}

struct Step {
  u32 thread;
  Record record;
};

std::string write(Blocks blocks, const std::vector<Step>& steps, bool flush_each = false) {
  TraceFile file;
  Writer writer(file.path(), {{"program", "test"}}, blocks);
  for (const Step& step : steps) {
    writer.append(step.thread, step.record);
    if (flush_each) writer.flush();
  }
  writer.close({});
  return file.bytes();
}

std::string story(const std::vector<Event>& events) {
  std::string text;
  for (const Event& event : events) {
    if (!text.empty()) text += ' ';
    text += "mcarf"[static_cast<int>(event.op)];
    text += std::to_string(event.block) + "/" + std::to_string(event.thread);
    if ((event.flags & kImplied) != 0) text += '!';
    if ((event.flags & kFailed) != 0) text += 'x';
    if ((event.flags & kUnknownBefore) != 0) text += '?';
  }
  return text;
}

TEST(Reader, GivesIdentitiesForAddresses) {
  Summary summary;
  const auto events = read(write(Blocks::addresses, {{1, make(Op::malloc, 10, 100, 0x1000)},
                                                     {1, make(Op::malloc, 20, 200, 0x2000)},
                                                     {1, make(Op::free, 30, 0, 0x1000)},
                                                     {1, make(Op::calloc, 40, 300, 0x1000)},
                                                     {1, make_realloc(50, 400, 0x2000, 0x3000, 5)},
                                                     {1, make(Op::free, 60, 0, 0x3000)}}),
                           &summary);
  EXPECT_EQ(story(events), "m1/1 m2/1 f1/1 c3/1 r2/1 f2/1");
  EXPECT_EQ(events[2].size, 100u);
  EXPECT_EQ(events[4].old_size, 200u);
  EXPECT_EQ(events[4].time, 55u);
  EXPECT_EQ(events[5].size, 400u);
  EXPECT_EQ(summary.live_bytes, 300u);
  EXPECT_EQ(summary.peak_bytes, 700u);
}

TEST(Reader, OrdersThreadsByTimeOverFrames) {
  for (const bool flush : {false, true}) {
    // Thread 2's frames come first though it was later.
    const auto bytes = write(Blocks::addresses,
                             {{2, make(Op::malloc, 20, 1, 0x1000)},
                              {2, make(Op::free, 40, 0, 0x1000)},
                              {1, make(Op::malloc, 10, 1, 0x1000)},
                              {1, make(Op::free, 15, 0, 0x1000)},
                              {1, make(Op::malloc, 45, 1, 0x1000)}},
                             flush);
    EXPECT_EQ(story(read(bytes)), "m1/1 f1/1 m2/2 f2/2 m3/1");
  }
}

TEST(Reader, AReallocLeavesItsAddressBeforeItHasTheNextOne) {
  // Thread 1's realloc, from 100 to 200, moves from 0x1000 to 0x2000. Thread 2 frees 0x2000 and gets 0x1000 meanwhile.
  const auto events = read(write(Blocks::addresses, {{1, make(Op::malloc, 10, 1, 0x1000)},
                                                     {2, make(Op::malloc, 20, 2, 0x2000)},
                                                     {1, make_realloc(100, 3, 0x1000, 0x2000, 100)},
                                                     {2, make(Op::free, 130, 0, 0x2000)},
                                                     {2, make(Op::malloc, 170, 4, 0x1000)}}));
  EXPECT_EQ(story(events), "m1/1 m2/2 f2/2 m3/2 r1/1");
}

TEST(Reader, EqualAndSlightlyWrongStampsAreSetRight) {
  // Freed and allocated again with the same stamp, by the thread with the lower number; and 90 microseconds too early.
  EXPECT_EQ(story(read(write(Blocks::addresses, {{2, make(Op::malloc, 10, 1, 0x1000)},
                                                 {2, make(Op::free, 50, 0, 0x1000)},
                                                 {1, make(Op::malloc, 50, 1, 0x1000)}}))),
            "m1/2 f1/2 m2/1");
  EXPECT_EQ(story(read(write(Blocks::addresses, {{2, make(Op::malloc, 10, 1, 0x1000)},
                                                 {2, make(Op::free, 90'000, 0, 0x1000)},
                                                 {1, make(Op::malloc, 1000, 1, 0x1000)}}))),
            "m1/2 f1/2 m2/1");
  EXPECT_EQ(
      story(read(write(Blocks::addresses, {{1, make(Op::free, 50, 0, 0x1000)}, {2, make(Op::malloc, 60, 1, 0x1000)}}))),
      "m1/2 f1/1");
}

TEST(Reader, WhatWasNotRecordedIsMadeUpFor) {
  Summary summary;
  const auto events = read(write(Blocks::addresses, {{1, make(Op::free, 10, 0, 0x9000)},
                                                     {1, make_realloc(20, 5, 0x8000, 0x7000, 1)},
                                                     {1, make(Op::malloc, 30, 1, 0x1000)},
                                                     {1, make(Op::malloc, 40, 2, 0x1000)},
                                                     {1, make(Op::malloc, 50, 2, 0)},
                                                     {1, make_realloc(60, 5, 0x1000, 0, 1)},
                                                     {1, make(Op::free, 70, 0, 0x1000)}}),
                           &summary);
  EXPECT_EQ(story(events), "r1/1? m2/1 f2/1! m3/1 m0/1x r3/1x f3/1");
  EXPECT_EQ(summary.unknown_frees, 1u);
  EXPECT_EQ(summary.implied_frees, 1u);
  EXPECT_EQ(summary.failed, 2u);
  EXPECT_EQ(summary.live_bytes, 5u);
}

TEST(Reader, EventsWrittenAgainAreTheSame) {
  std::vector<Step> steps;
  for (u64 i = 0; i < 5000; ++i) {
    const u64 address = 0x10000 + 64 * (i % 100);
    steps.push_back({static_cast<u32>(1 + i % 3), make(Op::malloc, 1000 * i, i, address)});
    steps.push_back({static_cast<u32>(1 + i % 7), make(Op::free, 1000 * i + 500, 0, address)});
  }
  const auto first = read(write(Blocks::addresses, steps));
  TraceFile file;
  Writer writer(file.path(), {}, Blocks::identities);
  for (const Event& event : first) writer.append(event);
  writer.close({});
  const auto second = read(file.bytes());
  EXPECT_EQ(first.size(), second.size());
  EXPECT_EQ(story(first).substr(0, 60), story(second).substr(0, 60));
  for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    ASSERT_EQ(first[i].block, second[i].block);
    ASSERT_EQ(first[i].op, second[i].op);
    ASSERT_EQ(first[i].size, second[i].size);
    ASSERT_EQ(first[i].time, second[i].time);
    ASSERT_EQ(first[i].thread, second[i].thread);
  }
}

// Why it is not read, or what is missing.
std::string message(const std::string& bytes) {
  try {
    Reader reader(from_memory(bytes.data(), bytes.size()));
    for (Event event; reader.next(event);) {
    }
    return reader.file().shortfall();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Reader, IdentitiesAreNotForgiven) {
  const auto said = [](const std::vector<Step>& steps) { return message(write(Blocks::identities, steps)); };
  const Record one = make(Op::malloc, 10, 1, 1);
  EXPECT_EQ(said({{1, one}, {2, make(Op::free, 10, 0, 1)}}), "");
  EXPECT_NE(said({{1, one}, {1, make(Op::free, 20, 0, 2)}}).find("a free of block 2, which is not live"),
            std::string::npos);
  EXPECT_NE(said({{1, one}, {1, make(Op::malloc, 20, 0, 1)}}).find("identity 1 is given to a second block"),
            std::string::npos);
  EXPECT_NE(said({{1, one}, {1, make(Op::free, 20, 0, 1)}, {1, make(Op::malloc, 30, 0, 1)}})
                .find("identity 1 is given to a second block"),
            std::string::npos);
  EXPECT_NE(said({{1, one}, {1, make_realloc(20, 1, 1, 2, 0)}}).find("changes its block's identity"),
            std::string::npos);
  EXPECT_NE(said({{1, one}, {1, make_realloc(20, 1, 5, 0, 0)}}).find("a realloc of block 5, which is not live"),
            std::string::npos);
}

TEST(Reader, EveryCutIsRefusedOrSaysThatItIsIncomplete) {
  const std::string whole =
      write(Blocks::addresses, {{1, make(Op::malloc, 10, 1, 0x1000)}, {1, make(Op::free, 20, 0, 0x1000)}}, true);
  std::size_t readable = 0;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::string part = whole.substr(0, length);
    try {
      Reader reader(from_memory(part.data(), part.size()));
      for (Event event; reader.next(event);) {
      }
      EXPECT_FALSE(reader.file().complete());
      ++readable;
    } catch (const Error& error) {
      EXPECT_LT(length, 56u + 100u) << error.what();
    }
  }
  EXPECT_GT(readable, 100u);
}

TEST(Reader, EveryFlippedBitIsSeen) {
  const std::string whole =
      write(Blocks::addresses, {{1, make(Op::malloc, 10, 1, 0x1000)}, {1, make(Op::free, 20, 0, 0x1000)}}, true);
  EXPECT_EQ(message(whole), "");
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    EXPECT_NE(message(damaged), "") << "bit " << bit;
  }
}

}  // namespace
}  // namespace coffer::trace
