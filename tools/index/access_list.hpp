// SPDX-License-Identifier: MIT
// Lists of accesses, as text (bench/index/walk.hpp writes them):
//
//   STREAM ADDRESS     a thread's number, and an address that it uses; numbers as in address lists
//   process            what follows is another process: other streams, and other memory at the same addresses
//
// Lines that begin with # are comments. What is neither is an error with its line.
#pragma once

#include <cstdint>
#include <istream>
#include <map>
#include <utility>
#include <vector>

#include "address_list.hpp"

namespace coffer::tools {

struct Stream {
  uint64_t process;
  std::vector<uint64_t> addresses;
};

inline std::vector<Stream> read_access_list(std::istream& input) {
  std::vector<Stream> streams;
  std::map<uint64_t, size_t> of_process;  // by the stream's number in the list
  uint64_t process = 0;
  std::string text;
  for (size_t line = 1; std::getline(input, text); ++line) {
    if (text.find_first_not_of(" \t\r") == std::string::npos || text[0] == '#') continue;
    if (text == "process") {
      if (!of_process.empty()) ++process;  // the first one may be announced, too
      of_process.clear();
      continue;
    }
    const std::vector<uint64_t> numbers = read_numbers(text, 0, line);
    if (numbers.size() != 2) throw ListError(line, "STREAM ADDRESS expected");
    const auto [place, is_new] = of_process.try_emplace(numbers[0], streams.size());
    if (is_new) streams.push_back({process, {}});
    streams[place->second].addresses.push_back(numbers[1]);
  }
  return streams;
}

}  // namespace coffer::tools
