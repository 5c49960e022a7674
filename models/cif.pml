/* SPDX-License-Identifier: MIT */
/* CIF's heaps (src/papers/cif/heap.cpp): one lock a free, where Hoard takes two. A free reads the superblock's owner
 * without a lock, locks that heap, and reads the owner again; a superblock changes hands only under both heaps' locks.
 * One without blocks in use waits in the global heap with whatever owner it had: nobody can ask for it.
 *
 * One superblock of K blocks that moves between two processors' heaps (1, 2) and the global one (0). Each thread
 * allocates on two processors in turn and frees what it got in any order; a free may pass the superblock on as soon as
 * it is not full, whatever f and K say. The blocks are told apart, so that one that is lost or handed out twice is
 * seen. A step is one access to what other threads use; what only the holder of a lock uses is one step under it.
 */
#define K 2
#define GLOBAL 0
#define NONE 9

byte owner = GLOBAL; /* superblock->owner */
byte list = GLOBAL;  /* the heap on whose lists it is; NONE: it is in somebody's hands */
byte used = 0;       /* as its header says */
bool unused[K];      /* its free list */
byte holder[K];      /* who has the block, for the checker; 0: nobody */
byte lock[3];        /* of the heaps: by whom, and 1 */
byte inside = 0;     /* threads that write the superblock's header */
byte ended = 0;

inline take_lock(heap) { atomic { lock[heap] == 0 -> lock[heap] = 1 + _pid } }
inline leave_lock(heap) { atomic { assert(lock[heap] == 1 + _pid); lock[heap] = 0 } }
/* Nobody else touches the header meanwhile. */
inline enter() { atomic { inside++; assert(inside == 1) } }
inline leave() { inside-- }

/* try_allocate on the processor of heap `me`: got is the block's number, or NONE. */
inline allocate() {
  got = NONE;
  take_lock(me);
  if
  :: list == me
  :: else ->
     /* refill */
     take_lock(GLOBAL);
     if
     :: list == GLOBAL ->
        list = NONE; /* take_from_global */
        if
        :: used == 0 -> enter(); unused[0] = true; unused[1] = true; leave() /* format: its next life */
        :: else
        fi;
#ifdef FAULT_GLOBAL_LEFT_EARLY
        leave_lock(GLOBAL);
        list = me; owner = me
#else
        list = me; owner = me; /* put */
        leave_lock(GLOBAL)
#endif
     :: else -> leave_lock(GLOBAL)
     fi
  fi;
  if
  :: list == me && used < K ->
     enter(); /* take_block */
     if
     :: unused[0] -> got = 0
     :: else -> assert(unused[1]); got = 1
     fi;
     unused[got] = false; used++;
     assert(holder[got] == 0);
     holder[got] = 1 + _pid;
     leave()
  :: else
  fi;
  leave_lock(me)
}

/* pass_on, from the heap `seen`, whose lock is held; leaves it. */
inline pass_on() {
  list = NONE; /* take_out */
#ifdef FAULT_OWN_LEFT_EARLY
  leave_lock(seen);
#endif
  take_lock(GLOBAL);
  list = GLOBAL;
#ifndef FAULT_OWNER_LATE
  if :: used != 0 -> owner = GLOBAL :: else fi; /* settle_in_global */
#endif
  leave_lock(GLOBAL);
#ifndef FAULT_OWN_LEFT_EARLY
  leave_lock(seen);
#endif
#ifdef FAULT_OWNER_LATE
  if :: used != 0 -> owner = GLOBAL :: else fi;
#endif
}

inline deallocate(b) {
  seen = owner;
  do
  :: take_lock(seen);
#ifdef FAULT_NO_SECOND_LOOK
     break
#else
     if
     :: owner == seen -> break
     :: else -> leave_lock(seen); seen = owner
     fi
#endif
  od;
  assert(list == seen); /* it is in the heap whose lock is held */
  enter();              /* give_block */
  assert(holder[b] == 1 + _pid && !unused[b]);
  holder[b] = 0; unused[b] = true; used--;
  leave();
  if
  :: seen != GLOBAL -> pass_on()
  :: leave_lock(seen)
  fi
}

proctype Thread(byte first; byte second) {
  byte me, got, seen, calls = 0;
  bool has[K];
  do
  :: calls < 2 ->
     if :: calls == 0 -> me = first :: else -> me = second fi;
     allocate();
     calls++;
     if :: got != NONE -> has[got] = true; got = NONE :: else fi
  :: has[0] -> has[0] = false; deallocate(0)
  :: has[1] -> has[1] = false; deallocate(1)
  :: calls == 2 && !has[0] && !has[1] -> break
  od;
  ended++
}

init {
  atomic {
    unused[0] = true; unused[1] = true;
    run Thread(1, 2); run Thread(2, 1); run Thread(1, 1)
  }
  ended == 3;
  assert(used == 0 && unused[0] && unused[1] && inside == 0);
  assert(list == GLOBAL || list == owner)
}
