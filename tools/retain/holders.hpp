// SPDX-License-Identifier: MIT
// Of blocks that several roots keep: two of these roots. Each block remembers the first that reaches it, and another
// one.
#pragma once

#include "retain/graph.hpp"

namespace coffer::retain {

struct Holders {
  std::vector<u32> first, second;  // roots; kNone: no other one
};
Holders find_holders(const Edges& edges, const Roots& roots, const Reached& reached, u32 blocks);

}  // namespace coffer::retain
