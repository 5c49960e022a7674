/* SPDX-License-Identifier: MIT */
/* The room map's hints: room is never forgotten. A run that is free when all is quiet has its bit in its group's word,
 * and the group has its bit in the summary.
 *
 * Two groups of two chunks of two slices; one order, for the words of the orders are independent. All accesses that
 * count are sequentially consistent, so interleaving is all there is. Each step is one of them. Code: note_room,
 * set_bit, note_no_room, next_with_room in src/pool/room_map.cpp; put_back and search in src/pool/slice_pool.cpp.
 */
#define CHUNKS 4
#define GROUPS 2
#define group_of(c) ((c) / 2)
#define bit_of(c) (1 << ((c) % 2))

byte free[CHUNKS];  /* Chunk::free */
byte room[GROUPS];  /* Group::room */
byte summary = 0;
byte done = 0;
byte held[CHUNKS];  /* for the checker: slices that threads have */

/* room_map.cpp: set_bit. */
inline set_bit(c) {
  room[group_of(c)] = room[group_of(c)] | bit_of(c);
#ifndef FAULT_NO_SUMMARY
  if
  :: summary & (1 << group_of(c))
  :: else -> summary = summary | (1 << group_of(c))
  fi
#endif
}

/* slice_pool.cpp: put_back; room_map.cpp: note_room. */
proctype Freer(byte c; byte slice) {
#ifdef FAULT_NOTE_FIRST
  if :: room[group_of(c)] & bit_of(c) :: else -> set_bit(c) fi;
  atomic { free[c] = free[c] | (1 << slice); held[c] = held[c] & ~(1 << slice) }
#else
  atomic { free[c] = free[c] | (1 << slice); held[c] = held[c] & ~(1 << slice) }
  if :: room[group_of(c)] & bit_of(c) :: else -> set_bit(c) fi;
#endif
  done++
}

/* slice_pool.cpp: search, claim_in_chunk; room_map.cpp: next_with_room, note_no_room. */
proctype Searcher(byte n) {
  byte g, c = CHUNKS, seen;
  bit last;
  do
  :: n > 0 ->
     n--; c = CHUNKS;
     /* next_with_room; relaxed: a hint */
     atomic { if :: summary & 1 -> g = 0 :: else -> if :: summary & 2 -> g = 1 :: else -> break fi fi }
     atomic {
       seen = room[g];
       if :: seen & 1 -> c = 2 * g :: else -> if :: seen & 2 -> c = 2 * g + 1 :: else fi fi;
       seen = 0
     }
     if
     :: c == CHUNKS /* the group's word was cleared meanwhile */
     :: c < CHUNKS ->
        atomic {
          if /* claim_in_chunk: the lowest free slice, by one CAS */
          :: free[c] & 1 -> assert(!(held[c] & 1)); free[c] = free[c] - 1; held[c] = held[c] | 1; goto next
          :: !(free[c] & 1) && free[c] & 2 ->
             assert(!(held[c] & 2)); free[c] = free[c] - 2; held[c] = held[c] | 2; goto next
          :: free[c] == 0
          fi
        }
        /* note_no_room */
#ifdef FAULT_LOOK_FIRST
        seen = free[c];
#endif
        atomic { room[g] = room[g] & ~bit_of(c); last = (room[g] == 0) } /* fetch_and */
        if
        :: last ->
           summary = summary & ~(1 << g);
#ifndef FAULT_NO_SECOND_LOOK
           if :: room[g] != 0 -> summary = summary | (1 << g) :: else fi
#endif
        :: else
        fi;
#ifdef FAULT_LOOK_FIRST
        if :: seen -> set_bit(c) :: else fi
#else
#ifndef FAULT_NO_LOOK
        if :: free[c] -> set_bit(c) :: else fi
#endif
#endif
     fi;
next: atomic { last = 0; seen = 0; g = 0; c = CHUNKS }
  :: else -> break
  od;
  done++
}

init {
  byte c;
  atomic {
    /* Chunk 0 has one free slice; all else is held. */
    free[0] = 1; held[0] = 2; held[1] = 3; held[2] = 3; held[3] = 3;
    room[0] = 1; summary = 1;
    run Freer(0, 1); run Freer(1, 0); run Freer(2, 0); run Searcher(3); run Searcher(2)
  }
  done == 5;
  do
  :: c < CHUNKS ->
     assert((free[c] & held[c]) == 0 && (free[c] | held[c]) == 3);
     assert(free[c] == 0 || ((room[group_of(c)] & bit_of(c)) && (summary & (1 << group_of(c)))));
     c++
  :: else -> break
  od
}
