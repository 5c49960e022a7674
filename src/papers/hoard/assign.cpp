// SPDX-License-Identifier: MIT
#include "papers/hoard/assign.hpp"

#include "os/os.hpp"

namespace coffer::papers::hoard {

namespace {

// A thread that so many times found its heap's lock held, while others use that heap, moves.
constexpr u32 kPatience = 16;

__thread u32 t_collisions;

// The paper's hash of the thread's id. Solaris numbers threads from 1 on, and so are they numbered here; the remainder
// then gives as many threads as there are heaps one each. Threads that come and go leave gaps, and two may meet.
u32 hashed() { return 1 + (thread_number() - 1) % g_hoard.heaps; }

// The heap that the fewest threads use; those before the thread's own hash only if they have fewer.
Heap* least_used() {
  const u32 first = hashed();
  Heap* best = heap_at(first);
  for (u32 i = 1; i < g_hoard.heaps; ++i) {
    Heap* heap = heap_at(1 + (first - 1 + i) % g_hoard.heaps);
    // relaxed, both: a guess; a wrong one costs another move.
    if (heap->threads.load(relaxed) < best->threads.load(relaxed)) best = heap;
  }
  return best;
}

}  // namespace

Heap* find_heap() {
  switch (g_hoard.assign) {
    case config::Assign::processor:
      // The paper's light-weight process, of which there are usually as many as processors.
      return heap_at(1 + os::current_processor() % g_hoard.heaps);
    case config::Assign::hash:
      break;
    case config::Assign::adaptive:
      if (thread_has_ended()) break;
      Heap* heap = heap_at(hashed());
      heap->threads.fetch_add(1, relaxed);  // relaxed, here and below: read as a guess only
      set_local(heap);
      return heap;
  }
  Heap* heap = heap_at(hashed());
  if (!thread_has_ended()) t_local = heap;  // nothing to do at the thread's end
  return heap;
}

Heap* after_collision(Heap* heap) {
  // A heap is also locked by frees of its blocks, from wherever: to go elsewhere would not help against those.
  if (heap->threads.load(relaxed) < 2 || ++t_collisions < kPatience || thread_has_ended()) return heap;
  t_collisions = 0;
  Heap* better = least_used();
  // relaxed, all: guesses.
  if (better->threads.load(relaxed) + 1 >= heap->threads.load(relaxed)) return heap;
  better->threads.fetch_add(1, relaxed);
  heap->threads.fetch_sub(1, relaxed);
  set_local(better);
  return better;
}

void leave_heap(Heap* heap) {
  if (g_hoard.assign == config::Assign::adaptive) heap->threads.fetch_sub(1, relaxed);  // relaxed: see find_heap
}

void forget_other_threads() {
  if (g_hoard.assign != config::Assign::adaptive) return;
  for (u32 i = 1; i < heap_count(); ++i) heap_at(i)->threads.store(0, relaxed);  // relaxed: see find_heap
  if (t_local != nullptr) static_cast<Heap*>(t_local)->threads.store(1, relaxed);
}

}  // namespace coffer::papers::hoard
