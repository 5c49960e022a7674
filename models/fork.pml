/* SPDX-License-Identifier: MIT */
/* A fork at any step: what the child makes of a span that vanished threads had in hand.
 *
 * The threads of span_life.pml run; heap 2's thread, or one without a heap, forks when it is outside of every call.
 * From then on the others have vanished, each between two stores (the steps that span_life.pml takes as one are split
 * here). The child walks once (src/exchange/vanished.cpp). A heap is gone if its thread has vanished, or if somebody had
 * seized it at that moment, be it the child's own: whatever is in it may be half moved. Its spans are counted anew with
 * the heap's lists, and made nobody's; the child's own heap is then empty and goes on. A heap that waits for a thread,
 * and that nobody had seized, is whole and stays so. A vanished thread may have had the partial pool's lock: then the
 * lists are dropped, and made anew of the spans that are listed.
 *
 * Lost is what vanished threads had in registers (docs/design/fork.md): blocks in a free, a list on its way. Nothing
 * else.
 */
#define FORK
#ifdef FAULT_HOT_FIRST
#define HOT_FIRST
#endif
#include "span_life.pml"

/* mark_shared and what follows, by the walk. */
inline share_it() {
  d_step {
    owner = 0;
    base = local_list + absent;
    if
    :: base + count == K -> end_it()
    :: else -> count = base + count; st = (count >= T -> LISTED : SHARED); linked = (st == LISTED)
    fi
  }
}
inline end_it() {
  assert(!linked);
  st = FREE; count = 0; owner = 0; local_list = 0; base = 0; absent = K; described = 0; slices_free = 1
}

proctype Child() {
  byte lost = 0;
  bit gone[3];
  atomic {
    forker_ready -> frozen = 1;
    lost = flight + transit;
    gone[1] = attached[1] || !self[1];
#ifndef FAULT_OWN_KEPT
    gone[2] = !self[2];
#endif
    mailed = 0; /* empty_mailboxes */
    /* drop_torn_lists: this span's adopter vanished in the middle, or somebody at work on another. */
    if
    :: linked = 0; awaited = 0
    :: !pool_lock
    fi;
#ifndef FAULT_NAME_STAYS
    if :: st >= SHARED && owner != 0 -> owner = 0 :: else fi; /* its adopter's name, before its CAS */
#endif
    /* resolve_chunk, resolve_span. */
    if
    :: !slices_free && !described ->
#ifndef FAULT_SLICES_STAY
       st = FREE; slices_free = 1; owner = 0
#endif
    :: described && owner != 0 && gone[owner] ->
       /* adopt_orphan: the list of the heap's hot span is joined to the span's own. */
       if
#ifdef FAULT_TWIN
       :: hot[owner] -> local_list = local_list + blocks[owner]
#else
       :: hot[owner] -> local_list = local_list + (twin -> 0 : blocks[owner]) /* twin: one list with two names */
#endif
       :: else
       fi;
#ifdef FAULT_NOT_MEASURED
       if :: uncounted -> local_list = local_list - 1 :: else fi;
#endif
       share_it()
    :: described && owner != 0 && !gone[owner] ->
       /* Whether a claimant got as far as the box is not known. */
       if
       :: st == CLAIMED && attached[owner] ->
#ifndef FAULT_NOT_MAILED
          mailed = owner
#endif
       :: st == CLAIMED && !attached[owner] ->
          /* Who put it there would have taken it out again, or told the heap's next thread. */
#ifdef FAULT_MAIL_WAITS
          mailed = owner
#else
          if
          :: hot[owner] -> st = OWNED; claim_at = AFTER(count) /* take_mail */
          :: !hot[owner] -> ring[owner] = 0; share_it()
          fi
#endif
       :: else
       fi
    :: described && owner == 0 ->
       if
#ifdef FAULT_FULL_STAYS
       :: st == LISTED -> linked = 1
       :: st == SHARED
#else
       :: st >= SHARED && count == K -> linked = 0; end_it() /* its returner vanished */
       :: st == LISTED && count < K -> assert(!awaited); linked = 1
       :: st == SHARED && count < K
#endif
       :: st < SHARED -> share_it()
       fi
    :: slices_free
    fi;
    /* reclaim_vanished_records */
    if :: gone[1] -> blocks[1] = 0; hot[1] = 0; ring[1] = 0; self[1] = 1; attached[1] = 0 :: else fi;
    if :: gone[2] -> blocks[2] = 0; hot[2] = 0; ring[2] = 0; self[2] = 1 :: else fi;

    /* Heaps that are not gone are as they were; all else is resolved. */
    assert((st == FREE) == slices_free && self[1] && self[2]);
    if
    :: st == FREE -> assert(live == 0 && lost == 0 && !hot[1] && !hot[2] && !ring[1] && !ring[2])
    :: st != FREE ->
       assert((private(st) -> own_free : count) + all_blocks + live + lost == K);
       assert(!private(st) || (owner != 0 && !gone[owner]));
       assert(private(st) || (owner == 0 && !hot[1] && !hot[2] && !ring[1] && !ring[2]));
       assert((st == LISTED) == linked);
       assert(st < SHARED || count < K);
       assert(st != CLAIMED || (mailed == owner && attached[owner]))
    fi
  }
}
