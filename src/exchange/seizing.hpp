// SPDX-License-Identifier: MIT
// Seizing another thread's heap (inside.hpp), and what for: what a heap keeps and its thread does not use goes to the
// thread that needs it now, or back to the kernel. A heap without a thread is seized in the same way.
//
//   who                               which heaps                                 what is taken
//   a heap about to take new memory   a few a call: those that sleep              mail, spans with room
//   the reclaimer                     those that slept for a whole tick           all but floating spans
//   malloc_trim; before a NULL        all                                         the same; what holds no live block
//   a push that filled a mailbox      that one (mail.hpp)                         mail
//
// A heap sleeps while its thread makes no call of malloc or free: who looks leaves a note where each call writes
// (Heap::inside), and finds it there the next time.
#pragma once

#include "exchange/inside.hpp"

namespace coffer {

inline constexpr u32 kMostSeized = 16;  // heaps that share one barrier

// Tries to get each of the heaps; calls work(heap) for those it got, gives them back, and returns how many. Of heaps in
// the midst of a fast path the mail is placed; for those in a slow path, or that another has, nothing is done.
u32 seize(Heap* const* heaps, u32 count, void (*work)(Heap* heap));

// For a heap that is about to take so many new slices: looks at a few heaps, and takes the mail and the half-empty
// spans of those that sleep. true: there were any.
bool steal_from_idle_heaps(const Heap* but, u32 slices);

// Takes from every heap what holds no live block; pages: all but what floats, so that the pages inside shared spans can
// go back. For when memory is needed, by the heap `but`, and for malloc_trim.
enum class Take : u8 { empty_spans, pages };
void steal_from_heaps(Take what, const Heap* but = nullptr);

// For a search that may be in vain: leaves a note with each heap but `but`. The notes of all searches are the same: one
// that is left where none was counts as supply (span/shortage.hpp).
void note_all_heaps(const Heap* but);
// Whether all these notes are there: unless supply was counted, no thread but that of `but` made a call since.
bool are_all_noted(const Heap* but);

// A chore of the reclaimer: empties the heaps that slept since its last step, and takes from others what they keep for
// being alone and did not use since. true: others may yet.
bool empty_idle_heaps();
// The thread goes on with a heap that was emptied: the reclaimer has to look at it again.
void note_awake(Heap* heap);
// Whether what idle heaps may keep together is more than may be free.
bool heaps_may_keep_much();

}  // namespace coffer
