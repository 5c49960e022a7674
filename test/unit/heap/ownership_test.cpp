#include "heap/ownership.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "heap/heaps.hpp"

namespace coffer {
namespace {

using namespace test;

void set_state(Span* span, SpanState state) {
  span->remote.store(load_word(span, relaxed).with_state(state).bits(), relaxed);
}

// A span of the calling thread's heap, in state reusable and on no list, with `live` blocks taken.
Span* make_reusable(u32 live, ClassIndex size_class = kClass) {
  Span* span = make_span(size_class);
  take_in(own_heap(), span);
  bool zero = false;
  // Cut as far as the live blocks reach; what is cut and not live lies on the local list.
  Block* list = nullptr;
  u32 seen = 0;
  while (seen < live) {
    for (Block* block = cut_page(span, &zero); block != nullptr;) {
      Block* next = block->next;
      if (++seen > live) {
        block->next = list;
        list = block;
      }
      block = next;
    }
  }
  span->local_free.set(list);
  set_countdown(span, seen - live, kNever);
  set_state(span, SpanState::reusable);
  return span;
}

// --- Lists. ---

FRESH_TEST(Lists, AnyFloatingSpanMayLeave) {
  start_heaps();
  Heap* heap = own_heap();
  std::vector<Span*> spans;
  for (u32 i = 0; i < 4; ++i) spans.push_back(make_reusable(kCapacity));
  std::vector<u32> order = {0, 1, 2, 3};
  do {
    for (Span* span : spans) push_floating(heap, span);
    std::vector<Span*> left(spans.rbegin(), spans.rend());
    for (const u32 i : order) {
      unlink_floating(heap, spans[i]);
      left.erase(std::find(left.begin(), left.end(), spans[i]));
      EXPECT_EQ(floating_of(heap), left);
      EXPECT_EQ(spans[i]->next.get(), 0u);
      EXPECT_EQ(spans[i]->previous.get(), 0u);
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

FRESH_TEST(Lists, AnyReusableSpanMayLeaveAndTheOldestIsPopped) {
  start_heaps();
  Heap* heap = own_heap();
  std::vector<Span*> spans;
  for (u32 i = 0; i < 4; ++i) {
    spans.push_back(make_reusable(kCapacity));
    spans[i]->slack.set(100u << i);
  }
  EXPECT_EQ(pop_reusable(heap, kClass), nullptr);
  std::vector<u32> order = {0, 1, 2, 3};
  do {
    for (Span* span : spans) push_reusable(heap, span);
    EXPECT_EQ(heap->slack.get(), 1500u);
    EXPECT_EQ(reusable_count(heap, kClass), 4u);
    std::vector<Span*> left(spans.rbegin(), spans.rend());
    for (const u32 i : order) {
      const usize slack = heap->slack.get();
      if (spans[i] == left.back()) {
        EXPECT_EQ(pop_reusable(heap, kClass), spans[i]);
      } else {
        unlink_reusable(heap, spans[i]);
      }
      left.erase(std::find(left.begin(), left.end(), spans[i]));
      EXPECT_EQ(reusable_of(heap), left);
      EXPECT_EQ(reusable_count(heap, kClass), left.size());
      EXPECT_EQ(heap->slack.get(), slack - spans[i]->slack.get());
    }
    EXPECT_EQ(heap->reusable[kClass].get(), 0u);
  } while (std::next_permutation(order.begin(), order.end()));
}

// --- Where a reusable span goes. ---

// Places a span with `live` live blocks in a heap whose budget leaves `room` bytes; what became of it.
enum class Placed { kept, shared, listed, ended };
Placed place(u32 live, usize room) {
  Heap* heap = own_heap();
  Span* span = make_reusable(live);
  const usize budget = slack_budget(config::options().slack, heap->held.get());
  EXPECT_LE(room, budget);
  const usize slack = heap->slack.get();
  heap->slack.set(budget - room);
  const usize held = heap->held.get();
  place_reusable(heap, span);
  if (owner_of(span) == heap) {
    EXPECT_EQ(reusable_of(heap), std::vector<Span*>{span});
    EXPECT_EQ(heap->slack.get(), budget - room + span->slack.get());
    unlink_reusable(heap, span);
    let_go(heap, span);
    heap->slack.set(slack);
    return Placed::kept;
  }
  EXPECT_TRUE(reusable_of(heap).empty());
  EXPECT_EQ(heap->held.get(), held - kSlotBytes);
  heap->slack.set(slack);
  switch (state_of(span)) {
    case SpanState::free:
      return Placed::ended;
    case SpanState::listed:
      EXPECT_EQ(listed_spans(), std::vector<Span*>{span});
      EXPECT_TRUE(g_partial_pool.remove(span));
      return Placed::listed;
    default:
      EXPECT_EQ(state_of(span), SpanState::shared);
      return Placed::shared;
  }
}

FRESH_TEST(PlaceReusable, TheOnlyHeapKeepsAllButEmptySpans) {
  start_heaps();
  own_heap();
  EXPECT_EQ(place(20, 0), Placed::kept);
  EXPECT_EQ(place(1, 0), Placed::kept);
  EXPECT_EQ(place(0, kSlotBytes), Placed::kept) << "an empty span counts whole";
  EXPECT_EQ(place(0, kSlotBytes - 1), Placed::ended);
}

FRESH_TEST(PlaceReusable, AmongOthersTheSlackDecides) {
  start_heaps();
  own_heap();
  Worker other;
  other.run([] { own_heap(); });
  EXPECT_EQ(place(20, 12 * kSize), Placed::kept);
  EXPECT_EQ(place(20, 12 * kSize - 1), Placed::listed);
  EXPECT_EQ(place(kCapacity - kThreshold + 1, 0), Placed::shared) << "too few free blocks for anybody else";
  EXPECT_EQ(place(0, kSlotBytes), Placed::kept);
  EXPECT_EQ(place(0, kSlotBytes - 1), Placed::ended);
}

FRESH_TEST(PlaceReusable, SetsTheNextEvent) {
  start_heaps();
  Heap* heap = own_heap();
  const struct {
    u32 live, frees;
  } cases[] = {{28, kThreshold}, {kThreshold + 1, kThreshold}, {kThreshold, kThreshold}, {3, 3}, {1, 1}, {0, kNever}};
  for (const auto& one : cases) {
    Span* span = make_reusable(one.live);
    place_reusable(heap, span);
    EXPECT_EQ(static_cast<u32>(span->countdown.get()), one.frees) << one.live;
    EXPECT_EQ(local_count(span) + absent_count(span), kCapacity - one.live);
    unlink_reusable(heap, span);
  }
}

// --- Shedding. ---

FRESH_TEST(ShedSurplus, HandsOnTwoSpansACallFromOneClassAfterTheOther) {
  start_heaps(0);
  Heap* heap = own_heap();
  const ClassIndex classes[] = {compute_class(512), kClass, compute_class(2048)};
  // The heap is alone, so it keeps them all.
  for (const ClassIndex c : classes) {
    for (u32 i = 0; i < 2; ++i) place_reusable(heap, make_reusable(8, c));
  }
  const auto left = [&] {
    return reusable_count(heap, classes[0]) + reusable_count(heap, classes[1]) + reusable_count(heap, classes[2]);
  };
  shed_surplus(heap);
  EXPECT_EQ(left(), 6u) << "with one heap nobody starves";
  Worker other;
  other.run([] { own_heap(); });
  const usize held = heap->held.get();
  shed_surplus(heap);
  EXPECT_EQ(left(), 4u);
  EXPECT_EQ(heap->held.get(), held - 2 * kSlotBytes);
  EXPECT_EQ(listed_spans().size(), 2u);
  shed_surplus(heap);
  shed_surplus(heap);
  EXPECT_EQ(left(), 0u);
  EXPECT_EQ(listed_spans().size(), 6u);
  EXPECT_EQ(heap->slack.get(), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(ShedSurplus, StopsAtTheBudget) {
  start_heaps(0);
  Heap* heap = own_heap();
  for (u32 i = 0; i < 2; ++i) place_reusable(heap, make_reusable(16));
  Worker other;
  other.run([] { own_heap(); });
  test::changeable_options().slack = 16 * kSize;
  shed_surplus(heap);
  EXPECT_EQ(reusable_count(heap, kClass), 1u);
  shed_surplus(heap);
  EXPECT_EQ(reusable_count(heap, kClass), 1u);
}

// --- Mail. ---

Span* make_claimed(Heap* heap, u32 live) {
  Span* span = make_reusable(live);
  push_floating(heap, span);
  set_state(span, SpanState::claimed);
  return span;
}

FRESH_TEST(Mail, IsTakenByItsOwner) {
  start_heaps();
  Heap* heap = own_heap();
  Span* first = make_claimed(heap, 20);
  Span* second = make_claimed(heap, 20);
  do_duty(&g_null_heap, first, PushDuty::mail);
  do_duty(&g_null_heap, second, PushDuty::mail);
  EXPECT_EQ(heap->mailbox.load(relaxed), span_number(second));
  take_mail(heap);
  EXPECT_EQ(heap->mailbox.load(relaxed), 0u);
  EXPECT_EQ(reusable_of(heap), (std::vector<Span*>{first, second}));
  EXPECT_TRUE(floating_of(heap).empty());
  EXPECT_EQ(heap->held.get(), 2 * kSlotBytes);
  take_mail(heap);  // nothing
  EXPECT_EQ(reusable_count(heap, kClass), 2u);
}

// The claimant read the owner before that thread ended; another thread has its heap record by now.
FRESH_TEST(Mail, OfAnEndedThreadIsTakenByTheNextUserOfItsHeap) {
  start_heaps();
  Heap* heap = own_heap();
  Span* span = make_claimed(heap, 20);
  unlink_floating(heap, span);
  let_go(heap, span);
  span->owner.store(nullptr, relaxed);
  heap->mailbox.store(span_number(span), relaxed);
  take_mail(heap);
  EXPECT_EQ(owner_of(span), heap);
  EXPECT_EQ(state_of(span), SpanState::reusable);
  EXPECT_EQ(reusable_of(heap), std::vector<Span*>{span});
  EXPECT_EQ(heap->held.get(), kSlotBytes);
}

FRESH_TEST(Mail, WithoutAnOwnerTheClaimantSharesTheSpan) {
  start_heaps();
  Heap* heap = own_heap();
  Span* listed = make_claimed(heap, 20);
  listed->owner.store(nullptr, relaxed);
  do_duty(heap, listed, PushDuty::mail);
  EXPECT_EQ(state_of(listed), SpanState::listed);
  EXPECT_EQ(listed_spans(), std::vector<Span*>{listed});
  Span* shared = make_claimed(heap, kCapacity - 1);
  shared->owner.store(nullptr, relaxed);
  do_duty(heap, shared, PushDuty::mail);
  EXPECT_EQ(state_of(shared), SpanState::shared);
  Span* empty = make_claimed(heap, 0);
  empty->owner.store(nullptr, relaxed);
  do_duty(heap, empty, PushDuty::mail);
  EXPECT_EQ(state_of(empty), SpanState::free);
}

FRESH_TEST(Mail, ToAClosedBoxComesBack) {
  start_heaps();
  Heap* heap = own_heap();
  Span* span = make_claimed(heap, 20);
  heap->mailbox.store(kMailboxClosed, relaxed);
  do_duty(&g_null_heap, span, PushDuty::mail);
  EXPECT_EQ(heap->mailbox.load(relaxed), kMailboxClosed);
  EXPECT_EQ(state_of(span), SpanState::listed);
  EXPECT_EQ(owner_of(span), nullptr);
  take_mail(heap);
  EXPECT_EQ(heap->mailbox.load(relaxed), kMailboxClosed) << "a closed box stays closed";
}

// --- Other duties. ---

FRESH_TEST(Duty, OfAnEmptySharedSpanIsToGiveItBack) {
  start_heaps();
  Heap* heap = own_heap();
  Span* span = make_reusable(0);
  set_state(span, SpanState::returning);
  do_duty(heap, span, PushDuty::give_back);
  EXPECT_EQ(state_of(span), SpanState::free);
  span = make_reusable(20);
  share(span);
  ASSERT_EQ(listed_spans(), std::vector<Span*>{span});
  set_state(span, SpanState::returning);
  do_duty(heap, span, PushDuty::take_off);
  EXPECT_EQ(state_of(span), SpanState::free);
  EXPECT_TRUE(listed_spans().empty());
}

// The two halves of it in the other order: whoever frees the last block comes before the one who lists.
FRESH_TEST(Duty, OfTwoTheSecondGivesTheSpanBack) {
  start_heaps();
  Heap* heap = own_heap();
  Span* span = make_reusable(0);
  set_state(span, SpanState::returning);
  do_duty(heap, span, PushDuty::take_off);
  EXPECT_EQ(state_of(span), SpanState::returning);
  do_duty(heap, span, PushDuty::list);
  EXPECT_EQ(state_of(span), SpanState::free);
  EXPECT_TRUE(listed_spans().empty());
}

// --- The heap's list. ---

FRESH_TEST(MergeHeapList, PutsItBeforeTheLocalList) {
  start_heaps();
  const Blocks blocks = take_many(kBlocksPerPage + 1);
  give(blocks[0]);
  give(blocks[1]);
  Span* span = span_of(blocks[0]);
  Block* list = t_heap->blocks[kClass].get();
  ASSERT_NE(list, nullptr);
  merge_heap_list(t_heap, kClass, span);
  EXPECT_EQ(t_heap->blocks[kClass].get(), nullptr);
  EXPECT_EQ(t_heap->zero[kClass].get(), 0u);
  EXPECT_EQ(span->local_free.get(), list);
  EXPECT_EQ(local_count(span), kBlocksPerPage - 1 + 2u);
  EXPECT_EQ(check_everything(), 0u);
  merge_heap_list(t_heap, kClass, span);
  EXPECT_EQ(local_count(span), kBlocksPerPage - 1 + 2u);
}

FRESH_TEST(MergeHeapList, LeavesAListThatIsInBothPlaces) {
  start_heaps();
  const Blocks blocks = take_many(kBlocksPerPage);
  give(blocks[0]);
  give(blocks[1]);
  Span* span = span_of(blocks[0]);
  t_heap->blocks[kClass].set(span->local_free.get());  // as a fork child may find it
  merge_heap_list(t_heap, kClass, span);
  EXPECT_EQ(t_heap->blocks[kClass].get(), nullptr);
  EXPECT_EQ(local_count(span), 2u);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(ReleaseIdle, EndsSpansWithoutALiveBlockAndNoOther) {
  start_heaps(usize{1} << 20);
  Heap* heap = own_heap();
  give(take(64));          // hot, idle
  void* live = take(128);  // hot, in use
  place_reusable(heap, make_reusable(0));
  Span* used = make_reusable(3);
  place_reusable(heap, used);
  place_reusable(heap, make_reusable(0));
  ASSERT_EQ(held_bytes(), 5 * kSlotBytes);
  release_idle(heap);
  EXPECT_EQ(heap->hot[compute_class(64)].get(), nullptr);
  EXPECT_EQ(heap->hot[compute_class(128)].get(), span_of(live));
  EXPECT_EQ(reusable_of(heap), std::vector<Span*>{used});
  EXPECT_EQ(held_bytes(), 2 * kSlotBytes);
  EXPECT_EQ(heap->held.get(), 2 * kSlotBytes);
  EXPECT_EQ(heap->slack.get(), (kCapacity - 3) * kSize);
  // The list of the class in use was merged; the class goes on.
  EXPECT_EQ(span_of(take(128)), span_of(live));
}

}  // namespace
}  // namespace coffer
