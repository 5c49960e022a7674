/* SPDX-License-Identifier: MIT */
/* The locks of Hoard (paper 1, figure 2): heaps, superblocks that change their owner, and frees that meet them.
 *
 * Code: src/papers/hoard/allocate.cpp (allocate_small, from_heaps), release.cpp (lock_owner, give_to_global,
 * release_if_empty), walk.cpp (lock_heaps_for_fork). K = 0, f = 1/2, two blocks a superblock, so that superblocks move
 * at almost every free. Fields are read and written in separate steps, so that two threads that are inside at once
 * lose an update; each step on a superblock asserts that its heap's lock is held.
 *
 * A, B, C: mallocs and frees of a thread of heap 1, of heap 2, and of heap 1 again. A free takes any block in use.
 * RELEASE: empty superblocks of heap 0 go to the system. FORK: a thread forks at any moment.
 */
#define N 2
#define HEAPS 3
#ifndef S
#define S 2
#endif
#define NONE 9
#ifndef A
#define A 0,0
#endif
#ifndef B
#define B 0,0
#endif
#ifndef C
#define C 0,0
#endif

byte hlock[HEAPS]; /* 1 + the thread that holds it */
byte slock[S];
byte owner[S];
bit mapped[S];
byte used[S]; /* blocks in use, as the superblock counts them */
byte u[HEAPS], a[HEAPS]; /* blocks in use, superblocks */
byte live[S]; /* blocks that the program has (for the checker) */
byte running = 0;
bit forked = 0; /* no other thread exists: this is the child */

#define me (1 + _pid)
#define holds(h) (2 * u[h] >= N * a[h])
#define holds_after_malloc(h) (holds(h) || u[h] + N >= N * a[h])
#define f_empty(s) (2 * used[s] <= N)
#define goes(s, h) (mapped[s] && owner[s] == h && f_empty(s))

inline lock_heap(h) { atomic { !forked && hlock[h] == 0 -> hlock[h] = me } }
inline unlock_heap(h) { assert(hlock[h] == me); hlock[h] = 0 }
inline lock_superblock(s) { atomic { !forked && slock[s] == 0 -> assert(mapped[s]); slock[s] = me } }
inline unlock_superblock(s) { atomic { assert(mapped[s] && slock[s] == me); slock[s] = 0 } }

/* heap.cpp: detach and attach, and the owner's change. */
inline detach(h, s) { assert(owner[s] == h && hlock[h] == me); u[h] = u[h] - used[s]; a[h]-- }
inline attach(h, s) { assert(hlock[h] == me); u[h] = u[h] + used[s]; a[h]++; owner[s] = h }

/* A superblock of the heap with a free block; S: there is none. */
inline find(h, s) {
  d_step {
    s = 0;
    do
    :: s < S && !(mapped[s] && owner[s] == h && used[s] < N) -> s++
    :: else -> break
    od
  }
}

/* from_heaps */
inline from_heaps(h, s) {
#ifndef FAULT_GLOBAL_FIRST
  lock_heap(0);
#endif
  find(0, s);
  if
  :: s < S ->
     detach(0, s);
#ifdef FAULT_OWNER_LATE
     unlock_heap(0);
     attach(h, s)
#else
     attach(h, s);
     unlock_heap(0)
#endif
  :: else -> unlock_heap(0)
  fi
}

/* from_system */
inline from_system(h, s) {
  atomic {
    s = 0;
    do
    :: s < S && mapped[s] -> s++
    :: else -> break
    od;
    if
    :: s < S -> assert(used[s] == 0 && slock[s] == 0); mapped[s] = 1
    :: else /* no memory */
    fi
  }
  if
  :: s < S -> attach(h, s)
  :: else
  fi
}

/* allocate_small */
inline allocate(h) {
#ifdef FAULT_GLOBAL_FIRST
  lock_heap(0);
  lock_heap(h);
#else
  lock_heap(h);
#endif
  find(h, s);
  if
  :: s < S ->
#ifdef FAULT_GLOBAL_FIRST
     unlock_heap(0)
#else
     skip
#endif
  :: else ->
     from_heaps(h, s);
     if
     :: s == S -> from_system(h, s)
     :: else
     fi
  fi;
  if
  :: s < S ->
#ifdef FAULT_MALLOC_LOCKS_SUPERBLOCK
     lock_superblock(s);
#endif
     assert(owner[s] == h);
     t = used[s];
     used[s] = t + 1;
     t = u[h];
     u[h] = t + 1;
     live[s]++;
     assert(holds_after_malloc(h));
#ifdef FAULT_MALLOC_LOCKS_SUPERBLOCK
     unlock_superblock(s);
#endif
  :: else
  fi;
  unlock_heap(h);
  s = 0; t = 0
}

inline release_if_empty(s) {
#ifdef RELEASE
  if
  :: used[s] == 0 -> detach(0, s); atomic { gone[s] = 1; owner[s] = NONE }
  :: else
  fi
#else
  skip
#endif
}

/* give_to_global */
inline give_to_global(h) {
  lock_heap(0);
  do
  :: !holds(h) ->
     atomic { /* any that is f empty; the code takes one of the emptiest */
       if
       :: goes(0, h) -> g = 0
       :: goes(1, h) -> g = 1
#if S > 2
       :: goes(2, h) -> g = 2
#endif
       :: else -> assert(false)
       fi
     }
     detach(h, g);
#ifdef FAULT_GLOBAL_LEFT_EARLY
     unlock_heap(0);
     attach(0, g);
     lock_heap(0);
#else
     attach(0, g);
#endif
     release_if_empty(g)
  :: else -> break
  od;
  unlock_heap(0);
  g = 0
}

/* lock_owner */
inline lock_owner(s, h) {
  do
  :: h = owner[s];
     lock_heap(h);
#ifdef FAULT_NO_RETRY
     break
#else
     if
     :: owner[s] == h -> break
     :: else -> unlock_heap(h)
     fi
#endif
  od
}

/* free_small, of a block of superblock s that nobody else will free */
inline free_block() {
  lock_superblock(s);
  lock_owner(s, h);
  assert(owner[s] == h);
  t = used[s];
  used[s] = t - 1;
  t = u[h];
  u[h] = t - 1;
  if
  :: h == 0 -> release_if_empty(s)
  :: else ->
     if
     :: !holds(h) -> give_to_global(h)
     :: else
     fi;
     assert(holds(h))
  fi;
#ifdef FAULT_HEAP_UNLOCKED_FIRST
  unlock_heap(h);
  give_back();
  unlock_superblock(s);
#else
  unlock_superblock(s);
  unlock_heap(h);
  give_back();
#endif
  s = 0; h = 0; t = 0
}

/* munmap, without locks: what this thread took out of heap 0. */
inline give_back() {
  d_step {
    g = 0;
    do
    :: g < S && gone[g] -> gone[g] = 0; mapped[g] = 0; g++
    :: g < S && !gone[g] -> g++
    :: else -> break
    od;
    g = 0
  }
}

proctype Thread(byte heap; byte mallocs; byte frees) {
  byte s = 0, h = 0, t = 0, g = 0;
  bit gone[S];
  do
  :: mallocs > 0 -> mallocs--; allocate(heap)
  :: frees > 0 ->
     /* Some block in use, or none any more. */
     atomic {
       if
       :: live[0] > 0 -> s = 0; live[0]--
       :: live[1] > 0 -> s = 1; live[1]--
#if S > 2
       :: live[2] > 0 -> s = 2; live[2]--
#endif
       :: else -> s = NONE
       fi;
       frees--
     }
     if
     :: s != NONE -> free_block()
     :: else -> s = 0
     fi
  :: mallocs == 0 && frees == 0 -> break
  od;
  running--
}

/* Everything adds up: of each heap, and of each superblock (in a child, blocks in use may be known to nobody). */
inline check_all() {
  d_step {
    h = 0;
    do
    :: h < HEAPS ->
       sum = 0; count = 0; s = 0;
       do
       :: s < S ->
          if
          :: mapped[s] && owner[s] == h -> sum = sum + used[s]; count++
          :: else
          fi;
          assert(!mapped[s] || used[s] >= live[s]);
          s++
       :: else -> break
       od;
       assert(u[h] == sum && a[h] == count);
       h++
    :: else -> break
    od
  }
}

#ifdef FORK
/* lock_heaps_for_fork, and the child: it forgets the superblocks' locks, and all must be whole. */
proctype Forker() {
  byte h, s, sum, count;
  lock_heap(1);
  lock_heap(2);
#ifndef FAULT_FORK_LEAVES_GLOBAL
  lock_heap(0);
#endif
  if
  :: forked = 1; check_all()
  :: unlock_heap(2);
     unlock_heap(1);
#ifndef FAULT_FORK_LEAVES_GLOBAL
     unlock_heap(0)
#endif
  fi;
  running--
}
#endif

init {
  byte h, s, sum, count;
  atomic {
    s = 0;
    do
    :: s < S -> owner[s] = NONE; s++
    :: else -> break
    od;
    running = 3;
    run Thread(1, A);
    run Thread(2, B);
    run Thread(1, C);
#ifdef FORK
    running++;
    run Forker();
#endif
  }
  (running == 0 || forked);
  if
  :: forked
  :: else ->
     check_all();
     s = 0;
     do
     :: s < S -> assert(used[s] == live[s] && slock[s] == 0); s++
     :: else -> break
     od
  fi
}
