// SPDX-License-Identifier: MIT
#include "span/purge_span.hpp"

#include "config/config.hpp"
#include "os/os.hpp"
#include "pool/huge_pages.hpp"
#include "pool/partial_pool.hpp"
#include "pool/reclaimer.hpp"
#include "pool/slice_pool.hpp"
#include "span/emptiness.hpp"
#include "span/sharing.hpp"

namespace coffer {

namespace {

constexpr u32 kMostBlocks = kMaxSpanSlices * kSliceBytes / kQuantum;

Atomic<u32> g_next_list;  // where the next look begins, in lists over all shards

// Which blocks of a span are free.
class FreeMap {
 public:
  explicit FreeMap(u32 capacity) {
    for (u32 i = 0; i <= capacity / 64; ++i) words_[i] = 0;
  }
  void add(u32 block) { words_[block / 64] |= u64{1} << (block % 64); }
  void remove(u32 from, u32 to) {
    for (u32 i = from; i < to; ++i) words_[i / 64] &= ~(u64{1} << (i % 64));
  }
  bool has(u32 block) const { return (words_[block / 64] >> (block % 64)) & 1; }
  bool has_all(u32 from, u32 to) const {
    for (u32 i = from; i < to; ++i) {
      if (!has(i)) return false;
    }
    return true;
  }

 private:
  u64 words_[kMostBlocks / 64 + 1];
};

void add_list(const Span* span, const Block* list, FreeMap& free) {
  // A program that wrote to freed blocks may have broken the list: what follows is lost then.
  for (u32 i = 0; list != nullptr && i < span->capacity.get(); list = next_if_signed(list), ++i) {
    const uptr address = reinterpret_cast<uptr>(list);
    if (!is_block_of(span, address)) return;
    free.add(static_cast<u32>(stride_of(span).at_or_before(address - span->first_block)));
  }
}

// The pages that a block touched and that no live block reaches. A page can be absent and touched: a block that starts
// before it ends in it. It goes with the page that this block starts in, which is when the block is forgotten.
u64 idle_pages(const Span* span, const FreeMap& free) {
  const usize first = first_offset(span);
  const Stride stride = stride_of(span);
  const u32 capacity = span->capacity.get();
  u64 idle = 0;
  for (u64 pages = touched_pages(span); pages != 0; pages &= pages - 1) {
    const u32 page = lowest_bit(pages);
    const usize start = page * kCarvePage;
    const usize end = start + kCarvePage;
    // The first block that reaches into the page, or the last one before it.
    const usize from = start <= first ? 0 : stride.at_or_before(start - first);
    usize to = end <= first ? 0 : stride.at_or_after(end - first);
    if (to > capacity) to = capacity;
    if (!free.has_all(static_cast<u32>(from), static_cast<u32>(to))) continue;
    const bool absent = ((span->absent.get() >> page) & 1) != 0;
    const usize start_page = (first + stride.offset(from)) / kCarvePage;
    if (!absent || ((idle >> start_page) & 1) != 0) idle |= u64{1} << page;
  }
  return idle;
}

// Where a page is larger than kCarvePage, only whole ones of the machine's can go.
u64 whole_pages(const Span* span, u64 pages) {
  const u32 unit = static_cast<u32>(os::page_size() / kCarvePage);
  if (unit <= 1) return pages;
  const u32 offset = static_cast<u32>(span_start(span) / kCarvePage % unit);
  u64 whole = 0;
  const u32 count = span->slices.get() * kPagesPerSlice;
  for (u32 page = (unit - offset) % unit; page + unit <= count; page += unit) {
    const u64 mask = low_mask(unit) << page;
    if ((pages & mask) == mask) whole |= mask;
  }
  return whole;
}

// Gives the pages back, run by run; returns those that are gone.
u64 purge_pages(Span* span, u64 pages) {
  u64 gone = 0;
  while (pages != 0) {
    const u32 page = lowest_bit(pages);
    const u64 rest = ~(pages >> page);
    const u32 length = rest != 0 ? lowest_bit(rest) : 64;
    const u64 mask = low_mask(length) << page;
    void* start = reinterpret_cast<void*>(span_start(span) + page * kCarvePage);
    if (os::purge(start, length * kCarvePage)) gone |= mask;
    pages &= ~mask;
  }
  return gone;
}

// What the slices' absent pages hold now: those of which all pages went are clean, those of which one stayed are not.
void note_slices(Span* span, u64 gone, u64 stayed) {
  u32 dirty = span->dirty_slices_at_start.get();
  for (u32 slice = 0; slice < span->slices.get(); ++slice) {
    const u64 mask = low_mask(kPagesPerSlice) << (slice * kPagesPerSlice);
    if ((gone & mask) == mask) dirty &= ~(1u << slice);
    if ((stayed & mask) != 0) dirty |= 1u << slice;
  }
  span->dirty_slices_at_start.set(static_cast<u8>(dirty));
}

// Takes the blocks that start in the pages out of the map, and marks the pages absent.
void make_absent(Span* span, u64 pages, FreeMap& free) {
  u32 taken = 0;
  for_each_page(span, pages & ~span->absent.get(), [&](u32, u32 from, u32 to) {
    free.remove(from, to);
    taken += to - from;
  });
  span->absent.set(span->absent.get() | pages);
  span->carved.set(span->carved.get() - taken);
}

// Links the free blocks that are not absent, in address order.
void link_free(Span* span, const FreeMap& free) {
  Block* list = nullptr;
  u32 count = 0;
  for (u32 i = span->capacity.get(); i-- > 0;) {
    if (!free.has(i)) continue;
    Block* block = block_at(span, i);
    set_next(block, list);
    list = block;
    ++count;
  }
  set_countdown(span, count, kNever);
  span->local_free.set(list);
}

// Whether a block may start in one page and end in another that it does not fill.
bool parts_blocks(const Span* span) {
  const usize bytes = span->block_bytes.get();
  const usize first = first_offset(span);
  if (!stride_of(span).is_flat()) return true;
  return kCarvePage % bytes == 0 ? first % bytes != 0 : bytes % kCarvePage != 0 || first % kCarvePage != 0;
}

// The span is the caller's alone: claimed, without an owner, on no list. Others may push all the while.
//
// In this order, so that a fork child finds a span whose blocks are on its list and whose absent pages hold none of
// them, or a span with an empty list: what was on it is lost there. What absent pages hold it does not know.
usize purge_claimed(Span* span) {
  FreeMap map(span->capacity.get());
  u32 count = 0;
  add_list(span, take_remote(span, &count), map);
  add_list(span, span->local_free.get(), map);
  FreeMap with_absent = map;
  for_each_page(span, span->absent.get(), [&](u32, u32 from, u32 to) {
    for (u32 i = from; i < to; ++i) with_absent.add(i);
  });
  const u64 idle = whole_pages(span, idle_pages(span, with_absent));
  span->local_free.set(nullptr);
  compiler_fence();
  u64 gone = 0;
  if (idle != 0) {
    Arena* arena = arena_of_span(span);
    forbid_huge(arena, static_cast<u32>((span_start(span) - arena->base) / kChunkBytes));
    const u64 touched = touched_pages(span);
    // Marked before they go: what a fork child finds there is on no list. It takes none of them for zero
    // (adopt_orphan).
    make_absent(span, idle, map);
    gone = purge_pages(span, idle);
    // Where the machine's pages are larger, a block that starts in such a page may end in one that stays, and of which
    // nothing else tells that it was touched.
    const u64 tails = touched & ~touched_pages(span) & ~idle;
    note_slices(span, gone, (idle & ~gone) | tails);
    // A block that starts in such a page may end in one that is not zero.
    if (absent_are(span) != AbsentPages::zero || parts_blocks(span) || gone != idle || tails != 0) {
      set_absent_are(span, AbsentPages::unknown);
    }
  }
  link_free(span, map);
  return count_bits(gone) * kCarvePage;
}

// Free bytes of a listed span outside absent pages. It is listed with few, and counted once: an eighth at least, for
// more will follow if it waits.
usize free_bytes(const Span* span) {
  const u32 count = load_word(span, relaxed).count();  // relaxed: a figure
  const u32 absent = absent_count(span);
  if (count <= absent) return 0;
  const u32 least = span->carved.get() / kSmallPart;
  return usize{count - absent > least ? count - absent : least} * span->block_bytes.get();
}

// Looks at one span of a list; null: none is old enough.
bool look_at_one(u32 list, u32 least_age, usize* bytes) {
  Span* span = g_partial_pool.take_waiting(list % kClasses, list / kClasses, least_age, mark_looked_at);
  if (span == nullptr) return false;
  *bytes += purge_claimed(span);
  share_span(span, [](Span* looked_at) { return g_partial_pool.insert_looked_at(looked_at); });
  return true;
}

usize much() { return config::options().free_limit; }

}  // namespace

bool insert_listed(Span* span) { return g_partial_pool.insert(span, free_bytes(span)); }

void look_at_oldest() {
  if (COFFER_LIKELY(g_partial_pool.waiting_bytes() <= much())) return;
  want_reclaimer();
  const u32 lists = shard_count() * kClasses;
  usize bytes = 0;
  for (u32 i = 0; i < kLooks; ++i) {
    const u32 list = g_next_list.load(relaxed) % lists;  // relaxed: only a place to start
    if (look_at_one(list, kWholeTick, &bytes)) return;
    g_next_list.store(list + 1, relaxed);  // relaxed: as above
  }
}

usize purge_waiting_spans(u32 least_age, u32 most, u32* looked) {
  usize bytes = 0;
  u32 count = 0;
  for (u32 list = 0; list < shard_count() * kClasses; ++list) {
    while (count < most && look_at_one(list, least_age, &bytes)) ++count;
  }
  if (looked != nullptr) *looked = count;
  return bytes;
}

usize purge_all_spans() {
  g_partial_pool.look_again();
  return purge_waiting_spans(0, ~u32{0});
}

bool purge_spans_that_wait() {
  for (u32 looked = 0;; let_walks_in()) {
    purge_waiting_spans(kWholeTick, kSpansAStep, &looked);
    if (looked < kSpansAStep) break;
  }
  return g_partial_pool.waiting_bytes() > much();
}

bool purge_spans_step() {
  u32 looked = 0;
  purge_waiting_spans(kWholeTick, 1, &looked);
  return looked == 0;
}

usize unbacked_bytes(const Span* span) {
  const Arena* arena = arena_of_span(span);
  // A huge page is resident whole.
  if (arena->chunks[static_cast<usize>(span - arena->spans) / kSlicesPerChunk].huge.get() != 0) return 0;
  const bool mixed = span->use.load(relaxed) == SliceUse::mixed;  // relaxed: a figure
  const u64 all = low_mask(span->slices.get() * kPagesPerSlice);
  return count_bits(mixed ? span->absent.get() & all : untouched_pages(span)) * kCarvePage;
}

}  // namespace coffer
