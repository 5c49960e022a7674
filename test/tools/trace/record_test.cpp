// SPDX-License-Identifier: MIT
// Records: what is encoded is decoded again, in the long way and in the short one.
#include "trace/record.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace coffer::trace {
namespace {

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
      Record record;
      record.op = Op::realloc;
      record.time = 1000 + (b >> 2);
      record.a = a;
      record.b = b;
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
    Record record;
    record.op = static_cast<Op>(op);
    record.time = 500;
    record.a = 70000;
    record.detail = 1;
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

}  // namespace
}  // namespace coffer::trace
