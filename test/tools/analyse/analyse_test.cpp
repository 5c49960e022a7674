// SPDX-License-Identifier: MIT
// Statistics and windows on events that are made here.
#include <gtest/gtest.h>

#include "analyse/flows.hpp"
#include "analyse/moment.hpp"
#include "analyse/statistics.hpp"

namespace coffer::analyse {
namespace {

using trace::Event;
using trace::Op;

constexpr u64 kWindow = 4096;

Event make(Op op, u64 time, u64 block, u64 size, u64 address = 0, u32 stack = 0, u32 thread = 1) {
  Event event;
  event.op = op;
  event.time = time;
  event.block = block;
  event.size = size;
  event.address = address;
  event.stack = stack;
  event.thread = thread;
  return event;
}

std::string written(const Windows& windows) {
  Json out;
  out.open('{');
  windows.write(out);
  return out.close('}').text();
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Windows, ABlockPinsTheRestOfItsWindow) {
  Windows windows(kWindow, true);
  windows.add(make(Op::malloc, 10, 1, 96, 0x10000, 7));
  EXPECT_EQ(windows.used(), kWindow);
  EXPECT_EQ(windows.gap(), kWindow - 96);
  const std::string text = written(windows);
  EXPECT_TRUE(has(text, "\"by_stack\":[{\"stack\":7,\"blocks\":1,\"live\":96,\"pinning\":1,\"pinned\":4000}]")) << text;
  EXPECT_TRUE(has(text, "\"half_empty\":1,\"pinned\":4000")) << text;
  windows.add(make(Op::free, 20, 1, 96, 0x10000));
  EXPECT_EQ(windows.used(), 0u);
  EXPECT_EQ(windows.gap(), 0u);
  EXPECT_EQ(windows.worst_gap(), kWindow - 96);
  EXPECT_EQ(windows.worst_event(), 1u);
}

TEST(Windows, BlocksOfOneWindowShareWhatTheyPin) {
  Windows windows(kWindow, true);
  windows.add(make(Op::malloc, 10, 1, 48, 0x10000, 1));
  windows.add(make(Op::malloc, 20, 2, 48, 0x10800, 2));
  const std::string text = written(windows);
  EXPECT_TRUE(has(text, "{\"stack\":1,\"blocks\":1,\"live\":48,\"pinning\":1,\"pinned\":2000}")) << text;
  EXPECT_TRUE(has(text, "{\"stack\":2,\"blocks\":1,\"live\":48,\"pinning\":1,\"pinned\":2000}")) << text;
}

TEST(Windows, MoreThanHalfFullPinsNothing) {
  Windows windows(kWindow, true);
  windows.add(make(Op::malloc, 10, 1, 2048, 0x10000));
  EXPECT_TRUE(has(written(windows), "\"half_empty\":0,\"pinned\":0"));
}

TEST(Windows, ALargeBlockPinsOnlyAtItsEnds) {
  Windows windows(kWindow, true);
  windows.add(make(Op::malloc, 10, 1, 4 * kWindow + 100, 0x10000 + 4000));
  // 96 bytes in the first, four whole windows less 92 bytes... the last has the rest.
  EXPECT_EQ(windows.live(), 4 * kWindow + 100);
  EXPECT_EQ(windows.used(), 6 * kWindow);
  EXPECT_EQ(windows.gap(), 4000 + kWindow - 4);
  windows.add(make(Op::free, 20, 1, 4 * kWindow + 100, 0x10000 + 4000));
  EXPECT_EQ(windows.used(), 0u);
}

TEST(Windows, AReallocMovesWhatItPins) {
  Windows windows(kWindow, true);
  windows.add(make(Op::malloc, 10, 1, 100, 0x10000, 3));
  Event moved = make(Op::realloc, 20, 1, 200, 0x20000);
  moved.old_size = 100;
  windows.add(moved);
  EXPECT_EQ(windows.live(), 200u);
  EXPECT_EQ(windows.used(), kWindow);
  EXPECT_TRUE(has(written(windows), "{\"stack\":3,\"blocks\":1,\"live\":200"));
  Event failed = make(Op::realloc, 30, 1, u64{1} << 60, 0x20000);
  failed.flags = trace::kFailed;
  windows.add(failed);
  EXPECT_EQ(windows.live(), 200u);
}

TEST(Windows, IdentitiesAreLaidOutByClass) {
  Windows windows(kWindow, false);
  for (u64 block = 1; block <= 64; ++block) windows.add(make(Op::malloc, block, block, 64));
  EXPECT_EQ(windows.used(), kWindow);  // 64 blocks of 64 bytes fill one window
  EXPECT_EQ(windows.gap(), 0u);
  windows.add(make(Op::malloc, 100, 100, 128));
  EXPECT_EQ(windows.used(), 2 * kWindow) << "another class, another window";
  windows.add(make(Op::free, 110, 5, 64));
  windows.add(make(Op::malloc, 120, 101, 60));
  EXPECT_EQ(windows.used(), 2 * kWindow) << "the hole is used again";
  EXPECT_TRUE(has(written(windows), "\"addresses\":\"model\""));
}

TEST(Statistics, CountsAndPeak) {
  Statistics statistics(4);
  statistics.add(make(Op::malloc, 10, 1, 100));
  statistics.add(make(Op::malloc, 20, 2, 50, 0, 4, 2));
  statistics.add(make(Op::free, 1000, 1, 100, 0, 0, 2));
  statistics.add(make(Op::malloc, 1100, 3, 20));
  EXPECT_EQ(statistics.peak_bytes(), 150u);
  EXPECT_EQ(statistics.peak_event(), 2u);
  Json out;
  out.open('{');
  statistics.write(out);
  const std::string text = out.close('}').text();
  EXPECT_TRUE(has(text, "\"end_bytes\":70,\"end_blocks\":2")) << text;
  EXPECT_TRUE(has(text, "\"remote\":[[1,2,1,100]]")) << text;
  EXPECT_TRUE(has(text, "\"lifetimes\":[[512,1,100]]")) << text;
  EXPECT_TRUE(has(text, "{\"class\":112,\"count\":1,\"requested\":100,\"rounded\":112")) << text;
  EXPECT_TRUE(has(text, "{\"stack\":4,\"allocations\":1,\"bytes\":50,\"frees\":0")) << text;
  EXPECT_TRUE(has(text,
                  "\"thread\":2,\"system\":0,\"first_ns\":20,\"last_ns\":1000,\"allocations\":1,\"bytes\":50,"
                  "\"frees\":1,\"remote_frees\":1"))
      << text;
}

TEST(Statistics, AReallocKeepsTheBlocksBirth) {
  Statistics statistics(4);
  statistics.add(make(Op::malloc, 0, 1, 100, 0, 9));
  statistics.add(make(Op::realloc, 1000, 1, 300, 0, 0, 2));
  statistics.add(make(Op::free, 4096, 1, 300));
  Json out;
  out.open('{');
  statistics.write(out);
  const std::string text = out.close('}').text();
  EXPECT_EQ(statistics.peak_bytes(), 300u);
  EXPECT_TRUE(has(text, "\"lifetimes\":[[4096,1,300]]")) << text;
  EXPECT_TRUE(has(text, "\"remote\":[[1,1,1,300]]")) << text;
  EXPECT_TRUE(has(text, "\"stack\":9,\"allocations\":2,\"bytes\":400")) << text;
}

TEST(Statistics, ThousandsOfFiguresAreThinnedOut) {
  Statistics statistics(100'000);
  for (u64 i = 0; i < 100'000; ++i) {
    Event event = make(Op::figure, i, 0, i);
    event.detail = 1;
    statistics.add(event);
  }
  Json out;
  out.open('{');
  statistics.write(out);
  const std::string text = out.close('}').text();
  EXPECT_LT(text.size(), 200'000u);
  EXPECT_TRUE(has(text, "\"resident\":[[0,0],[16,16],[32,32]")) << text;
}

TEST(RoundedSize, IsThatOfCoffersClasses) {
  EXPECT_EQ(rounded_size(0), 16u);
  EXPECT_EQ(rounded_size(100), 112u);
  EXPECT_EQ(rounded_size(32768), 32768u);
  EXPECT_EQ(rounded_size(32769), 36864u);
  EXPECT_EQ(rounded_size(~u64{0}), ~u64{0});
}

TEST(Json, CommasAndQuotes) {
  Json out;
  out.open('{')
      .key("a")
      .open('[')
      .number(1)
      .number(2)
      .close(']')
      .number("b", 3)
      .key("c")
      .string("x\"\\\n\xff")
      .close('}');
  EXPECT_EQ(out.text(), "{\"a\":[1,2],\"b\":3,\"c\":\"x\\u0022\\u005c\\u000a\\u00ff\"}");
}

std::string written(const Flows& flows) {
  Json out;
  out.open('{');
  flows.write(out);
  return out.close('}').text();
}

TEST(Flows, EachPartHasWhatWasAllocatedAndFreedThere) {
  Flows flows(99, 10, 2);  // parts of 10 ns
  flows.add(make(Op::malloc, 5, 1, 100, 0, 7));
  flows.add(make(Op::malloc, 15, 2, 50, 0, 7));
  flows.add(make(Op::free, 35, 1, 100));
  const std::string text = written(flows);
  EXPECT_TRUE(has(text, "\"at_peak\":[150,2],\"flows\":[[0,100,1,0,0,0,0],[1,50,1,0,0,0,0],[3,0,0,100,1,0,0]]"))
      << text;
  EXPECT_TRUE(has(text, "\"sizes\":[[0,96,1,100],[1,48,1,50]],\"lifetimes\":[[3,16,1,100]]")) << text;
}

TEST(Flows, FreedAtOnceIsWhatItsThreadAllocatedLast) {
  Flows flows(99, 1, 0);
  flows.add(make(Op::malloc, 1, 1, 100, 0, 7));
  flows.add(make(Op::malloc, 2, 2, 50, 0, 8, 2));  // another thread's does not matter
  flows.add(make(Op::free, 3, 1, 100, 0, 0, 2));   // nor who frees
  flows.add(make(Op::malloc, 4, 3, 30, 0, 7));
  flows.add(make(Op::malloc, 5, 4, 20, 0, 7));
  flows.add(make(Op::free, 6, 3, 30));
  const std::string text = written(flows);
  EXPECT_TRUE(has(text, "[0,150,3,130,2,100,1]")) << text;
}

TEST(Flows, AReallocEndsABlockAndBeginsOne) {
  Flows flows(99, 1, 2);
  flows.add(make(Op::malloc, 1, 1, 100, 0, 7));
  flows.add(make(Op::realloc, 2, 1, 300, 0, 8));
  const std::string text = written(flows);
  EXPECT_TRUE(has(text, "{\"stack\":7,\"at_peak\":[0,0],\"flows\":[[0,100,1,100,1,0,0]]}")) << text;
  EXPECT_TRUE(has(text, "{\"stack\":8,\"at_peak\":[300,1],\"flows\":[[0,300,1,0,0,0,0]]}")) << text;
}

}  // namespace
}  // namespace coffer::analyse
