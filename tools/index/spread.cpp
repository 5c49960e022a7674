// SPDX-License-Identifier: MIT
// spread [l1=64:64:12] [l2=64:1024:16] [page=4096]: reads an address list, and prints one line of JSON for each size
// and alignment in it. The figures are described in spread.hpp.
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>

#include "address_list.hpp"
#include "spread.hpp"

namespace {

using coffer::tools::Geometry;
using coffer::tools::Group;
using coffer::tools::Spread;

void print_loads(const Spread& spread) {
  std::printf(", \"loads\": [");
  for (size_t i = 0; i < spread.loads.size(); ++i) {
    std::printf("%s%llu", i == 0 ? "" : ",", static_cast<unsigned long long>(spread.loads[i]));
  }
  std::printf("]");
}

void print_spread(const char* name, const Spread& spread, bool loads) {
  std::printf(
      ", \"%s\": {\"distinct\": %llu, \"attainable\": %llu, \"share\": %.6f, \"heaviest\": %llu, \"conflicts\": %.4f, "
      "\"ideal_conflicts\": %.4f",
      name, static_cast<unsigned long long>(spread.distinct), static_cast<unsigned long long>(spread.attainable),
      spread.share(), static_cast<unsigned long long>(spread.heaviest), spread.conflicts, spread.ideal_conflicts);
  if (loads) print_loads(spread);
  std::printf("}");
}

void print_group(uint64_t size, uint64_t alignment, const Group& group, const Geometry& l1, const Geometry& l2,
                 uint64_t page) {
  const auto layout = coffer::tools::measure_layout(l1.line, page, size, group.addresses);
  const double count = static_cast<double>(group.addresses.size());
  std::printf("{\"size\": %llu, \"alignment\": %llu, \"count\": %zu", static_cast<unsigned long long>(size),
              static_cast<unsigned long long>(alignment), group.addresses.size());
  std::printf(
      ", \"on_line\": %.4f, \"lines\": %.4f, \"fewest_lines\": %.0f, \"stride\": %llu, \"pages\": %llu, "
      "\"misaligned\": %llu",
      layout.on_line, layout.lines, layout.fewest_lines, static_cast<unsigned long long>(layout.stride),
      static_cast<unsigned long long>(layout.pages), static_cast<unsigned long long>(group.misaligned));
  if (group.usable_known && count > 0) std::printf(", \"usable\": %.2f", static_cast<double>(group.usable) / count);
  if (group.resident_blocks != 0) {
    std::printf(", \"resident\": %.2f",
                static_cast<double>(group.resident_bytes) / static_cast<double>(group.resident_blocks));
  }
  print_spread("l1", coffer::tools::measure_spread(l1, group.addresses, alignment), true);
  print_spread("l2", coffer::tools::measure_spread(l2, group.addresses, alignment), false);
  std::printf("}\n");
}

}  // namespace

int main(int argc, char** argv) try {
  Geometry l1{64, 64, 8}, l2{64, 1024, 16};
  uint64_t page = 4096;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.substr(0, 3) == "l1=") {
      l1 = Geometry::parse(argument.substr(3));
    } else if (argument.substr(0, 3) == "l2=") {
      l2 = Geometry::parse(argument.substr(3));
    } else if (argument.substr(0, 5) == "page=") {
      page = Geometry::parse(std::string(argument.substr(5)) + ":1:1").line;
    } else {
      throw std::invalid_argument("unknown argument " + std::string(argument));
    }
  }
  std::ios::sync_with_stdio(false);
  const auto groups = coffer::tools::read_address_list(std::cin);
  if (groups.empty()) throw std::runtime_error("the address list has no block");
  for (const auto& [key, group] : groups) print_group(key.first, key.second, group, l1, l2, page);
  return std::fflush(stdout) == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "spread: %s\n", error.what());
  return 1;
}
