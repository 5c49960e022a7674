// SPDX-License-Identifier: MIT
// Groups of blocks, as a tree below the roots.
#pragma once

#include <unordered_map>
#include <vector>

#include "retain/blocks.hpp"

namespace coffer::retain {

class Groups {
 public:
  // What a block is told by: its call stack, or its size, which those over kExact have rounded up to a power of two.
  static constexpr u64 kBySize = u64{1} << 32, kRounded = u64{1} << 33, kExact = 64 * 1024;
  static u64 key_of(const Blocks& blocks, u32 block) {
    if (const u32 stack = blocks.stack(block)) return stack;
    const u64 bytes = blocks.bytes(block);
    return bytes <= kExact ? kBySize | bytes : kRounded | (64 - static_cast<u64>(__builtin_clzll(bytes - 1)));
  }

  struct Group {
    u32 parent;
    u64 key;
    u64 own_bytes = 0, own_blocks = 0, bytes = 0, blocks = 0;
    u64 example = 0;  // address of one of its blocks
  };

  u32 add_top(u64 key) { return make(kNone, key); }
  // The group below this one, or the one above it that is of the same key.
  u32 below(u32 parent, u64 key) {
    if (groups_[parent].key == key) return parent;
    const auto [place, is_new] = found_.try_emplace(Pair{parent, key}, 0);
    if (!is_new) return place->second;
    u32 same = groups_[parent].parent;
    while (same != kNone && groups_[same].key != key) same = groups_[same].parent;
    const u32 made = same != kNone ? same : make(parent, key);
    found_[Pair{parent, key}] = made;
    return made;
  }
  void count(u32 group, u64 bytes, u64 address) {
    Group& one = groups_[group];
    one.own_bytes += bytes;
    ++one.own_blocks;
    if (one.example == 0) one.example = address;
  }
  // When all are counted.
  void sum() {
    for (Group& one : groups_) one.bytes = one.own_bytes, one.blocks = one.own_blocks;
    for (usize i = groups_.size(); i-- > 0;) {
      if (groups_[i].parent == kNone) continue;
      groups_[groups_[i].parent].bytes += groups_[i].bytes;
      groups_[groups_[i].parent].blocks += groups_[i].blocks;
      children_[groups_[i].parent].push_back(static_cast<u32>(i));
    }
  }
  const Group& operator[](u32 group) const { return groups_[group]; }
  const std::vector<u32>& children(u32 group) const { return children_[group]; }
  u32 size() const { return static_cast<u32>(groups_.size()); }

 private:
  struct Pair {
    u32 parent;
    u64 key;
    bool operator==(const Pair& other) const { return parent == other.parent && key == other.key; }
  };
  struct Hash {
    usize operator()(const Pair& one) const {
      return (one.key * 0x9e3779b97f4a7c15) ^ (u64{one.parent} * 0xff51afd7ed558ccd);
    }
  };

  u32 make(u32 parent, u64 key) {
    Group made{};
    made.parent = parent;
    made.key = key;
    groups_.push_back(made);
    children_.emplace_back();
    return static_cast<u32>(groups_.size() - 1);
  }

  std::vector<Group> groups_;
  std::vector<std::vector<u32>> children_;
  std::unordered_map<Pair, u32, Hash> found_;
};

}  // namespace coffer::retain
