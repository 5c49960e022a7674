// SPDX-License-Identifier: MIT
#include "retain/graph.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "retain/parallel.hpp"

namespace coffer::retain {

namespace {

constexpr u64 kPieceOfWork = u64{4} << 20;  // bytes of memory
constexpr u64 kMostGap = 4096;              // between blocks that are read at once

struct Scan {
  u32 from = 0, to = 0;
  std::vector<u32> targets;
};

class Scanner {
 public:
  Scanner(const Memory& memory, const Blocks& blocks, std::vector<u32>* degrees)
      : memory_(memory), blocks_(blocks), degrees_(*degrees), buffer_(std::make_unique<u64[]>(kPiece / sizeof(u64))) {}

  void run(Scan* scan) {
    for (u32 i = scan->from; i < scan->to;) {
      if (blocks_.bytes(i) > kPiece) {
        scan_large(i++, scan);
        continue;
      }
      // As many as lie close together.
      const u64 begin = blocks_.start(i);
      u32 j = i + 1;
      u64 end = begin + blocks_.bytes(i);
      while (j < scan->to && blocks_.start(j) - end <= kMostGap &&
             blocks_.start(j) + blocks_.bytes(j) - begin <= kPiece) {
        end = blocks_.start(j) + blocks_.bytes(j);
        ++j;
      }
      memory_.read(begin, buffer_.get(), end - begin);
      for (; i < j; ++i) {
        add(i, buffer_.get() + (blocks_.start(i) - begin) / sizeof(u64), blocks_.bytes(i) / sizeof(u64), scan);
      }
    }
  }

 private:
  void scan_large(u32 block, Scan* scan) {
    const u64 begin = blocks_.start(block);
    for_each_piece(memory_, begin, begin + blocks_.bytes(block), true, buffer_.get(),
                   [&](u64, const u64* words, usize count) { add(block, words, count, scan); });
  }

  void add(u32 block, const u64* words, usize count, Scan* scan) {
    u32 last = block;  // it needs no edge to itself, nor two in a row to another
    u32 degree = 0;
    for (usize i = 0; i < count; ++i) {
      const u32 to = blocks_.edge(words, i, count);
      if (to == kNone || (to & ~kWeak) == last || (to & ~kWeak) == block) continue;
      last = to & ~kWeak;
      scan->targets.push_back(to);
      ++degree;
    }
    degrees_[block] += degree;
  }

  const Memory& memory_;
  const Blocks& blocks_;
  std::vector<u32>& degrees_;
  std::unique_ptr<u64[]> buffer_;
};

std::vector<Scan> share_out(const Blocks& blocks) {
  std::vector<Scan> scans;
  Scan now;
  u64 bytes = 0;
  for (u32 i = 0; i < blocks.count(); ++i) {
    bytes += blocks.bytes(i);
    if (bytes < kPieceOfWork && i + 1 < blocks.count()) continue;
    now.to = i + 1;
    scans.push_back(now);
    now.from = i + 1;
    bytes = 0;
  }
  return scans;
}

}  // namespace

bool find_edges(const Memory& memory, const Blocks& blocks, unsigned threads, Edges* edges) {
  std::vector<u32> degrees(blocks.count());
  std::vector<Scan> scans = share_out(blocks);
  std::vector<std::unique_ptr<Scanner>> scanners(threads);
  for (auto& one : scanners) one = std::make_unique<Scanner>(memory, blocks, &degrees);
  in_parallel(threads, scans.size(), [&](usize i, unsigned thread) {
    scanners[thread]->run(&scans[i]);
    scans[i].targets.shrink_to_fit();
  });
  u64 total = 0;
  for (const Scan& one : scans) total += one.targets.size();
  if (total >= kNone) return false;
  edges->targets.reserve(total);
  for (Scan& one : scans) {
    edges->targets.insert(edges->targets.end(), one.targets.begin(), one.targets.end());
    one = {};
  }
  edges->offsets.resize(usize{blocks.count()} + 1);
  u32 at = 0;
  for (u32 i = 0; i < blocks.count(); ++i) {
    edges->offsets[i] = at;
    at += degrees[i];
  }
  edges->offsets[blocks.count()] = at;
  return true;
}

Reached reach(const Edges& edges, const Roots& roots, u32 blocks) {
  Reached found;
  constexpr u8 kUnseen = 255;
  found.kind.assign(blocks, kUnseen);
  found.needs_weak.assign(blocks, false);
  std::vector<u32> todo;
  const auto see = [&](u32 to, u8 kind) {
    const u32 block = to & ~kWeak;
    if (found.kind[block] != kUnseen) return;
    found.kind[block] = kind;
    if ((to & kWeak) != 0) found.needs_weak[block] = true;
    todo.push_back(block);
  };
  const auto begin = [&](u32 to, u8 kind, bool weakly) {
    see(to, kind);
    while (!todo.empty()) {
      const u32 from = todo.back();
      todo.pop_back();
      for (const u32* next = edges.begin(from); next != edges.end(from); ++next) {
        if (weakly || (*next & kWeak) == 0) see(*next, kind);
      }
    }
  };
  const auto kind_of = [&](const RootEdge& edge) { return static_cast<u8>(roots.roots[edge.root].kind); };
  // They are in the order of their kinds.
  for (const RootEdge& edge : roots.edges) {
    if ((edge.to & kWeak) == 0) begin(edge.to, kind_of(edge), false);
  }
  for (const RootEdge& edge : roots.edges) begin(edge.to, kind_of(edge), true);
  for (u32 i = 0; i < blocks; ++i) {
    if (found.kind[i] == kUnseen) continue;
    for (const u32* to = edges.begin(i); to != edges.end(i); ++to) {
      if ((*to & kWeak) != 0) begin(*to, found.kind[i], true);
    }
  }
  std::vector<bool> is_pointed_to(blocks);
  for (u32 i = 0; i < blocks; ++i) {
    if (found.kind[i] != kUnseen) continue;
    for (const u32* to = edges.begin(i); to != edges.end(i); ++to) is_pointed_to[*to & ~kWeak] = true;
  }
  // Those that nothing points to first; what is left then are rings, and what hangs on them.
  for (const bool rings : {false, true}) {
    for (u32 i = 0; i < blocks; ++i) {
      if (found.kind[i] != kUnseen || (!rings && is_pointed_to[i])) continue;
      found.lost.push_back(i);
      begin(i, kLost, true);
    }
  }
  return found;
}

Flow::Flow(const Edges& edges, const Roots& roots, const Reached& reached, u32 blocks)
    : edges_(edges), all_(roots), reached_(reached), blocks_(blocks), roots_(static_cast<u32>(roots.roots.size())) {
  // Roots are numbered by kind, and their edges stand in that order.
  root_offsets_.assign(usize{roots_} + 1, 0);
  for (const RootEdge& edge : roots.edges) ++root_offsets_[edge.root + 1];
  for (u32 i = 0; i < roots_; ++i) root_offsets_[i + 1] += root_offsets_[i];
}

}  // namespace coffer::retain
