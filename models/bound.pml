/* SPDX-License-Identifier: MIT
 *
 * The bound (docs/design/bound.md): spans of one class between two heaps, whose threads make, adopt, fill and free them,
 * and a thread that frees blocks of both; a partial pool of two shards. Any of them may stop anywhere for ever. What is
 * used of the class is counted as src/span/class_use.cpp counts it, spans and live blocks as they are.
 *
 * A span has K blocks and the threshold is one of them: one that floats, or is shared and not listed, is full. A heap
 * keeps its hot span and, of others, none with a free block: its budget is 0.
 *
 * Asserted in every state: spans hold no more than the highest use and one for each maker (theorem 1). At every look
 * that finds nothing: used counts all spans (lemma 2), and each span is full, or hot, or in somebody's hand, or was
 * mailed to a thread in a slow path; so what they hold is at most what was live and these (theorems 2 and 3). When all is
 * over, used is what spans say.
 *
 * Parameters: A, B calls of the two threads, each a refill or a free; F frees of the third.
 */
#ifndef A
#define A 3
#endif
#ifndef B
#define B 2
#endif
#ifndef F
#define F 2
#endif
#define N 4
#define K 2
#define NONE 0
#define OWNED 1
#define SHARED 2
#define LISTED 3
#define SHARD(i) ((i) & 1)

byte st[N], own[N], live[N], base[N];
bool linked[N];             /* on its shard's list */
bool taking[2];             /* somebody has the shard's lock, and has unlinked a span that he is about to claim */
bool mailed[N], late[N];    /* in its owner's box; who put it in found the owner in a slow path */
bool hand[N], returning[N]; /* on its way, in a thread's hands; all its blocks are free */
byte inserts, used, high, makers, most, spans, all_live, most_live, done;
byte hot[2] = N;
bool inside[2], seized[2];

inline raise() { if :: used > high -> high = used :: else fi }

/* insert_listed: under the lock. The last block may be free already: then the inserter ends the span. */
inline insert(i) {
  atomic {
    !taking[SHARD(i)];
    hand[i] = 0;
    if
    :: returning[i] -> returning[i] = 0; st[i] = NONE; used = used - (K - base[i])
    :: else -> linked[i] = 1;
#ifndef FAULT_UNNOTED
       inserts++
#endif
    fi
  }
}

/* give_up, of a span that the caller has alone: share_span, end_span. */
inline give_up(i, b) {
  atomic {
    b = K - live[i]; own[i] = 0; mailed[i] = 0; late[i] = 0; base[i] = b;
    if
    :: b == K -> st[i] = NONE; used = used - K; spans--; hand[i] = 0; b = 0
    :: b > 0 && b < K -> st[i] = LISTED; hand[i] = 1
    :: b == 0 -> st[i] = SHARED; hand[i] = 0
    fi
  }
#ifdef FAULT_SHARED_EARLY
  if :: b > 0 -> used = used - b; insert(i) :: else fi;
#else
  if :: b > 0 -> insert(i);
#ifndef FAULT_UNSUBTRACTED
     used = used - b
#endif
  :: else fi;
#endif
  b = 0
}

/* A block of some span i is freed by the thread of heap h (2: of none): the push and what it decides are one step. */
inline free_block(h, i, b, duty) {
  atomic {
    if
    :: live[0] > 0 -> i = 0
    :: live[1] > 0 -> i = 1
    :: live[2] > 0 -> i = 2
    :: live[3] > 0 -> i = 3
    fi;
    live[i]--; all_live--; duty = 0;
    if
    :: st[i] == OWNED && own[i] == h && hot[h] != i && !mailed[i] ->
#ifndef FAULT_NO_SHED
       hand[i] = 1; mailed[i] = 1; duty = 1
#endif
    :: st[i] == OWNED && own[i] != h && hot[own[i]] != i && !mailed[i] ->
#ifndef FAULT_NO_MAIL
       hand[i] = 1; mailed[i] = 1; duty = 2
#endif
    :: st[i] == SHARED && live[i] == 0 -> st[i] = NONE; used = used - (K - base[i]); spans--
    :: st[i] == SHARED && live[i] > 0 -> st[i] = LISTED; hand[i] = 1; duty = 3
    :: st[i] == LISTED && live[i] == 0 -> returning[i] = 1; spans--; duty = 4
    :: else
    fi
  }
  if
  :: duty == 1 -> give_up(i, b)
  :: duty == 2 ->
     atomic {
       if
#ifndef FAULT_NO_TAKING
       :: !inside[own[i]] && !seized[own[i]] -> seized[own[i]] = 1; duty = 5 + own[i]
#endif
       :: inside[own[i]] || seized[own[i]] -> late[i] = 1; hand[i] = 0
#ifdef FAULT_NO_TAKING
       :: else -> hand[i] = 0
#endif
       fi
     }
     if :: duty >= 5 -> give_up(i, b); seized[duty - 5] = 0 :: else fi
  :: duty == 3 -> insert(i)
  :: duty == 4 ->
     atomic {
       !taking[SHARD(i)];
       if
       :: linked[i] -> linked[i] = 0; returning[i] = 0; st[i] = NONE; used = used - (K - base[i])
       :: else /* its inserter ends it */
       fi
     }
  :: else
  fi
}

inline look(h) {
  before = inserts; s = 0; got = N;
  do
  :: s < 2 && got == N ->
     atomic {
       /* A list that looks empty is passed by without its lock. */
       j = (h + s) & 1; k = j;
       if :: k < N && !linked[k] -> k = k + 2 :: else fi;
       if
#ifdef FAULT_HEAD_FIRST
       :: k >= N || !linked[k] -> k = N
#else
       :: (k >= N || !linked[k]) && !taking[j] -> k = N
       :: (k >= N || !linked[k]) && taking[j] -> k = N + 1
#endif
       :: k < N && linked[k] && !taking[j] -> linked[k] = 0; taking[j] = 1
       :: k < N && linked[k] && taking[j] -> k = N + 1
       fi
     }
     if
     :: k == N -> s++
     :: k == N + 1 -> !taking[(h + s) & 1] /* waits for the lock, and looks again */
     :: else ->
        atomic {
          taking[SHARD(k)] = 0;
          if
          :: live[k] > 0 -> used = used + base[k]; raise(); st[k] = OWNED; own[k] = h; base[k] = 0; got = k; hot[h] = k
          :: else -> linked[k] = 1; s++ /* it is returning, and goes on from here */
          fi
        }
     fi
#ifdef FAULT_SHARD_SKIPPED
     if :: s == 1 -> s = 2 :: else fi
#endif
  :: got != N -> break
  :: s >= 2 && got == N ->
     atomic {
#ifdef FAULT_NO_SECOND_LOOK
       before = inserts;
#endif
       if
       :: inserts == before -> check_look(); break
       :: else -> before = inserts; s = 0
       fi
     }
  od
}

inline check_look() {
  assert(used >= K * spans);
  j = 0; k = 0;
  do
  :: j < N ->
     if
     :: st[j] == NONE || returning[j] || live[j] == K
     :: else -> assert((st[j] == OWNED && hot[own[j]] == j) || hand[j] || (mailed[j] && late[j])); k++
     fi;
     j++
  :: else -> break
  od;
  assert(K * spans <= most_live + K * k)
}

proctype Thread(byte h, calls) {
  byte before, s, got, j, k, b, duty, i;
  do
  :: calls > 0 ->
     calls--;
     if
     :: /* a refill, and malloc takes all that it brings */
        atomic { !seized[h]; inside[h] = 1 }
        i = 0;
        do
        :: i < N -> if :: mailed[i] && st[i] == OWNED && own[i] == h && !hand[i] -> hand[i] = 1; give_up(i, b) :: else fi; i++
        :: else -> break
        od;
        got = N;
        atomic {
          if
          :: hot[h] != N && live[hot[h]] < K -> got = hot[h]
          :: else -> hot[h] = N
          fi
        }
        if
        :: got == N ->
           atomic { makers++; if :: makers > most -> most = makers :: else fi }
           look(h);
           if
           :: got == N ->
              atomic {
                i = 0;
                do :: i < N && st[i] != NONE -> i++ :: else -> break od;
                if
                :: i < N -> got = i; st[i] = OWNED; own[i] = h; live[i] = 0; base[i] = 0;
                   used = used + K; spans++; raise(); hot[h] = i
                :: else
                fi
              }
           :: else
           fi;
           makers--
        :: else
        fi;
        atomic {
          if
          :: got < N -> all_live = all_live + K - live[got]; live[got] = K;
             if :: all_live > most_live -> most_live = all_live :: else fi
          :: else
          fi;
          inside[h] = 0; got = 0; before = 0; s = 0; i = 0; j = 0; k = 0; duty = 0
        }
     :: /* a free */
        atomic { !seized[h]; inside[h] = 1 }
        free_block(h, i, b, duty);
        atomic { inside[h] = 0; i = 0; duty = 0 }
     fi
  :: else -> break
  od;
  done++
}

proctype Freer(byte frees) {
  byte b, duty, i;
  do
  :: frees > 0 ->
     frees--;
     free_block(2, i, b, duty);
     atomic { i = 0; duty = 0 }
  :: else -> break
  od;
  done++
}

/* Theorem 1, in every state. */
active proctype Watch() {
  end: do
  :: atomic { K * spans > high + K * most -> assert(false) }
  od
}

init {
  byte i = 0, sum = 0;
  atomic { run Thread(0, A); run Thread(1, B); run Freer(F) }
  atomic {
    done == 3;
    /* What is used is what was counted. */
    do
    :: i < N -> if :: st[i] != NONE -> sum = sum + K - base[i] :: else fi; i++
    :: else -> break
    od;
    assert(used == sum)
  }
}
