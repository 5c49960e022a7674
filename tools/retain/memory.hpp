// SPDX-License-Identifier: MIT
// The memory of a process that stands still: what is in its mappings.
#pragma once

#include <vector>

#include "attach/target.hpp"
#include "base/base.hpp"

namespace coffer::retain {

using attach::Mapping;

struct Range {
  u64 begin, end;
};

class Memory {
 public:
  explicit Memory(int process);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  int process() const { return process_; }
  // Whether all of it could be read; what could not is zero. Any thread.
  bool read(u64 address, void* to, usize bytes) const;
  template <class T>
  bool read(u64 address, T* to) const {
    return read(address, static_cast<void*>(to), sizeof(T));
  }
  // Where between the two there is anything, in order; where that is not known, all. By the kernel's walk, for a
  // program may have reserved terabytes; *next: how far it came.
  std::vector<Range> present(u64 begin, u64 end, u64* next) const;

 private:
  int process_;
  int memory_, pagemap_;
};

// Calls visit(address, words, count) for what is in [begin, end), by pieces; of a sparse range without the pages that
// nobody wrote to. `buffer`: of kPiece bytes.
inline constexpr usize kPiece = usize{1} << 20, kPage = 4096;
template <class Visit>
void for_each_piece(const Memory& memory, u64 begin, u64 end, bool sparse, u64* buffer, Visit&& visit) {
  const auto read = [&](Range range) {
    for (u64 at = range.begin; at < range.end;) {
      const u64 bytes = range.end - at < kPiece ? range.end - at : kPiece;
      memory.read(at, buffer, bytes);
      visit(at, buffer, bytes / sizeof(u64));
      at += bytes;
    }
  };
  if (!sparse) return read({begin, end});
  for (u64 at = begin, next = end; at < end; at = next) {
    for (const Range& range : memory.present(at, end, &next)) read(range);
  }
}

}  // namespace coffer::retain
