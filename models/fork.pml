/* SPDX-License-Identifier: MIT */
/* A fork at any step: what the child makes of a span that vanished threads had in hand.
 *
 * The threads of span_life.pml run; heap 2's thread, or one without a heap, forks when it is outside of every call.
 * From then on the others have vanished, each between two stores (the steps that span_life.pml takes as one are split
 * here). The child walks once (src/heap/vanished.cpp): the lists of vanished heaps go back to their spans, then the
 * span is resolved by what its record says. A vanished thread may have had the partial pool's lock: then the lists are
 * dropped, and made anew of the spans that are listed.
 *
 * Lost is what vanished threads had in registers (docs/design/fork.md): blocks in a free, a list on its way. Nothing
 * else.
 */
#define FORK
#ifdef FAULT_UNLINK_LATE
#define UNLINK_LATE
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
  st = FREE; count = 0; owner = 0; local_list = 0; base = 0; absent = K; described = 0; slots_free = 1
}

proctype Child() {
  byte lost = 0;
  atomic {
    forker_ready -> frozen = 1;
    lost = flight + transit;
    unsettled = 0;
    mailed = 0; /* empty_mailboxes */
    /* drop_torn_lists: this span's adopter vanished in the middle, or somebody at work on another. */
    if
    :: linked = 0; awaited = 0
    :: !pool_lock
    fi;
#ifndef FAULT_NAME_STAYS
    if :: st >= SHARED && owner != 0 -> owner = 0 :: else fi; /* its adopter's name, before its CAS */
#endif
    /* The lists of the vanished heap: joined to its own span, or pushed to one that is not its own any more. */
    if
    :: blocks[at(1, cls)] > 0 && described && st != FREE ->
       if
#ifdef FAULT_TWIN
       :: twin && owner == 1 -> local_list = local_list + blocks[at(1, cls)]
#else
       :: twin /* one list with two names: it is the span's */
#endif
       :: !twin && owner == 1 -> local_list = local_list + blocks[at(1, cls)]
       :: !twin && owner != 1 ->
#ifndef FAULT_LIST_DROPPED
          count = count + blocks[at(1, cls)]; /* as push_remote */
          if
          :: st >= SHARED && st != RETURNING && count == K -> st = RETURNING
          :: st == SHARED && count >= T && count < K -> st = LISTED
          :: else
          fi
#endif
       fi
    :: else
    fi;
    blocks[2] = 0; blocks[3] = 0; hot[2] = 0; hot[3] = 0; entry[2] = 0; entry[3] = 0;
    /* A taken span whose owner vanished between list and countdown: counted anew. */
#ifdef FAULT_NOT_MEASURED
    if :: uncounted && owner != 1 && private(st) -> local_list = local_list - 1 :: else fi;
#endif
    /* resolve_chunk, resolve_span. */
    if
    :: !slots_free && !described ->
#ifndef FAULT_SLOTS_STAY
       st = FREE; slots_free = 1
#endif
    :: described && owner == 1 -> share_it()
    :: described && owner == 2 ->
#ifndef FAULT_NOT_MAILED
       if :: st == CLAIMED -> mailed = 2 :: else fi
#endif
    :: described && owner == 0 ->
       if
       :: st == LISTED -> if :: awaited -> assert(false) :: else -> linked = 1 fi
       :: st == RETURNING -> linked = 0; end_it()
       :: st == SHARED
       :: st < SHARED -> share_it()
       fi
    :: slots_free
    fi;
    closed[1] = 1;

    /* The child's own heap is as it was; all else is resolved. */
    assert((st == FREE) == slots_free);
    if
    :: st == FREE -> assert(live == 0 && lost == 0)
    :: st != FREE ->
       assert((private(st) -> own_free : count) + blocks[4] + blocks[5] + live + lost == K);
       assert(!private(st) || owner == 2);
       assert(st != RETURNING && (st == LISTED) == linked);
       assert(st < SHARED || count < K);
       assert(st != CLAIMED || mailed == 2)
    fi
  }
}
