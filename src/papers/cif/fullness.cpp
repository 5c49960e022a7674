// SPDX-License-Identifier: MIT
#include "papers/cif/fullness.hpp"

namespace coffer::cif {

GroupBounds group_of(u32 used, u32 capacity, u32 empty_log2) {
  if (used == 0) return {FullnessGroups::kEmpty, 0, 0};
  if (used == capacity) return {FullnessGroups::kFull, capacity, capacity};
  // At least f empty: capacity - used >= f * capacity.
  const u32 edge = capacity - static_cast<u32>(divide_up(capacity, u64{1} << empty_log2));
  const bool below = used <= edge;
  const u64 from = below ? 0 : edge;                      // the groups share from + 1 ..
  const u64 span = (below ? edge : capacity - 1) - from;  // .. from + span
  const u64 parts =
      below ? FullnessGroups::kLastEmptyEnough : FullnessGroups::kFull - FullnessGroups::kLastEmptyEnough - 1;
  const u64 part = divide_up((used - from) * parts, span);  // 1 .. parts
  return {static_cast<u32>((below ? 0 : FullnessGroups::kLastEmptyEnough) + part),
          static_cast<u32>(from + (part - 1) * span / parts + 1), static_cast<u32>(from + part * span / parts)};
}

void FullnessGroups::insert(Filling* filling, u32 empty_log2) {
  const GroupBounds bounds = group_of(filling->used, filling->capacity, empty_log2);
  filling->group = bounds.group;
  filling->least = bounds.least;
  filling->most = bounds.most;
  link(filling);
}

void FullnessGroups::link(Filling* filling) {
  const u32 group = filling->group;
  filling->previous = nullptr;
  filling->next = first_[group];
  if (filling->next != nullptr) filling->next->previous = filling;
  first_[group] = filling;
  present_ |= u64{1} << group;
}

void FullnessGroups::remove(Filling* filling) {
  if (filling->next != nullptr) filling->next->previous = filling->previous;
  if (filling->previous != nullptr) {
    filling->previous->next = filling->next;
  } else {
    first_[filling->group] = filling->next;
    if (filling->next == nullptr) present_ &= ~(u64{1} << filling->group);
  }
}

}  // namespace coffer::cif
