// SPDX-License-Identifier: MIT
// Which block points to which: each aligned word of a block that leads into another one, to its start or inside, is an
// edge. So no program has to say what its types are; and a number that looks like an address keeps a block, too.
#pragma once

#include <vector>

#include "retain/blocks.hpp"
#include "retain/roots.hpp"

namespace coffer::retain {

struct Edges {
  std::vector<u32> offsets;  // of a block's first edge; one more than there are blocks
  std::vector<u32> targets;  // blocks, perhaps with kWeak

  const u32* begin(u32 block) const { return targets.data() + offsets[block]; }
  const u32* end(u32 block) const { return targets.data() + offsets[block + 1]; }
};

// false: there are more edges than can be numbered.
bool find_edges(const Memory& memory, const Blocks& blocks, unsigned threads, Edges* edges);

// Which kind of root each block counts for: the first that reaches it; kLost: none does. And the blocks that are lost
// and that no other lost one points to, or one of each ring of such: what a leak detector calls directly lost.
struct Reached {
  std::vector<u8> kind;
  std::vector<u32> lost;
  std::vector<bool> needs_weak;  // a block that nothing but weak edges leads to

  bool counts(u32 to) const { return (to & kWeak) == 0 || needs_weak[to & ~kWeak]; }
};
Reached reach(const Edges& edges, const Roots& roots, u32 blocks);

// As a graph whose nodes are the blocks, then the roots, one for what is lost, and one before all. What a kind of root
// reaches is closed: an edge between blocks of two kinds keeps nothing alive that is not kept anyway.
class Flow {
 public:
  Flow(const Edges& edges, const Roots& roots, const Reached& reached, u32 blocks);

  u32 nodes() const { return first() + 1; }
  u32 first() const { return lost() + 1; }
  u32 lost() const { return blocks_ + roots_; }
  u32 root_node(u32 root) const { return blocks_ + root; }
  bool is_block(u32 node) const { return node < blocks_; }

  u32 count(u32 node) const {
    if (node < blocks_) return edges_.offsets[node + 1] - edges_.offsets[node];
    if (node < lost()) return root_offsets_[node - blocks_ + 1] - root_offsets_[node - blocks_];
    return node == lost() ? static_cast<u32>(reached_.lost.size()) : roots_ + 1;
  }
  // kNone: it does not count.
  u32 at(u32 node, u32 i) const {
    if (node < blocks_) {
      const u32 to = edges_.targets[edges_.offsets[node] + i];
      const u32 block = to & ~kWeak;
      return reached_.kind[block] == reached_.kind[node] && reached_.counts(to) ? block : kNone;
    }
    if (node < lost()) {
      const RootEdge& edge = all_.edges[root_offsets_[node - blocks_] + i];
      const bool counts = reached_.kind[edge.block()] == static_cast<u8>(all_.roots[edge.root].kind);
      return counts && reached_.counts(edge.to) ? edge.block() : kNone;
    }
    return node == lost() ? reached_.lost[i] : blocks_ + i;
  }

 private:
  const Edges& edges_;
  const Roots& all_;
  const Reached& reached_;
  u32 blocks_, roots_;
  std::vector<u32> root_offsets_;
};

}  // namespace coffer::retain
