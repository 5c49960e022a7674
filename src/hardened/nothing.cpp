// SPDX-License-Identifier: MIT
#include "hardened/nothing.hpp"

#include "arena/arena.hpp"
#include "base/bits.hpp"
#include "harden/report.hpp"
#include "hardened/allocator.hpp"
#include "observe/counters.hpp"
#include "observe/sampling.hpp"
#include "os/os.hpp"

namespace coffer::hardened {

namespace {

constexpr usize kRangeBytes = usize{1} << 20;
constexpr u32 kWords = kRangeBytes / kQuantum / 64;

struct Nothings {
  Atomic<uptr> base;
  Atomic<u64> drawn;
  Atomic<u64> used[kWords];  // a bit a block
};
constinit Nothings g_nothings;

uptr start() {
  uptr base = g_nothings.base.load(acquire);  // acquire: pairs with the release below
  if (base != 0) return base;
  void* const range = os::reserve(kRangeBytes, kRangeBytes);
  if (range == nullptr) return 0;
  while (base == 0) {
    // release: pairs with the acquire above, and in is_nothing. acquire: as there.
    if (!g_nothings.base.compare_exchange(base, reinterpret_cast<uptr>(range), acq_rel, acquire)) continue;
    os::name_mapping(range, kRangeBytes, "coffer blocks of size 0");
    counters().reserved.fetch_add(kRangeBytes, relaxed);  // relaxed: a figure
    return reinterpret_cast<uptr>(range);
  }
  os::release(range, kRangeBytes);
  return base;
}

}  // namespace

void* allocate_nothing() {
  const uptr base = start();
  if (base == 0) return nullptr;
  // relaxed, all: an address is its own, and nothing is there to be seen. By lot, so that one that was freed seldom
  // comes again.
  const u64 key = g_arenas.arenas[0].link_key.load(relaxed);
  const u64 chance = mix_bits(base ^ key, g_nothings.drawn.fetch_add(1, relaxed));
  for (u32 i = 0; i < kWords; ++i) {
    const u32 word = static_cast<u32>((chance + i) % kWords);
    u64 used = g_nothings.used[word].load(relaxed);
    while (used != ~u64{0}) {
      const u32 turn = static_cast<u32>(chance >> 32) % 64;
      const u64 free = ~used;
      const u64 turned = free >> turn | (turn != 0 ? free << (64 - turn) : 0);
      const u32 bit = (lowest_bit(turned) + turn) % 64;
      used = g_nothings.used[word].fetch_or(u64{1} << bit, relaxed);
      if (((used >> bit) & 1) == 0) return reinterpret_cast<void*>(base + (usize{word} * 64 + bit) * kQuantum);
    }
  }
  return nullptr;
}

bool is_nothing(const void* block) {
  const uptr base = g_nothings.base.load(acquire);  // acquire: pairs with the release in start
  return base != 0 && reinterpret_cast<uptr>(block) - base < kRangeBytes;
}

void check_nothing(const char* call, void* block) {
  const usize offset = reinterpret_cast<uptr>(block) - g_nothings.base.load(relaxed);  // relaxed: see is_nothing
  if (offset % kQuantum != 0) harden::bad_pointer(call, block, harden::BadPointer::not_a_start, 0);
  const usize index = offset / kQuantum;
  // relaxed: whoever has the block has it from after it was made.
  if (((g_nothings.used[index / 64].load(relaxed) >> (index % 64)) & 1) == 0) {
    harden::bad_pointer(call, block, harden::BadPointer::already_free, 0);
  }
}

void release_nothing(void* block, usize given) {
  check_nothing("free", block);
  if (given != kNoSize && given != 0) harden::bad_size(block, given, 0);
  const usize index = (reinterpret_cast<uptr>(block) - g_nothings.base.load(relaxed)) / kQuantum;  // relaxed: as above
  const u64 bit = u64{1} << (index % 64);
  // relaxed: as in allocate_nothing.
  if ((g_nothings.used[index / 64].fetch_and(~bit, relaxed) & bit) == 0) {
    harden::bad_pointer("free", block, harden::BadPointer::already_free, 0);
  }
}

}  // namespace coffer::hardened
