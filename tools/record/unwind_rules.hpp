// SPDX-License-Identifier: MIT
// The parts that an unwind table is read with: bytes in order, and the instructions that say how rules change.
#pragma once

#include "record/unwind_table.hpp"

namespace coffer::record {

inline constexpr u64 kBpNumber = 6, kSpNumber = 7, kReturnNumber = 16;  // of registers, in tables

// Reads on, and stays at the end once something was not there.
class Cursor {
 public:
  Cursor(const u8* at, const u8* end) : at_(at), end_(end) {}
  bool good() const { return good_; }
  bool more() const { return good_ && at_ < end_; }
  const u8* at() const { return at_; }
  u64 left() const { return static_cast<u64>(end_ - at_); }

  void skip(u64 bytes) {
    if (bytes > left()) return fail();
    at_ += bytes;
  }
  template <class T>
  T number() {
    T value = 0;
    if (sizeof(T) > left()) {
      fail();
      return value;
    }
    __builtin_memcpy(&value, at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  u64 uleb() {
    u64 value = 0;
    for (u32 shift = 0; shift < 64; shift += 7) {
      const u8 byte = number<u8>();
      value |= u64{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) return value;
    }
    fail();
    return 0;
  }
  i64 sleb() {
    u64 value = 0;
    for (u32 shift = 0; shift < 64;) {
      const u8 byte = number<u8>();
      value |= u64{byte & 0x7fu} << shift;
      shift += 7;
      if ((byte & 0x80) != 0) continue;
      if ((byte & 0x40) != 0 && shift < 64) value |= ~u64{0} << shift;
      return static_cast<i64>(value);
    }
    fail();
    return 0;
  }
  // The bytes that follow, as many as their length before them says.
  Cursor block() {
    const u64 bytes = uleb();
    if (bytes > left()) fail();
    if (!good_) return {at_, at_};
    const u8* const begin = at_;
    at_ += bytes;
    return {begin, at_};
  }
  void fail() {
    good_ = false;
    at_ = end_;
  }

 private:
  const u8* at_;
  const u8* end_;
  bool good_ = true;
};

// What several functions' descriptions have in common (a CIE).
struct Common {
  u64 address = 0;  // 0: none read
  bool good = false, has_data = false, is_signal = false;
  u64 code_unit = 0;
  i64 data_unit = 0;
  u32 pointer_bytes = 0;
  const u8* begin = nullptr;  // instructions
  const u8* end = nullptr;
};

// Instructions from `begin` to `end`; addresses are kept relative to `base`.
struct Range {
  u64 base, begin, end;
};
// Rows for one function; `own` are its instructions, which follow the common ones. false: no memory.
bool add_rules(const Common& common, Cursor own, const Range& range, UnwindTable& table);

}  // namespace coffer::record
