/* SPDX-License-Identifier: MIT */
/* A stack of scalloc's span pool with its tag (src/papers/scalloc/treiber_stack.hpp): get, put, take_all, put_chain.
 *
 * N spans, three threads. Each step is one access to the top or to a link; a link may be read when another thread has
 * the span already, and has written to it: the header's first page is never given back, so the read is of some link.
 */
#define N 3
#define NOBODY 0
#define STACK 9

byte top = 0, tag = 0; /* the word: number of the top span, tag */
byte link[N + 1];
byte holder[N + 1]; /* for the checker: whose a span is */
byte done = 0;

#ifdef FAULT_NO_TAG
#define same_top (top == seen)
#define next_tag skip
#else
#define same_top (top == seen && tag == seen_tag)
#define next_tag tag++
#endif

inline mine(number) { assert(holder[number] == STACK); holder[number] = _pid }

inline get() {
  do
  :: atomic { seen = top; seen_tag = tag };
    got = 0;
    if
    :: seen == 0 -> break
    :: else
    fi;
    below = link[seen];
    atomic {
      if
      :: same_top -> top = below; got = seen; mine(got); break
      :: else
      fi
    }
  od
}

/* put_chain: from `first` down to `last`. */
inline put_chain(first, last) {
#ifdef FAULT_STALE_LINK
  link[last] = top;
#endif
  do
  :: atomic { seen = top; seen_tag = tag };
#ifndef FAULT_LINK_LATE
#ifndef FAULT_STALE_LINK
    link[last] = seen;
#endif
#endif
    atomic {
      if
      :: top == seen && tag == seen_tag -> top = first; next_tag; give(first, last); break
      :: else
      fi
    }
  od;
#ifdef FAULT_LINK_LATE
  link[last] = seen
#endif
}

/* For the checker: what a thread puts was its own. */
inline give(first, last) {
  assert(holder[first] == _pid && holder[last] == _pid);
  holder[first] = STACK;
  holder[last] = STACK
}

/* A taken span is used: its header's link may hold anything (the reusable sets have fields of their own, but a stack of
 * another size uses this one). */
inline use(number) { link[number] = 0 }

proctype Thread(byte rounds) {
  byte seen, seen_tag, below, got, second;
  do
  :: rounds == 0 -> break
  :: else ->
    rounds--;
    get();
    if
    :: got == 0 -> skip
    :: else ->
      second = got;
      use(second);
      /* Some hold two at a time, and put them as a chain. */
      if
      :: true -> put_chain(second, second)
      :: true ->
        get();
        if
        :: got == 0 -> put_chain(second, second)
        :: got != 0 -> link[second] = got; put_chain(second, got)
        fi
      fi
    fi
  od;
  done++
}

/* SpanPool::for_each: takes all, goes along the links, puts all back. */
proctype Trimmer() {
  byte seen, seen_tag, first, last;
  atomic {
    first = top;
    top = 0;
    last = first;
    do
    :: last == 0 -> break
    :: else -> mine(last); last = link[last]
    od
  };
  if
  :: first == 0 -> skip
  :: else ->
    last = first;
    do
    :: link[last] != 0 -> last = link[last]
    :: else -> break
    od;
    atomic {
      /* All of the chain goes back. */
      seen = first;
      do
      :: seen == 0 -> break
      :: else -> assert(holder[seen] == _pid); seen = link[seen]
      od
    };
    do
    :: atomic { seen = top; seen_tag = tag };
      link[last] = seen;
      atomic {
        if
        :: top == seen && tag == seen_tag ->
          top = first;
          next_tag;
          last = first;
          do
          :: last == seen -> break
          :: else -> assert(holder[last] == _pid); holder[last] = STACK; last = link[last]
          od;
          break
        :: else
        fi
      }
    od
  fi;
  done++
}


init {
  byte count = 0, at;
  atomic {
    link[1] = 2;
    link[2] = 3;
    top = 1;
    holder[1] = STACK;
    holder[2] = STACK;
    holder[3] = STACK;
    run Thread(2);
    run Thread(1);
    run Trimmer()
  };
  done == 3;
  /* Nothing is lost or doubled. */
  at = top;
  do
  :: at == 0 || count > N -> break
  :: else -> assert(holder[at] == STACK); count++; at = link[at]
  od;
  assert(count == N)
}
