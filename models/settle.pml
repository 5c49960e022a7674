/* SPDX-License-Identifier: MIT */
/* Taking and settling on a processor with store buffers: why one membarrier is enough, and where it has to stand.
 *
 * An owner frees into its two spans: bracket := span; owner == self?; list := list + 1; bracket := none. On x86 its
 * stores wait in a buffer, first in first out, while its loads go ahead: the bracket may become visible long after the
 * check. Takers set owner := none and put the span on the unsettled stack; settlers take the whole stack, issue one
 * membarrier (it empties the owner's buffer and orders its later loads), then settle each span that the bracket does
 * not name.
 *
 * Code: deallocate in src/heap/heap.hpp; take and settle in src/heap/. With -DFENCED there is no membarrier: the owner
 * fences after it wrote the bracket (the slow path of a process without the system call).
 */
#ifndef FREES
#define FREES 3
#endif
#define SPANS 2

byte owner[SPANS] = 1;   /* 1: the owner's heap; 0: none */
byte list[SPANS];        /* local list, as memory has it */
byte bracket = 0;        /* 1 + span, as memory has it */
byte remote[SPANS];      /* remote list */
bit stack[SPANS];        /* the unsettled stack */
byte base[SPANS];        /* shared_base: what the settler counted */
bit settled[SPANS];
byte freed[SPANS];       /* for the checker */
byte taken = 0, done = 0;
bit asleep = 0;         /* the owner sleeps for ever */

#define BRACKET 9
chan buffer = [6] of { byte, byte }; /* the owner's store buffer: cell, value */

inline store(cell, value) { atomic { nfull(buffer) -> buffer!cell, value } }
inline drain(a, b) {
  atomic {
    do
    :: buffer?a, b -> if :: a == BRACKET -> bracket = b :: else -> list[a] = b fi
    :: empty(buffer) -> break
    od;
    a = 0; b = 0
  }
}

proctype Memory() {
  byte a, b;
end:
  do
  :: atomic { buffer?a, b -> if :: a == BRACKET -> bracket = b :: else -> list[a] = b fi; a = 0; b = 0 }
  od
}

proctype Owner() {
  byte i = 0, s = 0, mine[SPANS], a, b;
  bit is_mine;
  do
  :: i < FREES ->
     if :: s = 0 :: s = 1 fi;
#ifdef FAULT_CHECK_FIRST
     is_mine = (owner[s] == 1);
     store(BRACKET, 1 + s);
#else
     store(BRACKET, 1 + s);
#ifdef FENCED
     drain(a, b);
#endif
     is_mine = (owner[s] == 1);
#endif
     if
     :: is_mine ->
#ifdef FAULT_CLEAR_EARLY
        store(BRACKET, 0);
#endif
        mine[s]++;
        atomic { store(s, mine[s]); freed[s]++ }
#ifndef FAULT_CLEAR_EARLY
        store(BRACKET, 0)
#endif
     :: else ->
        store(BRACKET, 0);
        drain(a, b); /* a locked instruction */
        atomic { remote[s]++; freed[s]++ }
     fi;
     i++; is_mine = 0
  :: i == FREES -> break
  :: asleep = 1; break /* outside of any call */
  od;
  done++
}

proctype Taker(byte s) {
  owner[s] = 0;
  atomic { stack[s] = 1; taken++ }
}

proctype Settler() {
  byte s, a, b, tries = 0;
  bit hand[SPANS];
  do
  :: tries < 2 ->
     tries++;
#ifdef FAULT_BARRIER_FIRST
     drain(a, b);
#endif
     atomic { hand[0] = stack[0]; hand[1] = stack[1]; stack[0] = 0; stack[1] = 0 }
#if !defined(FAULT_NO_BARRIER) && !defined(FAULT_BARRIER_FIRST) && !defined(FENCED)
     drain(a, b); /* membarrier */
#endif
     s = 0;
     do
     :: s < SPANS ->
        if
        :: hand[s] ->
           hand[s] = 0;
           if
#ifndef FAULT_IGNORE_BRACKET
           :: bracket == 1 + s -> stack[s] = 1
#endif
           :: else -> assert(!settled[s] && owner[s] == 0); base[s] = list[s]; settled[s] = 1
           fi
        :: else
        fi;
        s++
     :: s == SPANS -> s = 0; break
     od
  :: break
  od;
  done++
}

init {
  byte a, b, s;
  atomic { run Memory(); run Owner(); run Taker(0); run Taker(1); run Settler(); run Settler() }
  /* At rest, whether the owner came to its end or sleeps: one more settler, and nothing is left. */
  done == 3 && taken == 2;
  drain(a, b);
  do
  :: s < SPANS ->
     if :: stack[s] && bracket != 1 + s -> stack[s] = 0; base[s] = list[s]; settled[s] = 1 :: else fi;
     s++
  :: s == SPANS -> break
  od;
  assert(settled[0] && settled[1]);
  /* No free is lost, none counted twice, nothing written after the count. */
  assert(base[0] == list[0] && base[1] == list[1]);
  assert(base[0] + remote[0] == freed[0] && base[1] + remote[1] == freed[1])
}
