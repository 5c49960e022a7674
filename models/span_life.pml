/* SPDX-License-Identifier: MIT */
/* The life of one span: its owner, a second heap, remote freers, seizers, thread end, and a new thread with the heap.
 *
 * One record, as many lives as the threads give it. A step is one access to memory that others use, with what only its
 * thread can see. The CAS loops of src/span/span.cpp are one step: a CAS that fails looks again. Where something else
 * is read between the load and the CAS (claim_at), or written (`set_claim`), the steps are apart, and `seen` stands for
 * the tag. Blocks are counted, not named: were one on two lists, or on none, the sum of all places would not be K any
 * more. One span is enough: what becomes of the others is "another span serves".
 *
 * What a thread says it is at work on (`inside`) and its look at `self` are one step, and so are a seizer's looks at
 * `attached` and `inside`: seize.pml has them apart, with store buffers and the barrier.
 *
 * Sleeping: when all threads without a heap are done, `Rest` stops the others for ever, wherever they are, also inside
 * their calls; it seizes the heaps, takes their mail, and asks for what is promised "at rest": no owned span outside of
 * the slack has f of its blocks free, no shared one is empty, none waits in a mailbox. What a stopped thread has in its
 * hand is its own (one span a thread), and so is its heap if it was stopped in a slow path, the heap that it has
 * seized, and the span that it frees into. Sections under the partial pool's lock are one step: a thread that is
 * stopped inside of such a short lock is outside of the promise. The slack's size is not in the model: whether a span
 * fits is chosen freely, at each placing.
 *
 * With -DSHORT memory is exhausted where no span can be made (span/shortage.hpp): the thread makes all thresholds one
 * block, looks at the span (settle in refill.cpp), and from then on at rest no free block is unknown: none in a shared
 * span that is not listed, none in a floating span of a heap that has settled. The shortage ends with a new span.
 *
 *   K blocks, cut PAGE at a time; T = reuse_threshold (f/2); f = 2 * T - 1 here, since two sides of T - 1 are allowed.
 *
 * Transitions and the functions that make them are listed in models/README.md; labels below bear their names.
 */
#ifndef K
#define K 2
#endif
#define PAGE (K / 2)
#ifndef T
#define T (K / 2)
#endif
#ifdef SHORT
byte shortage = 0;  /* g_shortage: odd while memory is exhausted */
byte settled[3];    /* Heap::settled */
byte lookers = 0;   /* for the checker: threads that shared the span and have not looked yet */
#define LOOK lookers++; looks = 1
#define LOOKED lookers = lookers - looks; looks = 0
#define EXHAUSTED (shortage % 2 == 1)
#define THRESHOLD (EXHAUSTED -> 1 : T)
#else
#define THRESHOLD T
#define LOOK skip
#endif
#define F (2 * T - 1)
#define NEVER 15
/* claim_at: a threshold more than there are, n, or the last that can come (claim_after); of a span that gets hot, or
 * whose list was taken, half of what was cut (claim_in_use). */
#define MOST (K - local_list - absent)
#define AFTER(n) ((n) < MOST && MOST < (n) + THRESHOLD -> MOST : (n) + THRESHOLD)
#define IN_USE ((K - absent) / 2 > THRESHOLD -> (K - absent) / 2 : THRESHOLD)

/* States of the remote word (remote_word.hpp), but for mixed, which mixed_span.pml has. A shared or listed span whose
 * count is K is on its way back: nobody holds a block of it, and only who made the count K goes on with it. */
#define FREE 0
#define OWNED 1
#define CLAIMED 2
#define SHARED 3
#define LISTED 4

/* The remote word: one CAS changes state, count and tag. */
byte st = FREE, count = 0;
/* The tag, as a perfect one: seen[p] is 1 from thread p's load of the word on, and 2 when the tag has changed since. */
byte seen[6];

/* The record. */
byte owner = 0, claim_at = 0, base = 0, local_list = 0, countdown = NEVER, absent = K;
/* The partial pool, under its lock. */
bit linked = 0, awaited = 0;
/* Heaps 1 and 2; 0 is the null heap. */
bit hot[3], ring[3];    /* heap->hot names the span; the span stands on the heap's ring */
byte blocks[3];         /* its blocks on heap->blocks */
bit self[3] = 1;        /* 0: somebody has seized the heap */
bit attached[3] = 1;
byte inside[3];
byte mailed = 0;        /* heap in whose mailbox it is */

/* Values of `inside`. */
#define OUTSIDE 0
#define POPPING 1
#define FREEING 2       /* into this span */
#define SLOW 3

/* What the checker knows and no thread reads. */
byte live = 0;     /* blocks that the program has */
byte flight = 0;   /* blocks on their way in a free */
byte holder = 0;   /* 1 + _pid of who holds the claim, or the duty to end the span */
byte inserter = 0; /* 1 + _pid of who is to link the span */
byte has[3];       /* 1 + _pid of who uses the heap: its thread in a slow path, or a seizer */
bit all_of[3];     /* and it may use the heap's list, too */
bit frees[3];      /* the heap's thread frees into the span */
byte counted = 0;  /* free blocks at the last placing */
bit frozen = 0;
byte busy = 0;     /* threads without a heap that are not done */

#define me (_pid + 1)
#define private(s) ((s) == OWNED || (s) == CLAIMED)
#define own_free (local_list + absent + count)
#define all_blocks (blocks[1] + blocks[2])
#define sum ((private(st) -> own_free : count) + all_blocks + live + flight + transit)

#define CHANGED(p) seen[p] = (seen[p] -> 2 : 0)
inline new_tag() { CHANGED(1); CHANGED(2); CHANGED(3); CHANGED(4); CHANGED(5) }
/* span.cpp: an owned span gets another claim_at. */
inline enter_owned() {
  st = OWNED;
#ifndef FAULT_NO_TAG
  new_tag()
#endif
}
#ifdef FAULT_TAKE_KEEPS_TAG
#define TAKE count = 0
#else
#define TAKE count = 0; new_tag()
#endif
#ifdef FAULT_NOT_RESTORED
#define RESTORE(n) true
#else
#define RESTORE(n) claim_at = n
#endif
#ifdef FAULT_ADOPT_KEEPS_TAG
#define ADOPT st = OWNED
#else
#define ADOPT st = OWNED; new_tag()
#endif
#ifdef FAULT_ADOPT_FULL
#define ADOPTABLE (st == LISTED)
#else
#define ADOPTABLE (st == LISTED && count < K)
#endif
#ifdef FAULT_CLAIM_STORE
#define CLAIM_BY_CAS true
#else
#define CLAIM_BY_CAS (st == OWNED)
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
bit slices_free = 1, described = 0;
bit forker_ready = 1;

/* --- Inside (inside.hpp; heap.hpp: allocate_fast, deallocate). --- */
inline enter(x) {
  inside[h] = x; got = self[h];
  assert(!got || has[h] == 0)
}
inline enter_slow() {
  enter(SLOW);
  if :: got -> has[h] = me; all_of[h] = 1; g = h :: else fi
}
/* Stores to the owner's line, or to the heap's list, by who has the heap. */
inline line() { assert(private(st) && owner == g && has[g] == me && (g == h || !frees[g])) }
inline list() { assert(has[g] == me && all_of[g] && (g == h || inside[g] == OUTSIDE || !attached[g] || !self[g])) }

#define D_NONE 0
#define D_CLAIM 1
#define D_LIST 2
#define D_END 3
#define D_TAKE_OFF 4
#define D_LOOK 5 /* share_span: the span was shared; is memory exhausted? */

#define R_LEAVE 0
#define R_MALLOC 1
#define R_GIVE_HOT 2
#define R_GIVE_RING 3
#define R_GIVE_BACK 4
#define R_SETTLED 5

/* --- Ends of lives. --- */
/* span.cpp: end_span. */
inline end_span() {
  atomic {
    assert(live == 0 && flight == 0 && all_blocks == 0 && transit == 0);
    assert(!linked && !mailed && inserter == 0 && holder == me);
    assert(!hot[1] && !hot[2] && !ring[1] && !ring[2] && !frees[1] && !frees[2]);
    assert((st == CLAIMED || (st >= SHARED && count == K)) && owner == 0);
    AND_THEN(described = 0); AND_THEN(st = FREE; count = 0; new_tag());
    slices_free = 1;
    claim_at = 0; base = 0; local_list = 0; countdown = NEVER; absent = K;
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

/* A thread. With a heap (h > 0) it allocates, frees and ends; without one it frees, or takes memory in need. g is the
 * heap that it uses: its own, or one that it has
 * seized. A thread with a heap is in need before it makes a span. */
proctype Thread(byte h; byte mallocs; byte frees_left; byte exits; byte needs) provided (!frozen) {
  byte g = 0, v = 0, before = 0, ws = 0, wc = 0, ret = 0, duty = 0;
  bit got = 0, all = 0, ended = 0, steals = 0;
#ifdef SHORT
  byte number = 0;
  bit looks = 0;
#endif

idle:
  if
  :: atomic { mallocs > 0 -> mallocs--; enter(POPPING) }; goto malloc
  :: atomic { frees_left > 0 && live > 0 -> frees_left--; live--; flight++ };
     if :: h > 0 -> goto free :: else -> goto push fi
  :: atomic { exits > 0 -> exits-- }; goto thread_ended
  :: atomic { h == 0 && needs > 0 -> needs--; all = 1; if :: v = 1 :: v = 2 fi }; goto seize
  :: true -> goto done
  fi;

  /* --- malloc (heap.hpp: allocate_fast; refill.cpp). --- */
malloc:
  atomic {
    if
    :: !got -> goto leave /* the fallback heap serves */
    :: got && blocks[h] > 0 -> assert(!all_of[h]); blocks[h]--; live++; goto leave
    :: else -> enter_slow()
    fi;
    if :: !got -> goto leave :: else -> ret = R_MALLOC fi
  }
take_mail: /* mail.cpp. This thread has the claim of what it takes out. */
  atomic {
    if
    :: mailed == g -> mailed = 0; assert(holder == 0); holder = me; assert(owner == g && st == CLAIMED)
    :: else -> goto back
    fi
  }
  if
  :: hot[g] ->
     receive_hot: atomic { line(); wc = count; claim_at = AFTER(wc); countdown = NEVER }; /* receive_claimed */
     atomic { if :: SAME(wc) -> enter_owned(); holder = 0; wc = 0; goto back :: else -> goto receive_hot fi }
  :: !hot[g] -> ws = CLAIMED; goto place
  fi;

try_hot:
  if :: !hot[h] -> goto next_hot :: else -> assert(owner == h) fi;
refill_from: /* local list, remote list, a page */
  if
  :: atomic { local_list > 0 -> v = local_list };
     atomic { line(); list(); blocks[h] = v; BETWEEN(twin = 1); line(); local_list = 0; countdown = NEVER; twin = 0 }
  :: atomic { local_list == 0 && count > 0 -> line(); claim_at = IN_USE }; /* take_remote: perhaps lower */
     atomic { assert(private(st)); list(); v = count; TAKE; BETWEEN(transit = v); blocks[h] = v; transit = 0 }
  :: atomic { local_list == 0 && count == 0 && absent > 0 -> v = absent };
     atomic { line(); list(); absent = v - PAGE; BETWEEN(transit = PAGE); line(); blocks[h] = PAGE; transit = 0 }
  :: atomic { local_list == 0 && count == 0 && absent == 0 -> line(); countdown = THRESHOLD };
     mark_floating: atomic {
       if
       :: count > 0 && ret != R_SETTLED -> countdown = NEVER; v = 0; goto refill_from
       :: count > 0 && ret == R_SETTLED -> ws = OWNED; goto place
       :: count == 0 && st == CLAIMED -> hot[h] = 0; goto floats /* it comes by mail */
       :: count == 0 && st == OWNED -> v = THRESHOLD
       fi
     };
     atomic { /* set_claim */
       if
       :: claim_at <= v -> goto raise_floating
       :: claim_at > v -> before = claim_at; claim_at = v; v = before; before = 0
       fi
     };
     atomic {
       assert(private(st));
       if
       :: st == OWNED && count == 0 -> enter_owned(); hot[h] = 0; goto floats
       :: else
       fi
     };
     atomic { line(); RESTORE(v); v = 0; goto mark_floating }
     raise_floating: atomic { line(); claim_at = v; hot[h] = 0 } /* a higher claim_at needs no CAS */
  fi;
floats:
  atomic {
    v = 0;
    if
    :: ret == R_SETTLED -> goto back
    :: ret != R_SETTLED && blocks[h] > 0 -> list(); blocks[h]--; live++; goto leave
    :: else
    fi
  }

next_hot:
  /* pop_ring, raise_claim: a higher claim_at needs no CAS. If it is claimed, its mail finds it hot. */
  atomic {
    if
    :: ring[h] ->
       assert(owner == h); line();
       ring[h] = 0; claim_at = (claim_at < IN_USE -> IN_USE : claim_at); hot[h] = 1; countdown = NEVER; goto try_hot
    :: else -> goto adopt
    fi
  }

adopt:
  /* PartialPool::adopt, mark_adopted: under the lock. The owner's line is ready before the CAS. */
  atomic {
    if
    :: POOL_FREE && linked && ADOPTABLE ->
       assert(!frees[1] && !frees[2] && inserter == 0 && holder == 0);
       POOL_LOCK(1);
       linked = 0
    :: POOL_FREE && !(linked && ADOPTABLE) -> goto new_span
    fi;
#ifndef FAULT_OWNER_LATE
    AND_THEN(owner = h);
#endif
    if
    :: ADOPTABLE ->
       countdown = NEVER; claim_at = AFTER(count - base); count = count - base; base = 0; ADOPT
    :: else -> owner = 0; linked = 1; POOL_LOCK(0); goto new_span /* its last block was freed meanwhile */
    fi;
    AND_THEN(true);
    POOL_LOCK(0)
  }
#ifdef FAULT_OWNER_LATE
  owner = h;
#endif
  hot[h] = 1; goto try_hot;

new_span:
  if
  :: atomic { needs > 0 -> needs--; steals = 1; all = 1; v = 3 - h }; goto seize /* steal_from_idle_heaps */
  :: needs == 0
  fi;
  /* make_span, if its slices are free; else another span serves. */
  atomic {
    if
    :: st == FREE && slices_free ->
       assert(holder == 0 && inserter == 0 && !linked && !mailed && !frees[1] && !frees[2]);
       assert(live == 0 && flight == 0 && all_blocks == 0 && transit == 0);
       slices_free = 0
#ifdef SHORT
    :: else -> goto settle
#else
    :: else -> goto leave
#endif
    fi;
    AND_THEN(owner = h);
    absent = K; local_list = 0; countdown = NEVER; claim_at = THRESHOLD; new_tag(); AND_THEN(described = 1);
    AND_THEN(enter_owned());
#ifdef SHORT
    shortage = shortage + shortage % 2 /* end_shortage */
#endif
  }
  hot[h] = 1; goto try_hot;

#ifdef SHORT
  /* --- refill.cpp: settle; span.cpp: list_early. --- */
settle:
  atomic {
    if :: !EXHAUSTED -> shortage++ :: else fi;
    number = shortage;
    if :: settled[h] == number -> number = 0; goto leave :: else -> ret = R_SETTLED fi
  }
  atomic {
    if
    :: private(st) && owner == h && (ring[h] || hot[h]) -> goto back
    :: private(st) && owner == h && !ring[h] && !hot[h] ->
       if :: own_free == 0 -> line(); countdown = 1; goto mark_floating :: else -> ws = OWNED; goto place fi
    :: else
    fi
  }
list_early:
  atomic {
    if
    :: st == SHARED && count < K -> ws = st; wc = count; seen[_pid] = 1
    :: else -> LOOKED; duty = D_NONE; goto back
    fi
  }
  if :: wc == 0 -> claim_at = 1 :: wc > 0 fi;
  atomic {
    if
    :: st == ws && count == wc && seen[_pid] == 1 ->
       if
       :: wc > 0 -> st = LISTED; assert(inserter == 0); inserter = me; duty = D_LIST
       :: wc == 0 ->
#ifndef FAULT_EARLY_KEEPS_TAG
          new_tag();
#endif
          duty = D_NONE
       fi
    :: else -> ws = 0; wc = 0; goto list_early
    fi;
    ws = 0; wc = 0; seen[_pid] = 0; LOOKED
  }
  goto do_duty;
#endif

  /* --- free (heap.hpp: deallocate; release.cpp: free_not_own, local_event). --- */
free:
  atomic {
    enter(FREEING);
    if
    :: got && owner == h -> assert(private(st)); frees[h] = 1; v = local_list
    :: else -> inside[h] = SLOW; goto push
    fi
  }
  atomic {
    assert(private(st) && owner == h && frees[h] && local_list == v);
    local_list = v + 1; flight--; v = 0; BETWEEN(uncounted = 1); uncounted = 0;
    if :: countdown != NEVER -> countdown-- :: else fi;
    if :: countdown != 0 -> goto leave :: else fi
  }
  /* local_event */
  atomic {
    enter_slow();
    if
    :: !got -> countdown = NEVER; goto claim_own
    :: got && hot[h] -> countdown = NEVER; goto leave
    :: else -> ws = OWNED; goto place
    fi
  }
claim_own: /* somebody has the heap just now: the span goes there by mail */
  atomic {
    assert(private(st) && owner == h && frees[h]);
#ifdef FAULT_EVENT_PUT_OFF
    countdown = 1; goto leave;
#endif
    if
    :: st == OWNED -> st = CLAIMED; assert(holder == 0); holder = me; duty = D_CLAIM
    :: else -> goto leave
    fi
  }
  goto do_duty;

  /* --- ownership.cpp: place. --- */
place:
  if
  :: true -> /* fits into the slack: mark_reusable, receive_claimed */
     keep: atomic {
       line();
       if
       :: ws == OWNED && st == CLAIMED -> countdown = NEVER; ws = 0; goto back /* it comes by mail */
       :: else
       fi;
       wc = count; v = AFTER(wc)
     };
     atomic { /* set_claim */
       if
       :: ws == OWNED && claim_at <= v -> goto raise
       :: else -> before = claim_at; claim_at = v; v = before; before = 0
       fi
     };
     atomic {
       if
       :: st == ws && SAME(wc) ->
          enter_owned(); holder = (ws == CLAIMED -> 0 : holder); counted = own_free;
          countdown = (own_free == K -> NEVER : T); ring[g] = 1; wc = 0; ws = 0; v = 0; goto back
       :: else -> wc = 0
       fi
     };
     if :: ws == OWNED -> RESTORE(v) :: else fi; /* or the next try keeps the tag */
     v = 0;
     goto keep;
     raise: atomic { line(); claim_at = v; v = 0 } /* needs no CAS */
     atomic { /* others may have pushed, and claimed it, since it was counted */
       assert(private(st) && owner == g);
       counted = local_list + absent + wc; countdown = (counted == K -> NEVER : T); ring[g] = 1;
       wc = 0; ws = 0; goto back
     }
  :: true
  fi;
  /* give_up */
  atomic {
    if
    :: ws == CLAIMED -> assert(holder == me && st == CLAIMED)
    :: ws == OWNED && CLAIM_BY_CAS -> st = CLAIMED; assert(holder == 0); holder = me
    :: else -> ws = 0; goto back
    fi;
    assert(has[g] == me);
    ws = 0; ring[g] = 0; frees[h] = 0
  }
  atomic { line(); owner = 0 }
mark_shared:
  atomic {
    assert(st == CLAIMED && holder == me && owner == 0 && !frees[1] && !frees[2] && !hot[1] && !hot[2]);
    v = local_list + absent; base = v; wc = THRESHOLD; claim_at = wc
  }
  atomic {
    assert(!frees[1] && !frees[2] && local_list + absent == v);
    if
    :: v + count == K -> duty = D_END
    :: v + count < K && v + count >= wc -> count = count + v; st = LISTED; holder = 0; inserter = me; duty = D_LIST
    :: v + count < wc -> count = count + v; st = SHARED; holder = 0; duty = D_LOOK; LOOK
    fi;
    assert(sum == K);
    v = 0; wc = 0
  }
  goto do_duty;

  /* --- span.cpp: push_remote. --- */
push:
  atomic { ws = st; wc = count; seen[_pid] = 1; assert(st != FREE) }
  v = claim_at;
  atomic {
    if
    :: st == ws && count == wc && seen[_pid] == 1 ->
       flight--; count++;
       if
#ifndef FAULT_DECIDE_LATER
       :: ws == OWNED && count >= v -> st = CLAIMED; assert(holder == 0); holder = me; duty = D_CLAIM
#else
       :: ws == OWNED && count >= v -> duty = D_CLAIM
#endif
       :: ws >= SHARED && count == K ->
          assert(holder == 0); holder = me;
          duty = (ws == LISTED -> D_TAKE_OFF : D_END)
       :: ws == SHARED && count < K && count >= v -> st = LISTED; assert(inserter == 0); inserter = me; duty = D_LIST
       :: else -> duty = D_NONE
       fi
    :: else -> goto push
    fi;
    ws = 0; wc = 0; v = 0; seen[_pid] = 0
  }
#ifdef FAULT_DECIDE_LATER
  if :: duty == D_CLAIM -> atomic { st = CLAIMED; assert(holder == 0); holder = me } :: else fi;
#endif

  /* --- What a push or a claim leaves to do (ownership.cpp: do_duty). After a push that left nothing the thread goes on
   * without another look at the span. --- */
do_duty:
  if
  :: duty == D_NONE -> goto back
#if defined(SHORT) && !defined(FAULT_NO_LOOK)
  :: duty == D_LOOK -> atomic { if :: EXHAUSTED -> goto list_early :: !EXHAUSTED -> LOOKED; goto back fi }
#elif defined(SHORT)
  :: duty == D_LOOK -> atomic { LOOKED; goto back }
#else
  :: duty == D_LOOK -> goto back
#endif
  :: duty == D_CLAIM -> /* mail */
     atomic { v = owner; assert(v != 0 && holder == me && mailed == 0); frees[h] = 0 }
     atomic { assert(owner == v); mailed = v; holder = 0; duty = D_NONE }
     if
     :: !attached[v] -> goto seize
     :: attached[v] -> if :: goto seize /* the box is too full */ :: v = 0; goto back fi
     fi
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
  :: duty == D_END -> end_span(); duty = D_NONE; goto back
  fi;

  /* --- seizing.cpp: seize, for heap v; for its mail, or for all that it has. --- */
seize:
  atomic { if :: self[v] -> self[v] = 0; g = v; v = 0 :: else -> v = 0; all = 0; goto seized fi }
  atomic {
    if
#ifdef FAULT_IGNORE_INSIDE
    :: true -> has[g] = me; all_of[g] = 1
#else
    :: !attached[g] || inside[g] == OUTSIDE -> assert(has[g] == 0); has[g] = me; all_of[g] = 1
    :: attached[g] && inside[g] == POPPING -> has[g] = me; all = 0
#ifdef FAULT_MAIL_ALL
    :: attached[g] && inside[g] == FREEING -> has[g] = me; all = 0
#else
    :: attached[g] && inside[g] == FREEING ->
       all = 0;
       if :: mailed == g -> mailed = 0; holder = me :: else -> goto give_back fi
#endif
    :: attached[g] && inside[g] == SLOW -> all = 0; goto give_back
#endif
    fi
  }
#ifndef FAULT_MAIL_ALL
  if
  :: has[g] != me -> atomic { mailed = g; holder = 0 } goto give_back /* it goes back into the box */
  :: else
  fi;
#endif
  ret = R_GIVE_HOT; goto take_mail;
give_hot: /* release_idle, give_up_hot */
  if
  :: all && hot[g] ->
#ifdef HOT_FIRST
     hot[g] = 0;
#endif
     atomic { line(); list(); v = blocks[g]; blocks[g] = 0; BETWEEN(transit = v); line(); local_list = local_list + v;
              transit = 0; BETWEEN(uncounted = (v > 0)); uncounted = 0; countdown = NEVER; v = 0 };
     atomic { hot[g] = 0; ws = OWNED; ret = R_GIVE_RING };
     goto place
  :: else
  fi;
give_ring: /* share_reusable */
  if
  :: all && ring[g] -> atomic { ring[g] = 0; ws = OWNED; ret = R_GIVE_BACK }; goto place
  :: else
  fi;
give_back:
  atomic {
    if :: has[g] == me -> has[g] = 0; all_of[g] = 0 :: else fi;
    self[g] = 1; v = g; g = 0; ret = 0
  }
  /* Mail that came meanwhile to a heap whose thread has ended. */
  atomic {
    if :: !attached[v] && mailed == v -> all = 0; goto seize :: else -> v = 0; all = 0 fi
  }
seized:
  atomic { if :: steals -> steals = 0; g = h; ret = R_MALLOC :: else -> goto leave fi }
  goto adopt;

back:
  atomic {
    duty = 0;
    if
    :: ret == R_LEAVE -> goto leave
    :: ret == R_MALLOC -> ret = 0; goto try_hot
    :: ret == R_GIVE_HOT -> goto give_hot
    :: ret == R_GIVE_RING -> goto give_ring
    :: ret == R_GIVE_BACK -> goto give_back
#ifdef SHORT
    :: ret == R_SETTLED -> settled[h] = number; number = 0; ret = 0; goto next_hot /* find_known */
#endif
    fi
  }

leave:
  atomic {
    g = 0; v = 0; ws = 0; ret = 0; duty = 0; got = 0; all = 0;
    if
    :: h > 0 ->
       if :: has[h] == me -> has[h] = 0; all_of[h] = 0 :: else fi;
       frees[h] = 0; inside[h] = OUTSIDE
    :: else
    fi;
    if :: ended -> goto attach :: else -> goto idle fi
  }

  /* --- Thread end (registry.cpp: thread_ended, take_late_mail). The heap stays whole, and a new thread gets it. --- */
thread_ended:
  attached[h] = 0;
  atomic { ended = 1; if :: mailed == h -> v = h :: else -> goto attach fi }
  goto seize;
attach:
  atomic { ended = 0; attached[h] = 1; goto idle }

done:
  if :: h == 0 -> busy-- :: h == 1 :: h == 2 -> forker_ready = 1 fi
}

#ifndef FORK
#define REST Rest
#ifdef SHORT
/* list_early may have written its claim_at of one into another life: a push claims a little early. */
#define STILL_HOT (count < claim_at || count < THRESHOLD)
#define SETTLED(x) (EXHAUSTED && settled[x] == shortage)
#else
#define STILL_HOT (count < claim_at)
#endif
/* What a stopped thread keeps: a heap that it has or is inside of, and the span that it frees into. */
#define KEPT(x) (!self[x] || (attached[x] && inside[x] >= FREEING))
/* Everything else is done or sleeps for ever; this thread looks for memory: it takes the mail. */
proctype Rest() {
  byte h = 0, v = 0, duty = 0;
  atomic { busy == 0 -> frozen = 1 }
  atomic {
    v = mailed;
    if
    :: v > 0 && !KEPT(v) ->
       mailed = 0; assert(holder == 0 && st == CLAIMED && owner == v); holder = me;
       if
       :: hot[v] -> st = OWNED; claim_at = AFTER(count); holder = 0
       :: !hot[v] -> ring[v] = 0; owner = 0
       fi
    :: else -> goto rest
    fi
  }
  atomic {
    if
    :: st == CLAIMED && own_free == K -> end_span()
    :: st == CLAIMED && own_free < K ->
       count = own_free; st = (count >= THRESHOLD -> LISTED : SHARED); linked = (st == LISTED); holder = 0
    :: else
    fi
  }
rest:
  atomic {
    assert(st == FREE || sum == K);
    if
    :: holder != 0 || inserter != 0 /* in the hand of a thread that was stopped: one span a thread */
    :: else ->
#ifdef SHORT
       assert(st != SHARED || count == 0 || lookers > 0 || (!SETTLED(1) && !SETTLED(2)));
#endif
       if
       :: st == SHARED -> assert(count < T && owner == 0)
       :: st == LISTED -> assert(count < K && linked && owner == 0)
       :: st == CLAIMED -> assert(mailed == owner && KEPT(owner))
       :: st == OWNED && KEPT(owner)
       :: st == OWNED && !KEPT(owner) ->
          if
          :: hot[owner] -> assert(STILL_HOT && !ring[owner])
          :: ring[owner] && !hot[owner] -> assert(own_free - counted < F)
          :: !hot[owner] && !ring[owner] ->
#ifdef SHORT
             assert(!SETTLED(owner) || own_free == 0);
#endif
             assert(own_free < F)
          fi
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
    slices_free = 0; described = 1; st = OWNED; owner = 1; ring[1] = 1; absent = 0; live = 1;
    local_list = K - 1; counted = K - 1; claim_at = 1;
#endif
#ifdef FULL /* starts as the hot span of heap 1, claimed at AT; LOCAL blocks are free, on its list */
#ifndef AT
#define AT THRESHOLD
#endif
#ifndef LOCAL
#define LOCAL 0
#endif
    slices_free = 0; described = 1; st = OWNED; owner = 1; hot[1] = 1; absent = 0; live = K - LOCAL; local_list = LOCAL; claim_at = AT;
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
