// SPDX-License-Identifier: MIT
#include "exchange/seizing.hpp"

#include "config/config.hpp"
#include "exchange/chains.hpp"
#include "exchange/mail.hpp"
#include "exchange/ownership.hpp"
#include "exchange/ring.hpp"
#include "observe/counters.hpp"
#include "os/os.hpp"
#include "policy/idle.hpp"
#include "policy/kept.hpp"
#include "pool/reclaimer.hpp"
#include "span/emptiness.hpp"

namespace coffer {

namespace {

constexpr u32 kTries = 3;  // where memory is needed, of heaps that are in the midst of a call

struct alignas(kCacheLine) Search {
  Atomic<u32> next_look;
  Atomic<u32> growth;  // slices of new spans
};
Search g_search;

// The fallback heap has no thread: who has its lock has it.
u32 seize_fallback(Heap* heap, void (*work)(Heap* heap)) {
  const FallbackHeap fallback(FallbackHeap::Wait::not_at_all);
  if (fallback.get() != heap) return 0;
  work(heap);
  return 1;
}

bool begin(Heap* heap) {
  // seq_cst: before the look at `attached`; a thread that gets this heap meanwhile stores that first (registry.cpp). On
  // failure, too: see end.
  for (Heap* seen = heap; !heap->self.compare_exchange(seen, &g_null_heap, seq_cst, seq_cst);) {
    if (seen != heap) return false;
  }
  return true;
}

// seq_cst: pairs with begin and the loads below. acquire: pairs with thread_ended.
bool has_no_thread(const Heap* heap) { return heap->attached.load(seq_cst) == 0; }

// Mail of a heap without a thread does not wait unseen, nor do chains: who put it in, or ended the thread, may have
// failed in `begin` while this one had the heap and did not look into the box any more. Either it sees the heap given
// back, or this one sees what it did before.
void end(Heap* heap) {
  for (;;) {
    // release: pairs with the acquire in enter; seq_cst, both: before the looks behind it.
    heap->self.store(heap, seq_cst);
    if (!has_no_thread(heap) || !is_unfinished(heap) || !begin(heap)) return;
    if (has_no_thread(heap)) finish(heap);
  }
}

// Leaves a note, and returns whether it was there: whether the heap's thread made no call since. That costs the thread
// no instruction. A CAS, so that what the thread says stays as it is.
bool leave_note(Heap* heap, uptr note) {
  // relaxed: a guess. What the thread released there is seen by who acquires the note: a CAS goes on with a release
  // sequence. acquire: as in seize, for what the thread did before it.
  uptr inside = heap->inside.load(relaxed);
  while ((inside & note) == 0) {
    if (heap->inside.compare_exchange(inside, inside | note, acquire, relaxed)) return false;
  }
  return true;
}

bool pass_barrier() {
  if (!fences_calls()) return os::barrier_everywhere();
  full_fence();  // pairs with the one in enter
  return true;
}

}  // namespace

u32 seize(Heap* const* heaps, u32 count, void (*work)(Heap* heap)) {
  u32 done = 0;
  Heap* got[kMostSeized];
  u32 waiting = 0;  // for the barrier
  for (u32 i = 0; i < count; ++i) {
    Heap* heap = heaps[i];
    if (heap->index.get() == 0) {
      done += seize_fallback(heap, work);
    } else if (begin(heap)) {
      // Without a thread there is nobody to be seen inside, and what this thread does itself it knows without a barrier
      // (which a program with one thread has perhaps forbidden by a filter). relaxed: its own.
      const bool own = heap == t_heap;
      if (own ? at_work_on(heap, relaxed) == kOutside : has_no_thread(heap)) {
        work(heap);
        end(heap);
        ++done;
      } else if (own) {
        end(heap);
      } else {
        got[waiting++] = heap;
      }
    }
  }
  if (waiting == 0) return done;
  const bool barrier = pass_barrier();
  for (u32 i = 0; i < waiting; ++i) {
    // acquire: pairs with the release in leave: what the thread did last is seen.
    const uptr inside = barrier ? at_work_on(got[i], acquire) : kInSlowPath;
    if (inside == kOutside) {
      work(got[i]);
      ++done;
    } else if (inside != kInSlowPath) {
      take_mail(got[i], inside != kPopping ? reinterpret_cast<const Span*>(inside) : nullptr);
    }
    end(got[i]);
  }
  return done;
}

namespace {

// A fallback heap that nobody wanted yet cannot be had, and its record is there all the same.
u32 first_heap() {
  // relaxed: only whether to try.
  return fallback_heap_used() && heap_by_index(0)->attached.load(relaxed) != 0 ? 0 : 1;
}

// Whether it has anything but mail.
bool holds_anything(const Heap* heap) {
  // relaxed, all: only whether to steal from it.
  if (heap->held.load(relaxed) != 0 || heap->kept_slices.get() != 0) return true;
  for (const Chain& chain : heap->chains) {
    if (chain.span.get() != nullptr) return true;
  }
  for (const BlockList& list : heap->blocks) {  // from holes
    if (list.get() != nullptr) return true;
  }
  return false;
}

// Whether stealing would find anything. A thread that sleeps for long has lost all it had, or keeps what is fuller than
// half, and a barrier takes 10 us and more.
bool has_something(Heap* heap) {
  if (heap->mailbox.load(relaxed) != 0) return true;  // relaxed, both: only whether to steal from it
  if ((heap->inside.load(relaxed) & kNothingFound) != 0) return false;
  if (holds_anything(heap)) return true;
  if (heap->index.get() == 0) return false;  // see steal_from
  // The next look is at the note alone. What its thread got before the note is seen below, and a later call wipes the
  // note out.
  leave_note(heap, kNothingFound);
  if (!holds_anything(heap)) return false;
  heap->inside.fetch_and(~kNothingFound, relaxed);  // relaxed: only whether to steal from it
  return true;
}

// More than the option waits for the heap's thread.
bool has_much_mail(const Heap* heap) {
  return mail_bytes(heap->mailbox.load(relaxed)) > config::options().slack;  // relaxed: only whether to steal from it
}

// Its thread is in a slow path, perhaps for long, as where many threads start, or in a fast one, where only the mail
// can be had: a barrier for it would be in vain. relaxed: a look; `seize` decides.
bool is_at_work(const Heap* heap) {
  const uptr inside = at_work_on(heap, relaxed);
  return inside == kInSlowPath || (inside != kOutside && heap->mailbox.load(relaxed) == 0);
}

// Whether the heap's thread made no call while the process grew; once, and then again after as much.
bool sleeps(Heap* heap, u32 growth) {
  const bool slept = leave_note(heap, kNoteOfGrowth);
  // One without a thread costs no barrier, and what threads that ended left is what those that start grow by.
  const u32 heaps = attached_heaps();
  // relaxed, all: a guess, and each look is as good as another's.
  const bool has_thread = heap->attached.load(relaxed) != 0;
  const u32 enough = has_thread ? idle_slices(heaps) : heaps * static_cast<u32>(kIdleGrowth / kSliceBytes);
  if (slept && growth - heap->growth_seen.load(relaxed) < enough) return false;
  heap->growth_seen.store(growth, relaxed);
  return slept;
}

// Only spans that are half empty: of what is fuller little would be gained, and the heap's thread, when it wakes, would
// find most of its blocks in spans of others. A thread that freed last keeps chains, too.
void steal_from(Heap* heap) {
  close_chains(heap);
  take_mail(heap);
  // Who uses the fallback heap wipes out nothing there.
  if (!give_up_half_empty(heap, kRobbedOfRing) && heap->index.get() != 0) leave_note(heap, kNothingFound);
}

}  // namespace

bool steal_from_idle_heaps(const Heap* but, u32 slices) {
  const u32 first = first_heap();
  const u32 count = heaps_ever() - first;
  // relaxed, all: a threshold. While free memory is at hand the process does not grow.
  const usize at_hand = counters().dirty.load(relaxed), held = counters().held.load(relaxed);
  if (count < 2 || at_hand > kNegligible + held / kSmallPart) return false;
  const u32 growth = g_search.growth.fetch_add(slices, relaxed) + slices;  // relaxed: a figure
  u32 at = g_search.next_look.fetch_add(kHeapLooks, relaxed);              // relaxed: where to go on looking
  Heap* idle[kHeapLooks];
  u32 found = 0;
  for (u32 i = 0; i < kHeapLooks && i < count; ++i) {
    Heap* heap = heap_by_index(first + at++ % count);
    if (heap == but || is_at_work(heap) || !has_something(heap)) continue;
    if (sleeps(heap, growth) || has_much_mail(heap)) idle[found++] = heap;
  }
  return seize(idle, found, steal_from) != 0;
}

namespace {

void steal_from_all(Heap** heaps, u32 count, void (*work)(Heap*)) {
  if (seize(heaps, count, work) == count) return;
  for (u32 i = 0; i < count; ++i) {
    for (u32 tries = 0; tries < kTries && seize(&heaps[i], 1, work) == 0 && heaps[i] != t_heap; ++tries) os::yield();
  }
}

// Calls take(heaps, count) with those that choose(heap) wants, as many at once as share a barrier.
template <class Choose, class Take>
void take_in_batches(Choose&& choose, Take&& take) {
  Heap* heaps[kMostSeized];
  u32 found = 0;
  for (u32 i = first_heap(); i < heaps_ever(); ++i) {
    if (!choose(heap_by_index(i))) continue;
    heaps[found++] = heap_by_index(i);
    if (found < kMostSeized) continue;
    take(heaps, found);
    found = 0;
  }
  take(heaps, found);
}

}  // namespace

void steal_from_heaps(Take what, const Heap* but) {
  void (*const work)(Heap*) = what == Take::pages ? &empty_heap : &release_idle;
  take_in_batches([=](const Heap* heap) { return heap != but; },
                  [=](Heap** heaps, u32 count) { steal_from_all(heaps, count, work); });
}

// The fallback heap has no notes; what is freed in its spans is pushed, and counts as supply.
void note_all_heaps(const Heap* but) {
  for (u32 i = 1; i < heaps_ever(); ++i) {
    Heap* heap = heap_by_index(i);
    if (heap == but) continue;
    uptr inside = heap->inside.load(relaxed);  // relaxed: the CAS checks it
    do {
      // relaxed: published by the CAS, for who finds this note in place of his own.
      if ((inside & kNoteOfFailure) == 0) g_supply.fetch_add(1, relaxed);
      // acquire: pairs with the release in leave: the search sees what was freed in calls that are over. Of one that is
      // not, the end takes the note away. release: pairs with the acquire in are_all_noted.
    } while (!heap->inside.compare_exchange(inside, inside | kNoteOfFailure, acq_rel, relaxed));
  }
}

bool are_all_noted(const Heap* but) {
  for (u32 i = 1; i < heaps_ever(); ++i) {
    const Heap* heap = heap_by_index(i);
    // acquire: pairs with the release in note_all_heaps. Who knows of a free by the program's order sees what that call
    // stored, or a note that was left since, and then what was counted for it.
    if (heap != but && (heap->inside.load(acquire) & kNoteOfFailure) == 0) return false;
  }
  return true;
}

bool heaps_may_keep_much() { return heaps_ever() * kIdleGrowth > config::options().free_limit; }

void note_awake(Heap* heap) {
  // relaxed, both: a hint; the sweep writes it while the heap is its own.
  if (COFFER_LIKELY(heap->emptied.load(relaxed) == 0)) return;
  heap->emptied.store(0, relaxed);
  if (heaps_may_keep_much()) want_reclaimer();
}

namespace {

// Whether a heap that is alone keeps more than among others, and used nothing of it for a tick.
bool keeps_unused(Heap* heap) {
  const usize slack = heap->slack.get(), seen = heap->slack_seen.get();
  heap->slack_seen.set(slack);
  return slack == seen && keeps_more_than_among_others(heap);
}

}  // namespace

bool empty_idle_heaps() {
  // A filter that came after the start may kill for a barrier, which a program with one thread need not have allowed.
  if (os::filter_came()) return false;
  bool wait = false;
  constexpr auto empty = [](Heap* heap) {
    empty_heap(heap);
    heap->emptied.store(1, relaxed);  // relaxed: as in note_awake
  };
  const auto is_idle = [&](Heap* heap) {
    if (leave_note(heap, kNoteOfSweep)) {
      // relaxed, all: as in note_awake
      return heap->emptied.load(relaxed) == 0 || heap->mailbox.load(relaxed) != 0;
    }
    heap->emptied.store(0, relaxed);
    wait = wait || heaps_may_keep_much() || heap->slack.get() > config::options().free_limit;
    return false;
  };
  take_in_batches(is_idle, [&](Heap** heaps, u32 count) { wait = seize(heaps, count, empty) < count || wait; });
  // So that idle pages in its spans go back though its thread is at work.
  take_in_batches(keeps_unused, [](Heap** heaps, u32 count) { seize(heaps, count, shed_as_among_others); });
  return wait;
}

}  // namespace coffer
