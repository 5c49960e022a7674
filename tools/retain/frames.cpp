// SPDX-License-Identifier: MIT
#include "retain/frames.hpp"

#include <algorithm>

namespace coffer::retain {

// x86-64: call rel32 is e8 and four bytes; call by register or memory is ff, and a second byte with 2 in its middle,
// of two to seven bytes in all.
bool Frames::is_behind_call(u64 address) const {
  unsigned char code[8] = {};
  if (!memory_.read(address - sizeof code, code, sizeof code)) return false;
  const unsigned char* end = code + sizeof code;
  if (end[-5] == 0xe8) return true;
  for (int length = 2; length <= 7; ++length) {
    if (end[-length] == 0xff && (end[-length + 1] & 0x38) == 0x10) return true;
  }
  return false;
}

bool Frames::is_return(u64 address) {
  auto after = std::upper_bound(mappings_.begin(), mappings_.end(), address,
                                [](u64 value, const Mapping& one) { return value < one.begin; });
  if (after == mappings_.begin()) return false;
  --after;
  if (address >= after->end || !after->executable || address < after->begin + 8) return false;
  const auto [place, is_new] = known_.try_emplace(address, false);
  if (is_new) place->second = is_behind_call(address);
  return place->second;
}

}  // namespace coffer::retain
