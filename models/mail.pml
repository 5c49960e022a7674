/* SPDX-License-Identifier: MIT */
/* The mailbox and the unsettled stack as linked lists: each claimed span is in one place, and none is lost.
 *
 * A mailbox is one word: the top span and how much is in it (the limit is checked by the CAS that puts a span in). It
 * is pushed to and taken whole, never popped, so a top that came back is a top whose link is right. A thread's end
 * closes it by one exchange and hands on what was in it; the record's next thread opens it. Robbers leave a closed box
 * closed. The unsettled stack is pushed to and taken whole, too; what cannot be settled yet is pushed back. Both use
 * mail_next: the claim is what gives the right to write it. Code: mail, take_mail, rob and the unsettled stack in
 * src/heap/.
 */
#define SPANS 3
#define NONE 15
#define CLOSED 14
#ifndef LIMIT
#define LIMIT 2
#endif

byte top = NONE, size = 0;  /* the mailbox of the heap: one word */
byte stack_top = NONE;      /* the unsettled stack */
byte next[SPANS];           /* mail_next */
byte where[SPANS];          /* for the checker: 0 to be claimed, 1 + _pid in that thread's hand, PLACE_... */
#define BOX 20
#define STACK 21
#define SETTLED 22
#define OWNED 23
byte held_up = NONE;        /* the span that the old owner's bracket names for a while */
byte done = 0;

#define hand (1 + _pid)
inline move(s, from, to) { assert(where[s] == from); where[s] = to }

/* Pushes a span of this thread's hand on the unsettled stack. */
inline push_unsettled(s) {
  do
  :: atomic { seen = stack_top; assert(where[s] == hand); next[s] = seen };
     atomic { if :: stack_top == seen -> stack_top = s; move(s, hand, STACK); seen = 0; break :: else fi }
  od
}

/* A claimant: a push claimed span s. Mails it, or takes it if the box is closed or full. */
proctype Claimant(byte s) {
  byte seen, seen_size;
  bit mailed;
  move(s, 0, hand);
  do
  :: atomic {
       seen = top; seen_size = size;
       if
       :: seen == CLOSED || seen_size >= LIMIT -> break
       :: else
       fi;
#ifndef FAULT_LINK_LATE
       assert(where[s] == hand); next[s] = seen
#endif
     }
#ifdef FAULT_LIMIT_APART
     atomic { seen = top; if :: seen == CLOSED -> break :: else -> next[s] = seen fi }
#endif
     atomic {
       if
#ifdef FAULT_LIMIT_APART
       :: top == seen -> size++;
#else
       :: top == seen && size == seen_size -> size = seen_size + 1;
#endif
          top = s; assert(size <= LIMIT); move(s, hand, BOX); mailed = 1
       :: else
       fi
     }
     if
     :: mailed ->
#ifdef FAULT_LINK_LATE
        next[s] = seen;
#endif
        break
     :: else
     fi
  od;
  if
  :: mailed
  :: else -> push_unsettled(s)
  fi;
  done++
}

/* Takes the box whole: the owner (OWNED) or a robber (to the unsettled stack). Not a closed one. */
proctype Taker(bit is_owner; byte rounds) {
  byte list = NONE, s, seen;
  do
  :: rounds > 0 ->
     rounds--;
     atomic {
#ifdef FAULT_REOPENED
       list = (top == CLOSED -> NONE : top); top = NONE; size = 0;
#else
       if :: top == CLOSED -> list = NONE :: else -> list = top; top = NONE; size = 0 fi;
#endif
       s = list;
       do :: s != NONE -> move(s, BOX, hand); s = next[s] :: else -> s = 0; break od
     }
     do
     :: list != NONE ->
        atomic { s = list; list = next[s] };
        if
        :: is_owner -> atomic { move(s, hand, OWNED) }
        :: else -> push_unsettled(s)
        fi
     :: else -> break
     od
  :: rounds == 0 -> break
  od;
  if
  :: is_owner ->
     /* Thread end: closed for good here; what is in it is taken on. */
     atomic {
       list = top; top = CLOSED; size = 0;
       s = list;
       do :: s != NONE -> move(s, BOX, hand); s = next[s] :: else -> s = 0; break od
     }
     do
     :: atomic { list != NONE -> s = list; list = next[s]; move(s, hand, SETTLED); s = 0 }
     :: else -> break
     od
  :: else
  fi;
  done++
}

/* Takes the unsettled stack whole; settles all but what the bracket names. */
proctype Settler(byte rounds) {
  byte list = NONE, s, seen;
  do
  :: rounds > 0 ->
     rounds--;
     atomic {
       list = stack_top; stack_top = NONE;
       s = list;
       do :: s != NONE -> move(s, STACK, hand); s = next[s] :: else -> s = 0; break od
     }
     do
     :: list != NONE ->
#ifdef FAULT_NEXT_AFTER
        s = list;
        if
        :: held_up == s -> push_unsettled(s); list = next[s]
        :: else -> list = next[s]; atomic { move(s, hand, SETTLED) }
        fi;
#else
        atomic { s = list; list = next[s] };
        if
        :: held_up == s -> push_unsettled(s)
        :: else -> atomic { move(s, hand, SETTLED) }
        fi;
#endif
        s = 0
     :: else -> break
     od
  :: rounds == 0 -> break
  od;
  done++
}

init {
  byte i = 0, n = 0;
  atomic {
    if :: held_up = 0 :: held_up = NONE fi;
    run Claimant(0); run Claimant(1); run Claimant(2);
    run Taker(1, 1); run Taker(0, 1); run Settler(1)
  }
  done == 6;
  /* The box is closed and empty; whatever is unsettled is on the stack, once. */
  assert(top == CLOSED && size == 0);
  atomic {
    i = stack_top;
    do
    :: i != NONE -> assert(where[i] == STACK); where[i] = SETTLED; i = next[i]; n++; assert(n <= SPANS)
    :: else -> break
    od;
    i = 0;
    do
    :: i < SPANS -> assert(where[i] == SETTLED || where[i] == OWNED); i++
    :: else -> break
    od
  }
}
