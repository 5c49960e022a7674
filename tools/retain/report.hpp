// SPDX-License-Identifier: MIT
// The tree that people read: below each root what it keeps alive, by where the blocks were allocated, or by their size
// where that is not known. A million nodes of a list are one line: a block whose like dominates it already joins that
// one's group.
#pragma once

#include <string>

#include "retain/dominators.hpp"
#include "retain/graph.hpp"
#include "retain/holders.hpp"

namespace coffer::retain {

struct Outcome {
  const Snapshot* snapshot;
  const std::vector<Mapping>* mappings;
  const Blocks* blocks;
  const Roots* roots;
  const Reached* reached;
  const Flow* flow;
  const Dominators* dominators;
  const Holders* holders;
  double seconds, cpu_seconds;
};

std::string report(const Outcome& outcome);

}  // namespace coffer::retain
