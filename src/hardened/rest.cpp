// SPDX-License-Identifier: MIT
#include "hardened/rest.hpp"

#include "base/bits.hpp"
#include "budget/budget.hpp"
#include "config/config.hpp"
#include "exchange/inside.hpp"
#include "exchange/registry.hpp"
#include "hardened/canary.hpp"
#include "hardened/fenced.hpp"
#include "hardened/report.hpp"
#include "heap/plain_allocator.hpp"
#include "observe/counters.hpp"
#include "observe/sampling.hpp"
#include "os/os.hpp"
#include "span/choices.hpp"

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
  for (ClassIndex c = 0; c < kClasses; ++c) made->block_bytes[c] = class_layout(c).block_bytes;
  made->fast_sizes = config::options().mixed == config::MixedPolicy::always ? 0 : kLargestSmall - kCanaryBytes;
  heap->rest.set(made);
  return made;
}

// What `bits` of a number say that nobody outside knows: the highest of a linear congruence (Knuth's multiplier).
COFFER_INLINE u32 draw(Rest* rest, u32 bits) {
  rest->random = rest->random * 6364136223846793005 + 1442695040888963407;
  return static_cast<u32>(rest->random >> (64 - bits));
}

// In a span of a class the heap writes to the first two words, and the rest is looked at when the block is handed out.
// have: where it lies in none.
COFFER_INLINE void end_rest(void* block, usize have, bool of_class) {
  const char* const words = static_cast<const char*>(block);
  if (COFFER_UNLIKELY((load_word(words) | load_word(words + 8)) != 0 || (!of_class && !is_untouched(block, have, 0)))) {
    report_touched(block, have);
  }
  PlainAllocator::deallocate(block);
}
// One of the oldest, by lot.
void end_some_rest(Rest* rest) {
  // As many of a queue that is not full as it is shorter.
  const u32 place = draw(rest, kOldestLog2) * rest->queue.count() / kQueue;
  const Resting gone = rest->queue.pop_at(place);
  const usize have = bytes_of(rest, gone);
  rest->bytes.set(rest->queue.is_empty() ? 0 : rest->bytes.get() - have);
  end_rest(gone.block(), have, gone.size_class() != Resting::kNoClass);
}

// Takes the `place`-th oldest large block out.
void* take_large(Rest* rest, u32 place) {
  void* const block = rest->large.pop_at(place).block();
  rest->large_bytes.set(rest->large.is_empty() ? 0 : rest->large_bytes.get() - fenced_length(block));
  return block;
}

void push_large(Rest* rest, void* block) {
  rest->large.push(Resting(block, Resting::kNoClass));
  rest->large_bytes.set(rest->large_bytes.get() + fenced_length(block));
}

void end_large_rest(Rest* rest) {
  void* const block = take_large(rest, 0);
  // Where the kernel does not open it, it waits on; where it cannot, nobody gets it any more.
  if (!end_fenced(block) && !rest->large.is_full()) push_large(rest, block);
}

}  // namespace

Rest* find_rest() {
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

const Rest* rest_of(const Heap* heap) { return heap->rest.get(); }

usize bytes_of(const Rest* rest, Resting resting) {
  if (COFFER_LIKELY(resting.size_class() != Resting::kNoClass)) return rest->block_bytes[resting.size_class()];
  return PlainAllocator::usable_size(resting.block());
}

namespace {

// Into a queue that is not full, or holds more bytes than it may afterwards.
COFFER_NOINLINE void rest_unusually(Rest* rest, Resting newest, usize have) {
  if (rest->queue.is_full()) end_some_rest(rest);
  rest->queue.push(newest);
  rest->bytes.set(rest->bytes.get() + have);
  while (rest->bytes.get() > kQueueBytes) end_some_rest(rest);
}

COFFER_NOINLINE void end_rest_elsewhere(Rest* rest, Resting gone) {
  end_rest(gone.block(), bytes_of(rest, gone), false);
}

}  // namespace

// Without a stack frame, as deallocate.
void rest_block(Rest* rest, void* block, u32 size_class, usize have) {
  const Resting newest(block, size_class);
  const usize bytes = rest->bytes.get() + have;
  if (COFFER_UNLIKELY(!rest->queue.is_full()) || COFFER_UNLIKELY(bytes > kQueueBytes))
    return rest_unusually(rest, newest, have);
  const Resting gone = rest->queue.exchange_at(1 + draw(rest, kOldestLog2), newest);
  if (COFFER_UNLIKELY(gone.size_class() == Resting::kNoClass)) {
    rest->bytes.set(bytes - bytes_of(rest, gone));
    return end_rest_elsewhere(rest, gone);
  }
  const usize less = rest->block_bytes[gone.size_class()];
  rest->bytes.set(bytes - less);
  end_rest(gone.block(), less, true);
}

void rest_anyhow(void* block, u32 size_class, usize have) {
  Rest* const rest = own_rest();
  if (rest == nullptr) return end_rest(block, have, size_class != Resting::kNoClass);
  rest_block(rest, block, size_class, have);
}

void rest_large(void* heaps_block) {
  Rest* const rest = own_rest();
  if (COFFER_UNLIKELY(rest == nullptr)) {
    end_fenced(heaps_block);
    return;
  }
  if (rest->large.is_full()) end_large_rest(rest);
  if (rest->large.is_full()) {
    // No other one can be opened. Whoever closed them may have given up a right since.
    end_fenced(heaps_block);
    return;
  }
  push_large(rest, heaps_block);
  // One stays in any case, however long it is.
  for (u32 i = 0; i < kLargeQueue && rest->large_bytes.get() > kLargeQueueBytes && rest->large.count() > 1; ++i) {
    end_large_rest(rest);
  }
}

void* take_rested(usize least, usize most) {
  Rest* const rest = t_heap->rest.get();
  if (rest == nullptr) return nullptr;
  u32 best = kLargeQueue;
  for (u32 i = 0; i + kLargeResting < rest->large.count(); ++i) {
    const usize bytes = fenced_length(rest->large.at(i).block());
    if (bytes < least || bytes > most) continue;
    best = i;
    most = bytes;
  }
  return best != kLargeQueue ? take_large(rest, best) : nullptr;
}

Resters sum_of_rests() {
  Resters sum = {};
  for (u32 i = fallback_heap_used() ? 0 : 1; i < heaps_ever(); ++i) {
    const Rest* const rest = rest_of(heap_by_index(i));
    if (rest == nullptr) continue;
    sum.bytes += rest->bytes.get() + rest->large_bytes.get();
    sum.large_bytes += rest->large_bytes.get();
    sum.large_blocks += rest->large.count();
  }
  return sum;
}

bool end_all_rests() {
  if (t_heap == &g_null_heap) return false;
  Rest* const rest = t_heap->rest.get();
  if (rest == nullptr) return false;
  bool any = false;
  for (; !rest->queue.is_empty(); any = true) end_some_rest(rest);
  for (u32 i = 0; i < kLargeQueue && !rest->large.is_empty(); ++i, any = true) end_large_rest(rest);
  return any;
}

}  // namespace coffer::hardened

namespace coffer {

void rests_end() { hardened::end_all_rests(); }

}  // namespace coffer
