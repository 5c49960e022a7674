// SPDX-License-Identifier: MIT
// CIF's parameters as the allocator uses them: the options, checked against each other.
#pragma once

#include "config/config.hpp"
#include "papers/cif/array.hpp"
#include "papers/cif/options.hpp"

namespace coffer::cif {

struct Settings {
  SizeClasses classes{ClassRule::powers, kThisCache};
  ArrayRule array = ArrayRule::punctuated;
  Cache cache = kThisCache;
  usize superblock = 64 * 1024;
  u32 colours = 16;
  ColourPlace place = ColourPlace::before;
  u32 shift = 0;            // bytes from a line to where blocks start: 0, or 16 with align:false
  u32 class_count = 0;      // classes that are served from superblocks
  usize largest_block = 0;  // of them, its header word included
  u32 empty_log2 = 2;       // f is 1 over 2 to this
  u32 k = 4;
  bool release = false;
};

// What the options say, made consistent:
// - superblock, line and page are rounded up to powers of two; a page is at least a line, a superblock at least one of
//   the kernel's pages;
// - colours take at most a quarter of a superblock, so that a block of half of it fits behind any;
// - the largest class is the largest of at most half a superblock (Hoard, section 3.1).
Settings make_settings(const config::Options& options, usize os_page);

}  // namespace coffer::cif
