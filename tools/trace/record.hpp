// SPDX-License-Identifier: MIT
// One record, written and read. Needs no C++ runtime: the recorder includes it. Writing is without branches on values:
// each number is stored as 8 bytes and the next one over those that it does not need.
#pragma once

#include "trace/format.hpp"

namespace coffer::trace {

// What a thread's records are relative to.
struct Base {
  u64 time = 0, block = 0;
};

inline u64 zigzag(u64 distance) { return (distance << 1) ^ static_cast<u64>(static_cast<i64>(distance) >> 63); }
inline u64 unzigzag(u64 value) { return (value >> 1) ^ (~(value & 1) + 1); }

// A record's fields with time and blocks as they are, not as distances.
struct Record {
  Op op = Op::malloc;
  u8 detail = 0;     // log2 of the alignment; how, which, why
  u32 stack = 0;     // 0: none
  u64 time = 0;      // of a realloc: its beginning
  u64 a = 0, b = 0;  // as the table of docs/reference/trace.md says
  u64 old = 0, duration = 0;
  u64 instructions = 0;
  bool has_instructions = false;
  const u8* frames = nullptr;  // Op::stack: b numbers of 8 bytes, not aligned
};

// The most that a record other than Op::stack takes; a writer needs 8 bytes more behind it.
inline constexpr u32 kMaxRecord = 2 + 3 * 8 + 1 + 2 * 8 + 4 + 8;

class Encoder {
 public:
  explicit Encoder(u8* at) : at_(at) {}
  u8* at() const { return at_; }

  // Leaves the control word to the end; code(…) gives a field's place in it.
  template <int kShift>
  __attribute__((always_inline)) void number(u64 value) {
    const u32 bytes = (71u - static_cast<u32>(__builtin_clzll(value | 1))) >> 3;
    const u32 code = bytes < 7 ? bytes : 7;
    control_ |= code << kShift;
    store(value);
    at_ += bytes < 7 ? bytes : 8;
  }
  __attribute__((always_inline)) void begin(Op op, u32 flags = 0) {
    control_ = static_cast<u32>(op) | flags;
    start_ = at_;
    at_ += 2;
  }
  __attribute__((always_inline)) void end() { __builtin_memcpy(start_, &control_, 2); }
  void byte(u8 value) { *at_++ = value; }
  void word(u32 value) {
    __builtin_memcpy(at_, &value, 4);
    at_ += 4;
  }
  void wide(u64 value) {
    store(value);
    at_ += 8;
  }
  // Two numbers after one byte of codes.
  void pair(u64 first, u64 second) {
    u8* const codes = at_++;
    const u32 outer = control_;
    control_ = 0;
    number<0>(first);
    number<3>(second);
    *codes = static_cast<u8>(control_);
    control_ = outer;
  }

 private:
  __attribute__((always_inline)) void store(u64 value) { __builtin_memcpy(at_, &value, 8); }

  u8* at_;
  u8* start_ = nullptr;
  u32 control_ = 0;
};

// Writes any record but Op::stack and moves `base` on. kMaxRecord + 8 bytes must be there. A time before the base is
// raised to it.
inline u8* encode(u8* at, const Record& record, Base& base) {
  Encoder out(at);
  const u32 flags = (record.stack != 0 ? u32{kHasStack} : 0) | (record.has_instructions ? u32{kHasInstructions} : 0);
  out.begin(record.op, flags);
  const u64 time = record.time < base.time ? base.time : record.time;
  out.number<4>(time - base.time);
  base.time = time;
  if (record.a != 0 || record.op != Op::free) out.number<7>(record.a);
  if (has_block(record.op)) {
    out.number<10>(record.b == 0 ? zigzag(~base.block + 1) : zigzag(record.b - base.block));
    if (record.b != 0) base.block = record.b;
  } else if (record.b != 0) {
    out.number<10>(record.b);
  }
  switch (record.op) {
    case Op::realloc:
      out.pair(zigzag(record.old - base.block), record.duration);
      base.time += record.duration;
      break;
    case Op::aligned:
    case Op::take:
    case Op::give:
    case Op::figure:
    case Op::lost:
      out.byte(record.detail);
      break;
    default:
      break;
  }
  if (record.stack != 0) out.word(record.stack);
  if (record.has_instructions) out.wide(record.instructions);
  out.end();
  return out.at();
}

// Bytes that encode_stack needs.
inline constexpr u32 stack_bytes(u32 frames) { return kMaxRecord + 8 * frames; }

inline u8* encode_stack(u8* at, u64 time, u32 number, const u64* frames, u32 count, Base& base) {
  Record record;
  record.op = Op::stack;
  record.time = time;
  record.a = number;
  record.b = count;
  u8* end = encode(at, record, base);
  __builtin_memcpy(end, frames, u64{8} * count);
  return end + u64{8} * count;
}

// What is wrong with a record; nullptr: nothing.
using Fault = const char*;

class Decoder {
 public:
  Decoder(const u8* at, const u8* end, Base base) : at_(at), end_(end), base_(base) {}
  bool done() const { return at_ == end_; }
  const u8* at() const { return at_; }
  const Base& base() const { return base_; }

  // Reads the next record; on a fault, at() stays at its beginning.
  Fault next(Record& record) {
    if (read_usual(record)) return nullptr;
    const u8* const start = at_;
    const Fault fault = read(record);
    if (fault != nullptr) at_ = start;
    return fault;
  }

  // Goes over records as the recorder's fast paths write them (recorder.hpp), with no time of their own, and says how
  // many. It may leave some for next().
  u32 skip_usual() {
    constexpr u32 kFree = static_cast<u32>(Op::free) | 4u << 10, kSized = 2u << 7 | 4u << 10;
    constexpr u32 kMalloc = static_cast<u32>(Op::malloc) | kSized, kCalloc = static_cast<u32>(Op::calloc) | kSized;
    constexpr u32 kFreeSized = static_cast<u32>(Op::free) | kSized;
    u32 count = 0;
    u64 block = base_.block;
    const u8* at = at_;
    for (; end_ - at >= 8; ++count) {
      u64 word;
      __builtin_memcpy(&word, at, 8);
      const u32 control = static_cast<u16>(word);
      const bool is_free = control == kFree;
      if (!is_free && control != kMalloc && control != kCalloc && control != kFreeSized) break;
      const u64 next = block + unzigzag(is_free ? word >> 16 & 0xFFFFFFFFu : word >> 32);
      if (next == 0) break;
      block = next;
      at += is_free ? 6 : 8;
    }
    at_ = at;
    base_.block = block;
    return count;
  }

 private:
  static constexpr Fault kShort = "the record ends after the batch";

  // Nearly all records: a block was allocated or freed, there are the three numbers and no more, and enough bytes
  // behind them to read each as eight. false: it is another one, or malformed.
  __attribute__((always_inline)) bool read_usual(Record& record) {
    constexpr u32 kUsual =
        1u << static_cast<u32>(Op::malloc) | 1u << static_cast<u32>(Op::calloc) | 1u << static_cast<u32>(Op::free);
    if (end_ - at_ < 2 + 3 * 8) return false;
    u16 control;
    __builtin_memcpy(&control, at_, 2);
    if ((control & 0xE000) != 0 || (kUsual >> (control & 15) & 1) == 0) return false;
    const u8* at = at_ + 2;
    const auto number_of = [&at](u32 code) __attribute__((always_inline)) {
      u64 value;
      __builtin_memcpy(&value, at, 8);
      const u32 bytes = code + (code == 7 ? 1 : 0);
      at += bytes;
      // Two shifts: one by 64 is none.
      return value & ~(~u64{0} << (4 * bytes) << (4 * bytes));
    };
    const u64 distance = number_of(control >> 4 & 7), size = number_of(control >> 7 & 7);
    const u64 block = base_.block + unzigzag(number_of(control >> 10 & 7)), time = base_.time + distance;
    if (time < base_.time || block == 0) return false;
    at_ = at;
    base_ = {time, block};
    record = {};
    record.op = static_cast<Op>(control & 15);
    record.time = time;
    record.a = size;
    record.b = block;
    return true;
  }

  bool number(u32 code, u64& value) {
    const u32 bytes = code < 7 ? code : 8;
    const u64 left = static_cast<u64>(end_ - at_);
    if (left >= 8) {
      __builtin_memcpy(&value, at_, 8);
      if (bytes < 8) value &= (u64{1} << (8 * bytes)) - 1;
    } else {
      if (left < bytes) return false;
      value = 0;
      for (u32 i = 0; i < bytes; ++i) value |= u64{at_[i]} << (8 * i);
    }
    at_ += bytes;
    return true;
  }
  template <class T>
  bool whole(T& value) {
    if (static_cast<u64>(end_ - at_) < sizeof(T)) return false;
    __builtin_memcpy(&value, at_, sizeof(T));
    at_ += sizeof(T);
    return true;
  }
  bool advance(u64 distance) {
    const u64 time = base_.time + distance;
    if (time < base_.time) return false;
    base_.time = time;
    return true;
  }

  Fault read(Record& record) {
    u16 control;
    if (!whole(control)) return kShort;
    if ((control & 0x8000) != 0) return "bit 15 of the record's control word is set";
    if ((control & 15) >= kOps) return "no such operation";
    record.op = static_cast<Op>(control & 15);
    u64 distance;
    if (!number(control >> 4 & 7, distance) || !number(control >> 7 & 7, record.a) ||
        !number(control >> 10 & 7, record.b)) {
      return kShort;
    }
    if (!advance(distance)) return "the time overflows";
    record.time = base_.time;
    if (has_block(record.op)) {
      record.b = base_.block + unzigzag(record.b);
      if (record.b != 0) base_.block = record.b;
    }
    if (const Fault fault = details(record); fault != nullptr) return fault;
    record.stack = 0;
    if ((control & kHasStack) != 0) {
      if (!whole(record.stack)) return kShort;
      if (record.stack == 0) return "a stack has number 0";
    }
    record.instructions = 0;
    record.has_instructions = (control & kHasInstructions) != 0;
    if (record.has_instructions && !whole(record.instructions)) return kShort;
    return nullptr;
  }

  Fault details(Record& record) {
    record.detail = 0;
    record.old = record.duration = 0;
    switch (record.op) {
      case Op::realloc:
        return realloc_details(record);
      case Op::aligned:
        if (!whole(record.detail)) return kShort;
        return record.detail > 63 ? "an alignment above 2^63" : nullptr;
      case Op::take:
        return small(record, 4, "no such way to take memory");
      case Op::give:
        return small(record, 5, "no such way to give memory back");
      case Op::figure:
        return small(record, 5, "no such figure");
      case Op::lost:
        return small(record, 4, "no such reason for lost records");
      case Op::free:
        return record.b == 0 ? "a free of block 0" : nullptr;
      case Op::stack:
        return stack_details(record);
      default:
        return record.b != 0 && !has_block(record.op) ? "a number where none belongs" : nullptr;
    }
  }
  Fault small(Record& record, u8 highest, Fault fault) {
    if (!whole(record.detail)) return kShort;
    const bool is_lone = record.op == Op::figure || record.op == Op::lost;
    if (is_lone && record.b != 0) return "a number where none belongs";
    return record.detail == 0 || record.detail > highest ? fault : nullptr;
  }
  Fault realloc_details(Record& record) {
    u8 codes;
    if (!whole(codes)) return kShort;
    if (codes >> 6 != 0) return "the upper bits of a realloc's codes are set";
    if (!number(codes & 7, record.old) || !number(codes >> 3, record.duration)) return kShort;
    record.old = base_.block + unzigzag(record.old);
    if (record.old == 0) return "a realloc of block 0";
    if (!advance(record.duration)) return "the time overflows";
    return nullptr;
  }
  Fault stack_details(Record& record) {
    if (record.a == 0 || record.a > 0xFFFFFFFFu) return "a stack's number is not from 1 to 2^32 - 1";
    if (record.b == 0 || record.b > kMaxFrames) return "a stack has not 1 to 256 frames";
    if (static_cast<u64>(end_ - at_) < 8 * record.b) return kShort;
    record.frames = at_;
    at_ += 8 * record.b;
    return nullptr;
  }

  const u8* at_;
  const u8* end_;
  Base base_;
};

}  // namespace coffer::trace
