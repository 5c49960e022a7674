// SPDX-License-Identifier: MIT
#include "span/span.hpp"

#include "policy/taken.hpp"
#include "pool/slice_pool.hpp"
#include "span/choices.hpp"
#include "span/class_use.hpp"
#include "span/colour.hpp"
#include "span/emptiness.hpp"
#include "span/shuffled.hpp"

namespace coffer {

namespace {

void describe_slices(Span* span, u32 slices, SliceUse first, SliceUse rest) {
  // relaxed: `use` tells a free that is not local what it met; a block reaches another thread only through the
  // program's own synchronisation, which carries these with it.
  for (u32 i = 1; i < slices; ++i) {
    span[i].first_distance.set(static_cast<u8>(i));
    span[i].use.store(rest, relaxed);
  }
  span->use.store(first, relaxed);
}

// Pages that are carved at one go, and the blocks that start in them: from .. to - 1.
struct Carving {
  u32 pages, from, to;
};

// Of a run of absent pages from `page` on: whole ones, until `most` blocks start in them. Old data is there already; a
// page that may be fresh is touched only when it is needed, so behind the first page in which a block starts they end
// where the slices do that held old data; `more`: at that page already.
Carving next_carved(const Span* span, u32 page, u32 run, u32 most, bool more) {
  const usize first = first_offset(span);
  const Stride stride = stride_of(span);
  const u32 capacity = span->capacity.get();
  const auto first_block_of = [&](u32 number) {
    const usize offset = number * kCarvePage;
    const usize block = offset <= first ? 0 : stride.at_or_after(offset - first);
    return block < capacity ? static_cast<u32>(block) : capacity;
  };
  const auto page_of = [&](u32 block) { return static_cast<u32>((first + stride.offset(block)) / kCarvePage); };
  const u32 from = first_block_of(page);
  u32 last = from < capacity ? page_of(from) : page + run;
  if (last >= page + run) return {run, from, from};
  const u32 resident = span->dirty_slices_at_start.get();
  if (more && ((resident >> (last / kPagesPerSlice)) & 1) == 0) return {0, from, from};
  u32 wanted = page_of((capacity - from < most ? capacity : from + most) - 1);
  if (wanted >= page + run) wanted = page + run - 1;
  for (u32 slice = (last + 1) / kPagesPerSlice; last < wanted && ((resident >> slice) & 1) != 0; ++slice) {
    const u32 end = (slice + 1) * kPagesPerSlice - 1;
    last = end < wanted ? end : wanted;
  }
  return {last + 1 - page, from, first_block_of(last + 1)};
}

// claim_at of a private span, of which `remote` blocks are on the remote list, and the others that are not on the
// owner's side can be.
u32 next_claim(const Span* span, u32 remote) {
  const u32 capacity = span->capacity.get();
  return claim_after(reuse_threshold(capacity), capacity - shared_base(span), remote);
}
u32 claim_of_used(const Span* span) { return claim_in_use(reuse_threshold(span->capacity.get()), span->carved.get()); }

// Links the blocks from .. to - 1 in address order, from `first` on, and then those before it. The last one is not
// written to.
Linked link_blocks(const Span* span, u32 from, u32 first, u32 to) {
  if constexpr (kHardening.shuffles) return link_shuffled(span, from, to);
  Block* const head = block_at(span, first);
  Block* block = head;
  const Stride stride = stride_of(span);
  const auto append = [&](uptr next) {
    set_link(block, reinterpret_cast<Block*>(next));
    block = reinterpret_cast<Block*>(next);
  };
  const auto append_all = [&](u32 index, u32 end) {
    while (index < end) {
      append(span->first_block + stride.offset(index));
      const u32 row_end = (index | (stride.row() - 1)) + 1;
      const uptr last =
          reinterpret_cast<uptr>(block) + uptr{(row_end < end ? row_end : end) - index - 1} * stride.bytes;
      while (reinterpret_cast<uptr>(block) != last) append(reinterpret_cast<uptr>(block) + stride.bytes);
      index = row_end;
    }
  };
  append_all(first + 1, to);
  append_all(from, first);
  return {head, block};
}

}  // namespace

u64 touched_pages(const Span* span) {
  const u64 all = low_mask(span->slices.get() * kPagesPerSlice);
  const u64 carved = ~span->absent.get() & all;
  const usize first = first_offset(span);
  const Stride stride = stride_of(span);
  // The last block that starts in a page may reach into the next ones.
  if ((carved & (carved + 1)) == 0) {
    // Carved from the first page on, and nothing was purged: the pages up to the highest one.
    if (span->carved.get() == 0) return 0;
    return low_mask(static_cast<u32>(divide_up(first + stride.length(span->carved.get()), kCarvePage))) & all;
  }
  u64 touched = 0;
  for_each_page(span, carved, [&](u32 page, u32, u32 to) {
    const u32 end = static_cast<u32>(divide_up(first + stride.length(to), kCarvePage));
    touched |= low_mask(end) & ~low_mask(page);
  });
  return touched & all;
}

u64 dirty_slices(const Span* span) {
  u64 dirty = span->dirty_slices_at_start.get();
  const u64 touched = touched_pages(span);
  for (u32 slice = 0; slice < span->slices.get(); ++slice) {
    if (((touched >> (slice * kPagesPerSlice)) & low_mask(kPagesPerSlice)) != 0) dirty |= u64{1} << slice;
  }
  return dirty;
}

u64 untouched_pages(const Span* span) {
  u64 untouched = ~touched_pages(span) & low_mask(span->slices.get() * kPagesPerSlice);
  for (u32 slice = 0; slice < span->slices.get(); ++slice) {
    const bool dirty = (span->dirty_slices_at_start.get() >> slice) & 1;
    if (dirty) untouched &= ~(low_mask(kPagesPerSlice) << (slice * kPagesPerSlice));
  }
  return untouched;
}

Span* make_span(ClassIndex size_class, Heap* owner, Start start) {
  const ClassLayout layout = shape_of(size_class);
  const u32 slices = 1u << layout.slices_log2;
  const u32 shard = current_shard();
  const SliceRun run = acquire_slices(slices, slices, shard);
  if (run.count == 0) return nullptr;
  Span* span = run.arena->spans + run.slice;
  span->owner.store(owner, relaxed);  // relaxed: published by the remote word, below
  keep_from_malloc(span);
  span->local_free.set(nullptr);
  set_countdown(span, 0, kNever);
  const usize first = layout.first + take_colour_line(size_class, layout) * kCacheLine +
                      page_colour(layout, run.slice / slices) * kCarvePage;
  span->first_line.set(static_cast<u8>(first / kCacheLine));
  span->row_log2.set(static_cast<u8>(layout.row_log2));
  span->first_block = run.arena->base + uptr{run.slice} * kSliceBytes + first;
  span->multiplier = layout.test.multiplier;
  span->limit = layout.test.limit;
  span->absent.set(low_mask(slices * kPagesPerSlice));
  span->block_bytes.set(layout.block_bytes);
  span->capacity.set(layout.capacity);
  span->carved.set(0);
  // relaxed: published by the remote word below.
  span->claim_at.store(reuse_threshold(layout.capacity), relaxed);
  span->size_class.set(static_cast<u8>(size_class));
  const bool has_index = start == Start::coloured && g_span_choices.coloured.get() != 0;
  span->start_index.set(static_cast<u8>(has_index ? index_of_place(run.slice / slices) : kNoStartIndex));
  span->slices.set(static_cast<u8>(slices));
  span->shard.set(static_cast<u8>(shard));
  span->listed.set(0);
  span->ring_next.set(0);
  span->ring_slack.set(0);
  set_absent_are(span, run.dirty == 0 ? AbsentPages::zero : AbsentPages::unknown);
  span->dirty_slices_at_start.set(static_cast<u8>(run.dirty));
  describe_slices(span, slices, SliceUse::span, SliceUse::span_rest);
  span_made(span);
  // release: pairs with the acquire in push_remote and in walks; who sees the new life sees its fields.
  span->remote.store(load_word(span, relaxed).next_life(SpanState::owned).bits(), release);
  return span;
}

void end_span(Span* span) {
  const u32 slices = span->slices.get();
  const u64 dirty = dirty_slices(span);
  const bool was_shared = is_shared(load_word(span, relaxed).state());  // relaxed: the caller's own
  give_colour_line(span);
  span_ended(span, was_shared ? shared_base_bytes(span) : 0);
  // relaxed, all here: published by the release of the slices.
  span->owner.store(nullptr, relaxed);
  describe_slices(span, slices, SliceUse::none, SliceUse::none);
  // Not before: a fork child that finds the span not quite ended measures its lists, and tells blocks by this.
  compiler_fence();
  span->limit = 0;  // from now on no pointer passes for a block of it
  // relaxed: published by the release of the slices.
  span->remote.store(load_word(span, relaxed).next_life(SpanState::free).bits(), relaxed);
  Arena* arena = arena_of_span(span);
  release_slices(arena, static_cast<u32>(span - arena->spans), slices, dirty);
}

Linked carve_blocks(Span* span, bool* zero) {
  Linked all = {};
  u32 blocks = 0;
  const u32 carved = span->carved.get();
  u64 absent = span->absent.get();
  // A class of which a page is enough stays with it.
  const u32 usual = carved == 0 ? 1 : most_carved_at_once(span->block_bytes.get());
  const u32 most = absent_are(span) == AbsentPages::resident ? kCarvedResident : usual;
  const u32 start = start_block(span);
  const u64 from_start = ~low_mask(static_cast<u32>((first_offset(span) + stride_of(span).offset(start)) / kCarvePage));
  while (absent != 0 && blocks < most) {
    const u64 ahead = (absent & from_start) != 0 ? absent & from_start : absent;
    const u32 page = lowest_bit(ahead);
    const u64 gap = ~(ahead >> page);
    const u32 run = gap != 0 ? lowest_bit(gap) : 64;
    const Carving next = next_carved(span, page, run, most - blocks, all.first != nullptr);
    if (next.pages == 0) break;
    absent &= ~(low_mask(next.pages) << page);
    span->absent.set(absent);
    compiler_fence();  // a fork child must find no link in a page that counts as untouched
    if (next.from == next.to) continue;
    const u32 first = carved == 0 && next.from <= start && start < next.to ? start : next.from;
    const Linked list = link_blocks(span, next.from, first, next.to);
    if (all.first == nullptr) {
      all.first = list.first;
    } else {
      set_link(all.last, list.first);
    }
    all.last = list.last;
    blocks += next.to - next.from;
  }
  if (all.first == nullptr) return all;
  span->carved.set(carved + blocks);
  *zero = kHardening.zeroes || absent_are(span) == AbsentPages::zero;
  return all;
}

PushDuty push_remote(Span* span, Block* first, Block* last, u32 count) {
  const uptr start = span_start(span);
  const u32 unit = static_cast<u32>((reinterpret_cast<uptr>(first) - start) / kQuantum) + 1;
  const u32 capacity = span->capacity.get();
  // acquire: pairs with the release of the owner's transitions, for claim_at. A later claim_at than the word's is as
  // good: its owner is about to enter that state.
  u64 seen = span->remote.load(acquire);
  for (;;) {
    const RemoteWord word(seen);
    if (COFFER_UNLIKELY(word.state() == SpanState::mixed)) return PushDuty::mixed;
    const u32 total = word.count() + count;
    if (total > capacity || word.first() == unit || word.state() == SpanState::free) return PushDuty::double_free;
    set_next(last, word.first() == 0 ? nullptr : reinterpret_cast<Block*>(start + uptr{word.first() - 1} * kQuantum));
    SpanState state = word.state();
    PushDuty duty = PushDuty::none;
    // relaxed: see above.
    if (state == SpanState::owned && total >= span->claim_at.load(relaxed)) {
      state = SpanState::claimed;
      duty = PushDuty::claimed;
    } else if (is_shared(state) && total == capacity) {
      duty = state == SpanState::listed ? PushDuty::take_off : PushDuty::give_back;
    } else if (state == SpanState::shared && total >= span->claim_at.load(relaxed)) {
      state = SpanState::listed;
      duty = PushDuty::list;
    }
    // release: pairs with the acquire in take_remote and mark_adopted, for the blocks' links and what the program wrote
    // before its free. acquire: a duty reads what the owner wrote before it made the span floating or shared.
    if (span->remote.compare_exchange(seen, word.with(state, total, unit).bits(), acq_rel, acquire)) return duty;
  }
}

Block* take_remote(Span* span, u32* count) {
  u64 seen = span->remote.load(relaxed);  // relaxed: the CAS below checks it
  RemoteWord word(seen);
  *count = 0;
  if (word.first() == 0) return nullptr;
  // relaxed: published by the CAS. Before it, for it may be less than before; a push that sees it early claims early.
  span->claim_at.store(claim_of_used(span), relaxed);
  do {
    word = RemoteWord(seen);
    // acquire: pairs with the release in push_remote. release: claim_at, for the same.
  } while (!span->remote.compare_exchange(seen, word.taken().bits(), acq_rel, relaxed));
  *count = word.count();
  return reinterpret_cast<Block*>(span_start(span) + uptr{word.first() - 1} * kQuantum);
}

namespace {

// One try to make `at` the number at which a push claims the owned span in the word `seen`.
bool set_claim(Span* span, u64& seen, u32 at) {
  // relaxed, all: only who has the span writes it; the CAS publishes it.
  const u32 before = span->claim_at.load(relaxed);
  span->claim_at.store(at, relaxed);
  // A push that sees the lower number claims a little early; one that sees a higher one would not claim.
  if (before <= at) return true;
  // release: pairs with the acquire in push_remote, for what a claimant reads of the owner's line.
  if (span->remote.compare_exchange(seen, RemoteWord(seen).owned().bits(), release, relaxed)) return true;
  span->claim_at.store(before, relaxed);  // or the next try would take it for low enough, with the old tag
  return false;
}

}  // namespace

Retired mark_floating(Span* span) {
  u64 seen = span->remote.load(relaxed);  // relaxed: the CAS checks it, where one is needed
  do {
    if (RemoteWord(seen).count() != 0) return Retired::has_blocks;
    if (RemoteWord(seen).state() != SpanState::owned) return Retired::claimed;
  } while (!set_claim(span, seen, reuse_threshold(span->capacity.get())));
  return Retired::floating;
}

bool mark_reusable(Span* span) {
  u64 seen = span->remote.load(relaxed);  // relaxed: as in mark_floating
  do {
    if (RemoteWord(seen).state() != SpanState::owned) return false;
  } while (!set_claim(span, seen, next_claim(span, RemoteWord(seen).count())));
  return true;
}

void receive_claimed(Span* span) {
  u64 seen = span->remote.load(relaxed);  // relaxed: the CAS checks it
  do {
    // relaxed: published by the CAS; no push asks for it of a claimed span.
    span->claim_at.store(next_claim(span, RemoteWord(seen).count()), relaxed);
    // release: as in set_claim.
  } while (!span->remote.compare_exchange(seen, RemoteWord(seen).owned().bits(), release, relaxed));
}

void raise_claim(Span* span) {
  const u32 wanted = claim_of_used(span);
  // relaxed, both: only who has the span writes it; a push that sees the old value claims a little early.
  if (wanted > span->claim_at.load(relaxed)) span->claim_at.store(wanted, relaxed);
}

bool claim(Span* span) {
  u64 seen = span->remote.load(relaxed);  // relaxed: the CAS below checks it
  do {
    if (RemoteWord(seen).state() != SpanState::owned) return false;
    // acq_rel: as a push that claims.
  } while (
      !span->remote.compare_exchange(seen, RemoteWord(seen).with_state(SpanState::claimed).bits(), acq_rel, relaxed));
  return true;
}

ShareResult mark_shared(Span* span) {
  const u32 capacity = span->capacity.get();
  const u32 base = shared_base(span);
  u64 seen = span->remote.load(acquire);  // acquire: pairs with push_remote, if the span turns out empty
  for (;;) {
    const RemoteWord word(seen);
    const u32 total = base + word.count();
    if (total >= capacity) return ShareResult::empty;
    const u32 threshold = reuse_threshold(capacity);
    const SpanState state = total >= threshold ? SpanState::listed : SpanState::shared;
    span->claim_at.store(threshold, relaxed);  // relaxed: published by the CAS
    // release: pairs with the acquire in push_remote (a duty, claim_at) and mark_adopted: the owner's line goes with
    // the span. seq_cst: see share_span.
    if (span->remote.compare_exchange(seen, word.with(state, total, word.first()).bits(), seq_cst, acquire)) {
      return state == SpanState::listed ? ShareResult::listed : ShareResult::shared;
    }
  }
}

bool list_early(Span* span) {
  u64 seen = span->remote.load(seq_cst);  // seq_cst: see share_span
  for (;;) {
    const RemoteWord word(seen);
    // A returning one is its returner's. The capacity is this life's: the CAS fails in another.
    if (word.state() != SpanState::shared || word.count() == span->capacity.get()) return false;
    const bool list = word.count() != 0;
    // relaxed: published by the CAS. If the span's life ended meanwhile, it is too low in the next one, as in
    // take_remote.
    if (!list) span->claim_at.store(1, relaxed);
    const RemoteWord wanted = list ? word.with_state(SpanState::listed) : word.watched();
    // acq_rel: as a push that lists a span.
    if (span->remote.compare_exchange(seen, wanted.bits(), acq_rel, relaxed)) return list;
  }
}

bool mark_looked_at(Span* span) {
  const u32 base = shared_base(span);
  const usize free_bytes = shared_base_bytes(span);
  // It counts as private while it is looked at: others do not find it meanwhile.
  span_adopted(span->size_class.get(), free_bytes);
  u64 seen = span->remote.load(relaxed);  // relaxed: the CAS below checks it
  for (;;) {
    const RemoteWord word(seen);
    if (word.state() != SpanState::listed || word.count() == span->capacity.get()) break;
    const RemoteWord wanted = word.with(SpanState::claimed, word.count() - base, word.first());
    // acquire: as in mark_adopted.
    if (span->remote.compare_exchange(seen, wanted.bits(), acquire, relaxed)) return true;
  }
  span_shared(span->size_class.get(), free_bytes);  // as in mark_adopted
  return false;
}

bool mark_adopted(Span* span, Heap* heap) {
  const u32 base = shared_base(span);
  const ClassIndex size_class = span->size_class.get();
  const usize free_bytes = shared_base_bytes(span);
  span_adopted(size_class, free_bytes);
  u64 seen = span->remote.load(relaxed);  // relaxed: the CAS below checks it
  for (;;) {
    const RemoteWord word(seen);
    if (word.state() != SpanState::listed || word.count() == span->capacity.get()) break;
    const u32 remote = word.count() - base;
    // relaxed, both: published by the CAS. Before it, for from then on a push may claim the span from its new owner.
    span->owner.store(heap, relaxed);
    span->claim_at.store(next_claim(span, remote), relaxed);
    // acquire: pairs with the release in mark_shared (the owner's line) and in push_remote (the remote list). release:
    // owner and claim_at, for push_remote.
    if (span->remote.compare_exchange(seen, word.owned(remote).bits(), acq_rel, relaxed)) {
      return true;
    }
  }
  span_shared(size_class, free_bytes);  // it was not adopted, after all
  span->owner.store(nullptr, relaxed);  // relaxed: whoever ends the span takes it off the pool first, under the lock
  return false;
}

}  // namespace coffer
