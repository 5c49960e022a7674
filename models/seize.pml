/* SPDX-License-Identifier: MIT */
/* Having another thread's heap whole, on a processor with store buffers: why one membarrier is enough, and where it has
 * to stand.
 *
 * The owner says what it is at work on and then looks whether the heap is its own: inside := ...; heap := self. On x86
 * its stores wait in a buffer, first in first out, while its loads go ahead: `inside` may become visible long after the
 * look. A seizer sets self := null heap, issues one membarrier (it empties the owner's buffer and orders its later
 * loads), and then looks at `inside`. Outside: the heap is the seizer's. In a fast path: its mail is, but for the span
 * that the owner frees into. In a slow path: nothing is, and nobody waits.
 *
 * One heap with its list, two spans with their local lists, of which span 0 is hot; an owner that pops, frees, takes
 * slow paths and may sleep for ever, inside or outside; two seizers, of which one or both are pushers with mail; the
 * owner's end. With -DLOOK another leaves a note in `inside`, which the owner writes over. With -DATTACH the heap has no thread at first, and the owner is one that starts: then no barrier is
 * needed where `attached` is 0.
 *
 * Code: src/exchange/inside.hpp, seizing.cpp, mail.cpp; the fast paths in heap.hpp. With -DFENCED there is no membarrier:
 * the owner fences after it wrote `inside`, and has no fast path.
 */
#ifndef OPS
#define OPS 2
#endif
#define SPANS 2
#define BLOCKS 5

/* Cells that the owner writes with plain stores. */
#define INSIDE 0
#define LIST 1          /* blocks on the heap's list, also those that the owner freed in span 0 */
#define LOCAL 2         /* and on each span's local list */
#define FREED(s) ((s) == 0 -> LIST : LOCAL + (s)) /* where the owner's frees go */
byte mem[4];            /* as memory has them */
chan buffer = [4] of { byte, byte }; /* the owner's store buffer: cell, value */
byte waiting[4], newest[4]; /* what is in the buffer of each cell, and the value that the owner itself reads */

/* Values of `inside`. */
#define OUTSIDE 0
#define POPPING 1
#define SLOW 2
#define FREEING(s) (3 + (s))
#define NOTE 8          /* added to any of them by who looks whether the thread makes calls */
#ifdef FAULT_NOTE_READ
#define WITHOUT_NOTE(x) (x)
#else
#define WITHOUT_NOTE(x) ((x) >= NOTE -> (x) - NOTE : (x))
#endif

bit self = 1;           /* 0: the null heap */
bit attached = 0;
bit owned[SPANS] = 1;   /* the span's owner is the heap; 0: nobody */
bit claimed[SPANS], box[SPANS]; /* its mailbox holds the span */
byte remote[SPANS];
byte live[SPANS];

/* What the checker knows and no thread reads. */
byte at_list = 0, at_rings = 0, at[SPANS]; /* 1 + _pid of who is at work there */
byte base[SPANS];            /* what was counted when the span became nobody's */
byte hand = 0;               /* blocks on their way in a free */
byte busy = 0;

#define me (1 + _pid)
#define UNUSED(user) ((user) == 0 || (user) == me)

inline store(cell, value) { atomic { nfull(buffer) -> buffer!cell, value; waiting[cell]++; newest[cell] = value } }
inline drain() {
  atomic {
    do
    :: buffer?a, b -> mem[a] = b; waiting[a]--; if :: waiting[a] == 0 -> newest[a] = 0 :: else fi
    :: empty(buffer) -> break
    od;
    a = 0; b = 0
  }
}
#define OWN(cell) (waiting[cell] -> newest[cell] : mem[cell])

proctype Memory() {
  byte a, b;
end:
  do
  :: atomic { buffer?a, b -> mem[a] = b; waiting[a]--; if :: waiting[a] == 0 -> newest[a] = 0 :: else fi; a = 0; b = 0 }
  od
}

/* A seizer's access: nobody else is at work there, and no store to it waits. */
inline use_span(s) { assert(at[s] == me && waiting[LOCAL + s] == 0) }
inline use_list() { assert(at_list == me && waiting[LIST] == 0) }
inline at_work_on_rings() { atomic { assert(UNUSED(at_rings)); at_rings = me } }

/* mail: 0 or 1, the span that it frees into first; 2: looks for memory, and takes all. */
proctype Seizer(byte mail) {
  byte s = 0, v = 0, in = 0, but = SPANS, a, b;
  bit thread = 0;
  if
  :: mail == 2 -> goto seize
  :: mail == 3 -> goto look /* the end of a thread */
  :: mail < SPANS ->
     atomic { /* push_remote */
       if
       :: live[mail] > 0 -> live[mail]--; remote[mail]++
       :: else -> goto done
       fi;
       if :: owned[mail] && !claimed[mail] -> claimed[mail] = 1 :: else -> goto done fi
     }
     box[mail] = 1;
     if
     :: !attached -> goto seize
     :: attached -> if :: goto seize /* it holds much */ :: goto done fi
     fi
  fi;

seize:
#ifdef FAULT_ATTACHED_FIRST
  thread = attached;
#endif
  atomic { if :: self -> self = 0 :: else -> goto done fi };
#ifndef FAULT_ATTACHED_FIRST
  thread = attached;
#endif
#ifdef FAULT_INSIDE_FIRST
  in = mem[INSIDE];
#endif
#if !defined(FAULT_NO_BARRIER) && !defined(FENCED)
  if :: thread -> drain() :: else fi; /* membarrier */
#endif
#ifndef FAULT_INSIDE_FIRST
  in = WITHOUT_NOTE(mem[INSIDE]);
#endif
  if :: !thread -> in = OUTSIDE :: else fi;
#ifdef FAULT_IGNORE_INSIDE
  in = OUTSIDE;
#endif
  if
  :: in == SLOW -> goto back
  :: in == OUTSIDE ->
     atomic { assert(UNUSED(at_list) && UNUSED(at[0]) && UNUSED(at[1])); at_list = me; at[0] = me; at[1] = me };
     at_work_on_rings()
  :: in == POPPING -> atomic { assert(UNUSED(at[0]) && UNUSED(at[1])); at[0] = me; at[1] = me }; at_work_on_rings()
  :: in >= FREEING(0) ->
     atomic {
#ifndef FAULT_MAIL_ALL
       but = in - FREEING(0);
#endif
       s = 1 - (in - FREEING(0)); assert(UNUSED(at[s])); at[s] = me; s = 0
     };
     at_work_on_rings()
  fi;
  /* take_mail: read and written in the span's line is its local list. */
  do
  :: s < SPANS ->
     if
     :: box[s] && s != but ->
        atomic { box[s] = 0; use_span(s) };
        if
        :: claimed[s] = 0 /* receive_claimed */
        :: s == 1 -> owned[1] = 0; atomic { use_span(1); base[1] = mem[LOCAL + 1]; claimed[1] = 0 } /* share */
        fi
     :: else
     fi;
     s++
  :: s == SPANS -> s = 0; break
  od;
  if
  :: in == OUTSIDE && mail == 2 -> /* give_up_hot */
     v = mem[LIST];
     atomic { use_list(); mem[LIST] = 0 };
     atomic { use_span(0); mem[LOCAL] = mem[LOCAL] + v; v = 0 };
     atomic {
       if
       :: owned[0] && !claimed[0] -> owned[0] = 0; use_span(0); base[0] = mem[LOCAL]
       :: else
       fi
     }
  :: else
  fi;
back:
  atomic {
    if :: at_list == me -> at_list = 0 :: else fi;
    if :: at_rings == me -> at_rings = 0 :: else fi;
    if :: at[0] == me -> at[0] = 0 :: else fi;
    if :: at[1] == me -> at[1] = 0 :: else fi;
    in = 0; but = SPANS; thread = 0;
    self = 1
  }
#ifdef FAULT_NO_SECOND_LOOK
  goto done;
#endif
look: /* Mail that came while the heap was seized, of a heap whose thread has ended. */
  if
  :: !attached -> if :: box[0] || box[1] -> goto seize :: else fi
  :: else
  fi;
done:
  busy--
}

/* leave_note */
proctype Looker() {
  byte in;
#ifdef FAULT_NOTE_STORED
  in = mem[INSIDE];
  mem[INSIDE] = in + NOTE;
#else
  atomic { in = mem[INSIDE]; mem[INSIDE] = in + NOTE; in = 0 }
#endif
  busy--
}

/* Says what this thread is at work on, and asks whether the heap is its own. */
inline enter(x) {
#ifdef FAULT_SELF_FIRST
  got = self;
  store(INSIDE, x);
#else
  store(INSIDE, x);
#ifdef FENCED
  drain();
#endif
  if :: true :: goto asleep fi;
  got = self;
#endif
  if :: true :: goto asleep fi
}
inline at_work_on_span(s) { atomic { assert(UNUSED(at[s])); at[s] = me } }
inline leave() {
  atomic {
    nfull(buffer) -> buffer!INSIDE, OUTSIDE; waiting[INSIDE]++; newest[INSIDE] = OUTSIDE;
    if :: at_list == me -> at_list = 0 :: else fi;
    if :: at_rings == me -> at_rings = 0 :: else fi;
    if :: at[0] == me -> at[0] = 0 :: else fi;
    if :: at[1] == me -> at[1] = 0 :: else fi;
    got = 0; v = 0; s = 0
  }
}

proctype Owner() {
  byte ops = OPS, s = 0, v = 0, a, b;
  bit got = 0;
#ifdef ATTACH
  drain();
  attached = 1;
#endif
  do
  :: ops > 0 ->
     ops--;
     if
     :: /* malloc */
#ifndef FENCED
        enter(POPPING);
        if
        :: got ->
           atomic { assert(UNUSED(at_list)); at_list = me };
#ifdef FAULT_CLEAR_EARLY
           store(INSIDE, OUTSIDE);
#endif
           v = OWN(LIST);
           if
           :: v > 0 -> store(LIST, v - 1); atomic { live[0]++; leave() } goto next
           :: else
           fi
        :: else -> leave(); goto next /* the fallback heap serves */
        fi;
#endif
        enter(SLOW);
        if
        :: got ->
           atomic { assert(UNUSED(at_list)); at_list = me };
           at_work_on_span(0);
           at_work_on_span(1);
           at_work_on_rings();
           do /* take_mail */
           :: s < SPANS -> if :: box[s] -> box[s] = 0; drain(); claimed[s] = 0 :: else fi; s++
           :: s == SPANS -> s = 0; break
           od;
           if
           :: owned[0] -> v = OWN(LOCAL) + OWN(LIST); store(LIST, v); store(LOCAL, 0) /* refill */
           :: else
           fi
        :: else
        fi;
        leave()
     :: atomic { if :: live[0] > 0 -> s = 0 :: live[1] > 0 -> s = 1 :: live[0] + live[1] == 0 -> goto next fi };
        atomic { live[s]--; hand++ } /* free */
#ifndef FENCED
        enter(FREEING(s));
#else
        enter(SLOW);
#endif
        if
        :: got && owned[s] ->
           at_work_on_span(s);
           if :: s == 0 -> atomic { assert(UNUSED(at_list)); at_list = me } :: else fi;
           v = OWN(FREED(s));
           atomic { nfull(buffer); store(FREED(s), v + 1); hand-- };
           if
           :: true -> /* local_event */
#ifndef FAULT_SELF_KEPT
              enter(SLOW);
#else
              store(INSIDE, SLOW);
#endif
              if
              :: got && s == 1 ->
                 at_work_on_rings();
                 drain();
                 if
                 :: atomic { !claimed[1] -> claimed[1] = 1 } /* give_up */
                    owned[1] = 0;
                    atomic { base[1] = mem[LOCAL + 1]; claimed[1] = 0 }
                 :: claimed[1]
                 fi
              :: got && s == 0
              :: !got -> v = OWN(LOCAL + s); store(LOCAL + s, v) /* set_countdown: the line is this thread's still */
              fi
           :: true
           fi;
           leave()
        :: else ->
           enter(SLOW);
           drain(); /* a locked instruction */
           atomic { remote[s]++; hand--; leave() }
        fi
     fi;
next:
     atomic { got = 0; v = 0; s = 0 }
  :: ops == 0 -> break
  :: goto asleep
  od;
  /* thread_ended; take_late_mail */
  drain();
  atomic { attached = 0; busy++; run Seizer(3); busy-- }
  goto ended;
asleep:
  busy--;
ended:
  skip
}

#ifndef MAIL
#define MAIL 1
#endif
#ifndef OTHER
#define OTHER 2
#endif

init {
  byte a, b;
  atomic {
    mem[LIST] = 1; mem[LOCAL] = 1; live[0] = 1; live[1] = 2;
#ifndef ATTACH
    attached = 1;
#endif
    busy = 3; run Memory(); run Owner(); run Seizer(MAIL); run Seizer(OTHER);
#ifdef LOOK
    busy++; run Looker()
#endif
  }
  busy == 0;
  drain();
  atomic {
    assert(self);
    assert(attached || (!box[0] && !box[1]));
    a = mem[LIST] + mem[LOCAL] + mem[LOCAL + 1] + remote[0] + remote[1] + live[0] + live[1] + hand;
    assert(owned[0] || base[0] == mem[LOCAL]);
    assert(owned[1] || base[1] == mem[LOCAL + 1]);
    assert(a == BLOCKS)
  }
}
