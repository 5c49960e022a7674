// SPDX-License-Identifier: MIT
// Lists of blocks, as text, one block a line:
//
//   SIZE ADDRESS [ALIGNMENT [USABLE]]      numbers are decimal, or hexadecimal with 0x
//
// SIZE is what was asked for, ALIGNMENT what was asked for with it (0: none), USABLE what the allocator says that the
// block can hold (0: not known). Lines that begin with # are comments. A line
//
//   resident SIZE ALIGNMENT BLOCKS BYTES
//
// says that so many blocks, wholly written, made so many bytes resident. What is neither is an error with its line.
#pragma once

#include <cstdint>
#include <istream>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace coffer::tools {

struct Group {  // all blocks that were asked for in the same way
  std::vector<uint64_t> addresses;
  uint64_t usable = 0;  // of all of them; 0 if one is not known
  bool usable_known = true;
  uint64_t misaligned = 0;  // those that have not the alignment that was asked for
  uint64_t resident_blocks = 0, resident_bytes = 0;
};

// By size and alignment.
using Groups = std::map<std::pair<uint64_t, uint64_t>, Group>;

class ListError : public std::runtime_error {
 public:
  ListError(size_t line, const std::string& what) : std::runtime_error("line " + std::to_string(line) + ": " + what) {}
};

// The numbers of a line. `first` skips a word before them.
inline std::vector<uint64_t> read_numbers(const std::string& text, size_t first, size_t line) {
  std::vector<uint64_t> numbers;
  for (size_t at = first; (at = text.find_first_not_of(" \t\r", at)) != std::string::npos;) {
    size_t used = 0;
    try {
      if (text[at] < '0' || text[at] > '9') throw std::invalid_argument("sign");
      const bool hex = text.compare(at, 2, "0x") == 0;
      numbers.push_back(std::stoull(text.substr(at), &used, hex ? 16 : 10));
    } catch (const std::exception&) {
      throw ListError(line, "not a number: " + text.substr(at, 20));
    }
    at += used;
    if (at < text.size() && text[at] != ' ' && text[at] != '\t' && text[at] != '\r') {
      throw ListError(line, "not a number: " + text.substr(at - used, 20));
    }
  }
  return numbers;
}

inline Groups read_address_list(std::istream& input) {
  Groups groups;
  std::string text;
  static const std::string kResident = "resident";
  for (size_t line = 1; std::getline(input, text); ++line) {
    if (text.find_first_not_of(" \t\r") == std::string::npos || text[0] == '#') continue;
    if (text.compare(0, kResident.size(), kResident) == 0) {
      const std::vector<uint64_t> numbers = read_numbers(text, kResident.size(), line);
      if (numbers.size() != 4) throw ListError(line, "resident SIZE ALIGNMENT BLOCKS BYTES expected");
      Group& group = groups[{numbers[0], numbers[1]}];
      group.resident_blocks += numbers[2];
      group.resident_bytes += numbers[3];
      continue;
    }
    const std::vector<uint64_t> numbers = read_numbers(text, 0, line);
    if (numbers.size() < 2 || numbers.size() > 4) throw ListError(line, "SIZE ADDRESS [ALIGNMENT [USABLE]] expected");
    const uint64_t alignment = numbers.size() > 2 ? numbers[2] : 0;
    Group& group = groups[{numbers[0], alignment}];
    group.addresses.push_back(numbers[1]);
    group.misaligned += alignment != 0 && numbers[1] % alignment != 0;
    const uint64_t usable = numbers.size() > 3 ? numbers[3] : 0;
    group.usable += usable;
    if (usable == 0) group.usable_known = false;
  }
  return groups;
}

}  // namespace coffer::tools
