// SPDX-License-Identifier: MIT
// The bytes of an unwind table.
#pragma once

#include <string.h>

#include "os/linux/namespace.hpp"
#include "os/os.hpp"

namespace coffer {
namespace COFFER_OS_NAMESPACE {

// What a table says, byte by byte; beyond its end it is all zeros, and bad.
class Bytes {
 public:
  Bytes(const u8* at, const u8* end) : at_(at), end_(end) {}

  const u8* at() const { return at_; }
  bool more() const { return at_ < end_; }
  bool bad() const { return bad_; }
  void skip(u64 count) {
    if (count > static_cast<u64>(end_ - at_)) {
      bad_ = true;
      at_ = end_;
    } else {
      at_ += count;
    }
  }
  template <class T>
  T fixed() {
    T value{};
    if (static_cast<usize>(end_ - at_) < sizeof value) {
      bad_ = true;
      at_ = end_;
      return value;
    }
    memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  u64 uleb() {
    u64 value = 0;
    for (u32 shift = 0;; shift += 7) {
      const u8 byte = fixed<u8>();
      if (shift < 64) value |= u64{byte & 0x7fu} << shift;
      if (bad_ || (byte & 0x80) == 0) return value;
    }
  }
  i64 sleb() {
    u64 value = 0;
    for (u32 shift = 0;;) {
      const u8 byte = fixed<u8>();
      if (shift < 64) value |= u64{byte & 0x7fu} << shift;
      shift += 7;
      if (bad_ || (byte & 0x80) == 0) {
        if (shift < 64 && (byte & 0x40) != 0) value |= ~u64{0} << shift;
        return static_cast<i64>(value);
      }
    }
  }
  // A pointer of one of the encodings that are in use: absolute, or relative to where it stands; 4 or 8 bytes.
  uptr pointer(u8 encoding) {
    const uptr here = reinterpret_cast<uptr>(at_);
    i64 value = 0;
    switch (encoding & 0x0f) {
      case 0x00:
      case 0x04:
      case 0x0c:
        value = fixed<i64>();
        break;
      case 0x03:
        value = fixed<u32>();
        break;
      case 0x0b:
        value = fixed<i32>();
        break;
      default:
        bad_ = true;
        return 0;
    }
    if ((encoding & 0x70) == 0x10) return here + static_cast<uptr>(value);
    if ((encoding & 0x70) != 0) bad_ = true;
    return static_cast<uptr>(value);
  }

 private:
  const u8* at_;
  const u8* end_;
  bool bad_ = false;
};

}  // namespace COFFER_OS_NAMESPACE
}  // namespace coffer
