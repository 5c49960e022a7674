// SPDX-License-Identifier: MIT
#include "papers/cif/settings.hpp"

#include "papers/common/word.hpp"

namespace coffer::cif {

namespace {

usize next_power(usize value) { return usize{1} << ceil_log2(value); }
usize larger(usize a, usize b) { return a > b ? a : b; }
usize smaller(usize a, usize b) { return a < b ? a : b; }

}  // namespace

Settings make_settings(const config::Options& options, usize os_page) {
  Settings settings;
  const usize line = next_power(options.line);
  settings.cache = {static_cast<u32>(line), static_cast<u32>(larger(next_power(options.page), line))};
  settings.superblock = larger(next_power(options.superblock), os_page);
  settings.array = options.array;
  settings.classes = SizeClasses(options.classes, settings.cache);
  settings.place = options.colour;
  const usize most_colours = settings.superblock / 4 / line;
  settings.colours = options.colour == ColourPlace::none ? 1 : static_cast<u32>(smaller(options.colours, most_colours));
  // 16 bytes into a line are the next best that malloc may return. Where a line is 16 bytes there is nothing between.
  settings.shift = options.align || line == papers::kBlockAlignment ? 0 : static_cast<u32>(papers::kBlockAlignment);
  settings.class_count = settings.classes.count(settings.superblock / 2);
  settings.largest_block = settings.classes.bytes(settings.class_count - 1);
  settings.empty_log2 = 1 + static_cast<u32>(options.f);
  settings.k = options.k;
  settings.release = options.release;
  return settings;
}

}  // namespace coffer::cif
