// SPDX-License-Identifier: MIT
// coffer_check: every invariant that a walk can see. Other threads must be outside Coffer meanwhile. A heap whose
// thread is not has something in hand, and is left out with its spans: in a fork child there may be one that counts as
// used and has no thread (stamp_heaps in exchange/forking.cpp).
#include "base/text.hpp"
#include "budget/budget.hpp"
#include "config/config.hpp"
#include "exchange/chains.hpp"
#include "exchange/kept_slices.hpp"
#include "exchange/mail.hpp"
#include "exchange/registry.hpp"
#include "exchange/ring.hpp"
#include "exchange/sums.hpp"
#include "guard/guard.hpp"
#include "inspect/walk.hpp"
#include "mixed/mixed.hpp"
#include "observe/counters.hpp"
#include "os/os.hpp"
#include "policy/held_back.hpp"
#include "policy/kept.hpp"
#include "pool/age.hpp"
#include "pool/partial_pool.hpp"
#include "pool/reclaimer.hpp"
#include "pool/slice_pool.hpp"
#include "pool/tails.hpp"
#include "span/choices.hpp"
#include "span/class_use.hpp"
#include "span/emptiness.hpp"

namespace coffer {

namespace {

// A figure of one heap in a sum over all: differences of two heaps do not make up for each other, as they would in a
// plain sum, and no table of heaps is needed.
usize weighted(const Heap* heap, usize bytes) {
  constexpr usize kOdd = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio
  const usize weight = (heap->index.get() + 1) * kOdd;
  return bytes * ((weight ^ (weight >> 32)) * kOdd);
}

// A slice in a sum over slices: that of one and that of another differ.
usize name_of(const Span* slice) { return usize{span_number(slice)} * span_number(slice) * span_number(slice); }

// Of which heap and class, where that is known.
struct Where {
  const Heap* heap = nullptr;
  ClassIndex size_class = kClasses;
};

// relaxed: no thread that is here is inside.
bool is_at_work(const Heap* heap) { return at_work_on(heap, relaxed) != kOutside; }

class Checker {
 public:
  usize violations() const { return violations_; }

  void check_heaps();
  void check_chunk(Arena* arena, u32 index, ChunkUse use);
  void check_partial_pool();
  void check_sums();
  void check_classes();

 private:
  void expect(bool holds, const char* line, Where where = {}) {
    if (COFFER_LIKELY(holds)) return;
    ++violations_;
    TextBuffer<200> text;
    text.add("coffer: check: ").add(line);
    if (where.heap != nullptr) text.add(", heap ").number(where.heap->index.get());
    if (where.size_class < kClasses) {
      text.add(", class ").number(where.size_class).add(" of ").number(class_layout(where.size_class).block_bytes);
      text.add(" bytes");
    }
    text.end_line();
    os::write_error(text.data(), text.stored());
  }

  // Walks a list of the span's free blocks; returns its length.
  u32 walk(const Span* span, const Block* list);
  void check_span(Span* span);
  void check_free_of(const Span* span, const Heap* owner, RemoteWord word, bool hot);
  void check_mixed(Span* span);
  void check_hole_list(const Block* list, usize bytes);
  struct Kept {
    usize slack = 0, empties = 0;
    usize mailed = 0;  // of slack, in partly used spans that are claimed: they are judged when they are taken
  };
  void check_kept(const Heap* heap, const Kept& kept);
  void check_ring(const Heap* heap, SpanNumber newest, Kept& kept);
  void check_chain(Heap* heap, const Chain& chain);
  void check_mail(const Heap* heap);
  void check_heap(Heap* heap);

  usize violations_ = 0;
  usize owned_ = 0;  // bytes of spans that heaps own, each weighted
  usize mixed_ = 0;  // bytes of mixed spans
  usize mixed_live_ = 0;
  usize lost_ = 0;  // slices in use that no record describes, less those that heaps keep, each by a number of its own
};

u32 Checker::walk(const Span* span, const Block* list) {
  u32 count = 0;
  for (; list != nullptr && count <= span->capacity.get(); list = next_if_signed(list)) {
    const uptr address = reinterpret_cast<uptr>(list);
    if (!is_block_of(span, address)) {
      expect(false, "a free list holds an address that is no block of its span");
      return count;
    }
    const u64 page = (address - span_start(span)) / kCarvePage;
    expect(((span->absent.get() >> page) & 1) == 0, "a block of an absent page is on a list");
    ++count;
  }
  expect(count <= span->capacity.get(), "a free list has a cycle");
  return count;
}

void Checker::check_span(Span* span) {
  const RemoteWord word = load_word(span, acquire);  // acquire: pairs with make_span
  const Heap* owner = span->owner.load(relaxed);     // relaxed, all here: no other thread is inside
  if (owner != nullptr) owned_ += weighted(owner, span_bytes(span));
  if (owner != nullptr && is_at_work(owner)) return;
  const u32 local = walk(span, span->local_free.get());
  const Block* first =
      word.first() == 0 ? nullptr : reinterpret_cast<Block*>(span_start(span) + uptr{word.first() - 1} * kQuantum);
  const u32 remote = walk(span, first);
  expect(local == local_count(span), "the local list is not as long as the countdown says");
  expect(count_absent_blocks(span) == absent_count(span), "absent pages do not hold the blocks that are not carved");
  expect(word.state() != SpanState::free, "a span in use is in a passing state");
  if (is_private(word.state())) {
    expect(owner != nullptr, "a private span has no owner");
    expect(word.state() != SpanState::claimed || is_mailed(span), "a claimed span was handed on to nobody");
    expect(word.count() == remote, "the remote list is not as long as its count");
    expect(local + remote + absent_count(span) <= span->capacity.get(), "a span has more free blocks than blocks");
  } else {
    expect(owner == nullptr, "a shared span has an owner");
    expect(word.count() == remote + local + absent_count(span), "a shared span's count is wrong");
    expect(word.count() < span->capacity.get(), "an empty shared span was not given back");
    expect((word.state() == SpanState::listed) == PartialPool::is_linked(span), "listed and linked differ");
  }
  const bool hot = owner != nullptr && owner->hot[span->size_class.get()].get() == span;
  expect(!stands_on_ring(span) || (owner != nullptr && !hot), "a span on a ring is hot, or nobody's");
  check_free_of(span, owner, word, hot);
}

// What is free in spans that nobody looks for: f / 2 on either side of one that floats, f / 2 of a shared one. While
// heaps share, and while memory is exhausted, less.
void Checker::check_free_of(const Span* span, const Heap* owner, RemoteWord word, bool hot) {
  const u32 threshold = reuse_threshold_at(g_span_choices.reuse_shift.get(), span->capacity.get(), 0);
  const ClassIndex size_class = span->size_class.get();
  const bool floats = word.state() == SpanState::owned && !hot && !stands_on_ring(span);
  expect(!floats || (local_count(span) < threshold && word.count() < threshold && absent_count(span) == 0),
         "a floating span has more free than it may", {owner, size_class});
  expect(word.state() != SpanState::shared || word.count() < threshold,
         "a shared span that is not listed has more free than it may", {nullptr, size_class});
}

void Checker::check_mixed(Span* span) {
  mixed_ += span_bytes(span);
  mixed_live_ += MixedPool::live_bytes(span);
  switch (g_mixed_pool.check(span)) {
    case MixedPool::Fault::none:
      return;
    case MixedPool::Fault::state:
      return expect(false, "a mixed span has an owner, a list or another state");
    case MixedPool::Fault::table:
      return expect(false, "a mixed span's table is broken");
    case MixedPool::Fault::count:
      return expect(false, "a mixed span's count is not what its table says, or it is empty");
    case MixedPool::Fault::hole:
      return expect(false, "a mixed span's record and its table have different holes");
    case MixedPool::Fault::list:
      return expect(false, "a mixed span is on the wrong list");
  }
}

// Blocks of a class without a hot span: carved from holes of mixed spans.
void Checker::check_hole_list(const Block* list, usize bytes) {
  for (u32 count = 0; list != nullptr; list = next_if_signed(list), ++count) {
    const uptr address = reinterpret_cast<uptr>(list);
    Arena* arena = arena_of(address);
    Span* span = arena != nullptr ? first_record(slice_record(arena, address)) : nullptr;
    const bool whole = span != nullptr && is_mixed(span) && g_mixed_pool.size_of(span, list) >= bytes;
    expect(whole && count < kMostTaken, "a heap has blocks without a hot span that are not of a mixed one");
    if (!whole || count >= kMostTaken) return;
  }
}

// Blocks that may be free in an owned span since its heap counted them: less than frees_to_recount of local frees, and
// less than the threshold (without heaps that share, the highest) of others' frees.
u32 uncounted(const Span* span) {
  const u32 capacity = span->capacity.get();
  const u32 counted = span->ring_slack.get() / span->block_bytes.get();
  return frees_to_recount(capacity, counted < capacity ? counted : capacity) +
         reuse_threshold_at(g_span_choices.reuse_shift.get(), capacity, 0);
}

// Walks a ring of reusable spans.
void Checker::check_ring(const Heap* heap, SpanNumber newest, Kept& kept) {
  for (SpanNumber number = newest; number != 0;) {
    const Span* span = span_at(number);
    const u32 slack = span->ring_slack.get();
    const Where where = {heap, span->size_class.get()};
    expect(span->owner.load(relaxed) == heap, "a span on a heap's ring is not its own", where);  // relaxed: as above
    // One that is claimed comes by mail, and is counted anew.
    const bool owned = load_word(span, relaxed).state() == SpanState::owned;
    const usize free = usize{free_blocks(span, relaxed)} * span->block_bytes.get();
    expect(!owned || free <= slack + usize{uncounted(span)} * span->block_bytes.get(),
           "a reusable span has more free than its heap counts", where);
    kept.slack += slack;
    if (slack == span_bytes(span)) {
      kept.empties += slack;
    } else if (!owned) {
      kept.mailed += slack;
    }
    const SpanNumber next = span->ring_next.get();
    const bool whole = next != 0 && span_at(next)->ring_previous.get() == number;
    expect(whole, "a heap's ring is broken", where);
    number = whole && next != newest ? next : 0;
  }
}

void Checker::check_chain(Heap* heap, const Chain& chain) {
  const Span* span = chain.span.get();
  if (span == nullptr) return;
  // One that is full was pushed. Its span may be a mixed one by now; what it was the record still says.
  const u32 count = chain.count();
  expect(&chain_of(heap, span) == &chain && usize{count} * span->block_bytes.get() <= kMaxChainBytes,
         "a chain holds back more than it may", {heap, span->size_class.get()});
  u32 length = 0;
  for (const Block* block = chain.first.get(); block != nullptr && length < count; block = next_if_signed(block)) {
    if (!is_block_of(span, reinterpret_cast<uptr>(block))) break;
    ++length;
    if (block == chain.last.get()) break;
  }
  expect(length == count, "a chain is not as long as its count", {heap, span->size_class.get()});
}

// What a box may hold beside (mail_budget) holds at the moment when a pusher looks, of an owner that is in no call: one
// that is in the midst of one keeps what comes meanwhile, until it comes by. So it is not checked; what is in a box is
// its heap's in any case, and that of a heap without a thread is empty.
void Checker::check_mail(const Heap* heap) {
  const u64 box = heap->mailbox.load(relaxed);  // relaxed, here and below: no other thread is inside
  usize bytes = 0;
  for (SpanNumber number = mail_first(box); number != 0 && bytes < mail_bytes(box);) {
    const Span* span = span_at(number);
    const bool its_own = span->owner.load(relaxed) == heap && load_word(span, relaxed).state() == SpanState::claimed;
    expect(its_own, "a heap's mail is not its own", {heap});
    if (!its_own) return;
    bytes += span_bytes(span);
    number = span->mail_next.load(relaxed);
  }
  expect(bytes == mail_bytes(box) && bytes <= heap->held.load(relaxed), "a mailbox holds more than its heap owns",
         {heap});
  expect(box == 0 || heap->attached.load(relaxed) != 0, "mail waits at a heap without a thread", {heap});
}

// By the share of a heap that is alone: when heaps come the surplus goes by a span at each slow refill of its thread.
// But by what it holds now (shed_down).
void Checker::check_kept(const Heap* heap, const Kept& kept) {
  expect(kept.slack == heap->slack.get() && kept.empties == heap->empties.get(), "a heap's slack is wrong", {heap});
  const usize slack = config::options().slack, share = heaps_share_of(config::options().free_limit, 1);
  expect(heap->empties.get() + kept_bytes(heap) <= empties_budget(slack, share), "a heap keeps more than it may",
         {heap});
  // relaxed: no other thread is inside.
  const usize most = slack_budget(slack, share, heap->held.load(relaxed), true);
  expect(heap->slack.get() - heap->empties.get() <= most + kept.mailed,
         "a heap keeps more in partly used spans than it may", {heap});
}

void Checker::check_heap(Heap* heap) {
  // relaxed, both: no other thread is inside. A record that nobody ever had names nobody.
  const bool let_go = heap->self.load(relaxed) == heap || heap->self.load(relaxed) == nullptr;
  expect(let_go, "a heap is still seized", {heap});
  Kept kept;
  for (ClassIndex c = 0; c < kClasses; ++c) {
    check_ring(heap, heap->reusable[c].get(), kept);
    const Span* hot = heap->hot[c].get();
    if (hot == nullptr) check_hole_list(heap->blocks[c].get(), class_layout(c).block_bytes);
    if (hot != nullptr) {
      // relaxed: no other thread is inside.
      expect(hot->owner.load(relaxed) == heap && hot->size_class.get() == c, "a heap's hot span is not its own",
             {heap, c});
      const u32 listed = walk(hot, heap->blocks[c].get());
      expect(listed + free_blocks(hot, relaxed) <= hot->capacity.get(), "a hot span has more free blocks than blocks",
             {heap, c});
    }
  }
  check_kept(heap, kept);
  for (const Chain& chain : heap->chains) check_chain(heap, chain);
  check_mail(heap);
}

void Checker::check_heaps() {
  for (u32 i = 0; i < heaps_ever(); ++i) {
    if (i == 0 && !fallback_heap_used()) continue;
    Heap* heap = heap_by_index(i);
    if (!is_at_work(heap)) check_heap(heap);
    for (u64 slices = heap->kept_slices.get(); slices != 0; slices &= slices - 1) {
      lost_ -= name_of(heap->kept_chunk.get() + lowest_bit(slices));
    }
  }
}

void Checker::check_chunk(Arena* arena, u32 index, ChunkUse use) {
  const Chunk& chunk = arena->chunks[index];
  // acquire, relaxed: no other thread is inside; acquire as every reader of slices.
  const u64 free = chunk.free.load(acquire);
  const u64 dirty = chunk.dirty.load(relaxed);
  expect(use != ChunkUse::none, "a chunk is taken and not described");
  if (use == ChunkUse::large) {
    const usize end = large_bytes(arena->spans + usize{index} * kSlicesPerChunk) + tail_bytes(chunk);
    // relaxed: as above. A tail lies in the last chunk, and nobody holds it.
    const bool held = (chunk.large_tail.load(relaxed) & kTailHeld) != 0;
    expect(!held && end <= chunk.large_chunks.get() * kChunkBytes, "a tail is held, or ends behind its block's chunks");
  }
  if (use != ChunkUse::spans) return;
  expect((dirty & ~free) == 0, "a slice in use counts as free memory");
  for (u32 i = 0; i < kSlicesPerChunk;) {
    Span* record = arena->spans + usize{index} * kSlicesPerChunk + i;
    // relaxed, here and below: no other thread is inside.
    const SliceUse slice_use = record->use.load(relaxed);
    if ((free >> i) & 1) {
      expect(slice_use == SliceUse::none, "a free slice is described");
      ++i;
      continue;
    }
    const bool described = slice_use == SliceUse::span || slice_use == SliceUse::large || slice_use == SliceUse::mixed;
    if (!described) {
      expect(slice_use == SliceUse::none, "a later slice has no first");
      lost_ += name_of(record);
      ++i;
      continue;
    }
    if (slice_use == SliceUse::span) check_span(record);
    if (slice_use == SliceUse::mixed) check_mixed(record);
    const SliceUse rest = slice_use != SliceUse::large ? SliceUse::span_rest : SliceUse::none;
    const u32 slices = record->slices.get();
    for (u32 j = 1; j < slices && i + j < kSlicesPerChunk; ++j) {
      // relaxed: as above.
      const bool far = rest == SliceUse::none || record[j].first_distance.get() == j;
      expect(record[j].use.load(relaxed) == rest && far, "a later slice is wrong");
      expect(((free >> (i + j)) & 1) == 0, "a slice of a span is free");
    }
    i += slices;
  }
}

void Checker::check_partial_pool() {
  usize bytes = 0;
  g_partial_pool.for_each([&](Span* span) {
    bytes += span_bytes(span);
    expect(load_word(span, relaxed).state() == SpanState::listed, "a span of the partial pool is not listed");
  });
  expect(bytes == g_partial_pool.listed_bytes(), "the bytes of listed spans are not what was counted");
}

void Checker::check_classes() {
  ClassSums sums;
  sum_classes(sums);
  for (ClassIndex c = 0; c < kClasses; ++c) {
    expect(sums.used[c] == class_used(c), "what a class uses is not what was counted", {nullptr, c});
    expect(sums.held[c] <= class_bound(c), "the spans of a class hold more than their bound", {nullptr, c});
  }
}

void Checker::check_sums() {
  const Sums sums = sum_chunks();
  const Counters& counts = counters();
  usize heaps_hold = 0;
  // relaxed, all: no other thread is inside. Ended threads' heaps may own floating spans.
  for (u32 i = fallback_heap_used() ? 0 : 1; i < heaps_ever(); ++i) {
    const Heap* heap = heap_by_index(i);
    heaps_hold += weighted(heap, heap->held.load(relaxed));
  }
  const usize guarded = guard::held_bytes();
  expect(sums.held + guarded == counts.held.exact(), "the bytes held are not what the counter says");
  expect(owned_ == heaps_hold, "what the heaps hold is not what they count");
  expect(sums.dirty == counts.dirty.exact(), "the free resident bytes are not what the counter says");
  expect(sums.tails == resident_tails(), "the bytes of tails are not what was counted");
  expect(sums.dirty <= free_most(), "free memory is over its limit");
  const usize resident = sums.held + guarded + sums.tails + sums.dirty + counts.metadata.load(relaxed);
  expect(resident == budget().charged.load(relaxed), "what is charged to the limit is not what may be resident");
  expect(mixed_ == counts.mixed.load(relaxed), "the bytes of mixed spans are not what the counter says");
  expect(mixed_live_ == g_mixed_pool.counted_live(), "what is live in mixed spans is not what was counted");
  expect(mixed_ <= g_mixed_pool.limit(), "mixed spans hold more than their bound");
  expect(lost_ == 0, "a slice is lost");
  const char* const fault = guard::find_fault();
  expect(fault == nullptr, fault);
}

}  // namespace

usize check_everything() {
  if (!start_process()) return 0;
  const SlowPath path;
  const ReclaimerRests rests;
  Checker checker;
  checker.check_heaps();
  for_each_chunk([&](Arena* arena, u32 index, ChunkUse use) { checker.check_chunk(arena, index, use); });
  checker.check_partial_pool();
  checker.check_sums();
  checker.check_classes();
  return checker.violations();
}

}  // namespace coffer
