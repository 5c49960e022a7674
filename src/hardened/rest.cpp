// SPDX-License-Identifier: MIT
#include "hardened/rest.hpp"

#include <iterator>

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

SizedTables g_sized;

namespace {

void fill_tables() {
  const auto fill = [](Sized& sized, ClassIndex size_class, u32 stack) {
    sized.set(class_layout(size_class).block_bytes, stack);
  };
  const auto at = [](u32 index) { return kStacksAt + index * static_cast<u32>(sizeof(Stack)); };
  for (ClassIndex c = 0, index = 0; c < kClasses; ++c) fill(g_sized.classes[c], c, has_stack(c) ? at(index++) : 0);
  for (usize i = 0; i < std::size(g_sized.requests); ++i) {
    const ClassIndex c = compute_class(i * kQuantum < kLeastBlock ? kLeastBlock : i * kQuantum);
    fill(g_sized.requests[i], c, at(c));
    static_assert(has_stack(compute_class(kMostQuick)));  // and so all classes before it: the index is the class
  }
}

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
  // No call of the kernel's: a filter may have come.
  made->key = canary_key();
  made->random = mix_bits(made->key, heap->index.get()) | 1;
  fill_tables();
  for (Rest::Entry& entry : made->row) entry.stack.set(kFullAt);
  made->full.count.set(Stack::kMost);
  look_at_watches(made);
  heap->rest.set(made);
  return made;
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
  const u32 place = static_cast<u32>(draw(rest) >> (64 - kOldestLog2)) * rest->queue.count() / kQueue;
  const Resting gone = rest->queue.pop_at(place);
  const usize have = bytes_of(gone);
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

usize bytes_of(Resting resting) {
  if (COFFER_LIKELY(resting.size_class() != Resting::kNoClass)) return block_bytes_of(resting.size_class());
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

COFFER_NOINLINE void end_rest_elsewhere(Resting gone) { end_rest(gone.block(), bytes_of(gone), false); }

}  // namespace

usize length_of(const void* block) {
  const uptr address = reinterpret_cast<uptr>(block);
  return first_record(slice_record(arena_of(address), address))->block_bytes.get();
}

namespace {

constexpr u32 kAtOnce = 8;  // blocks to and from a heap; about half of a stack

// A block of a span of a class, which is zero, to the heaps: as their free, which need not look whether it is a block.
COFFER_INLINE void give_back(void* block) {
  Arena& arena = g_arenas.arenas[0];
  const usize offset = reinterpret_cast<uptr>(block) - arena.base;
  if (COFFER_UNLIKELY(!arena.fast_frontier.is_above(offset))) return PlainAllocator::deallocate(block);
  Span* const span = arena.spans + offset / kSliceBytes;
  Heap* const own = t_heap;
  own->inside.store(reinterpret_cast<uptr>(span), relaxed);  // relaxed, and what follows: as in deallocate_as
  compiler_fence();
  Heap* const heap = own->self.load(acquire);  // acquire: as there
  if (COFFER_UNLIKELY(!span->owner.is(heap))) return PlainAllocator::deallocate(block);
  if (COFFER_UNLIKELY(push_freed(span, *span->freed.get(), static_cast<Block*>(block)))) return local_event(span);
  heap->inside.store(kOutside, release);  // release: as there
}

// The lowest `count` go to the heap.
void end_stacked(Stack* stack, u64 count) {
  const u64 before = stack->count.get();
  void* gone[Stack::kMost];
  for (u64 i = 0; i < count; ++i) gone[i] = stack->blocks[i].get();
  // A fork child that finds the change half made must not find one twice.
  stack->count.set(0);
  compiler_fence();
  for (u64 i = count; i < before; ++i) stack->blocks[i - count].set(stack->blocks[i].get());
  compiler_fence();
  stack->count.set(before - count);
  for (u64 i = 0; i < count; ++i) {
    // The heap writes there, and malloc will not see it.
    const char* const words = static_cast<const char*>(gone[i]);
    if (COFFER_UNLIKELY((load_word(words) | load_word(words + 8)) != 0)) report_touched(gone[i], length_of(gone[i]));
    give_back(gone[i]);
  }
}

}  // namespace

void look_at_watches(Rest* rest) {
  const bool by_heap = watches_lists() || config::options().mixed == config::MixedPolicy::always;
  rest->fast_sizes = by_heap ? 0 : kMostQuick - kCanaryBytes;
}

COFFER_NOINLINE void rest_and_look(Rest* rest, void* block, u64 of_stack) {
  look_at_watches(rest);
  rest_quick<true>(rest, block, of_stack);
}

COFFER_NOINLINE void end_row(Rest* rest, void* block, Stack* stack) {
  if (block == nullptr) return;  // the row was not full
  if (stack == &rest->full) {
    const usize have = length_of(block);
    rest->foreign_bytes.set(rest->foreign_bytes.get() - have);
    return end_rest(block, have, true);
  }
  end_stacked(stack, kAtOnce);
  stack->push(stack->count.get(), block);
}

COFFER_NOINLINE bool fill_stack(Rest* rest, u32 size_class) {
  Stack* const stack = stack_at(rest, g_sized.classes[size_class].stack());
  if (stack->count.get() != 0) return true;
  const usize bytes = class_bytes(size_class);
  u64 lots = draw(rest);
  u64 count = 0;
  for (; count < kAtOnce; ++count) {
    void* const block = coffer::allocate_fast(bytes);
    if (block == nullptr) break;
    *static_cast<Lane*>(block) = Lane{};                           // the heap's bytes
    __builtin_prefetch(static_cast<char*>(block) + bytes - 1, 1);  // malloc looks at all of it
    // To a place by lot. The highest bits are the best.
    Owned<void*>& place = stack->blocks[(lots >> 56) * (count + 1) >> 8];
    lots <<= 7;
    stack->blocks[count].set(place.get());
    place.set(block);
  }
  compiler_fence();  // as in push
  stack->count.set(count);
  rest->ended_at.set(0);
  return count != 0;
}

// Without a stack frame, as deallocate.
void rest_block(Rest* rest, void* block, u32 size_class, usize have) {
  const Resting newest(block, size_class);
  const usize bytes = rest->bytes.get() + have;
  if (COFFER_UNLIKELY(!rest->queue.is_full()) || COFFER_UNLIKELY(bytes > kQueueBytes))
    return rest_unusually(rest, newest, have);
  const Resting gone = rest->queue.exchange_at(1 + static_cast<u32>(draw(rest) >> (64 - kOldestLog2)), newest);
  if (COFFER_UNLIKELY(gone.size_class() == Resting::kNoClass)) {
    rest->bytes.set(bytes - bytes_of(gone));
    return end_rest_elsewhere(gone);
  }
  const usize less = block_bytes_of(gone.size_class());
  rest->bytes.set(bytes - less);
  end_rest(gone.block(), less, true);
}

void rest_anyhow(void* block, u32 size_class, usize have) {
  Rest* const rest = own_rest();
  if (rest == nullptr) return end_rest(block, have, size_class != Resting::kNoClass);
  if (is_quick(have) && size_class != Resting::kNoClass) {
    return rest_foreign(rest, block, have);
  }
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

bool rests_here(const void* block) {
  const Rest* const rest = t_heap->rest.get();
  if (rest == nullptr) return false;
  bool found = false;
  rest->for_each_quick([&](const void* other, usize) { found |= other == block; });
  rest->for_each_foreign([&](const void* other) { found |= other == block; });
  rest->queue.for_each([&](Resting resting) { found |= resting.block() == block; });
  return found;
}

Resters sum_of_rests() {
  Resters sum = {};
  for (u32 i = fallback_heap_used() ? 0 : 1; i < heaps_ever(); ++i) {
    const Rest* const rest = rest_of(heap_by_index(i));
    if (rest == nullptr) continue;
    sum.bytes += rest->bytes.get() + rest->large_bytes.get() + rest->foreign_bytes.get();
    rest->for_each_quick([&](const void*, usize have) { sum.bytes += have; });
    sum.large_bytes += rest->large_bytes.get();
    sum.large_blocks += rest->large.count();
  }
  return sum;
}

bool end_all_rests() {
  if (t_heap == &g_null_heap) return false;
  Rest* const rest = t_heap->rest.get();
  if (rest == nullptr) return false;
  // A program at its limit comes by with each malloc.
  const u64 now = rest->row_first.get() + 1;
  if (rest->ended_at.get() == now && rest->queue.is_empty() && rest->large.is_empty()) return false;
  bool any = false;
  for (Rest::Entry& entry : rest->row) {
    void* const block = entry.block.get();
    if (block == nullptr) continue;
    entry.block.set(nullptr);
    entry.stack.set(kFullAt);
    compiler_fence();
    end_rest(block, length_of(block), true);
    any = true;
  }
  rest->foreign_bytes.set(0);
  for (Stack& stack : rest->stacks) {
    if (stack.count.get() == 0) continue;
    end_stacked(&stack, stack.count.get());
    any = true;
  }
  rest->ended_at.set(now);
  for (; !rest->queue.is_empty(); any = true) end_some_rest(rest);
  for (u32 i = 0; i < kLargeQueue && !rest->large.is_empty(); ++i, any = true) end_large_rest(rest);
  return any;
}

}  // namespace coffer::hardened

namespace coffer {

void rests_end() { hardened::end_all_rests(); }

}  // namespace coffer
