// SPDX-License-Identifier: MIT
// Fullness groups (paper 1, section 3.1): the superblocks of one class in one heap, in lists by how full they are. So
// a superblock that is at least f empty, and the fullest that has room, are found in constant time.
//
//   group        0      1 .. 4                        5, 6           7
//   used         0      up to the edge, in quarters   above, halves  capacity
//
// The edge is at 1 - f: the superblocks of groups 0 to 4 are those that are at least f empty. A superblock that loses
// a block goes to the front of its group: the paper's heuristic is to use memory again that was just used. A
// superblock that gains a block moves only when its group changes.
#pragma once

#include "base/bits.hpp"

namespace coffer::cif {

// What a superblock is to its group; superblocks derive from it. Written under the lock of the heap that has the group.
struct Filling {
  Filling* next;
  Filling* previous;
  u32 used;      // blocks in use
  u32 capacity;  // blocks
  u32 group;
  u32 least, most;  // `used` in this group: no other needs looking up while it stays between
};

class FullnessGroups {
 public:
  static constexpr u32 kGroups = 8, kEmpty = 0, kLastEmptyEnough = 4, kFull = 7;

  // Puts it where it belongs. f is 1 over 2 to `empty_log2`, the same in all calls for one superblock.
  void insert(Filling* filling, u32 empty_log2);
  void remove(Filling* filling);
  // After a block was taken from it, or given back to it.
  void took(Filling* filling, u32 empty_log2) {
    if (COFFER_UNLIKELY(filling->used > filling->most)) move(filling, empty_log2);
  }
  void gave(Filling* filling, u32 empty_log2) {
    if (COFFER_UNLIKELY(filling->used < filling->least)) {
      move(filling, empty_log2);
    } else if (filling->previous != nullptr) {
      remove(filling);
      link(filling);
    }
  }

  // The fullest that has room; nullptr: none has.
  Filling* fullest() const { return front(present_ & low_mask(kFull), &highest_bit); }
  // The emptiest of those that are at least f empty; nullptr: there is none.
  Filling* emptiest() const { return front(present_ & low_mask(kLastEmptyEnough + 1), &lowest_bit); }
  Filling* first(u32 group) const { return first_[group]; }

 private:
  Filling* front(u64 groups, u32 (*choose)(u64)) const { return groups != 0 ? first_[choose(groups)] : nullptr; }
  void move(Filling* filling, u32 empty_log2) {
    remove(filling);
    insert(filling, empty_log2);
  }

  void link(Filling* filling);  // at the front of its group

  Filling* first_[kGroups] = {};
  u64 present_ = 0;  // bit g: group g is not empty
};

// The group of a superblock with so many blocks in use, and the bounds of `used` there.
struct GroupBounds {
  u32 group, least, most;
};
GroupBounds group_of(u32 used, u32 capacity, u32 empty_log2);

}  // namespace coffer::cif
