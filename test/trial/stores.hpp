// SPDX-License-Identifier: MIT
// Stores that their thread has made and others do not see yet. A thread's stores wait in a buffer, as they do in a
// processor's; it reads them there itself. When threads change, the scheduler lets some of them go to memory. What may
// overtake what is the memory's:
//
//   at_once     nothing waits
//   as_x86      stores go in their order; what reads and writes at once (RMW), a seq_cst store and a fence send all
//   as_arm      stores to different cells go in any order, but a release store only after all that were before it;
//               a fence, a seq_cst load, and an RMW that is a release or stronger send all, any other RMW what was
//               stored to its own cell
//
// Loads are made in the program's order: that one is early is not simulated. All stores to cells can wait, those of an
// Owned as well; plain ones (links in free blocks) are seen at once, so that nothing is missed only because they wait.
// All that waits goes where the machine has it go: at a barrier for all threads, at calls that change mappings, when a
// lock is let go of, where threads start and end. What a thread gets from another outside of the allocator, a block,
// comes after all that was stored before (Held::by).
#pragma once

#include <atomic>
#include <cstring>

#include "base/base.hpp"

namespace coffer::trial {

enum class Memory : u8 { at_once, as_x86, as_arm };

class StoreBuffer {
 public:
  bool empty() const { return count_ == 0; }
  // The step of the oldest one.
  u64 since() const { return stores_[0].step; }
  // What the thread stored to the cell last; nullptr: nothing that waits.
  const u64* newest(const void* cell) const;
  void add(Memory memory, void* cell, u64 value, u32 bytes, bool release);
  void send_all();
  void send_cell(Memory memory, const void* cell);
  // One of them, and those that it cannot overtake.
  void send_some(Memory memory, u64 choice);

 private:
  static constexpr u32 kMost = 32;
  struct Store {
    void* cell;
    u64 value, step;
    u8 bytes;
    bool release;
  };
  u64 before(Memory memory, u32 index) const;
  void send(u64 which);

  Store stores_[kMost];
  u32 count_ = 0;
};

// Of the thread that runs: where its stores wait; nullptr: they do not.
struct Stores {
  Memory memory = Memory::at_once;
  StoreBuffer* own = nullptr;
};
extern Stores g_stores;

void store_later(void* cell, u64 value, u32 bytes, std::memory_order order);
void settle_stores(const void* cell, std::memory_order order);

inline void send_own_stores() {
  if (g_stores.own != nullptr) g_stores.own->send_all();
}

template <class T>
COFFER_INLINE T seen_value(const T& cell, std::memory_order order) {
  StoreBuffer* const own = g_stores.own;
  if (COFFER_LIKELY(own == nullptr || own->empty())) return cell;
  if (order == std::memory_order_seq_cst && g_stores.memory == Memory::as_arm) own->send_all();
  const u64* const waits = own->newest(&cell);
  T value = cell;
  if (waits != nullptr) std::memcpy(&value, waits, sizeof value);
  return value;
}

template <class T>
COFFER_INLINE void write_value(T& cell, T value, std::memory_order order) {
  static_assert(sizeof(T) <= sizeof(u64));
  if (COFFER_LIKELY(g_stores.own == nullptr)) {
    cell = value;
    return;
  }
  u64 bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  store_later(&cell, bits, sizeof value, order);
}

}  // namespace coffer::trial
