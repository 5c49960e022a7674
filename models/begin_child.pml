/* SPDX-License-Identifier: MIT */
/* How a fork child begins (begin_child in src/exchange/forking.cpp), where a signal handler forks at any step of it.
 *
 * The handler runs in the thread that begins the child. Its own child begins in turn, within the handler, may use the
 * allocator there, and goes on with the outer beginning, whose local variables are of the time before: a level for each
 * beginning, of which only the deepest one runs. What the parent does then is the search without that handler.
 *
 * When the first fork came, another thread may have had a lock, the fallback heap or neither, and may have left things
 * half changed, of which a lock or the count of threads tells. The first slow call resolves that (resolve_vanished):
 * it walks if g_pending says so, and finds the fallback heap half changed if its generation is not the registry's.
 */
#ifndef HANDLERS
#define HANDLERS 2
#endif

mtype = {NOT_BEGUN, MINE, BEGUN};
mtype cell = NOT_BEGUN;
/* g_pending. */
bit vanished, beginning;
/* g_registry: what other threads had. */
bit lock, fallback_lock, reclaimer;
bit others; /* the counts say that there were other threads */
byte generation = 1;
/* The fallback heap's record. */
bit attached;
byte own_generation;
/* What nobody may use. */
bit torn, torn_fallback;

byte left = HANDLERS;
bit ended[HANDLERS + 2]; /* by level */

/* A signal handler comes, and forks. */
inline may_fork() {
  if
  :: left > 0 ->
     d_step { left = left - 1; cell = NOT_BEGUN; ended[depth + 1] = 0 }
     run Level(depth + 1);
     ended[depth + 1]
  :: true
  fi
}

/* settle_all, then a call that needs what is whole. */
inline use() {
  assert(cell != NOT_BEGUN);
  if
  :: vanished ->
     may_fork();
     torn = 0;
     may_fork();
     /* reclaim_vanished_records */
     had = attached && own_generation != generation;
     may_fork();
     if
     :: had -> torn_fallback = 0; attached = 0
     :: else
     fi;
     may_fork();
     others = 0;
     vanished = 0
  :: else
  fi;
  assert(!torn && !torn_fallback)
}

proctype Level(byte depth) {
  byte mine;
  bit pending, fallback_lost, whole, had;
  may_fork();
  /* begin_child_once */
  atomic {
    if
    :: cell == NOT_BEGUN -> cell = MINE
    :: else -> goto out
    fi
  }
  may_fork();
#ifdef FAULT_GENERATION_APART
  mine = generation + 1;
  may_fork();
  generation = mine;
#else
  d_step { mine = generation + 1; generation = mine }
#endif
  may_fork();
#ifdef FAULT_PENDING_APART
  pending = vanished || beginning;
  may_fork();
  d_step { vanished = pending; beginning = 1 }
#else
  d_step {
#ifdef FAULT_NO_NOTE
    pending = vanished;
#else
    pending = vanished || beginning;
#endif
    beginning = 1
  }
#endif
  may_fork();
  d_step { pending = pending || reclaimer; reclaimer = 0 }
  may_fork();
  d_step { fallback_lost = fallback_lock; fallback_lock = 0 }
  may_fork();
  d_step { pending = pending || lock || fallback_lost; lock = 0 }
  may_fork();
#ifdef FAULT_ANY_GENERATION
  whole = attached;
#else
  whole = attached && own_generation == mine - 1;
#endif
  may_fork();
  if
#ifdef FAULT_LOST_STAYS
  :: whole -> own_generation = mine
#else
  :: whole && !fallback_lost -> own_generation = mine
#endif
  :: else
  fi;
  may_fork();
  pending = pending || others;
  may_fork();
  /* Two steps, for what is read may be old when it is written. */
#ifndef FAULT_LAST_STORE
  pending = pending || vanished;
#endif
  may_fork();
  d_step { vanished = pending; beginning = 0 }
  may_fork();
  cell = BEGUN;
  may_fork();
out:
  if
  :: depth > 1 -> use()
  :: true
  fi;
  ended[depth] = 1
}

active proctype Child() {
  byte depth = 0;
  bit had;
  d_step {
    attached = 1;
    own_generation = generation
  }
  /* What the thread that forked left behind in others. */
  if
  :: fallback_lock = 1; torn_fallback = 1
  :: attached = 0
  :: true
  fi;
  if
  :: lock = 1; torn = 1
  :: reclaimer = 1; torn = 1
  :: others = 1; torn = 1
  :: others = 1
  :: true
  fi;
  run Level(1);
  ended[1];
  may_fork();
  assert(cell == BEGUN && !beginning);
  use()
}
