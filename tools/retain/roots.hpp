// SPDX-License-Identifier: MIT
// Where a program can get hold of blocks from: its variables, the stacks and registers of its threads, thread-local
// storage, and memory that it mapped itself. Each word of these that leads into a block makes a root of what it is a
// part of, and an edge.
#pragma once

#include <string>
#include <vector>

#include "retain/blocks.hpp"
#include "retain/objects.hpp"
#include "retain/snapshot.hpp"

namespace coffer::retain {

// In the order in which they count: what several kinds reach is the first one's.
enum class Kind : u8 { variable, thread_local_storage, stack, registers, mapping };
inline constexpr u32 kKinds = 5;
inline constexpr u8 kLost = kKinds;  // a block's, if nothing reaches it

struct Root {
  Kind kind;
  std::string name;    // of a variable, or of a mapping; empty: not known
  std::string object;  // path of the file that it is a part of
  u64 address;         // in the process: of the variable, of a stack's function where it goes on
  u64 offset;          // in the file, of a variable
  pid_t thread = 0;
  std::string thread_name;
};

struct RootEdge {
  u32 root;
  u32 to;  // a block, perhaps with kWeak

  u32 block() const { return to & ~kWeak; }
};

struct Roots {
  std::vector<Root> roots;
  std::vector<RootEdge> edges;  // by kind, and by root
  u64 bytes = 0;                // that were read
};

Roots find_roots(const Memory& memory, const std::vector<Mapping>& mappings, const std::vector<Object>& objects,
                 const std::vector<Thread>& threads, const Blocks& blocks);

}  // namespace coffer::retain
