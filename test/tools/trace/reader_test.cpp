// Reader and writer: what is written is read again, in an order that can be replayed, and nothing malformed passes.
#include "trace/reader.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "trace/crc32.hpp"
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

TEST(Record, EveryNumberComesBack) {
  const u64 numbers[] = {0,
                         1,
                         255,
                         256,
                         65535,
                         65536,
                         ~u64{0} >> 16,
                         1u << 24,
                         1u << 31,
                         ~u32{0},
                         u64{1} << 32,
                         u64{1} << 40,
                         u64{1} << 47,
                         u64{1} << 48,
                         u64{1} << 55,
                         u64{1} << 56,
                         u64{1} << 63,
                         ~u64{0}};
  for (const u64 a : numbers) {
    for (const u64 b : numbers) {
      u8 bytes[kMaxRecord + 8];
      Base base{1000, 0x7f0012345678}, base2 = base;
      Record record = make(Op::realloc, 1000 + (b >> 2), a, b);
      record.old = a | 1;
      record.duration = a >> 2;
      record.stack = 7;
      record.has_instructions = true;
      record.instructions = b;
      const u8* const end = encode(bytes, record, base);
      ASSERT_LE(end, bytes + kMaxRecord);
      Decoder decoder(bytes, end, base2);
      Record got;
      ASSERT_EQ(decoder.next(got), nullptr);
      ASSERT_TRUE(decoder.done());
      ASSERT_EQ(got.time, record.time);
      ASSERT_EQ(got.a, a);
      ASSERT_EQ(got.b, b);
      ASSERT_EQ(got.old, a | 1);
      ASSERT_EQ(got.duration, a >> 2);
      ASSERT_EQ(got.stack, 7u);
      ASSERT_EQ(got.instructions, b);
      ASSERT_EQ(decoder.base().time, base.time);
      ASSERT_EQ(decoder.base().block, base.block);
    }
  }
}

TEST(Record, NoPrefixOfARecordPasses) {
  for (u32 op = 0; op < kOps; ++op) {
    if (static_cast<Op>(op) == Op::stack) continue;
    Record record = make(static_cast<Op>(op), 500, 70000, 0, 1);
    if (has_block(record.op)) record.b = 0x7f0000001234;
    record.old = 0x7f0000004321;
    record.stack = 9;
    u8 bytes[kMaxRecord + 8];
    Base base;
    const u8* const end = encode(bytes, record, base);
    for (const u8* cut = bytes; cut < end; ++cut) {
      // In a buffer of its own, so that a sanitizer sees what reads past it.
      const std::vector<u8> part(static_cast<const u8*>(bytes), cut);
      Decoder decoder(part.data(), part.data() + part.size(), {});
      Record got;
      EXPECT_NE(decoder.next(got), nullptr) << "operation " << op;
      EXPECT_EQ(decoder.at(), part.data());
    }
  }
}

TEST(Crc, IsThatOfZlib) {
  EXPECT_EQ(crc32(0, "123456789", 9), 0xCBF43926u);
  EXPECT_EQ(crc32(crc32(0, "1234", 4), "56789", 5), 0xCBF43926u);
}

TEST(Crc32, IsTheSameByAllWays) {
  std::mt19937 random(3);
  std::vector<u8> bytes(5000);
  for (u8& byte : bytes) byte = static_cast<u8>(random());
  for (std::size_t length = 0; length < 700; ++length) {
    const u8* const at = bytes.data() + length % 37;
    const u32 before = length % 3 == 0 ? 0 : static_cast<u32>(random());
    ASSERT_EQ(crc32(before, at, length), crc32_by_table(before, at, length)) << length;
  }
  EXPECT_EQ(crc32(0, bytes.data(), bytes.size()), crc32_by_table(0, bytes.data(), bytes.size()));
}

// A record with bytes behind it is read in a shorter way than one at the end of its batch; both must say the same, of
// whatever stands there.
TEST(Decoder, ReadsTheSameWithAndWithoutBytesBehind) {
  std::mt19937_64 random(5);
  u32 good = 0;
  for (int i = 0; i < 100000; ++i) {
    u8 bytes[64 + 32];
    for (u32 at = 0; at < sizeof bytes; at += 8) {
      const u64 word = random();
      std::memcpy(bytes + at, &word, 8);
    }
    bytes[0] &= i % 2 != 0 ? 0xf4 : 0xff;  // often one of the common operations
    bytes[1] &= 0x1f | (i % 5 == 0 ? 0xe0 : 0);
    const Base base{i % 7 == 0 ? ~u64{0} - 1000 : u64{random() >> 8}, i % 3 == 0 ? u64{0} : u64{random() >> 16}};
    Decoder long_one(bytes, bytes + sizeof bytes, base);
    Record with, without;
    const Fault fault = long_one.next(with);
    if (fault != nullptr || with.op == Op::stack) continue;
    ++good;
    Decoder short_one(bytes, long_one.at(), base);
    ASSERT_EQ(short_one.next(without), nullptr) << i;
    ASSERT_TRUE(short_one.done());
    ASSERT_EQ(with.op, without.op);
    ASSERT_EQ(with.detail, without.detail);
    ASSERT_EQ(with.stack, without.stack);
    ASSERT_EQ(with.time, without.time);
    ASSERT_EQ(with.a, without.a);
    ASSERT_EQ(with.b, without.b);
    ASSERT_EQ(with.old, without.old);
    ASSERT_EQ(with.duration, without.duration);
    ASSERT_EQ(with.instructions, without.instructions);
    ASSERT_EQ(with.has_instructions, without.has_instructions);
    ASSERT_EQ(long_one.base().time, short_one.base().time);
    ASSERT_EQ(long_one.base().block, short_one.base().block);
  }
  EXPECT_GT(good, 20000u);
}

TEST(Decoder, GoesOverTheRecordersUsualRecords) {
  std::mt19937_64 random(6);
  for (int i = 0; i < 20000; ++i) {
    u8 bytes[200];
    Base base{1000, 0x7f0000000000}, as_written = base;
    u8* end = bytes;
    while (end < bytes + 120) {
      const u32 what = static_cast<u32>(random() % 16);
      u64 word = what == 0 ? random() : what < 6 ? 0x1104 : what < 8 ? 0x1101 : 0x1100;
      if (what >= 6 || what == 0) word |= random() << 16;
      if (what != 0 && what < 6) word = 0x1004 | random() << 16;
      std::memcpy(end, &word, 8);
      end += what != 0 && what < 6 ? 6 : 8;
    }
    Decoder all(bytes, end, base), some(bytes, end, as_written);
    u32 skipped = some.skip_usual(), count = 0;
    Record record;
    while (count < skipped && all.next(record) == nullptr) {
      ++count;
      ASSERT_EQ(record.time, 1000u);
      ASSERT_NE(record.b, 0u);
    }
    ASSERT_EQ(count, skipped) << i;
    ASSERT_EQ(all.at(), some.at());
    ASSERT_EQ(all.base().block, some.base().block);
  }
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

std::string message(const std::string& bytes) {
  try {
    read(bytes);
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
    EXPECT_NE(message(damaged).find("byte "), std::string::npos) << "bit " << bit;
  }
}

TEST(BlockTable, HoldsWhatAMapHolds) {
  BlockTable table;
  std::unordered_map<u64, u64> model;
  u64 state = 1;
  for (int i = 0; i < 200'000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const u64 key = 16 * (1 + (state >> 33) % 3000);
    const Block* const found = table.find(key);
    ASSERT_EQ(found != nullptr, model.count(key) != 0);
    if (found != nullptr) {
      ASSERT_EQ(table.take(key).identity, model[key]);
      model.erase(key);
    } else {
      table.insert(key, {static_cast<u64>(i), 0});
      model[key] = static_cast<u64>(i);
    }
    ASSERT_EQ(table.size(), model.size());
  }
}

}  // namespace
}  // namespace coffer::trace
