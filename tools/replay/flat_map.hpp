// SPDX-License-Identifier: MIT
// From identities (never 0) to small values: open addressing, linear probing, removal without tombstones. Millions of
// blocks come and go here; std::unordered_map would allocate for each.
#pragma once

#include <cstddef>
#include <vector>

#include "trace/format.hpp"

namespace coffer::replay {

using trace::u64;

template <class Value>
class FlatMap {
 public:
  FlatMap() : cells_(kLeast) {}

  std::size_t size() const { return used_; }
  Value* find(u64 key) {
    for (std::size_t i = place(key);; i = next(i)) {
      if (cells_[i].key == key) return &cells_[i].value;
      if (cells_[i].key == 0) return nullptr;
    }
  }
  // The key is not in the map.
  void insert(u64 key, const Value& value) {
    if (2 * (used_ + 1) > cells_.size()) grow();
    put(key, value);
    ++used_;
  }
  // The key is in the map.
  Value take(u64 key) {
    std::size_t i = place(key);
    while (cells_[i].key != key) i = next(i);
    const Value value = cells_[i].value;
    --used_;
    // Moves back what would no longer be found across the hole.
    for (std::size_t j = next(i); cells_[j].key != 0; j = next(j)) {
      const std::size_t mask = cells_.size() - 1;
      if (((j - place(cells_[j].key)) & mask) >= ((j - i) & mask)) {
        cells_[i] = cells_[j];
        i = j;
      }
    }
    cells_[i].key = 0;
    return value;
  }
  template <class Visit>
  void each(Visit&& visit) const {
    for (const Cell& cell : cells_) {
      if (cell.key != 0) visit(cell.key, cell.value);
    }
  }

 private:
  static constexpr std::size_t kLeast = 1024;
  struct Cell {
    u64 key = 0;
    Value value{};
  };

  std::size_t place(u64 key) const { return (key * 0x9E3779B97F4A7C15u >> 20) & (cells_.size() - 1); }
  std::size_t next(std::size_t i) const { return (i + 1) & (cells_.size() - 1); }
  void put(u64 key, const Value& value) {
    std::size_t i = place(key);
    while (cells_[i].key != 0) i = next(i);
    cells_[i] = {key, value};
  }
  void grow() {
    std::vector<Cell> old(2 * cells_.size());
    old.swap(cells_);
    for (const Cell& cell : old) {
      if (cell.key != 0) put(cell.key, cell.value);
    }
  }

  std::vector<Cell> cells_;
  std::size_t used_ = 0;
};

}  // namespace coffer::replay
