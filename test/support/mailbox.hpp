// SPDX-License-Identifier: MIT
// Places where threads leave blocks for each other.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "support/held_block.hpp"

namespace coffer::test {

// Holds at most one block. The record travels through the C library's heap, so that nothing of the allocator under
// test takes part in the hand-over.
class Mailbox {
 public:
  Mailbox() = default;
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;
  ~Mailbox() { delete record_.load(std::memory_order_relaxed); }

  // Leaves a block (or none) and takes what lay there (or none).
  HeldBlock swap(const HeldBlock& block) {
    HeldBlock* const mine = block ? new HeldBlock(block) : nullptr;
    HeldBlock* const theirs = record_.exchange(mine, std::memory_order_acq_rel);
    if (theirs == nullptr) return {};
    const HeldBlock got = *theirs;
    delete theirs;
    return got;
  }

 private:
  std::atomic<HeldBlock*> record_{nullptr};
};

// A queue of bounded length for one writer and one reader.
template <class T>
class Channel {
 public:
  explicit Channel(std::size_t length) : cells_(length + 1) {}

  bool try_put(const T& value) {
    const std::size_t at = write_.load(std::memory_order_relaxed);
    const std::size_t next = (at + 1) % cells_.size();
    if (next == read_.load(std::memory_order_acquire)) return false;
    cells_[at] = value;
    write_.store(next, std::memory_order_release);
    return true;
  }
  bool try_get(T& value) {
    const std::size_t at = read_.load(std::memory_order_relaxed);
    if (at == write_.load(std::memory_order_acquire)) return false;
    value = cells_[at];
    read_.store((at + 1) % cells_.size(), std::memory_order_release);
    return true;
  }

 private:
  std::vector<T> cells_;
  alignas(64) std::atomic<std::size_t> write_{0};
  alignas(64) std::atomic<std::size_t> read_{0};
};

}  // namespace coffer::test
