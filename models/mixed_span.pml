/* SPDX-License-Identifier: MIT */
/* A span of one class becomes a mixed one while others free its blocks, is cut from, purged, and ends; and is made anew.
 *
 * One record and one shard. The blocks are named: bit i of a set is block i, one page large. Nothing of the remote word
 * but its state and what lies on its list matters here: the span is claimed, so a push leaves no duty. What is done
 * under the shard's lock is one step, for nobody looks at it without the lock; but for the conversion, whose CAS meets
 * pushes, which take no lock.
 *
 * In the child of a fork the other threads have vanished at any step, also with the lock: there, sections under it are
 * the steps that it may find apart (`THEN`). With BY_PURGER it is a signal handler of the purger that forked, and the
 * purger goes on there. `flight` is what threads have in a free, a chain included, or on its way to a list: lost with
 * them (docs/design/fork.md), and nothing else.
 *
 * Code: src/mixed/life.cpp, MixedPool::release and take in src/mixed/mixed.cpp, push_remote in src/span/span.cpp,
 * free_mixed in src/exchange/mixed_free.cpp, resolve_vanished in src/exchange/vanished.cpp.
 */
#define ALL 15
#ifndef CHAIN
#define CHAIN 3 /* the blocks of the first freer, who may keep them on its chain before it pushes */
#endif
#define OTHER 4 /* the block of the second */
#define LOCAL (ALL - CHAIN - OTHER) /* free when the conversion begins: on the local list */

/* States of the remote word that matter. */
#define FREE 0
#define CLAIMED 1
#define MIXED 2
#define SHARED 3

/* SliceUse. */
#define NONE 0
#define SPAN 1

byte st = CLAIMED, remote = 0; /* the remote word */
byte use = SPAN;
byte local_list = LOCAL;
bit slices_free = 0;
/* Under the lock of the shard. */
byte lock = 0, table = 0, cut = 0, purged = 0;

/* What the checker knows and no thread reads. */
byte live = CHAIN | OTHER, flight = 0;
byte busy = 0;     /* threads that are not through */
byte purgers = 0;  /* at work, without the lock */
bit frozen = 0;    /* the others have vanished */
bit forked = 0;    /* the purger has not: its signal handler forked */

#define size(set) (((set)&1) + (((set) >> 1) & 1) + (((set) >> 2) & 1) + (((set) >> 3) & 1))
#define lowest(set) ((set) & (0 - (set)))

/* Under the lock: where a fork may find a thread between two stores. */
#ifdef FORK
#define TAKE_LOCK lock == 0; lock = 1 + _pid
#define THEN }; atomic { true;
#else
#define TAKE_LOCK lock == 0
#define THEN
#endif
#define LEAVE_LOCK lock = 0

/* MixedPool::retire, under the lock: of two who find the last block gone, one ends the span. */
#ifdef FAULT_RETIRE_LATE
#define RETIRE skip
#else
#define RETIRE use = NONE
#endif

/* MixedPool::end, without the lock. */
inline end_span() {
  atomic {
    assert(!slices_free && live == 0 && flight == 0 && table == 0 && cut == 0 && purged == 0);
    use = NONE;
    st = FREE
  }
  atomic { assert(!slices_free && st == FREE); slices_free = 1; last = 0 }
}

/* MixedPool::release. The program's free: refused if the table has no such block, which must not happen here. */
inline release_block(b) {
  atomic {
    TAKE_LOCK;
    assert(use == MIXED && (table & (b)) == (b) && (purged & (b)) == 0);
    table = table & (ALL - (b)); THEN
    flight = flight & (ALL - (b));
    cut--; THEN
    if :: cut == 0 -> RETIRE; last = 1 :: else fi;
    LEAVE_LOCK
  }
  if :: last -> end_span() :: else fi
}

/* MixedPool::convert by the claimant. */
proctype Converter() provided(!frozen) {
  byte taken = 0;
  bit last = 0;
  atomic { lock == 0 -> lock = 1 + _pid }
  atomic { table = CHAIN | OTHER } /* describe: all but the local list */
#ifdef FAULT_LOCK_GAP
  lock = 0;
#endif
mark_mixed:
#ifndef FAULT_NO_EMPTYING
  if
  :: atomic { remote != 0 -> taken = remote; remote = 0; flight = flight | taken }; /* take_remote */
     atomic {
       assert((table & taken) == taken);
       table = table & (ALL - taken);
       THEN
       local_list = local_list | taken;
       flight = flight & (ALL - taken);
       taken = 0
     }
     goto mark_mixed
  :: atomic { remote == 0 -> skip } /* seen */
  fi;
#endif
  atomic { /* the CAS; it publishes that the span has no owner */
    if
#if defined(FAULT_NO_EMPTYING) || defined(FAULT_STORE)
    :: true -> st = MIXED; remote = 0
#else
    :: remote == 0 -> st = MIXED
    :: else -> goto mark_mixed
#endif
    fi
  }
#ifdef FAULT_LOCK_GAP
  atomic { lock == 0 -> lock = 1 + _pid }
#endif
  atomic { /* add, and the lock is left; `use` is looked at without it */
    local_list = 0; THEN
    cut = size(table); THEN
    if :: cut != 0 -> use = MIXED :: else -> use = NONE; last = 1 fi; THEN
    LEAVE_LOCK
  }
  if :: last -> end_span() :: else fi;
  busy--
}

/* deallocate, free_not_own: looks at the record's use, then puts blocks on a chain of its own, or frees them in the
 * table. A look that came before the conversion ends in a push that comes after it. */
proctype Freer(byte mine) provided(!frozen) {
  byte b = 0, chain = 0, seen_list = 0, seen_state = 0;
  bit last = 0;
next:
  if
  :: atomic { mine != 0 -> b = lowest(mine); mine = mine - b; live = live - b; flight = flight | b; assert(use != NONE) };
     if
     :: atomic { use == MIXED }; goto here
     :: atomic { use != MIXED -> chain = chain | b; b = 0 };
        if :: mine != 0 -> goto next :: goto push fi
     fi
  :: atomic { mine == 0 && chain != 0 }; goto push
  :: atomic { mine == 0 && chain == 0 -> busy--; goto out }
  fi;

here: /* free_mixed */
  release_block(b);
  b = 0;
  goto next;

push: /* push_remote */
  atomic { seen_state = st; seen_list = remote; assert(st != FREE) }
again:
  if
#ifndef FAULT_PUSH_BLIND
  :: seen_state == MIXED -> seen_state = 0; seen_list = 0; goto list
#endif
  :: else
  fi;
  atomic { /* the CAS; one that fails has seen the word */
    if
    :: st == seen_state && remote == seen_list -> remote = remote | chain; flight = flight & (ALL - chain); chain = 0
    :: else -> seen_list = remote; seen_state = st; goto again
    fi;
    seen_state = 0;
    seen_list = 0
  }
  goto next;

list: /* PushDuty::mixed: free_mixed_list */
  do
  :: chain != 0 -> b = lowest(chain); chain = chain - b; release_block(b)
  :: else -> break
  od;
  b = 0;
  goto next;
out:
  skip
}

/* MixedPool::take: one block from a hole, written and freed again. */
proctype Taker() provided(!frozen) {
  byte b = 0;
  bit last = 0;
  atomic {
    TAKE_LOCK;
    if
    :: use == MIXED && table != ALL ->
       b = lowest(ALL - table);
       assert((live & b) == 0 && (flight & b) == 0 && (purged & b) == 0 && !slices_free);
       table = table | b; flight = flight | b
    :: use != MIXED || table == ALL -> LEAVE_LOCK; goto out
    fi; THEN
    cut++;
    LEAVE_LOCK
  }
  atomic { live = live | b; flight = flight - b }
  atomic { live = live - b; flight = flight | b }
  release_block(b);
out:
  atomic { b = 0; busy-- }
}

/* MixedPool::purge. What it finds may be another life of the record. */
proctype Purger() provided(!frozen || forked) {
  byte pages = 0;
  bit last = 0;
  atomic { /* begin_purge */
    TAKE_LOCK;
    if
#ifdef FAULT_TWO_PURGES
    :: use == MIXED && table != ALL ->
#else
    :: use == MIXED && table != ALL && purged == 0 ->
#endif
       pages = ALL - table
    :: else -> LEAVE_LOCK; goto out
    fi;
#ifdef FAULT_PURGE_UNNAMED
    table = table | pages; THEN
    purged = pages;
#else
    purged = pages; THEN
    table = table | pages;
#endif
#ifndef FAULT_UNCOUNTED
    cut = cut + size(pages);
#endif
    purgers++;
    LEAVE_LOCK
  }
  /* The kernel takes the pages. */
  atomic { assert(forked || ((live | flight) & pages) == 0) }
  atomic { /* end_purge */
    TAKE_LOCK;
    purgers--;
    if
#ifndef FAULT_NO_SECOND_LOOK
    :: purged == 0 -> LEAVE_LOCK; goto out /* a fork child has put them back */
#endif
    :: else -> assert((table & pages) == pages)
    fi;
    table = table - pages; THEN
    purged = 0; THEN
#ifndef FAULT_UNCOUNTED
    cut = cut - size(pages);
#endif
    if :: cut == 0 -> RETIRE; last = 1 :: else fi;
    LEAVE_LOCK
  }
  if :: last -> end_span() :: else fi;
out:
  atomic { pages = 0; busy--;
    assert(!forked || ((live & table) == live && (table & (live | flight)) == table)) }
}

/* MixedPool::make, once the slices are free, and the free of its block. */
proctype Maker() provided(!frozen) {
  bit last = 0;
  atomic { if :: slices_free -> slices_free = 0 :: else -> busy--; goto out fi }
  atomic {
    lock == 0;
    assert(use == NONE && st == FREE && live == 0);
    table = 1; cut = 1; live = 1; local_list = 0; st = MIXED; use = MIXED
  }
  atomic { live = live - 1; flight = flight | 1 }
  release_block(1);
  busy--;
out:
  skip
}

/* All are through: nothing is left, and the span was given back. */
proctype Rest() {
  atomic {
    busy == 0 && !frozen;
    assert(live == 0 && flight == 0 && lock == 0 && table == 0 && cut == 0 && purged == 0 && remote == 0);
    assert(slices_free && st == FREE && use == NONE)
  }
}

#ifdef FORK
/* vanished.cpp: resolve_vanished. */
inline end_it() { assert(!slices_free); st = FREE; use = NONE; slices_free = 1 }
proctype Child() {
  d_step {
#ifdef BY_PURGER
    purgers > 0 -> frozen = 1; forked = 1;
#else
    true -> frozen = 1;
#endif
    /* restore_mixed, where the lock was held: what the table says is so. */
    if
#ifdef FAULT_TORN
    :: false ->
#else
    :: lock != 0 ->
#endif
       table = table & (ALL - purged); purged = 0;
       if :: !slices_free && use == SPAN && st == MIXED -> local_list = 0; use = MIXED :: else fi;
       if
       :: !slices_free && use == MIXED -> cut = size(table); if :: cut == 0 -> end_it() :: else fi
       :: else
       fi
    :: else
    fi;
    lock = 0;
    /* finish_purges */
    if
#ifdef FAULT_PAGES_STAY
    :: false ->
#else
    :: purged != 0 ->
#endif
       table = table & (ALL - purged); cut = cut - size(purged); purged = 0;
       if :: cut == 0 -> end_it() :: else fi
    :: else
    fi;
    /* resolve_chunk */
    if
    :: !slices_free && use == NONE -> end_it() /* release_slice: told to be free by a thread that vanished then */
    :: !slices_free && use == SPAN -> /* adopt_orphan */
       assert(st == CLAIMED);
       local_list = local_list | remote; remote = 0;
       assert(local_list == (ALL & (ALL - (live | flight))));
       table = 0;
       st = SHARED
    :: !slices_free && use == MIXED ->
       assert(st == MIXED && remote == 0);
       /* Of a block in a free, whether it came as far as the table. */
       assert((live & table) == live && (table & (live | flight)) == table && cut == size(table) && cut != 0)
    :: else -> assert(live == 0)
    fi
  }
}
#endif

init {
  atomic {
    busy = 3;
    run Freer(CHAIN); /* 1 */
    run Freer(OTHER); /* 2 */
    run Converter();  /* 3 */
#ifdef TAKE
    busy++; run Taker();
#endif
#ifdef MAKE
    busy++; run Maker();
#endif
#ifdef PURGE
    busy++; run Purger();
#endif
#ifdef PURGE_TWICE
    busy++; run Purger();
#endif
#ifdef FORK
    run Child();
#else
    run Rest();
#endif
  }
}
