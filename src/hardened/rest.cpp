// SPDX-License-Identifier: MIT
#include "hardened/rest.hpp"

#include "base/bits.hpp"
#include "budget/budget.hpp"
#include "exchange/inside.hpp"
#include "exchange/registry.hpp"
#include "hardened/canary.hpp"
#include "hardened/fenced.hpp"
#include "hardened/report.hpp"
#include "heap/plain_allocator.hpp"
#include "observe/counters.hpp"
#include "observe/sampling.hpp"
#include "os/os.hpp"

namespace coffer::hardened {

namespace {

COFFER_COLD Rest* make_rest(Heap* heap) {
  const usize bytes = round_up(sizeof(Rest), os::page_size());
  if (!charge(bytes)) return nullptr;
  Rest* const made = static_cast<Rest*>(os::map(bytes, os::page_size()));
  if (made == nullptr) {
    uncharge(bytes);
    return nullptr;
  }
  os::name_mapping(made, bytes, "coffer quarantine");
  counters().reserved.fetch_add(bytes, relaxed);  // relaxed, both: figures
  counters().metadata.fetch_add(bytes, relaxed);
  // relaxed: it is there before there is a heap. No call of the kernel's: a filter may have come.
  made->random = mix_bits(g_arenas.arenas[0].link_key.load(relaxed), heap->index.get()) | 1;
  heap->rest.set(made);
  return made;
}

// By xorshift (Marsaglia).
u32 draw(Rest* rest) {
  u64 bits = rest->random;
  bits ^= bits << 13;
  bits ^= bits >> 7;
  bits ^= bits << 17;
  rest->random = bits;
  return static_cast<u32>(bits >> 32);
}

// In a span of a class the heap writes to the first two words, and the rest is looked at when the block is handed out.
COFFER_INLINE void end_rest(Resting resting) {
  if (COFFER_UNLIKELY(resting.block == nullptr)) return;  // a fork child lost it
  const char* const words = static_cast<const char*>(resting.block);
  const bool of_class = resting.bytes < kOfNoClass;
  const usize bytes = resting.bytes & ~kOfNoClass;
  if (COFFER_UNLIKELY((load_word(words) | load_word(words + 8)) != 0 ||
                      (!of_class && !is_untouched(resting.block, bytes, 0)))) {
    report_touched(resting.block, bytes);
  }
  PlainAllocator::deallocate(resting.block);
}

// The calling thread's; nullptr: it has no heap, or there is no memory for one.
COFFER_COLD Rest* find_rest() {
  if (t_heap == &g_null_heap) {
    // A thread that frees before it allocates.
    Inside inside;
    inside.own();
  }
  Heap* const heap = t_heap;
  if (heap == &g_null_heap) return nullptr;
  Rest* const rest = heap->rest.get();
  return rest != nullptr ? rest : make_rest(heap);
}
COFFER_INLINE Rest* own_rest() {
  Rest* const rest = t_heap->rest.get();
  return COFFER_LIKELY(rest != nullptr) ? rest : find_rest();
}

void end_large_rest(Rest* rest) {
  const Resting resting = rest->large.pop();
  // Where the kernel does not open it, it waits on; where it cannot, nobody gets it any more.
  if (!end_fenced(resting.block, resting.bytes) && !rest->large.is_full()) rest->large.push(resting);
}

}  // namespace

const Rest* rest_of(const Heap* heap) { return heap->rest.get(); }

void rest(void* block, usize bytes, bool of_class) {
  if (COFFER_UNLIKELY(!of_class)) bytes += kOfNoClass;
  Rest* const rest = own_rest();
  if (COFFER_UNLIKELY(rest == nullptr)) return end_rest({block, bytes});
  if (COFFER_LIKELY(rest->queue.is_full())) {
    end_rest(rest->queue.exchange_at(draw(rest) % kOldest, {block, bytes}));
  } else {
    rest->queue.push({block, bytes});
  }
  while (COFFER_UNLIKELY(rest->queue.bytes() > kQueueBytes)) end_rest(rest->queue.pop());
}

void rest_large(void* block, usize bytes) {
  Rest* const rest = own_rest();
  if (COFFER_UNLIKELY(rest == nullptr)) {
    end_fenced(block, bytes);
    return;
  }
  if (rest->large.is_full()) end_large_rest(rest);
  if (!rest->large.is_full()) rest->large.push({block, bytes});
  // One stays in any case, however long it is.
  const usize newest = bytes;
  for (u32 i = 0; i < kLargeQueue && rest->large.bytes() > kLargeQueueBytes && rest->large.bytes() > newest; ++i) {
    end_large_rest(rest);
  }
}

Resters sum_of_rests() {
  Resters sum = {};
  for (u32 i = fallback_heap_used() ? 0 : 1; i < heaps_ever(); ++i) {
    const Rest* const rest = rest_of(heap_by_index(i));
    if (rest == nullptr) continue;
    sum.bytes += rest->queue.bytes() + rest->large.bytes();
    sum.large_bytes += rest->large.bytes();
    sum.large_blocks += rest->large.count();
  }
  return sum;
}

bool end_all_rests() {
  if (t_heap == &g_null_heap) return false;
  Rest* const rest = t_heap->rest.get();
  if (rest == nullptr) return false;
  bool any = false;
  for (; !rest->queue.is_empty(); any = true) end_rest(rest->queue.pop());
  for (u32 i = 0; i < kLargeQueue && !rest->large.is_empty(); ++i, any = true) end_large_rest(rest);
  return any;
}

}  // namespace coffer::hardened

namespace coffer {

void rests_end() { hardened::end_all_rests(); }

}  // namespace coffer
