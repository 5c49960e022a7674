/* SPDX-License-Identifier: MIT */
/* The mailbox of a heap as a linked list: each claimed span is in one place, none is lost, and none waits unseen in a
 * heap without a thread.
 *
 * A mailbox is one word, the top span. It is pushed to and taken whole, never popped, so a top that came back is a top
 * whose link is right. It never closes. Its owner takes it in a slow path; a pusher who fills it, or who finds the heap
 * without a thread once its mail is in, seizes the heap and takes it; so does a thread that ended, once it is gone
 * (`attached`). Whoever is refused the heap, because another has it, leaves the mail to that one: hence the second look
 * after a heap was given back. A span that the owner frees into just now is put back into the box.
 *
 * mail_next is written by the claimant of a span alone: the push that claims it, and then who took it out of the box.
 * The owner's two flags are one step here; seize.pml has them apart. Code: src/exchange/mail.cpp; seize in seizing.cpp;
 * thread_ended in registry.cpp.
 */
#define SPANS 3
#define NONE 15
#ifndef CALLS
#define CALLS 2
#endif
#ifndef THREADS
#define THREADS 2
#endif

byte top = NONE;           /* the mailbox: one word */
byte next[SPANS];          /* mail_next */
bit self = 1, attached = 1;
#define OUTSIDE 0
#define SLOW 1
#define FREEING(s) (2 + (s))
byte inside = OUTSIDE;

/* For the checker. */
byte where[SPANS];         /* 0 to be claimed, 1 + _pid in that thread's hand, BOX, PLACED */
#define BOX 20
#define PLACED 21
bit asleep = 0;            /* the owner's thread sleeps for ever */
byte busy = 0;

#define hand (1 + _pid)
inline move(s, from, to) { assert(where[s] == from); where[s] = to }

/* Puts a span of this thread's hand into the box. */
inline put(s) {
  do
  :: atomic {
       seen = top; assert(where[s] == hand);
#ifndef FAULT_LINK_LATE
       next[s] = seen
#endif
     };
     atomic { if :: top == seen -> top = s; move(s, hand, BOX); break :: else fi }
  od;
#ifdef FAULT_LINK_LATE
  next[s] = seen;
#endif
  seen = 0
}

/* take_mail: all but one span. */
inline take_mail(but) {
  atomic {
    list = top; top = NONE;
    s = list;
    do :: s != NONE -> move(s, BOX, hand); s = next[s] :: else -> s = 0; break od
  }
  do
  :: list != NONE ->
#ifdef FAULT_NEXT_AFTER
     s = list;
     if
     :: s == but -> put(s)
     :: else -> atomic { move(s, hand, PLACED) }
     fi;
     list = next[s];
#else
     atomic { s = list; list = next[s] };
     if
     :: s == but -> put(s)
     :: else -> atomic { move(s, hand, PLACED) }
     fi;
#endif
     s = 0
  :: else -> break
  od
}

/* seize, for one heap and its mail. */
inline collect_mail() {
  do
  :: atomic { if :: self -> self = 0 :: else -> break fi };
     atomic {
       in = NONE;
       if :: attached -> in = inside :: else -> in = OUTSIDE fi
     }
     if
     :: in == OUTSIDE -> take_mail(NONE)
     :: in >= FREEING(0) -> take_mail(in - FREEING(0))
     :: in == SLOW
     fi;
     atomic { self = 1; in = 0 };
#ifdef FAULT_NO_SECOND_LOOK
     break
#else
     if :: attached -> break :: else fi;
     if :: top == NONE -> break :: else fi
#endif
  od
}

/* A push claimed span s. */
proctype Pusher(byte s0) {
  byte seen = 0, s = 0, list = NONE, in = 0;
  bit thread = 0;
#ifdef FAULT_ATTACHED_FIRST
  thread = attached;
#endif
  atomic { move(s0, 0, hand) };
  put(s0);
#ifndef FAULT_ATTACHED_FIRST
  thread = attached;
#endif
  if
  :: !thread -> collect_mail()
  :: thread -> if :: collect_mail() /* the box has grown by what it may hold */ :: true fi
  fi;
  busy--
}

inline enter(x) { atomic { inside = x; got = self } }

/* The owner's thread, and the one that gets its heap when it has ended. */
proctype Owner(byte threads; byte calls) {
  byte seen = 0, s = 0, list = NONE, in = 0;
  bit got = 0, look = 0;
next_call:
  do
  :: calls > 0 ->
     calls--;
     if
     :: enter(SLOW);
        if :: got -> take_mail(NONE) :: else fi
     :: enter(FREEING(0))
     fi;
     if :: goto sleep :: true fi;
     atomic { inside = OUTSIDE; got = 0 }
  :: goto end_of_thread
  :: goto sleep
  od;
end_of_thread:
#ifdef FAULT_LOOK_FIRST
  look = (top != NONE);
#endif
  attached = 0;
#ifndef FAULT_LOOK_FIRST
  look = (top != NONE);
#endif
#ifndef FAULT_END_UNSEEN
  if :: look -> collect_mail() :: else fi;
#endif
  atomic { look = 0; threads-- };
  if
  :: threads > 0 -> atomic { attached = 1; calls = 1 }; goto next_call
  :: else -> goto ended
  fi;
sleep:
  asleep = 1;
ended:
  busy--
}

init {
  byte i = 0, n = 0;
  atomic {
#ifdef THREE
    busy = 1; run Pusher(2);
#else
    where[2] = BOX; top = 2; next[2] = NONE;
#endif
    busy = busy + 3; run Pusher(0); run Pusher(1); run Owner(THREADS, CALLS) }
  busy == 0;
  atomic {
    assert(self);
    /* Only a heap with a thread has mail, and each span is in the box or placed, once. */
    assert(top == NONE || asleep);
    i = top;
    do
    :: i != NONE -> assert(where[i] == BOX); where[i] = PLACED; i = next[i]; n++; assert(n <= SPANS)
    :: else -> break
    od;
    i = 0;
    do
    :: i < SPANS -> assert(where[i] == PLACED); i++
    :: else -> break
    od
  }
}
