// SPDX-License-Identifier: MIT
#include "papers/cif/superblock.hpp"

namespace coffer::cif {

Superblock* format(const Settings& settings, void* memory, u32 size_class, u32 colour) {
  const Layout layout = lay_out(settings, settings.classes.bytes(size_class), colour);
  auto* superblock = reinterpret_cast<Superblock*>(static_cast<char*>(memory) + layout.header);
  superblock->used = 0;
  superblock->capacity = static_cast<u32>(layout.capacity);
  superblock->fresh = 0;
  superblock->free = nullptr;
  superblock->size_class = size_class;
  superblock->array = layout.array;
  superblock->first = static_cast<u32>(layout.first - layout.header);
  superblock->colour = colour;
  return superblock;
}

// Blocks are cut when they are first needed, in the order of their addresses, so that a superblock of which little is
// used costs little memory. (The paper's free list holds all blocks from the start; in the same order, it would seem.)
void* take_block(Superblock* superblock) {
  ++superblock->used;
  if (FreeBlock* block = superblock->free) {
    superblock->free = block->next;
    return block;
  }
  void* data = block_data(superblock, superblock->fresh++);
  papers::word_before(data) = papers::superblock_word(superblock);
  return data;
}

void give_block(Superblock* superblock, void* data) {
  auto* block = static_cast<FreeBlock*>(data);
  block->next = superblock->free;
  superblock->free = block;
  --superblock->used;
}

usize check(const Settings& settings, Superblock* superblock) {
  usize violations = 0;
  const auto expect = [&](bool holds) { violations += holds ? 0 : 1; };
  const Layout layout = lay_out(settings, settings.classes.bytes(superblock->size_class), superblock->colour);
  expect(superblock->capacity == layout.capacity && superblock->fresh <= superblock->capacity);
  expect(superblock->colour < settings.colours);
  usize listed = 0;
  for (FreeBlock* block = superblock->free; block != nullptr && listed <= superblock->capacity; block = block->next) {
    ++listed;
    const uptr offset = reinterpret_cast<uptr>(block) - reinterpret_cast<uptr>(superblock) - superblock->first;
    const usize number = superblock->array.at(offset);
    expect(number < superblock->fresh && superblock->array.offset(number) == offset);
    expect(papers::word_before(block) == papers::superblock_word(superblock));
  }
  expect(superblock->used + listed == superblock->fresh);
  return violations;
}

}  // namespace coffer::cif
