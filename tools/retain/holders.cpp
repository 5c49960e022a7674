// SPDX-License-Identifier: MIT
#include "retain/holders.hpp"

namespace coffer::retain {

Holders find_holders(const Edges& edges, const Roots& roots, const Reached& reached, u32 blocks) {
  Holders found{std::vector<u32>(blocks, kNone), std::vector<u32>(blocks, kNone)};
  std::vector<u32> todo;
  // true: the block learns of the root.
  const auto tell = [&](u32 block, u32 root) {
    if (root == kNone || found.first[block] == root || found.second[block] != kNone) return false;
    (found.first[block] == kNone ? found.first : found.second)[block] = root;
    return true;
  };
  for (const RootEdge& edge : roots.edges) {
    if (reached.kind[edge.block()] != static_cast<u8>(roots.roots[edge.root].kind)) continue;
    if (reached.counts(edge.to) && tell(edge.block(), edge.root)) todo.push_back(edge.block());
    // One after the other, so that what one root reaches first is its own.
    while (!todo.empty()) {
      const u32 from = todo.back();
      todo.pop_back();
      for (const u32* to = edges.begin(from); to != edges.end(from); ++to) {
        const u32 block = *to & ~kWeak;
        if (reached.kind[block] != reached.kind[from] || !reached.counts(*to)) continue;
        const bool one = tell(block, found.first[from]), other = tell(block, found.second[from]);
        if (one || other) todo.push_back(block);
      }
    }
  }
  return found;
}

}  // namespace coffer::retain
