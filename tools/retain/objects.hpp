// SPDX-License-Identifier: MIT
// The files that a process has mapped as code and data: where their variables lie, by their symbols.
#pragma once

#include <string>
#include <vector>

#include "retain/memory.hpp"

namespace coffer::retain {

struct Variable {
  u64 address, bytes;  // as the file has them; of a thread-local one the offset in the file's part
  std::string name;    // as the compiler wrote it
};

struct Object {
  std::string path;
  u64 bias;                                  // what is added to the file's addresses
  u64 begin, end;                            // in the process, of all that is loaded
  u64 local_bytes = 0, local_alignment = 1;  // thread-local
  bool has_symbols = false;                  // those of variables that are not exported, too
  std::vector<Variable> variables, locals;   // by address

  // The variable that the address in the process lies in, or nullptr.
  const Variable* at(u64 address) const;
};

std::vector<Object> find_objects(int process, const std::vector<Mapping>& mappings);

}  // namespace coffer::retain
