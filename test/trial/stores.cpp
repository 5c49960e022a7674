// SPDX-License-Identifier: MIT
#include "trial/stores.hpp"

#include "trial/pulse.hpp"

namespace coffer::trial {

Stores g_stores;

const u64* StoreBuffer::newest(const void* cell) const {
  for (u32 i = count_; i > 0; --i) {
    if (stores_[i - 1].cell == cell) return &stores_[i - 1].value;
  }
  return nullptr;
}

void StoreBuffer::add(Memory memory, void* cell, u64 value, u32 bytes, bool release) {
  if (count_ == kMost) send(before(memory, 0));
  stores_[count_++] = {cell, value, g_pulse.steps, static_cast<u8>(bytes), release};
}

// Which go to memory if this one does, by their bits: itself, and what it must not overtake.
u64 StoreBuffer::before(Memory memory, u32 index) const {
  const u64 up_to = (u64{2} << index) - 1;
  if (memory == Memory::as_x86 || stores_[index].release) return up_to;
  u64 which = u64{1} << index;
  for (u32 i = index; i > 0; --i) {
    if (stores_[i - 1].cell == stores_[index].cell) return which | before(memory, i - 1);
  }
  return which;
}

void StoreBuffer::send(u64 which) {
  u32 left = 0;
  for (u32 i = 0; i < count_; ++i) {
    const Store& store = stores_[i];
    if ((which >> i & 1) != 0) {
      std::memcpy(store.cell, &store.value, store.bytes);
    } else {
      stores_[left++] = store;
    }
  }
  count_ = left;
}

void StoreBuffer::send_all() { send(~u64{0}); }

void StoreBuffer::send_cell(Memory memory, const void* cell) {
  for (u32 i = count_; i > 0; --i) {
    if (stores_[i - 1].cell == cell) return send(before(memory, i - 1));
  }
}

void StoreBuffer::send_some(Memory memory, u64 choice) {
  if (count_ != 0) send(before(memory, static_cast<u32>(choice % count_)));
}

void store_later(void* cell, u64 value, u32 bytes, std::memory_order order) {
  StoreBuffer& own = *g_stores.own;
  const bool seq_cst = order == std::memory_order_seq_cst;
  own.add(g_stores.memory, cell, value, bytes, seq_cst || order == std::memory_order_release);
  if (seq_cst && g_stores.memory == Memory::as_x86) own.send_all();
}

void settle_stores(const void* cell, std::memory_order order) {
  StoreBuffer* const own = g_stores.own;
  if (own == nullptr || own->empty()) return;
  const bool weak = order == std::memory_order_relaxed || order == std::memory_order_acquire;
  if (g_stores.memory == Memory::as_arm && weak) {
    own->send_cell(g_stores.memory, cell);
  } else {
    own->send_all();
  }
}

}  // namespace coffer::trial
