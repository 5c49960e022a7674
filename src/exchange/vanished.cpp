// SPDX-License-Identifier: MIT
// A fork child has one thread. The others vanished wherever they were, some in the middle of a call. What they held is
// repaired here, by one walk over the arena, at the child's first slow call (most children exec and never come here).
//
// Why a walk can do it. What the child finds of each vanished thread is a prefix of its program order. No thread of the
// child is inside the pool while the walk runs: slow paths start by waiting for it. Fork waits for no lock, so what a
// thread had locked may be half changed: the list of unused heaps, the lists of the partial pool, lists and tables of
// mixed spans. All of these follow from what records say, and are made again where a lock was held. Records themselves
// change by single stores and CASes. Therefore:
//   a large block that is free already ...... its freer vanished before its chunks went back: give them back
//   the tail of a large block, held ......... its purger vanished, or who resized the block: it is as long as it was
//   a slice neither free nor described ...... its holder vanished between claim and use (or use and release): free it
//   a span owned by a vanished heap ......... count its lists again; it has no owner then
//   a listed span that is not linked ........ its inserter vanished: link it
//   a returning span ........................ its returner vanished: end it
//   a span owned by a heap that lives on .... counted again: who takes a span changes owner and count one by one
//   pages of a mixed span on their way ...... their purger vanished: put them back
// What cannot be known: blocks on their way between a list and the caller, or on a chain. They stay taken: at most
// one span's list, the open chains and one block a vanished thread.
//
// Model: models/fork.pml.
#include "arena/each.hpp"
#include "budget/budget.hpp"
#include "exchange/lists.hpp"
#include "exchange/mail.hpp"
#include "exchange/ownership.hpp"
#include "exchange/registry.hpp"
#include "exchange/sums.hpp"
#include "guard/guard.hpp"
#include "mixed/mixed.hpp"
#include "observe/counters.hpp"
#include "os/no_signals.hpp"
#include "pool/age.hpp"
#include "pool/partial_pool.hpp"
#include "pool/reclaimer.hpp"
#include "pool/room_map.hpp"
#include "pool/slice_pool.hpp"
#include "pool/tails.hpp"
#include "span/class_use.hpp"
#include "span/emptiness.hpp"
#include "span/purge_span.hpp"

namespace coffer {

namespace {

// Of a list of the span's blocks, what can be told: it is cut before a block that is none of the span (a link half
// written), or whose link is not whole.
ListEnd measure(Span* span, Block** head) {
  ListEnd end = {0, nullptr};
  const auto is_whole = [&](const Block* block) {
    return is_block_of(span, reinterpret_cast<uptr>(block)) && is_signed(block);
  };
  Block* block = *head;
  for (; block != nullptr && end.count < span->capacity.get() && is_whole(block); block = next_of(block)) {
    end.last = block;
    ++end.count;
  }
  if (end.count == 0) {
    *head = nullptr;
  } else if (block != nullptr) {
    set_next(end.last, nullptr);
  }
  return end;
}

// `heap`: owner, or the one before. Of a heap that lives on, what is on its own lists stays its own.
void adopt_orphan(Span* span, Heap* heap) {
  const ClassIndex size_class = span->size_class.get();
  Block* local = span->local_free.get();
  u32 count = measure(span, &local).count;
  if (has_vanished(heap) && heap->hot[size_class].get() == span) {
    Block* list = heap->blocks[size_class].get();
    if (list != nullptr && list != local) {
      const auto [listed, last] = measure(span, &list);
      if (listed != 0) {
        set_next(last, local);
        local = list;
        count += listed;
      }
    }
  }
  keep_from_malloc(span);
  span->local_free.set(local);
  set_countdown(span, count, kNever);
  if (heap == &g_null_heap) {
    // Who gave its pages back may have vanished before the kernel took them: they are absent, and hold data.
    set_absent_are(span, AbsentPages::unknown);
    span->dirty_slices_at_start.set(static_cast<u8>(low_mask(span->slices.get())));
  }
  // Between taking a page from the absent ones and counting its blocks, a thread may have vanished.
  span->carved.set(span->capacity.get() - count_absent_blocks(span));
  span->ring_next.set(0);  // of a ring that nobody will meet: its links may be half written
  span->ring_slack.set(0);
  span->owner.store(nullptr, relaxed);  // relaxed: the child's other threads wait
  share_claimed(span);
}

// Lists of blocks from holes. Those of hot spans come with the spans.
void return_lists() {
  for (u32 i = fallback_heap_used() ? 0 : 1; i < heaps_ever(); ++i) {
    Heap* heap = heap_by_index(i);
    if (!has_vanished(heap)) continue;
    for (ClassIndex c = 0; c < kClasses; ++c) {
      const Block* first = heap->blocks[c].get();
      if (first == nullptr) continue;
      const uptr address = reinterpret_cast<uptr>(first);
      const Span* span = first_record(slice_record(arena_of(address), address));
      if (span != nullptr && is_mixed(span)) free_list(heap, c);
    }
  }
}

// The partial pool's lists are made anew from the spans that are listed, which the walk finds.
void drop_torn_lists() {
  if (g_partial_pool.is_torn()) g_partial_pool.drop_lists();
}

// Mixed spans come first: what else the walk does may free blocks of them.
void restore_mixed() {
  if (!g_mixed_pool.is_torn()) return;
  g_mixed_pool.drop_lists();
  for_each_chunk([](Arena* arena, u32 index, ChunkUse use) {
    if (use != ChunkUse::spans) return;
    for_each_record(arena, index, [](Span* span, SliceUse slice_use) {
      if (slice_use != SliceUse::large) g_mixed_pool.restore(span);
    });
  });
  g_mixed_pool.mark_whole();
}

void resolve_span(Span* span) {
  if (g_partial_pool.is_torn()) PartialPool::forget(span);
  Heap* owner = span->owner.load(relaxed);  // relaxed, all here: the writers are gone
  const RemoteWord word = load_word(span, relaxed);
  const SpanState state = word.state();
  const bool returning = word.count() == span->capacity.get();
  if (owner != nullptr && is_shared(state)) {
    // Who was adopting it wrote its name first, and vanished before the span was its own.
    span->owner.store(nullptr, relaxed);
    owner = nullptr;
  }
  if (owner != nullptr && has_vanished(owner)) return adopt_orphan(span, owner);
  if (owner != nullptr) {
    // Whether its claimant got as far as the mailbox is not known: the boxes were emptied, and every claimed span is
    // put in again.
    if (state == SpanState::claimed) put_in_box(owner, span);
    return;
  }
  switch (state) {
    case SpanState::shared:
      if (returning) end_span(span);
      return;
    case SpanState::listed:
      if (returning) {
        if (!PartialPool::is_linked(span) || g_partial_pool.remove(span)) end_span(span);
      } else if (!PartialPool::is_linked(span) && !insert_listed(span)) {
        end_span(span);
      }
      return;
    default:
      // A private state without an owner: its new owner vanished before it signed, or a claimant before it shared.
      return adopt_orphan(span, &g_null_heap);
  }
}

// What heaps own is counted anew while the walk goes on, and gives slices back that no record describes, those that
// heaps keep, too: whoever took a span from a heap may have vanished between the count and the owner. A span that has
// an owner once it is resolved is one of a heap that lives on, or of an ended thread's.
void forget_held() {
  for (u32 i = fallback_heap_used() ? 0 : 1; i < heaps_ever(); ++i) {
    Heap* heap = heap_by_index(i);
    heap->held.store(0, relaxed);  // relaxed: the child's other threads wait
    heap->kept_slices.set(0);
  }
}

void count_held(const Span* span) {
  Heap* owner = span->owner.load(relaxed);  // relaxed, both: as above
  if (owner != nullptr) owner->held.fetch_add(span_bytes(span), relaxed);
}

// Whoever described this slice vanished over it, perhaps with its heap's name written: as a later slice of another span
// it would pass for that heap's own.
void release_slice(Arena* arena, Span* record) {
  record->use.store(SliceUse::none, relaxed);  // relaxed, both: the release of the slice publishes them
  record->owner.store(nullptr, relaxed);
  record->limit = 0;
  release_slices(arena, static_cast<u32>(record - arena->spans), 1, 1);
}

void resolve_chunk(Arena* arena, u32 index) {
  Chunk& chunk = arena->chunks[index];
  const u64 free = chunk.free.load(relaxed);  // relaxed: as above
  restore_room(arena, index);                 // whoever freed slices here may have vanished before the hint
  note_dirty(arena, index);                   // nor this one
  for (u32 i = 0; i < kSlicesPerChunk; ++i) {
    if ((free >> i) & 1) continue;
    Span* record = arena->spans + usize{index} * kSlicesPerChunk + i;
    switch (record->use.load(relaxed)) {
      case SliceUse::none:
        release_slice(arena, record);
        break;
      case SliceUse::span: {
        const u32 slices = record->slices.get();
        resolve_span(record);
        count_held(record);  // of one that ended, the owner is none
        i += slices - 1;
        break;
      }
      case SliceUse::large:
      case SliceUse::mixed:  // restore_mixed has seen to it
        i += record->slices.get() - 1;
        break;
      case SliceUse::span_rest:
        // Later slices without a first: described before it, or told after it that they are free.
        release_slice(arena, record);
        break;
    }
  }
}

}  // namespace

void resolve_vanished() {
  const ReclaimerRests rests;  // nor does this thread do a chore among what is not whole yet
  const NoSignals quiet;       // a handler that forks would leave a child in the middle of it
  LockGuard guard(registry_lock());
  if ((g_pending.load(relaxed) & kVanished) == 0) return;  // relaxed: under the lock
  empty_mailboxes();
  forget_held();
  restore_arenas();
  drop_torn_lists();
  restore_mixed();
  g_mixed_pool.finish_purges();
  return_lists();
  for_each_chunk([](Arena* arena, u32 index, ChunkUse use) {
    if (use == ChunkUse::spans) resolve_chunk(arena, index);
    // Chunks that were taken but not yet described, or whose large block was on its way back.
    if (use == ChunkUse::none) return_chunks(arena, index, 1, true);
    if (use != ChunkUse::large) return;
    // relaxed: the writers are gone.
    const bool live = arena->spans[usize{index} * kSlicesPerChunk].use.load(relaxed) == SliceUse::large;
    settle_tail(arena, index, live);
    if (!live) return_chunks(arena, index, arena->chunks[index].large_chunks.get(), true);
  });
  g_partial_pool.mark_whole();
  reclaim_vanished_records();
  // Who put mail into the box of a heap without a thread may have vanished before it saw to it.
  for (u32 i = 1; i < heaps_ever(); ++i) {
    if (heap_by_index(i)->attached.load(relaxed) == 0) take_mail(heap_by_index(i));  // relaxed: as above
  }
  // A thread may have vanished between a change and its count. relaxed, all: the child's other threads wait.
  const Sums sums = sum_chunks();
  ClassSums classes;
  sum_classes(classes);
  for (ClassIndex c = 0; c < kClasses; ++c) set_class_used(c, classes.used[c], classes.spans[c]);
  guard::count_anew();
  const usize held = sums.held + guard::held_bytes();
  counters().held.store(held, relaxed);
  counters().dirty.store(sums.dirty, relaxed);
  count_tails_anew(sums.tails);
  g_mixed_pool.count_anew();
  budget().charged.store(held + sums.tails + sums.dirty + counters().metadata.load(relaxed), relaxed);
  // release: pairs with the acquire in settle_fork.
  g_pending.fetch_and(~u32{kVanished}, release);
}

}  // namespace coffer
