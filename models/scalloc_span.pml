/* SPDX-License-Identifier: MIT */
/* The life of a span of scalloc (src/papers/scalloc): its owner, remote freers, adopters, the span pool. Paper 2, figure
 * 3 and listing 3; what is beside a step is the function of span.hpp, reusable_set.hpp or front_end.cpp that makes it.
 *
 * One span of K blocks, reusable when more than R are free. A User with a LAB (1 or 2) allocates `mallocs` times, frees
 * `frees` live blocks, whoever allocated them, and may end; a thread that comes after takes the LAB with a new identity.
 * A User of LAB 0 has none: it frees only. When the span is not to be had, a request is served by other spans, outside.
 * A set's lock covers one step here: all that is done under it is one epoch CAS and links that only its holders see.
 */
#ifndef K
#define K 2
#endif
#define R 0 /* reusable: more than R free */

#define EXPECTED 0
#define HOT 1
#define FLOATING 2
#define REUSABLE 4
#define FREE 8

/* Where a block is. */
#define NOWHERE 0
#define LIVE 1
#define LOCAL 2
#define REMOTE 3
#define MOVING 4 /* in a thread's hands: it is between two lists, or just allocated */

#define TERMINATED 0

byte st = EXPECTED, counter = 0; /* the epoch word */
byte owner = 0;                  /* the owner word: LAB + 2 * identity, so that lab_of is its lowest bit */
byte where[K];
byte local_count = 0, remote_count = 0;
bit in_pool = 1;
byte in_set = 0;  /* the LAB whose set the span is in */
byte hot_of = 0;  /* the LAB whose hot span it is */
byte lab_owner[3] = TERMINATED, set_owner[3] = TERMINATED;
byte identity = 0;
byte done = 0;

#define lab_of(word) (1 + (word & 1))
#define is_orphan(word) (lab_owner[lab_of(word)] != (word))
#define all_free ((where[0] == LOCAL || where[0] == REMOTE) && (where[1] == LOCAL || where[1] == REMOTE))

/* try_mark: the CAS on the epoch word. Inside of an atomic step. */
#ifdef FAULT_NO_COUNTER
#define same_epoch (st == e_state)
#define enter(state) st = state
#else
#define same_epoch (st == e_state && counter == e_counter)
#define enter(state) st = state; counter++
#endif

inline to_pool() {
  /* The span is this thread's alone: free, on no list, nobody's. */
  atomic { assert(st == FREE && !in_pool && in_set == 0 && hot_of == 0); in_pool = 1 }
}

/* FrontEnd::settle */
inline settle() {
  do
  :: atomic { e_state = st; e_counter = counter }; /* load_epoch */
    if
    :: e_state != FLOATING && e_state != REUSABLE -> break
    :: else
    fi;
    o = owner;
    orphan = is_orphan(o);
    if
    :: e_state == FLOATING && orphan && lab != 0 ->
      /* try_adopt */
      atomic {
        if
        :: owner == o ->
          /* Whose it was must not be using the local list. */
          assert(is_orphan(o));
          owner = own
        :: else
        fi
      }
    :: else ->
      /* free_blocks */
      free = local_count;
      free = free + remote_count;
      if
      :: !orphan && free < K && (e_state == REUSABLE || free <= R) -> break
      :: !orphan && free < K && e_state == FLOATING && free > R ->
#ifdef FAULT_PUT_APART
        /* Listing 3: mark first, put into the set after. */
        atomic {
          if
          :: same_epoch -> enter(REUSABLE); won = 1
          :: else -> won = 0
          fi
        };
        if
        :: !won -> skip
        :: else ->
          atomic {
            if
            :: set_owner[lab_of(o)] == o -> assert(!in_pool && in_set == 0); in_set = lab_of(o)
            :: else
            fi
          };
          break
        fi
#else
        /* ReusableSet::put */
        atomic {
          if
          :: set_owner[lab_of(o)] != o -> won = 1 /* closed */
          :: set_owner[lab_of(o)] == o && same_epoch ->
            assert(in_set == 0 && !in_pool);
            enter(REUSABLE);
            in_set = lab_of(o);
            won = 1
          :: else -> won = 0
          fi
        };
        if
        :: won -> break
        :: else
        fi
#endif
      :: free < K && orphan -> break
      :: free >= K ->
        /* try_free */
        atomic {
          if
          :: same_epoch ->
            assert(all_free);
            enter(FREE);
            in_set = (e_state == REUSABLE -> 0 : in_set); /* try_remove */
            won = 1
          :: else -> won = 0
          fi
        };
        if
        :: won -> to_pool(); break
        :: else
        fi
      fi
    fi
#ifdef FAULT_ONE_TRY
    /* Listing 3: each transition is tried once. */
    ; break
#endif
  od
}

/* FrontEnd::retire_hot */
inline retire_hot() {
  hot_of = 0;
  atomic { assert(st == HOT); enter(FLOATING) };
#ifndef FAULT_NO_SETTLE
  settle()
#endif
}

/* pop_local: list, then count. */
inline pop_local() {
  atomic {
    assert(owner == own && st == HOT);
    won = 0;
    if
    :: where[0] == LOCAL -> where[0] = MOVING; b = 0; won = 1
    :: where[0] != LOCAL && where[1] == LOCAL -> where[1] = MOVING; b = 1; won = 1
    :: else
    fi
  };
  if
  :: won -> local_count--; where[b] = LIVE
  :: else
  fi
}

/* take_remotes: one exchange, then the count. */
inline take_remotes() {
  atomic {
    if
    :: where[0] == REMOTE -> where[0] = LOCAL
    :: else
    fi;
    if
    :: where[1] == REMOTE -> where[1] = LOCAL
    :: else
    fi;
    free = remote_count;
    remote_count = 0
  };
  local_count = local_count + free
}

/* FrontEnd::allocate and get_span */
inline allocate() {
  won = 0;
  if
  :: hot_of == lab ->
    pop_local();
    if
    :: !won && remote_count > R -> take_remotes(); pop_local() /* try_refill_from_remotes */
    :: !won && remote_count <= R -> retire_hot(); won = 0
    :: else
    fi
  :: else
  fi;
  if
  :: won -> skip
  :: else ->
    atomic {
      if
      :: in_set == lab -> assert(st == REUSABLE); in_set = 0; enter(HOT); hot_of = lab; won = 1
      :: else
      fi
    };
    if
    :: won ->
      pop_local();
      if
      :: won -> skip
      :: else -> take_remotes(); pop_local(); assert(won)
      fi
    :: else ->
      /* SpanPool::get: this span, or another one. */
      atomic {
        if
        :: in_pool -> in_pool = 0; won = 1
        :: true -> won = 0
        fi
      };
      if
      :: won ->
        /* begin_life */
        local_count = K;
        atomic { where[0] = LOCAL; where[1] = LOCAL; remote_count = 0 };
        owner = own;
        atomic { assert(st == FREE || st == EXPECTED); enter(HOT); hot_of = lab };
        pop_local()
      :: else
      fi
    fi
  fi
}

/* FrontEnd::deallocate of a block that some thread allocated. */
inline deallocate() {
  atomic {
    if
    :: where[0] == LIVE -> where[0] = MOVING; b = 0; won = 1
    :: where[1] == LIVE -> where[1] = MOVING; b = 1; won = 1
    :: else -> won = 0
    fi
  };
  if
  :: !won -> skip
  :: won && lab != 0 && owner == own ->
    if
    :: st == HOT -> where[b] = LOCAL; local_count++ /* push_local_hot */
    :: else ->
      /* push_local: list, then count. */
#ifdef FAULT_COUNT_FIRST
      local_count++;
      where[b] = LOCAL;
#else
      where[b] = LOCAL;
      local_count++;
#endif
      settle()
    fi
  :: else ->
#ifdef FAULT_DECIDE_FIRST
    settle();
    atomic { where[b] = REMOTE; remote_count++ }
#else
    atomic { where[b] = REMOTE; remote_count++ }; /* push_remote */
    settle()
#endif
  fi
}

/* FrontEnd::init: the sets, then the LAB. */
inline begin_lab() {
#ifdef FAULT_SAME_IDENTITY
  own = 2 + (lab - 1);
#else
  atomic { identity++; own = 2 * identity + (lab - 1) };
#endif
  set_owner[lab] = own;
  lab_owner[lab] = own
}

/* FrontEnd::terminate */
inline terminate() {
  set_owner[lab] = TERMINATED; /* close */
  if
  :: hot_of == lab -> retire_hot()
  :: else
  fi;
  do
  :: in_set == lab ->
    won = 0;
    atomic {
      if
      :: in_set == lab -> assert(st == REUSABLE); in_set = 0; enter(FLOATING); won = 1
      :: else
      fi
    };
    if
    :: won -> settle()
    :: else
    fi
  :: else -> break
  od;
  lab_owner[lab] = TERMINATED
}

proctype User(byte lab, lives, mallocs, frees) {
  byte own = TERMINATED, o, b, free, e_state, e_counter, left, left_frees;
  bit won, orphan;
  do
  :: lives == 0 -> break
  :: else ->
    lives--;
    if
    :: lab != 0 -> begin_lab()
    :: else
    fi;
    left = mallocs;
    left_frees = frees;
    do
    :: left > 0 -> left--; allocate()
    :: left_frees > 0 && (where[0] == LIVE || where[1] == LIVE) -> left_frees--; deallocate()
    :: true -> break
    od;
    if
    :: lab != 0 -> terminate()
    :: else
    fi
  od;
  done++
}

#ifndef A
#define A 2, 3, 1 /* lives, mallocs, frees */
#endif
#ifndef B
#define B 1, 1, 2
#endif
#ifndef G
#define G 2 /* frees */
#endif

init {
  atomic { run User(1, A); run User(2, B); run User(0, 1, 0, G) };
  done == 3;
  /* All threads have ended. What was allocated and not freed lives on in an orphan, which floats; a span without a live
   * block is in the pool, and in the pool only. */
  assert(hot_of == 0 && in_set == 0);
  assert(st == FREE || st == FLOATING || st == EXPECTED);
  assert(in_pool == (where[0] != LIVE && where[1] != LIVE))
}
