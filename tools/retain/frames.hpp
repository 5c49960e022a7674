// SPDX-License-Identifier: MIT
// Which function a word on a stack belongs to, about: the one that the last address of a return below it leads into. An
// address of a return is one behind an instruction that calls. It may be left over from an earlier call; so the answer
// is a hint for people.
#pragma once

#include <unordered_map>

#include "retain/memory.hpp"

namespace coffer::retain {

class Frames {
 public:
  Frames(const Memory& memory, const std::vector<Mapping>& mappings, u64 ip)
      : memory_(memory), mappings_(mappings), current_(ip) {}

  // A word of the stack, from the stack pointer on.
  void pass(u64 word) {
    if (word < kPage || !is_return(word)) return;
    // As profiles have it: within the instruction, and so in the function that called.
    current_ = word - 1;
  }
  u64 current() const { return current_; }

 private:
  bool is_return(u64 address);
  bool is_behind_call(u64 address) const;

  const Memory& memory_;
  const std::vector<Mapping>& mappings_;
  std::unordered_map<u64, bool> known_;
  u64 current_;
};

}  // namespace coffer::retain
