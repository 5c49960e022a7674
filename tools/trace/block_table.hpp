// SPDX-License-Identifier: MIT
// Which block is at which address: open addressing, linear probing, removal without tombstones.
#pragma once

#include <cstddef>
#include <vector>

#include "trace/format.hpp"

namespace coffer::trace {

struct Block {
  u64 identity = 0;  // 0: not from an allocation that the trace has
  u64 size = 0;
};

class BlockTable {
 public:
  BlockTable() : cells_(kLeast) {}

  std::size_t size() const { return used_; }
  // The key is not 0.
  const Block* find(u64 key) const {
    for (std::size_t i = place(key);; i = next(i)) {
      if (cells_[i].key == key) return &cells_[i].block;
      if (cells_[i].key == 0) return nullptr;
    }
  }
  // The key is not in the table.
  void insert(u64 key, const Block& block) {
    if (2 * (used_ + 1) > cells_.size()) grow();
    put(key, block);
    ++used_;
  }
  // The key is in the table.
  Block take(u64 key) {
    std::size_t i = place(key);
    while (cells_[i].key != key) i = next(i);
    const Block block = cells_[i].block;
    --used_;
    // Moves back what would no longer be found across the hole.
    for (std::size_t j = next(i); cells_[j].key != 0; j = next(j)) {
      const std::size_t home = place(cells_[j].key);
      if (((j - home) & (cells_.size() - 1)) >= ((j - i) & (cells_.size() - 1))) {
        cells_[i] = cells_[j];
        i = j;
      }
    }
    cells_[i].key = 0;
    return block;
  }

 private:
  static constexpr std::size_t kLeast = 1024;
  struct Cell {
    u64 key = 0;
    Block block;
  };

  std::size_t place(u64 key) const { return (key * 0x9E3779B97F4A7C15u >> 20) & (cells_.size() - 1); }
  std::size_t next(std::size_t i) const { return (i + 1) & (cells_.size() - 1); }
  void put(u64 key, const Block& block) {
    std::size_t i = place(key);
    while (cells_[i].key != 0) i = next(i);
    cells_[i] = {key, block};
  }
  void grow() {
    std::vector<Cell> old(2 * cells_.size());
    old.swap(cells_);
    for (const Cell& cell : old) {
      if (cell.key != 0) put(cell.key, cell.block);
    }
  }

  std::vector<Cell> cells_;
  std::size_t used_ = 0;
};

}  // namespace coffer::trace
