// SPDX-License-Identifier: MIT
// Reads a trace as tb/trace_file.vhd does: the same records, and the same complaints.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace fast {

enum class Kind { policy, heap, min, alloc, free, wrong_free, gap, load, store, header, end };

struct Record {
  Kind kind = Kind::end;
  std::uint32_t number = 0;   // heap, min, alloc: bytes; gap: cycles; load: words
  std::uint32_t address = 0;  // alloc: the answer; frees, header: where; load, store: the block
  std::uint32_t value = 0;    // header: the word; load, store: the offset
  unsigned status = 0;        // wrong free: the answer
  std::string policy;
};

class Reader {
 public:
  explicit Reader(const std::string& name);

  // Kind::end at the file's end.
  Record next();

  [[noreturn]] void fail(const std::string& message) const;

 private:
  bool next_line();
  std::string field();
  std::uint32_t decimal();
  std::uint32_t word();

  std::string name_;
  std::ifstream input_;
  std::string line_;
  std::size_t at_ = 0;  // where the next field begins
  std::uint64_t number_ = 0;
};

}  // namespace fast
