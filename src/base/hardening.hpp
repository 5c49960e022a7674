// SPDX-License-Identifier: MIT
// What the hardened build does otherwise than the default one. One definition of the compiler, COFFER_HARDENED, chooses
// between the two, here and nowhere else; all other code asks kHardening.
//
// Most of the hardened build is a layer of its own between api/ and heap/ (src/hardened). What it needs of the layers
// below is what this struct has.
#pragma once

#include "base/base.hpp"

namespace coffer {

struct Hardening {
  bool shuffles;  // the blocks of a page that is carved are handed out in random order
  bool zeroes;    // they are zero when they are carved, but for their links
  bool rests;     // what a thread frees rests before its heap has it back (hardened/rest.hpp)
  bool parts;     // blocks of pointers have classes of their own, if the compiler tells of them (api/hardened)
  bool mixes;     // small processes and large blocks begin in mixed spans: what mixed:auto means
};

inline constexpr Hardening kHardening =
#ifdef COFFER_HARDENED
    {.shuffles = true, .zeroes = true, .rests = true, .parts = true, .mixes = false};
#else
    {.shuffles = false, .zeroes = false, .rests = false, .parts = false, .mixes = true};
#endif

}  // namespace coffer
