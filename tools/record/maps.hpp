// SPDX-License-Identifier: MIT
// /proc/self/maps, read without the C library's buffers: also in a signal handler, and in the middle of its malloc.
#pragma once

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trace/format.hpp"

namespace coffer::record {

using trace::u32;
using trace::u64;
using trace::u8;

struct Mapping {
  u64 begin = 0, end = 0, offset = 0;
  u64 file = 0;  // device and inode as one number; 0: none
  bool executable = false;
};

class MapsLine {
 public:
  MapsLine(const char* at, const char* end) : at_(at), end_(end) {}

  // begin-end rwxp offset major:minor inode
  bool read(Mapping& mapping) {
    u64 major, minor, inode;
    if (!number(mapping.begin, 16) || !skip('-') || !number(mapping.end, 16) || !skip(' ')) return false;
    if (end_ - at_ < 5) return false;
    mapping.executable = at_[2] == 'x';
    at_ += 4;
    if (!skip(' ') || !number(mapping.offset, 16) || !skip(' ') || !number(major, 16) || !skip(':')) return false;
    if (!number(minor, 16) || !skip(' ') || !number(inode, 10)) return false;
    mapping.file = inode == 0 ? 0 : inode ^ major << 52 ^ minor << 32;
    return true;
  }

 private:
  bool skip(char c) {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  bool number(u64& value, u32 base) {
    value = 0;
    const char* const begin = at_;
    for (; at_ < end_; ++at_) {
      const char c = *at_;
      const u32 digit = c >= '0' && c <= '9' ? static_cast<u32>(c - '0') : static_cast<u32>(c - 'a' + 10);
      if (digit >= base) break;
      value = value * base + digit;
    }
    return at_ != begin;
  }

  const char* at_;
  const char* end_;
};

inline constexpr u64 kMapsText = 4096;  // bytes

// Calls visit(mapping) for each, in the order of addresses, until it says false. false: they cannot be read to the end.
// The buffer, of kMapsText bytes, is the caller's: on a small stack there is no room for it.
template <class Visit>
bool for_each_mapping(char* buffer, Visit&& visit) {
  const long file = syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  u64 have = 0;
  bool at_start = true, wanted = true;
  long got = 0;
  while (wanted) {
    got = syscall(SYS_read, file, buffer + have, kMapsText - have);
    if (got <= 0) break;
    const char* const end = buffer + have + got;
    const char* line = buffer;
    for (const char* at = buffer; at < end && wanted; ++at) {
      if (*at != '\n') continue;
      Mapping mapping;
      if (at_start && MapsLine(line, at).read(mapping)) wanted = visit(mapping);
      at_start = true;
      line = at + 1;
    }
    have = static_cast<u64>(end - line);
    if (have == kMapsText) {
      // A path longer than the buffer. What is asked for stands before it, and the rest is no start of a line.
      Mapping mapping;
      if (at_start && MapsLine(line, end).read(mapping)) wanted = visit(mapping);
      have = 0;
      at_start = false;
    } else {
      __builtin_memmove(buffer, line, have);
    }
  }
  syscall(SYS_close, file);
  return !wanted || got == 0;
}

}  // namespace coffer::record
