// SPDX-License-Identifier: MIT
// The live blocks of a process, read from Coffer's records, and which block an address lies in.
//
// Live is what malloc gave and free has not: of spans of a class and of mixed spans the blocks without the mark of free
// ones (arena/block.hpp), so that no list is followed that a thread was at work on; in the hardened build those whose
// last bytes are not zero; of large blocks those that have a record.
#pragma once

#include <unordered_map>

#include "retain/memory.hpp"

namespace coffer {
struct Arena;
struct Span;
}  // namespace coffer

namespace coffer::retain {

inline constexpr u32 kNone = ~u32{0};
// Of an edge: its word may mean the end of the block before, as a vector's do. It counts if nothing else leads there.
inline constexpr u32 kWeak = u32{1} << 31;

class Blocks {
 public:
  // An empty text: all is well; else what is wrong, for the user.
  std::string find(const Memory& memory, const std::vector<Mapping>& mappings, unsigned threads);

  u32 count() const { return static_cast<u32>(starts_.size()); }
  u64 start(u32 block) const { return starts_[block]; }
  u64 bytes(u32 block) const { return u64{units_[block]} * 16; }
  u64 total_bytes() const { return total_; }
  // Of the call stack that it was allocated by; 0: not known.
  u32 stack(u32 block) const { return stacks_.empty() ? 0 : stacks_[block]; }
  const std::vector<std::vector<u64>>& call_stacks() const { return call_stacks_; }
  bool is_profiled() const { return !call_stacks_.empty(); }
  u64 sampled() const { return sampled_; }
  // Coffer's own memory, which holds nothing alive.
  const std::vector<Range>& own() const { return own_; }
  const std::string& library() const { return library_; }

  // The block that the address lies in, or kNone.
  u32 at(u64 address) const {
    if (address - lowest_ >= span_) return kNone;
    for (const Index& index : arenas_) {
      const u64 offset = address - index.base;
      if (offset >= index.bytes) continue;
      const u64 word = offset / kWordBytes;
      const u64 mask = ~u64{0} >> (63 - offset % kWordBytes / 16);
      const u32 before = index.rank[word] + static_cast<u32>(__builtin_popcountll(index.bits[word] & mask));
      if (before == index.first) return kNone;
      return address - starts_[before - 1] < bytes(before - 1) ? before - 1 : kNone;
    }
    return kNone;
  }
  // What the i-th of some words leads to: a block, perhaps with kWeak, or kNone.
  u32 edge(const u64* words, usize i, usize count) const {
    const u32 to = at(words[i]);
    return to == kNone || to == 0 || words[i] != starts_[to] || starts_[to - 1] + bytes(to - 1) != words[i]
               ? to
               : edge_at_border(words, i, count, to);
  }

 private:
  u32 edge_at_border(const u64* words, usize i, usize count, u32 to) const;
  static constexpr u64 kWordBytes = 64 * 16;
  // Where blocks start, a bit for each 16 bytes; and how many start before a word's.
  struct Index {
    u64 base, bytes;
    u32 first;  // block of the arena
    std::vector<u64> bits;
    std::vector<u32> rank;
  };
  struct Found {
    std::vector<u64> starts;
    std::vector<u32> units;
  };

  bool find_description(const Memory& memory, const std::vector<Mapping>& mappings, std::string* problem);
  std::vector<u32> taken_chunks(const Memory& memory, const Arena& arena, u32 end) const;
  void walk_chunk(const Memory& memory, const Arena& arena, u32 index, Found* found) const;
  void walk_span(const Memory& memory, const Arena& arena, const Span& span, u32 slice, Found* found) const;
  void walk_mixed(const Memory& memory, const Arena& arena, const Span& span, u32 slice, Found* found) const;
  void walk_large(const Memory& memory, const Span& span, Found* found) const;
  bool is_free(const char* block, usize bytes) const;
  void index_arena(u64 base, u64 bytes, u32 first);
  void read_samples(const Memory& memory);

  u64 arenas_at_ = 0, samples_at_ = 0;
  bool canaries_ = false;
  u64 key_ = 0;
  std::string library_;
  std::vector<u64> starts_;
  std::vector<u32> units_, stacks_;
  std::vector<Index> arenas_;
  std::vector<std::vector<u64>> call_stacks_;
  std::vector<Range> own_;
  u64 lowest_ = 0, span_ = 0, total_ = 0, sampled_ = 0;
};

}  // namespace coffer::retain
