/* SPDX-License-Identifier: MIT */
/* A chunk's two words: `free` and `dirty`. Claims are CASes, releases are fetch_or, a purge is a claim that gives
 * back, and an empty chunk leaves by a claim of everything.
 *
 * One chunk of four slices. For each slice the checker knows who has it and whether old data lies in it; nobody may get
 * a slice that another has, be told that a slice is zero when it is not, or purge what is in use. Code: claim_in_chunk,
 * take_dirty, put_back and return_empty_chunks in src/pool/slice_pool.cpp, purge_slices_of in src/pool/purge.cpp.
 */
#define SLICES 4
#define ALL 15

byte free = ALL, dirty = 0;
byte holder[SLICES];  /* 1 + _pid, 0: nobody */
bit data[SLICES];     /* resident, and perhaps not zero */
bit gone = 0;        /* the chunk went back to the arena */
byte done = 0;
hidden byte k;

#define me (1 + _pid)
inline get(mask) {
  d_step {
    k = 0;
    do
    :: k < SLICES -> if :: (mask) & (1 << k) -> assert(holder[k] == 0); holder[k] = me :: else fi; k++
    :: else -> break
    od
  }
}
inline give(mask) {
  d_step {
    k = 0;
    do
    :: k < SLICES -> if :: (mask) & (1 << k) -> assert(holder[k] == me); holder[k] = 0 :: else fi; k++
    :: else -> break
    od
  }
}
/* The lowest aligned run of n slices (1 or 2) in a word; 0: none. */
#define run_of(n, w) ((n) == 2 -> (((w) & 3) == 3 -> 3 : (((w) & 12) == 12 -> 12 : 0)) : \
                      ((w) & 1 -> 1 : ((w) & 2 -> 2 : ((w) & 4 -> 4 : (w) & 8))))

/* A user: claims a run, writes to it, releases it. */
proctype User(byte n; byte rounds) {
  byte seen, mask, old;
  do
  :: rounds > 0 ->
     rounds--;
claim:
     seen = free;
     /* dirty slices first: a preference, the CAS decides */
     atomic { mask = run_of(n, seen & dirty); if :: mask == 0 -> mask = run_of(n, seen) :: else fi }
     if
     :: mask == 0 -> seen = 0; goto next
     :: else
     fi;
#ifdef FAULT_CLAIM_STORE
     atomic { free = seen & ~mask; get(mask) }
#else
     atomic { if :: free == seen -> free = seen & ~mask; get(mask) :: else -> mask = 0; seen = 0; goto claim fi }
#endif
     seen = 0;
     /* take_dirty */
     old = dirty & mask;
     if :: old -> dirty = dirty & ~mask :: else fi;
     /* What is not dirty is zero: calloc relies on it. */
     d_step {
       k = 0;
       do
       :: k < SLICES ->
          if :: mask & (1 << k) -> assert(holder[k] == me && (!data[k] || (old & (1 << k)))); data[k] = 1 :: else fi;
          k++
       :: else -> break
       od
     }
     /* put_back */
     old = 0;
#ifdef FAULT_FREE_FIRST
     atomic { give(mask); free = free | mask }
     dirty = dirty | mask;
#else
     dirty = dirty | mask;
     atomic { give(mask); free = free | mask }
#endif
     mask = 0
next: skip
  :: rounds == 0 -> break
  od;
  done++
}

/* purge_slices_of: claims dirty slices, gives their pages back, clears their bits, releases them. */
proctype Purger() {
  byte seen, mask;
again:
  seen = free;
  mask = run_of(2, seen & dirty);
  if :: mask == 0 -> mask = run_of(1, seen & dirty) :: else fi;
  if
  :: mask == 0 -> goto out
  :: else
  fi;
#ifndef FAULT_PURGE_UNCLAIMED
  atomic { if :: free == seen -> free = seen & ~mask; get(mask) :: else -> goto again fi }
#endif
  if
  :: d_step {
       k = 0;
       do
       :: k < SLICES ->
          if
          :: mask & (1 << k) -> assert(holder[k] == 0 || holder[k] == me); data[k] = 0
          :: else
          fi;
          k++
       :: else -> break
       od
     };
#ifdef FAULT_CLEAN_LATE
     atomic { give(mask); free = free | mask };
     dirty = dirty & ~mask;
     goto out
#else
     dirty = dirty & ~mask
#endif
  :: true /* the kernel refused */
  fi;
#ifndef FAULT_PURGE_UNCLAIMED
  atomic { give(mask); free = free | mask }
#endif
out:
  done++
}

/* return_empty_chunks: only a wholly free chunk goes, and then nobody can claim in it. */
proctype Returner() {
#ifdef FAULT_RETURN_LOOKS
  if
  :: free == ALL -> free = 0; get(ALL)
#else
  if
  :: atomic { free == ALL -> free = 0; get(ALL) }
#endif
     dirty = dirty & ~ALL;
     assert(free == 0);
     gone = 1
  :: true
  fi;
  done++
}

init {
  byte i;
  atomic { run User(2, 1); run User(1, 2); run User(2, 1); run Purger(); run Returner() }
  done == 5;
  /* At rest: everything is free, and what is not dirty is zero; or the chunk is gone. */
  assert(gone -> free == 0 : free == ALL);
  do
  :: i < SLICES -> assert(gone || !data[i] || (dirty & (1 << i))); assert(!(dirty & ~free)); i++
  :: else -> break
  od
}
