// SPDX-License-Identifier: MIT
#include "papers/hoard/heap.hpp"

namespace coffer::papers::hoard {

namespace {

void set_empty_bit(Heap* heap, u32 size_class, bool empty) {
  u64& bits = heap->empties[size_class / 64];
  const u64 bit = u64{1} << (size_class % 64);
  bits = empty ? bits | bit : bits & ~bit;
}

void link(Heap* heap, Superblock* superblock) {
  Bin& bin = heap->bins[superblock->size_class];
  const u32 group = superblock->group;
  Superblock* behind = bin.front[group];
  superblock->previous = nullptr;
  superblock->next = behind;
  if (behind != nullptr) behind->previous = superblock;
  bin.front[group] = superblock;
  bin.groups |= 1u << group;
  if (group == kEmptyGroup) set_empty_bit(heap, superblock->size_class, true);
}

void unlink(Heap* heap, Superblock* superblock) {
  Bin& bin = heap->bins[superblock->size_class];
  const u32 group = superblock->group;
  if (superblock->next != nullptr) superblock->next->previous = superblock->previous;
  if (superblock->previous != nullptr) {
    superblock->previous->next = superblock->next;
    return;
  }
  bin.front[group] = superblock->next;
  if (superblock->next != nullptr) return;
  bin.groups &= ~(1u << group);
  if (group == kEmptyGroup) set_empty_bit(heap, superblock->size_class, false);
}

// The group that `used` says, and how far that may go before the next division.
void find_group(Superblock* superblock) {
  const u32 group = group_of(superblock->used, superblock->capacity);
  superblock->group = static_cast<u8>(group);
  superblock->most = static_cast<u32>(most_in_group(group, superblock->capacity));
  superblock->least = 0;
  if (group != kEmptyGroup) superblock->least = static_cast<u32>(most_in_group(group - 1, superblock->capacity)) + 1;
}

bool left_group(const Superblock* superblock) {
  return superblock->used < superblock->least || superblock->used > superblock->most;
}

void* block_at(Superblock* superblock, u32 index) {
  return reinterpret_cast<char*>(superblock) + head_bytes(g_hoard.word) + usize{index} * superblock->stride;
}

}  // namespace

void attach(Heap* heap, Superblock* superblock) {
  Bin& bin = heap->bins[superblock->size_class];
  bin.used += superblock->used;
  bin.blocks += superblock->capacity;
  ++bin.superblocks;
  // relaxed: readers check it under this heap's lock (superblock.hpp).
  superblock->owner.store(heap, relaxed);
  link(heap, superblock);
}

void detach(Heap* heap, Superblock* superblock) {
  unlink(heap, superblock);
  Bin& bin = heap->bins[superblock->size_class];
  bin.used -= superblock->used;
  bin.blocks -= superblock->capacity;
  --bin.superblocks;
}

Superblock* any_empty(const Heap* heap) {
  for (u32 word = 0; word < kMostClasses / 64; ++word) {
    const u64 bits = heap->empties[word];
    if (bits != 0) return heap->bins[word * 64 + lowest_bit(bits)].front[kEmptyGroup];
  }
  return nullptr;
}

Superblock* half_of(const Heap* heap, u32 size_class) {
  const Bin& bin = heap->bins[size_class];
  const u32 groups = bin.groups & static_cast<u32>(low_mask(kParts - g_hoard.threshold.f + 1));
  return groups != 0 ? bin.front[lowest_bit(groups)] : nullptr;
}

void format(Superblock* superblock, u32 size_class) {
  superblock->size_class = static_cast<u16>(size_class);
  superblock->stride = g_hoard.classes.stride(size_class);
  superblock->capacity = g_hoard.capacity[size_class];
  superblock->used = 0;
  superblock->fresh = 0;
  superblock->free = nullptr;
  find_group(superblock);
}

void* take_block(Heap* heap, Superblock* superblock) {
  void* block = superblock->free;
  if (block != nullptr) {
    superblock->free = superblock->free->next;
  } else {
    block = block_at(superblock, superblock->fresh++);
    if (g_hoard.has_words()) word_before(block) = superblock_word(superblock);
  }
  ++superblock->used;
  ++heap->bins[superblock->size_class].used;
  if (left_group(superblock)) {
    unlink(heap, superblock);
    find_group(superblock);
    link(heap, superblock);
  }
  return block;
}

void put_block(Heap* heap, Superblock* superblock, void* block) {
  Block* freed = static_cast<Block*>(block);
  freed->next = superblock->free;
  superblock->free = freed;
  --superblock->used;
  --heap->bins[superblock->size_class].used;
  const bool changes = left_group(superblock);
  if (!changes && superblock->previous == nullptr) return;  // it is the front
  unlink(heap, superblock);
  if (changes) find_group(superblock);
  link(heap, superblock);
}

}  // namespace coffer::papers::hoard
