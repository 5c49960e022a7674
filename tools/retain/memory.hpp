// SPDX-License-Identifier: MIT
// The memory of a process that stands still: its mappings, and what is in them.
#pragma once

#include <string>
#include <vector>

#include "base/base.hpp"

namespace coffer::retain {

struct Mapping {
  u64 begin, end, offset;
  bool readable, writable, executable, shared;
  u64 inode;
  std::string name;  // a path, [stack], [anon:...], or nothing
};

// Of all. Empty: there is no such process, or it is another user's.
std::vector<Mapping> read_mappings(int process);

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
  // Of pages of 4 KiB: whether there is anything in them; where that is not known, yes.
  std::vector<bool> present(u64 address, usize pages) const;

 private:
  int process_;
  int memory_, pagemap_;
};

// Calls visit(address, words, count) for what is in [begin, end), by pieces, without the pages that nobody wrote to.
// `buffer`: of kPiece bytes.
inline constexpr usize kPiece = usize{1} << 20, kPage = 4096;
template <class Visit>
void for_each_piece(const Memory& memory, u64 begin, u64 end, bool sparse, u64* buffer, Visit&& visit) {
  for (u64 at = begin; at < end;) {
    const u64 stop = end - at < kPiece ? end : at + kPiece;
    if (!sparse) {
      memory.read(at, buffer, stop - at);
      visit(at, buffer, (stop - at) / sizeof(u64));
    } else {
      const u64 first = at / kPage;
      const std::vector<bool> there = memory.present(at, (stop + kPage - 1) / kPage - first);
      for (usize i = 0; i < there.size();) {
        if (!there[i]) {
          ++i;
          continue;
        }
        usize j = i;
        while (j < there.size() && there[j]) ++j;
        const u64 from = (first + i) * kPage < at ? at : (first + i) * kPage;
        const u64 to = (first + j) * kPage > stop ? stop : (first + j) * kPage;
        memory.read(from, buffer, to - from);
        visit(from, buffer, (to - from) / sizeof(u64));
        i = j;
      }
    }
    at = stop;
  }
}

}  // namespace coffer::retain
