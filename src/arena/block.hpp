// SPDX-License-Identifier: MIT
// Links of free blocks, and how they are signed.
//
//   a free block   | link | mark | what the program left ... |      mark = link + key, the key a secret of the process
//
// free signs, malloc checks the signature before it goes on to where the link leads, and clears it. So a block with a
// mark is on a list, and one that malloc handed out has none until the program frees it:
//   - who frees a block twice is told by the mark. Most blocks are told from a free one by the mark's highest byte,
//     which is the same in all: none of UTF-8, of a pointer, of a small number or a double of this world
//   - what is written to a free block's first 16 bytes is found before the link is followed, or the block handed out
//   - no block is handed out twice, whatever the lists look like: at the second time its mark is not there.
// docs/design/misuse.md compares this with other ways.
#pragma once

#include "arena/arena.hpp"

namespace coffer {

// The highest byte of every mark. The bits below it have room for what is added to them: no address is over 2^56.
inline constexpr u8 kMarkByte = 0xf6;
constexpr uptr make_link_key(u64 random) {
  constexpr u64 kHighest = u64{0xff} << 56, kNoCarry = u64{1} << 55;
  return static_cast<uptr>((u64{kMarkByte} << 56) | (random & ~kHighest & ~kNoCarry));
}

// Before there is a span.
void links_start();

// relaxed: see links_start.
COFFER_INLINE uptr signature(const Block* link) {
  return g_arenas.arenas[0].link_key.plus(reinterpret_cast<uptr>(link));
}

// Links a block to what a list begins with, as BlockList::first has it.
COFFER_INLINE void set_link(Block* block, Block* link) {
  block->link = link;
  if constexpr (kMisuseChecks) block->mark = signature(link);
}
// The same; nullptr: it is the list's last one.
COFFER_INLINE void set_next(Block* block, Block* next) { set_link(block, next == nullptr ? kListEnd : next); }

// Whether what the program freed may be free already: by one byte, so that few live blocks pass for it.
COFFER_INLINE bool may_be_free(const void* block) {
  return kMisuseChecks && reinterpret_cast<const u8*>(block)[2 * sizeof(uptr) - 1] == kMarkByte;
}
inline bool is_signed(const Block* block) { return !kMisuseChecks || block->mark == signature(block->link); }

// "coffer: free block 0x...: ...", and aborts.
[[noreturn]] COFFER_COLD void report_broken_link(const Block* block);

// The block's next one on its list; nullptr: it is the last. Reports a link that is not what was written there.
inline Block* next_of(const Block* block) {
  if (COFFER_UNLIKELY(!is_signed(block))) report_broken_link(block);
  return block->link == kListEnd ? nullptr : block->link;
}
// For walks over lists that may be in pieces, or change meanwhile: a broken link ends the list.
inline Block* next_if_signed(const Block* block) {
  Block* link = block->link;
  return (kMisuseChecks && block->mark != signature(link)) || link == kListEnd ? nullptr : link;
}

// Of a block that is freed and on no list: who frees it again, where a span of a class is by then and has not yet
// carved the page, is told by the mark.
inline void mark_freed(void* block) { set_link(static_cast<Block*>(block), kListEnd); }

// Takes the first block of a list that has one.
inline Block* pop(BlockList& list) {
  Block* block = list.get();
  list.set(next_of(block));
  if constexpr (kMisuseChecks) block->mark = 0;
  return block;
}

}  // namespace coffer
