// SPDX-License-Identifier: MIT
// Which bytes of the heap are handed out, as tb/owners.vhd keeps it: the replay's own book, whatever the trace says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace fast {

class Owners {
 public:
  static constexpr std::uint32_t kUnit = 16;  // the smallest block

  void begin(std::uint32_t heap) {
    sizes_.assign(heap / kUnit, 0);
    taken_.assign(heap / kUnit, false);
  }

  // Returns the first byte that is taken already, if one is: then nothing more is noted.
  std::optional<std::uint32_t> take(std::uint32_t offset, std::uint32_t bytes) {
    for (std::uint32_t i = offset / kUnit; i < (offset + bytes) / kUnit; ++i) {
      if (taken_[i]) {
        return i * kUnit;
      }
      taken_[i] = true;
    }
    sizes_[offset / kUnit] = bytes;
    ++live_;
    return std::nullopt;
  }

  // Of a live block.
  void give_back(std::uint32_t offset) {
    for (std::uint32_t i = offset / kUnit; i < (offset + size_of(offset)) / kUnit; ++i) {
      taken_[i] = false;
    }
    sizes_[offset / kUnit] = 0;
    --live_;
  }

  // With how many bytes the block that begins there was taken; 0: none begins there.
  std::uint32_t size_of(std::uint32_t offset) const { return sizes_[offset / kUnit]; }

  std::uint64_t live() const { return live_; }

  // Whether so many bytes are free at a multiple of that.
  bool has_room(std::uint64_t bytes) const {
    const std::size_t run = static_cast<std::size_t>(bytes) / kUnit;
    for (std::size_t first = 0; first + run <= taken_.size(); first += run) {
      std::size_t unit = first;
      while (unit < first + run && !taken_[unit]) {
        ++unit;
      }
      if (unit == first + run) {
        return true;
      }
    }
    return false;
  }

 private:
  std::vector<std::uint32_t> sizes_;  // by unit
  std::vector<bool> taken_;
  std::uint64_t live_ = 0;
};

}  // namespace fast
