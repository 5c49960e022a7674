/* SPDX-License-Identifier: MIT */
/* Who comes first at the partial pool: the one who links a listed span, the one who freed its last block, an adopter.
 *
 * Under the shard's lock (one step here) `listed` says who was there; the second one finishes. Code: PartialPool in
 * src/pool/partial_pool.cpp, mark_adopted and push_remote in src/span/span.cpp. K blocks; one freer for each live one.
 * The lock is taken and left in separate steps: an adopter changes the state in between.
 */
#define K 3
#define T 1
#define SHARED 1
#define LISTED 2
#define HOT 3
#define ENDED 4

#ifdef FAULT_ADOPT_FULL
#define ADOPTABLE (st == LISTED)
#else
#define ADOPTABLE (st == LISTED && count < K)
#endif

#define NOBODY 0
#define LINKED 1
#define AWAITED 2

byte st = SHARED, count = 0; /* the remote word */
byte listed = NOBODY;
bit on_list = 0;
byte lock = 0;
byte owner = 0;
byte live = K;
byte ends = 0, links = 0, done = 0; /* for the checker */

inline take_lock() { atomic { lock == 0 -> lock = 1 + _pid } }
inline leave_lock() { assert(lock == 1 + _pid); lock = 0 }

/* span.cpp: end_span. */
inline end_span() {
  atomic { assert(live == 0 && !on_list && owner == 0 && (st == SHARED || st == LISTED) && count == K);
           ends++; assert(ends == 1); st = ENDED }
}
/* A record that may begin a new life at any moment must not be touched. */
inline touch() { assert(st != ENDED) }

/* insert: links, or ends the span if its returner was here first. */
inline insert() {
  take_lock();
  touch();
#ifdef FAULT_NO_AWAITED
  if
  :: false
#else
  if
  :: listed == AWAITED -> listed = NOBODY; leave_lock(); end_span()
#endif
  :: else -> assert(!on_list); on_list = 1; listed = LINKED; links++; leave_lock()
  fi
}
/* remove: takes it off, or leaves it to the inserter. */
inline remove() {
  take_lock();
  touch();
  if
  :: listed == LINKED -> on_list = 0; listed = NOBODY; leave_lock(); end_span()
  :: else ->
     listed = AWAITED;
     leave_lock();
#ifdef FAULT_RETURNER_ENDS
     end_span()
#endif
  fi
}

proctype Freer() {
  byte duty = 0;
  /* push_remote: list, count and state in one CAS. */
#ifdef FAULT_DECIDE_LATER
  atomic { live--; count++ }
  atomic {
#else
  atomic {
    live--; count++;
#endif
    if
    :: st == HOT -> duty = 0
    :: st != HOT && count == K -> duty = st
    :: st == SHARED && count >= T && count < K -> st = LISTED; duty = 9
    :: else -> duty = 0
    fi
  }
  if
  :: duty == 9 -> insert()
  :: duty == LISTED -> remove()
  :: duty == SHARED -> end_span()
  :: else
  fi;
  done++
}

proctype Adopter() {
  take_lock();
  if
  :: on_list ->
     on_list = 0; listed = NOBODY;
#ifdef FAULT_UNLINK_FIRST
     leave_lock();
#endif
     atomic { if :: ADOPTABLE -> st = HOT; owner = 1 :: else fi }; /* mark_adopted */
#ifndef FAULT_UNLINK_FIRST
     if :: owner != 1 -> on_list = 1; listed = LINKED :: else fi;
     leave_lock()
#endif
  :: else -> leave_lock()
  fi;
  done++
}

init {
  atomic { run Freer(); run Freer(); run Freer(); run Adopter(); run Adopter() }
  done == 5;
  /* At rest: adopted, or ended once; never empty and nobody's. */
  assert(st == HOT || st == ENDED);
  assert(st != ENDED || ends == 1);
  assert(st == ENDED || owner == 1);
  assert(!on_list && listed == NOBODY)
}
