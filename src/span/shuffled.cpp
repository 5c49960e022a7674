// SPDX-License-Identifier: MIT
#include "span/shuffled.hpp"

#include <string.h>

#include "observe/sampling.hpp"

namespace coffer {

namespace {

// Blocks that are shuffled among themselves: those of a page, for who walks over what it allocated in a row would miss
// the TLB and what the processor fetches ahead; of the smallest class, it has as many. But at least 16.
constexpr u32 kMostInPiece = 256, kLeastInPiece = 16;
u32 piece_of(usize block_bytes) {
  const usize blocks = kCarvePage / block_bytes;
  return blocks < kLeastInPiece ? kLeastInPiece : static_cast<u32>(blocks);
}

Atomic<u64> g_drawn;

// Numbers 0 .. count - 1 in random order (Fisher and Yates).
void shuffle(u8 (&order)[kMostInPiece], u32 count) {
  for (u32 i = 0; i < count; ++i) {
    // relaxed, both: each number is used once, with a key that is there before there is a span.
    const u64 bits = mix_bits(g_arenas.arenas[0].link_key.load(relaxed), g_drawn.fetch_add(1, relaxed));
    const u32 place = static_cast<u32>(u64{static_cast<u32>(bits)} * (i + 1) >> 32);
    order[i] = order[place];
    order[place] = static_cast<u8>(i);
  }
}

}  // namespace

Linked link_shuffled(const Span* span, u32 from, u32 to) {
  Linked list = {nullptr, nullptr};
  const usize bytes = span->block_bytes.get();
  const bool zero = absent_are(span) == AbsentPages::zero;
  u8 order[kMostInPiece];
  const u32 piece = piece_of(bytes);
  for (u32 begin = from; begin < to; begin += piece) {
    const u32 count = to - begin < piece ? to - begin : piece;
    shuffle(order, count);
    for (u32 i = 0; i < count; ++i) {
      Block* const block = block_at(span, begin + order[i]);
      if (!zero) memset(static_cast<void*>(block), 0, bytes);
      if (list.last == nullptr) {
        list.first = block;
      } else {
        set_link(list.last, block);
      }
      list.last = block;
    }
  }
  set_next(list.last, nullptr);
  return list;
}

}  // namespace coffer
