// SPDX-License-Identifier: MIT
// Dominators: a node dominates another if every way from the first node to that one leads through it. So what a block
// dominates is what would be free if it were.
//
// Semi-NCA (Georgiadis, Tarjan, Werneck, "Finding dominators in practice", 2006), as LLVM has it: as quick as
// Lengauer's and Tarjan's, in half of the memory. Boost's dominator tree has a deque for each node, 576 bytes, which 20
// million blocks have no room for. Nothing here is recursive.
#pragma once

#include <vector>

#include "base/base.hpp"

namespace coffer::retain {

struct Dominators {
  std::vector<u32> nodes;  // that are reached, in the order of a search in depth; the first is where it began
  std::vector<u32> idom;   // by place in that order: the place of its dominator, which is an earlier one; 0 of itself
};

struct Step {
  u32 node, next;  // which of its edges is to be followed
};

// Graph: nodes() in all, first(), count(node) edges, of which at(node, i) is the i-th one's end, or `none`.
template <class Graph>
Dominators find_dominators(const Graph& graph) {
  constexpr u32 kNone = ~u32{0};
  Dominators found;
  std::vector<u32> place(graph.nodes(), kNone);
  std::vector<u32> parent;
  std::vector<u32>& nodes = found.nodes;
  std::vector<u32> degrees;  // by place: edges that lead there
  {
    std::vector<Step> path{{graph.first(), 0}};
    place[graph.first()] = 0;
    nodes.push_back(graph.first());
    parent.push_back(0);
    degrees.push_back(0);
    while (!path.empty()) {
      Step& step = path.back();
      if (step.next == graph.count(step.node)) {
        path.pop_back();
        continue;
      }
      const u32 to = graph.at(step.node, step.next++);
      if (to == kNone) continue;
      if (place[to] == kNone) {
        place[to] = static_cast<u32>(nodes.size());
        nodes.push_back(to);
        parent.push_back(place[step.node]);
        degrees.push_back(0);
        path.push_back({to, 0});  // `step` is gone from here on
      }
      ++degrees[place[to]];
    }
  }
  const u32 count = static_cast<u32>(nodes.size());
  // Where edges come from, by place.
  std::vector<u32> offsets(usize{count} + 1), sources;
  for (u32 i = 0; i < count; ++i) offsets[i + 1] = offsets[i] + degrees[i];
  sources.resize(offsets[count]);
  for (u32 i = 0; i < count; ++i) {
    for (u32 j = 0; j < graph.count(nodes[i]); ++j) {
      const u32 to = graph.at(nodes[i], j);
      if (to != kNone) sources[offsets[place[to]] + --degrees[place[to]]] = i;
    }
  }
  place = {};
  degrees = {};

  std::vector<u32> idom = parent;
  std::vector<u32> semi(count), label(count), path;
  for (u32 i = 0; i < count; ++i) semi[i] = label[i] = i;
  // The label of least semi-dominator on the way up from v, among nodes that are not below `linked`.
  const auto evaluate = [&](u32 v, u32 linked) {
    if (parent[v] < linked) return label[v];
    path.clear();
    do {
      path.push_back(v);
      v = parent[v];
    } while (parent[v] >= linked);
    u32 above = v;
    while (!path.empty()) {
      v = path.back();
      path.pop_back();
      parent[v] = parent[above];
      if (semi[label[above]] < semi[label[v]]) label[v] = label[above];
      above = v;
    }
    return label[v];
  };
  for (u32 i = count; i-- > 1;) {
    semi[i] = parent[i];
    for (u32 j = offsets[i]; j < offsets[i + 1]; ++j) {
      const u32 best = semi[evaluate(sources[j], i + 1)];
      if (best < semi[i]) semi[i] = best;
    }
  }
  for (u32 i = 1; i < count; ++i) {
    while (idom[i] > semi[i]) idom[i] = idom[idom[i]];
  }
  found.idom = std::move(idom);
  return found;
}

}  // namespace coffer::retain
