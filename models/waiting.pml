/* SPDX-License-Identifier: MIT */
/* Heaps that wait for a thread: a stack for each processor (exchange/registry.cpp: take_waiting, take_record,
 * leave_heap; registry_record.hpp: wait_for_thread, count_attached).
 *
 * Threads start and end without a lock, on two processors. Each step is one access to a stack's word, to a link, or to
 * the number of heaps that threads use. A link may be read when another thread has the heap already. A fork may happen
 * at any step: a child that finds no thread counted but its own makes no list anew, so none may be missing then.
 *
 * A, B, C: how often a thread lives, and on which processor it begins.
 */
#define HEAPS 3
#define THREADS 3
#define WAITS 9

typedef Stack {
  byte newest, changes
};
Stack stack[2];
byte link[HEAPS + 1]; /* next_waiting */
byte made = 0;        /* heaps there are: 1 .. made */
byte counted = 0;     /* heaps that threads use */
byte user[HEAPS + 1]; /* for the checker: who has it, or WAITS */
byte done = 0;

#ifdef FAULT_NO_TAG
#define same(p) (stack[p].newest == seen)
#else
#define same(p) (stack[p].newest == seen && stack[p].changes == seen_changes)
#endif

inline mine(heap) { assert(user[heap] == WAITS); user[heap] = _pid }

inline take_waiting(p) {
  got = 0;
  atomic { seen = stack[p].newest; seen_changes = stack[p].changes };
  do
  :: seen == 0 -> break
  :: else ->
    next = link[seen];
    atomic {
      if
      :: same(p) -> stack[p].newest = next; stack[p].changes++; got = seen; mine(got); break
      :: else -> seen = stack[p].newest; seen_changes = stack[p].changes
      fi
    }
  od
}

inline wait_for_thread(heap, p) {
  atomic { seen = stack[p].newest; seen_changes = stack[p].changes };
#ifdef FAULT_LINK_ONCE
  link[heap] = seen;
#endif
  do
  ::
#ifndef FAULT_LINK_ONCE
#ifndef FAULT_LINK_LATE
    link[heap] = seen;
#endif
#endif
    atomic {
      if
      :: same(p) ->
        assert(user[heap] == _pid);
        user[heap] = WAITS;
        stack[p].newest = heap;
        stack[p].changes++;
        break
      :: else -> seen = stack[p].newest; seen_changes = stack[p].changes
      fi
    }
  od
#ifdef FAULT_LINK_LATE
  ;
  link[heap] = seen
#endif
}

/* One that is there is taken, or made; the thread may run on the other processor when it ends. */
proctype Thread(byte lives, processor) {
  byte seen, seen_changes, next, got;
  do
  :: lives == 0 -> break
  :: else ->
    lives--;
#ifndef FAULT_COUNT_LATE
    counted++;
#endif
    take_waiting(processor);
    if
    :: got != 0 -> skip
    :: got == 0 ->
      if
      :: atomic { made < HEAPS -> made++; got = made; user[got] = _pid }
      :: take_waiting(1 - processor)
      fi
    fi;
#ifdef FAULT_COUNT_LATE
    counted++;
#endif
    if
    :: true -> processor = 1 - processor
    :: true -> skip
    fi;
#ifdef FAULT_UNCOUNT_FIRST
    counted--;
#endif
    if
    :: got != 0 -> wait_for_thread(got, processor)
    :: else -> skip
    fi;
#ifndef FAULT_UNCOUNT_FIRST
    counted--
#endif
  od;
  done++
}

byte i;

proctype Fork() {
  atomic {
    if
    :: counted == 0 ->
      for (i : 1 .. made) { assert(user[i] == WAITS) }
    :: else -> skip
    fi
  }
}

byte heap, found;

init {
  atomic {
    for (i : 1 .. HEAPS) { user[i] = WAITS }
    run Thread(A);
    run Thread(B);
    run Thread(C);
    run Fork()
  }
  done == THREADS;
  /* Each heap waits in one place. */
  d_step {
    assert(counted == 0);
    for (i : 0 .. 1) {
      heap = stack[i].newest;
      do
      :: heap == 0 -> break
      :: else -> found++; assert(found <= made && user[heap] == WAITS); heap = link[heap]
      od
    }
    assert(found == made)
  }
}
