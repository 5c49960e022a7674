// SPDX-License-Identifier: MIT
// What the heap profile knows: call stacks with what was allocated from them and what of that was live at the highest
// moment, and the sampled blocks that are live.
//
// The highest moment is the one when the samples stood for most live bytes. Of a program that replaces what it holds,
// that alone would be the luckiest of many sums. So a sum that is higher counts only if Coffer holds more memory than
// at the highest moment so far, which is known exactly, or if chance does not explain the difference: where every block
// is sampled, each higher one counts. A new one comes with most samples while a program grows, so no stack is copied
// then: a stack's part of the highest moment is what it has live now, unless it changed since. The first change after a
// highest moment saves what was live.
//
// All of it lies in mappings of its own, which do not count for the limit: 8 MiB of tables, of which what is used is
// touched, and 32 bytes for each live sample. Everything is under one lock, which a caller that must not wait tries.
#pragma once

#include "os/os.hpp"
#include "os/spin_lock.hpp"

namespace coffer {

inline constexpr u32 kMostFrames = 96;

struct CallStack {
  u32 count;
  uptr frames[kMostFrames];  // the last call first
};

// Sums of weights: what the samples stand for.
struct StackSums {
  double allocated_blocks, allocated_bytes;
  double freed_blocks, freed_bytes;
};

// Of a stack, or of all.
struct LiveSums {
  double blocks, bytes;
};

class Samples {
 public:
  SpinLock lock;  // around all that follows

  // The block is live, and stands for `weight` blocks of so many bytes; Coffer holds `held` bytes. false: no memory for
  // it.
  bool add(const void* block, usize bytes, double weight, const CallStack& stack, usize held);
  // The block is freed. false: it is no sample.
  bool remove(const void* block, double* weight = nullptr);

  // In a fork child, where a vanished thread had the lock and the tables may be half changed: begins anew, without
  // them. Their memory is lost.
  void forget();

  u32 live() const { return live_; }
  u64 dropped() const { return dropped_; }  // for which there was no memory
  u32 stacks() const { return stacks_; }
  u32 addresses() const { return addresses_; }
  const StackSums& sums(u32 stack) const;
  // At the highest moment. That is now, for who asks now, where the sum is above it by chance: nobody is told that more
  // is live than ever was. To remember it would make each question one more draw for the highest.
  LiveSums at_peak(u32 stack) const;
  // Of the monotonic clock, which says `now`; 0: nothing was sampled.
  u64 peak_ns(u64 now) const { return is_above_peak() ? now : peak_ns_; }
  // Calls visit(index of an address).
  template <class Visit>
  void for_each_frame(u32 stack, Visit&& visit) const {
    for (u32 i = 0; i < table_->stacks[stack].count; ++i) visit(table_->frames[table_->stacks[stack].first + i]);
  }
  uptr address(u32 index) const;

  // What it is made of, for who reads it from outside (inspect/description.hpp).
  static constexpr u32 kStacks = 32 * 1024, kAddresses = 64 * 1024, kFrames = 1024 * 1024;

  struct Stack {
    u64 hash;
    u32 first, count;  // in frames
    StackSums sums;
    LiveSums saved;  // at the highest moment of the number
    u64 saved_at;
    LiveSums live() const {
      return {sums.allocated_blocks - sums.freed_blocks, sums.allocated_bytes - sums.freed_bytes};
    }
  };
  // Hash tables hold 1 + the index; 0: nothing.
  struct Table {
    Stack stacks[kStacks];
    u32 stack_at[2 * kStacks];
    uptr addresses[kAddresses];
    u32 address_at[2 * kAddresses];
    u32 frames[kFrames];
  };
  struct Live {
    uptr block;  // 0: nothing
    u32 stack;
    u32 unused;
    u64 bytes;
    double weight;
  };
  const Table* table() const { return table_; }
  const Live* lives() const { return lives_; }
  u32 capacity() const { return capacity_; }

 private:
  bool make_table();
  u32 find_address(uptr address);
  u32 find_stack(const CallStack& stack);
  bool grow_live();
  u64 home(uptr block) const;
  void put_live(const Live& one);
  void save_peak(Stack& stack);
  bool is_highest(usize held) const;
  bool is_above_peak() const { return live_bytes_ > peak_bytes_; }

  Table* table_ = nullptr;
  u32 stacks_ = 0, addresses_ = 0, frames_ = 0;
  Live* lives_ = nullptr;
  u32 capacity_ = 0;  // a power of two
  u32 live_ = 0;
  u64 dropped_ = 0;
  double live_bytes_ = 0, variance_ = 0;  // of what is live; by how much that sum may be off, squared
  double peak_bytes_ = 0, peak_variance_ = 0;
  usize peak_held_ = 0;
  u64 peaks_ = 0, peak_ns_ = 0;  // how many highest moments there were; when the last one was
};

}  // namespace coffer
