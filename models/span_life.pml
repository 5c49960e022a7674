/* SPDX-License-Identifier: MIT */
/* The life of one span: its owner, a second heap, remote freers, somebody in need of memory, thread end, taking,
 * settling.
 *
 * One record, as many lives as the threads give it. A step is one access to memory that others use, with what only its
 * thread can see. The CAS loops of src/span/span.cpp are one step: a CAS that fails looks again. Where something else
 * is read between the load and the CAS (claim_at), or written (by `enter`), the steps are apart, and `seen` stands for
 * the tag. Blocks are counted, not named: were one on two lists, or on none, the sum of all places would not be K any
 * more. One span is enough: what becomes of the others is "another span serves".
 *
 * The store of the bracket may wait in its processor's store buffer behind the load of `owner` (`pending`); a
 * membarrier or a locked instruction of its own thread empties the buffer. Nobody looks at a bracket without a
 * membarrier before, so that it need not empty by itself. settle.pml has the buffer whole.
 *
 * Sleeping: when all threads without a heap are done, `Rest` stops the others for ever, wherever they are, also inside
 * their brackets; it settles, and asks for what is promised "at rest": no private span outside of the slack has f of
 * its blocks free, no shared one is empty. What a stopped thread has in its hand is its own (one span a thread), and
 * so is what its bracket names (one a heap). Sections under the partial pool's lock are one step: a thread that is
 * stopped inside of such a short lock is outside of the promise. The slack's size is not in the model: whether a span
 * fits is chosen freely, at each placing and at each mailing.
 *
 *   K blocks, cut PAGE at a time; T = reuse_threshold (f/2); f = 2 * T - 1 here, since two sides of T - 1 are allowed.
 *
 * Transitions and the functions that make them are listed in models/README.md; labels below bear their names.
 */
#ifndef K
#define K 2
#endif
#ifndef CLASSES
#define CLASSES 1
#endif
#define PAGE (K / 2)
#define T (K / 2)
#define F (2 * T - 1)
#define NEVER 15
/* claim_at of a hot span: half of the blocks cut, and at least one more than are there. */
#define HOT_AT(n) ((n) + 1 > (K - absent) / 2 -> (n) + 1 : (K - absent) / 2)

/* States of the remote word (remote_word.hpp). */
#define FREE 0
#define HOT 1
#define FLOATING 2
#define REUSABLE 3
#define CLAIMED 4
#define SHARED 5
#define LISTED 6
#define RETURNING 7

/* The remote word: one CAS changes state, count and tag. */
byte st = FREE, count = 0;
/* The tag, as a perfect one: seen[p] is 1 from thread p's load of the word on, and 2 when the tag has changed since. */
byte seen[6];

/* The record. */
byte owner = 0, taken_from = 0, claim_at = 0, base = 0, local_list = 0, countdown = NEVER, absent = K;
bit cls = 0;
/* The partial pool, under its lock. */
bit linked = 0, awaited = 0;
/* Heaps 1 and 2; 0 is the null heap. at(h, c): one field for each class. */
#define at(h, c) ((h)*2 + (c))
bit hot[6], entry[6];   /* heap->hot[c] names the span; its record stands on the heap's ring */
byte blocks[6];         /* its blocks on heap->blocks[c] */
bit bracket[3], pending[3];
bit closed[3];
byte mailed = 0;        /* heap in whose mailbox it is */
bit unsettled = 0;      /* it is on the unsettled stack */

/* What the checker knows and no thread reads. */
byte live = 0;     /* blocks that the program has */
byte flight = 0;   /* blocks on their way in a free */
byte holder = 0;   /* 1 + _pid of who holds the claim, or the duty to end the span */
byte inserter = 0; /* 1 + _pid of who is to link the span */
bit inside[3];     /* the heap's bracket is up and its check said "mine" */
byte counted = 0;  /* free blocks at the last placing */
bit frozen = 0;
byte busy = 0;     /* threads without a heap that are not done */

#define me (_pid + 1)
#define private(s) ((s) >= HOT && (s) <= CLAIMED)
#define own_free (local_list + absent + count)
#define others_inside(h) (((h) != 1 && inside[1]) || ((h) != 2 && inside[2]))
#define all_blocks (blocks[2] + blocks[3] + blocks[4] + blocks[5])
#define sum ((private(st) -> own_free : count) + all_blocks + live + flight + transit)

#define CHANGED(p) seen[p] = (seen[p] -> 2 : 0)
inline new_tag() { CHANGED(1); CHANGED(2); CHANGED(3); CHANGED(4); CHANGED(5) }
/* span.cpp: the owner's entry into a state in which others may claim. */
inline enter(s) {
  st = s;
#ifndef FAULT_NO_TAG
  new_tag()
#endif
}
#ifdef FAULT_ADOPT_KEEPS_TAG
#define ADOPT st = HOT
#else
#define ADOPT st = HOT; new_tag()
#endif
#ifdef FAULT_CLAIM_STORE
#define CLAIM_BY_CAS true
#else
#define CLAIM_BY_CAS (st == ws)
#endif
#ifdef FAULT_HOT_STAYS
#define CLAIMABLE(s) ((s) == FLOATING || (s) == REUSABLE)
#else
#define CLAIMABLE(s) ((s) >= HOT && (s) <= REUSABLE)
#endif
#ifdef FAULT_STALE_COUNT
#define SAME(n) true
#else
#define SAME(n) (count == (n))
#endif

/* Where a fork may find a thread between two stores (fork.pml); elsewhere the two are one step. */
#ifdef FORK
#define BETWEEN(x) x }; atomic { true
#define AND_THEN(x) x }; atomic { true
bit pool_lock = 0; /* the partial pool's: an adopter may vanish with it */
#define POOL_LOCK(x) pool_lock = x
#define POOL_FREE (!pool_lock)
#else
#define BETWEEN(x) true
#define AND_THEN(x) x
#define POOL_LOCK(x) skip
#define POOL_FREE true
#endif
bit twin = 0;      /* local list and heap's list are one */
byte transit = 0;  /* a list in a register */
bit uncounted = 0; /* on the local list, not yet in the countdown */
bit slots_free = 1, described = 0;
bit forker_ready = 1;

/* --- The bracket (bracket.hpp; heap.hpp: deallocate). --- */
#ifdef FAULT_ANY_CLASS
#define RIGHT_CLASS true
#else
#define RIGHT_CLASS (cls == c)
#endif
inline flush(h) { bracket[h] = bracket[h] | pending[h]; pending[h] = 0 }
inline bracket_on(h) { pending[h] = 1 }
/* Load of owner, and of what it guards. */
inline check_owner(h, right_class) {
  atomic {
    mine = (owner == h && (right_class));
    inside[h] = mine
  }
}
inline bracket_off(h) { bracket[h] = 0; pending[h] = 0; inside[h] = 0 }
/* A store to the owner's line: nobody else may be through the check, and the line is of this heap. */
inline line() { assert(private(st) && !others_inside(h)) }

#define D_NONE 0
#define D_CLAIM 1
#define D_LIST 2
#define D_END 3
#define D_TAKE_OFF 4
#define D_SETTLE 5
#define D_SHARE 6
#define D_TAKE 7

#define R_IDLE 0
#define R_MALLOC 1
#define R_EXIT_HOT 2
#define R_EXIT_ENTRY 3
#define R_EXIT_BOX 4
#define R_NEXT 5

/* ring.cpp. A record stands on a heap's ring of a class; it may do so long after the span was taken. */
inline leave_ring(h) { atomic { entry[at(h, 0)] = 0; entry[at(h, 1)] = 0 } }

/* --- Ends of lives. --- */
/* span.cpp: end_span. */
inline end_span() {
  atomic {
    assert(!others_inside(h));
    assert(live == 0 && flight == 0 && all_blocks == 0 && transit == 0);
    assert(!linked && !mailed && !unsettled && inserter == 0 && holder == me);
    assert(st == CLAIMED || st == RETURNING);
    AND_THEN(owner = 0); AND_THEN(described = 0); AND_THEN(st = FREE; count = 0; new_tag());
    slots_free = 1;
    owner = 0; taken_from = 0; claim_at = 0; base = 0; local_list = 0; countdown = NEVER; absent = K; cls = 0;
    awaited = 0; counted = 0; holder = 0
  }
}
/* partial_pool.cpp: insert. If its last block was freed meanwhile, the inserter ends it. partial_pool.pml has more. */
inline insert() {
  atomic {
    POOL_FREE;
    assert(inserter == me && !linked);
    inserter = 0;
    if
    :: awaited -> awaited = 0; assert(holder == 0); holder = me; duty = D_END
    :: else -> linked = 1; duty = D_NONE
    fi
  }
}

/* A thread. With a heap (h > 0) it allocates, frees and ends; without one it frees, or takes memory in need. */
proctype Thread(byte h; byte mallocs; byte frees; byte exits; byte needs) provided (!frozen) {
  byte c = 0, v = 0, ws = 0, wc = 0, ret = 0, duty = 0;
  bit mine = 0, tried = 0;

idle:
  atomic { c = 0; v = 0; ws = 0; wc = 0; ret = 0; duty = 0; mine = 0; tried = 0 }
  if
  :: atomic { mallocs > 0 -> mallocs--; if :: c = 0 :: CLASSES == 2 -> c = 1 fi }; goto malloc
  :: atomic { frees > 0 && live > 0 -> frees--; live--; flight++ };
     if :: h > 0 -> goto free :: else -> goto push fi
  :: atomic { exits > 0 -> exits--; c = 0 }; goto exit_hot
  :: atomic { needs > 0 -> needs-- }; goto need
  :: true -> goto done
  fi;

  /* --- malloc (heap.hpp: allocate_fast; refill.cpp: refill, refill_or_retire, next_hot). --- */
malloc:
  atomic {
    if
    :: blocks[at(h, c)] > 0 -> blocks[at(h, c)]--; live++; goto idle
    :: else
    fi
  }
  /* ownership.cpp: take_mail. This thread has the claim of what it takes out. */
  atomic {
    if
    :: mailed == h -> mailed = 0; assert(holder == 0); holder = me; assert(owner == h && st == CLAIMED); ret = R_MALLOC
    :: else -> goto try_hot
    fi
  }
  bracket_on(h);
  check_owner(h, true);
  assert(mine);
  if
  :: hot[at(h, cls)] ->
     enter_hot: atomic { line(); wc = count; claim_at = HOT_AT(wc); countdown = NEVER }; /* receive_claimed */
     atomic { flush(h); if :: SAME(wc) -> enter(HOT); holder = 0; wc = 0; goto back :: else -> goto enter_hot fi }
  :: !hot[at(h, cls)] -> ws = CLAIMED; goto place
  fi;

try_hot:
  if :: !hot[at(h, c)] -> goto next_hot :: else fi;
  bracket_on(h);
  check_owner(h, RIGHT_CLASS);
  if
  :: !mine -> atomic { bracket_off(h); hot[at(h, c)] = 0; goto next_hot }
  :: else
  fi;
  assert(cls == c);
refill_from: /* local list, remote list, a page */
  if
  :: atomic { local_list > 0 -> v = local_list };
     atomic { line(); blocks[at(h, c)] = v; BETWEEN(twin = 1); line(); local_list = 0; countdown = NEVER; twin = 0 }
  :: atomic { local_list == 0 && count > 0 -> line(); claim_at = HOT_AT(0) }; /* take_remote: perhaps lower */
     atomic { assert(private(st)); flush(h); v = count; count = 0; BETWEEN(transit = v);
              blocks[at(h, c)] = v; transit = 0 }
  :: atomic { local_list == 0 && count == 0 && absent > 0 -> v = absent };
     atomic { line(); absent = v - PAGE; BETWEEN(transit = PAGE); line(); blocks[at(h, c)] = PAGE; transit = 0;
              if :: claim_at < (K - absent) / 2 -> claim_at = (K - absent) / 2 :: else fi } /* only ever more */
  :: atomic { local_list == 0 && count == 0 && absent == 0 -> line(); countdown = T }; /* mark_floating */
     atomic {
       flush(h); assert(private(st));
       if
       :: st == HOT && count == 0 -> enter(FLOATING); hot[at(h, c)] = 0
       :: st == HOT && count > 0 -> countdown = NEVER; v = 0; goto refill_from /* the bracket stays up */
       :: st == CLAIMED -> hot[at(h, c)] = 0; countdown = NEVER /* its claimant hands it on */
       fi
     }
  fi;
  atomic { v = 0; mine = 0; bracket_off(h) }
  if
  :: blocks[at(h, c)] > 0 -> goto malloc
  :: else -> goto try_hot
  fi;

next_hot:
  /* next_reusable: an entry counts only if the span is this heap's and reusable; then it is of this class. */
  atomic { if :: entry[at(h, c)] -> entry[at(h, c)] = 0 :: else -> goto adopt fi }
  bracket_on(h);
  check_owner(h, true);
  if
#ifdef FAULT_ENTRY_BY_STATE
  :: atomic { !mine && st == REUSABLE -> enter(HOT); assert(owner == h) }
#endif
  :: mine ->
     pop: atomic { line(); wc = count; claim_at = HOT_AT(wc) };
     atomic {
       flush(h);
       if
       :: st == REUSABLE && SAME(wc) -> assert(cls == c); enter(HOT); hot[at(h, c)] = 1; countdown = NEVER
       :: st == REUSABLE && !SAME(wc) -> goto pop
       :: st != REUSABLE
       fi;
       wc = 0
     }
  :: !mine
  fi;
  atomic { mine = 0; bracket_off(h) }
  if :: hot[at(h, c)] -> goto try_hot :: else fi;

adopt:
  /* PartialPool::adopt, mark_adopted: under the lock. The owner's line is ready before the CAS. */
  atomic {
    if
    :: POOL_FREE && linked && st == LISTED && cls == c ->
       assert(!inside[1] && !inside[2] && inserter == 0 && holder == 0);
       POOL_LOCK(1);
#ifndef UNLINK_LATE
       linked = 0
#endif
    :: POOL_FREE && !(linked && st == LISTED && cls == c) -> goto settle_first
    fi;
#ifndef FAULT_OWNER_LATE
    AND_THEN(owner = h);
#endif
    if
    :: st == LISTED ->
       countdown = NEVER; claim_at = HOT_AT(count - base);
       count = count - base; base = 0; ADOPT; hot[at(h, c)] = 1; flush(h)
    :: else -> owner = 0; linked = 1; POOL_LOCK(0); goto settle_first /* its last block was freed meanwhile */
    fi;
    AND_THEN(true);
#ifdef UNLINK_LATE
    linked = 0;
#endif
    POOL_LOCK(0)
  }
#ifdef FAULT_OWNER_LATE
  owner = h;
#endif
  goto try_hot;

settle_first:
  if
  :: unsettled && !tried -> atomic { tried = 1; ret = R_NEXT; duty = D_SETTLE }; goto do_duty
  :: else
  fi;
  /* make_span, if its slots are free; else another span serves. */
  atomic {
    if
    :: st == FREE && slots_free ->
       assert(holder == 0 && inserter == 0 && !linked && !unsettled && !mailed && !inside[1] && !inside[2]);
       assert(live == 0 && flight == 0 && all_blocks == 0 && transit == 0);
       slots_free = 0
    :: else -> goto idle
    fi;
    AND_THEN(flush(h));
    cls = c; absent = K; local_list = 0; countdown = NEVER; claim_at = 1; new_tag(); AND_THEN(described = 1);
    AND_THEN(owner = h); AND_THEN(enter(HOT)); hot[at(h, c)] = 1
  }
  goto try_hot;

  /* --- free (heap.hpp: deallocate; release.cpp: free_not_local, local_event). --- */
free:
  bracket_on(h);
  check_owner(h, true);
  if
  :: mine
  :: else -> atomic { bracket_off(h) } goto push
  fi;
  v = local_list;
  atomic {
    line(); local_list = v + 1; flight--; v = 0; BETWEEN(uncounted = 1); line(); uncounted = 0;
    if :: countdown != NEVER -> countdown-- :: else fi
  }
  if
  :: countdown == 0
  :: countdown != 0 && st == HOT && local_list + absent == K
  :: else -> atomic { mine = 0; bracket_off(h); goto idle }
  fi;
  /* release.cpp: local_event; hot.cpp: settle_hot. Also what ownership.cpp's place does for take_mail. */
  atomic {
    ws = st;
    if
    :: ws == FLOATING || ws == REUSABLE
    :: ws == HOT && blocks[at(h, cls)] == 0
    :: ws == CLAIMED || (ws == HOT && blocks[at(h, cls)] > 0) -> countdown = NEVER; ws = 0; goto back
    fi
  }
place:
  leave_ring(h);
  if
  :: ws != HOT -> /* fits into the slack: mark_reusable, receive_claimed */
     keep: atomic {
       line(); wc = count; counted = own_free; countdown = (own_free == K -> NEVER : T); claim_at = wc + T;
       if :: claim_at + local_list + absent > K -> claim_at = K - local_list - absent :: else fi
     };
     atomic {
       flush(h);
       if
       :: st == ws && SAME(wc) -> enter(REUSABLE); holder = (ws == CLAIMED -> 0 : holder); ws = REUSABLE
       :: st == ws && !SAME(wc) -> goto keep
       :: st != ws -> countdown = NEVER; ws = 0; wc = 0; goto back
       fi;
       wc = 0
     }
     atomic { /* ring.cpp: push_ring; false: the record stands on another heap's ring */
       if
       :: entry[at(3 - h, 0)] || entry[at(3 - h, 1)]
       :: else -> entry[at(h, cls)] = 1; ws = 0; goto back
       fi
     }
  :: true
  fi;
  /* give_up */
  atomic {
    flush(h);
    if
    :: ws == CLAIMED -> assert(holder == me && st == CLAIMED); duty = D_SHARE
    :: ws != CLAIMED && CLAIM_BY_CAS && (ws != HOT || own_free == K) ->
       hot[at(h, cls)] = hot[at(h, cls)] && ws != HOT;
       st = CLAIMED; assert(holder == 0); holder = me; duty = D_SHARE
    :: else -> countdown = NEVER
    fi;
    ws = 0
  }
  goto do_duty;

  /* --- span.cpp: push_remote. --- */
push:
  atomic { ws = st; wc = count; seen[_pid] = 1; assert(st != FREE) }
  v = (ws == FLOATING -> T : claim_at);
  atomic {
    if
    :: st == ws && count == wc && seen[_pid] == 1 ->
       flush(h); flight--; count++;
       if
#ifndef FAULT_DECIDE_LATER
       :: CLAIMABLE(ws) && count >= v -> st = CLAIMED; assert(holder == 0); holder = me; duty = D_CLAIM
#else
       :: CLAIMABLE(ws) && count >= v -> duty = D_CLAIM
#endif
       :: ws >= SHARED && count == K ->
          assert(ws != RETURNING && holder == 0); st = RETURNING; holder = me;
          duty = (ws == LISTED -> D_TAKE_OFF : D_END)
       :: ws == SHARED && count < K && count >= T -> st = LISTED; assert(inserter == 0); inserter = me; duty = D_LIST
       :: else -> duty = D_NONE
       fi
    :: else -> goto push
    fi;
    ws = 0; wc = 0; v = 0; seen[_pid] = 0
  }

#ifdef FAULT_DECIDE_LATER
  if :: duty == D_CLAIM -> atomic { st = CLAIMED; assert(holder == 0); holder = me } :: else fi;
#endif

  /* --- What a push, a claim or a thread's end leaves to do (ownership.cpp: do_duty; taking.cpp). After a push that
   * left nothing the thread goes on without another look at the span. --- */
do_duty:
  if
  :: duty == D_NONE -> goto back
  :: duty == D_CLAIM -> /* hand_on_claimed */
     atomic { v = owner; assert(v != 0) }
     /* Mailed while the owner's mailbox holds less than its slack; else taken. */
     atomic {
       if
       :: !closed[v] -> mailed = v; holder = 0; duty = D_NONE
       :: duty = D_TAKE
       fi;
       v = 0
     }
     goto do_duty
  :: duty == D_TAKE -> /* take, push_unsettled */
     atomic { taken_from = owner; assert(owner != 0 && holder == me && st == CLAIMED) }
     owner = 0;
     atomic { assert(!unsettled); flush(h); unsettled = 1; holder = 0;
              if :: duty = D_SETTLE :: duty = D_NONE fi }
     goto do_duty
  :: duty == D_SETTLE -> /* settle_unsettled */
     atomic {
       if :: unsettled -> unsettled = 0; assert(holder == 0); holder = me :: else -> duty = D_NONE; goto back fi
     }
#ifndef FAULT_NO_BARRIER
     atomic { flush(1); flush(2) } /* membarrier */
#endif
     atomic {
       if
       :: bracket[taken_from] -> unsettled = 1; holder = 0; duty = D_NONE; goto back
       :: else -> goto mark_shared
       fi
     }
  :: duty == D_SHARE -> /* give_up: by the owner itself, nothing to settle */
     owner = 0; goto mark_shared
  :: duty == D_LIST -> insert(); goto do_duty
  :: duty == D_TAKE_OFF ->
     atomic {
       POOL_FREE;
       if
       :: linked -> linked = 0; duty = D_END
       :: else -> assert(!awaited); awaited = 1; holder = 0; duty = D_NONE
       fi
     }
     goto do_duty
  :: duty == D_END -> end_span(); goto back
  fi;

mark_shared:
  atomic {
    assert(st == CLAIMED && holder == me && owner == 0 && !others_inside(h));
    v = local_list + absent; base = v
  }
  atomic {
    assert(!others_inside(h) && local_list + absent == v);
    flush(h);
    if
    :: v + count == K -> duty = D_END
    :: v + count < K && v + count >= T -> count = count + v; st = LISTED; holder = 0; inserter = me; duty = D_LIST
    :: v + count < T -> count = count + v; st = SHARED; holder = 0; duty = D_NONE
    fi;
    assert(sum == K);
    v = 0;
    if :: h > 0 -> inside[h] = 0 :: else fi
  }
  goto do_duty;

back:
  atomic {
    duty = 0; mine = 0;
    if :: h > 0 -> bracket_off(h) :: else fi;
    if
    :: ret == R_IDLE -> goto idle
    :: ret == R_MALLOC -> ret = 0; goto try_hot
    :: ret == R_NEXT -> ret = 0; goto adopt
    :: ret == R_EXIT_HOT -> goto exit_hot
    :: ret == R_EXIT_ENTRY -> goto exit_entry
    :: ret == R_EXIT_BOX -> goto reopen
    fi
  }

  /* --- Thread end (ownership.cpp: abandon_spans, put_down_hot, return_list), and a new thread that gets the record
   * with its floating spans (registry.cpp: open_heap). --- */
exit_hot:
  if
  :: hot[at(h, c)] ->
     bracket_on(h);
     check_owner(h, cls == c);
     if
     :: mine ->
        atomic { v = blocks[at(h, c)] };
        atomic {
          line(); local_list = local_list + v; blocks[at(h, c)] = 0; v = 0; hot[at(h, c)] = 0; countdown = NEVER
        };
        atomic {
          flush(h);
          if
          :: st == HOT ->
             st = CLAIMED; assert(holder == 0); holder = me; duty = D_SHARE; ret = R_EXIT_HOT; goto do_duty
          :: else
          fi
        }
     :: else -> atomic { hot[at(h, c)] = 0 }
     fi;
     atomic { mine = 0; bracket_off(h) }
  :: else
  fi;
  /* What is left of a hot span that was taken goes back as remote frees. */
  if
  :: atomic { blocks[at(h, c)] > 0 -> blocks[at(h, c)]--; flight++; ret = R_EXIT_HOT }; goto push
  :: else
  fi;
exit_entry:
  if
  :: entry[at(h, c)] ->
     entry[at(h, c)] = 0;
     bracket_on(h);
     check_owner(h, true);
     if
     :: mine ->
        atomic {
          flush(h);
          if
          :: st == REUSABLE ->
             st = CLAIMED; assert(holder == 0); holder = me; duty = D_SHARE; ret = R_EXIT_ENTRY; goto do_duty
          :: else
          fi
        }
     :: else
     fi;
     atomic { mine = 0; bracket_off(h) }
  :: else
  fi;
  if :: c + 1 < CLASSES -> c = 1; goto exit_hot :: else fi;
  atomic {
    closed[h] = 1;
    if
    :: mailed == h ->
       mailed = 0; assert(holder == 0); holder = me; assert(owner == h && st == CLAIMED);
       duty = D_SHARE; ret = R_EXIT_BOX; goto do_duty
    :: else
    fi
  }
reopen:
  closed[h] = 0;
  goto idle;

  /* --- taking.cpp: rob_heaps, rob_idle_heaps. Rob a mailbox, claim a reusable or hot span without a push; settle. --- */
need:
  if
  :: atomic { mailed != 0 -> assert(!closed[mailed] && holder == 0); mailed = 0; holder = me; duty = D_TAKE }
  :: atomic { st == REUSABLE || st == HOT -> ws = st; wc = count; seen[_pid] = 1 };
     atomic {
       if
       :: st == ws && count == wc && seen[_pid] == 1 -> st = CLAIMED; assert(holder == 0); holder = me; duty = D_TAKE
       :: else -> duty = D_NONE
       fi;
       ws = 0; wc = 0; seen[_pid] = 0
     }
  :: duty = D_SETTLE
  fi;
  goto do_duty;

done:
  if :: h == 0 -> busy-- :: h == 1 :: h == 2 -> forker_ready = 1 fi
}

#ifndef FORK
#define REST Rest
/* Everything else is done or sleeps for ever; this thread looks for memory: it settles. */
proctype Rest() {
  byte h = 0, v = 0, duty = 0;
  atomic { busy == 0 -> frozen = 1 }
  atomic { flush(1); flush(2) } /* membarrier */
  atomic {
    if
    :: unsettled && !bracket[taken_from] -> unsettled = 0; assert(holder == 0); holder = me
    :: else -> goto rest
    fi
  }
  atomic {
    assert(st == CLAIMED && owner == 0 && !inside[1] && !inside[2]);
    base = local_list + absent;
    if
    :: own_free == K -> end_span()
    :: else -> count = count + base; st = (count >= T -> LISTED : SHARED); linked = (st == LISTED); holder = 0
    fi
  }
rest:
  atomic {
    assert(st == FREE || sum == K);
    if
    :: holder != 0 || inserter != 0 /* in the hand of a thread that was stopped: one span a thread */
    :: else ->
       assert(st != RETURNING);
       if
       :: st == SHARED -> assert(count < T && owner == 0)
       :: st == LISTED -> assert(count < K && linked && owner == 0)
       :: st == CLAIMED -> assert(mailed != 0 || (unsettled && bracket[taken_from]))
       :: st == HOT -> assert(count < claim_at || bracket[owner])
       :: st == FLOATING -> assert(own_free < F || bracket[owner])
       :: st == REUSABLE -> assert(own_free - counted < F || bracket[owner])
       :: else
       fi
    fi
  }
}
#else
#define REST Child
#endif

init {
  atomic {
#ifdef REUSE /* starts as a reusable span of heap 1 with one live block */
    slots_free = 0; described = 1; st = REUSABLE; owner = 1; entry[at(1, 0)] = 1; absent = 0; live = 1;
    local_list = K - 1; counted = K - 1; claim_at = 1;
#endif
#ifdef FULL /* starts as the full hot span of heap 1 */
    slots_free = 0; described = 1; st = HOT; owner = 1; hot[at(1, 0)] = 1; absent = 0; live = K; claim_at = HOT_AT(0);
#endif
#ifdef F1
    busy++; run Thread(0, F1);
#endif
#ifdef F2
    busy++; run Thread(0, F2);
#endif
#ifdef NEED
    busy++; run Thread(0, NEED);
#endif
#ifdef B
    forker_ready = 0; run Thread(2, B);
#endif
    run Thread(1, A);
#ifndef NO_REST
    run REST()
#endif
  }
}
