// SPDX-License-Identifier: MIT
#include "papers/scalloc/front_end.hpp"

namespace coffer::scalloc {

constinit Span g_no_span;
constinit Lab g_no_lab(&g_no_span, std::make_index_sequence<kClasses>());

void FrontEnd::start(SpanPool* pool, const Parameters& parameters) {
  pool_ = pool;
  parameters_ = parameters;
}

// Strictly more than the threshold's part of a span has to be free (section 3.4). Without reuse, and at 100 %, that is
// never so.
u32 FrontEnd::reuse_above(u32 size_class) const {
  const u32 capacity = blocks_of(size_class);
  return parameters_.reuse ? static_cast<u32>(u64{capacity} * parameters_.reusability / 100) : capacity;
}

// Lines 80 to 90. The set's get marks the span hot itself, so there is no loop.
Span* FrontEnd::get_span(Lab* lab, u32 size_class) {
  while (Span* span = lab->reusable[size_class].get(State::hot)) {
    // A list longer than its count would let the count wrap.
    if (COFFER_UNLIKELY(has_vanished_)) recount_local(span);
    if (parameters_.reclaim == ReclaimPolicy::free || free_blocks(span) < span->capacity.get()) return span;
    // Section 7.7.3's other version: what became empty since goes back now, and the search goes on.
    const bool marked = try_mark_free(span, load_epoch(span));
    COFFER_ASSERT(marked);  // nobody but its owner moves a hot span
    to_pool(lab, span);
  }
  Span* span = pool_->get(lab->thread.get(), size_class);
  if (span == nullptr) return nullptr;
  begin_life(span, size_class, reuse_above(size_class), lab->owner.load(relaxed));  // relaxed: the caller's own
  const bool marked = try_mark_hot(span, load_epoch(span));
  COFFER_ASSERT(marked);  // line 89: always succeeds
  // Equation 1: u joins the fragmentation. relaxed: a figure.
  if (parameters_.account) fragmentation_.fetch_add(payload_bytes(size_class), relaxed);
  return span;
}

// hot -> floating (line 101). Listing 3 leaves it at that; but whoever freed blocks of the span while it was hot did
// nothing about it. If all its blocks were freed nobody ever would, so it is looked at here.
void FrontEnd::retire_hot(Lab* lab, u32 size_class) {
  Span* span = lab->hot[size_class].get();
  if (span == no_span()) return;
  lab->hot[size_class].set(no_span());
  const bool marked = try_mark_floating(span, load_epoch(span));
  COFFER_ASSERT(marked);  // nobody but its owner moves a hot span
  settle(lab, span);
}

// Lines 92 to 104.
void* FrontEnd::allocate(Lab* lab, u32 size_class) {
  Span* span = lab->hot[size_class].get();
  if (span != no_span()) {
    if (Block* block = pop_local(span)) return block;
    if (carve(span) || try_refill_from_remotes(span)) return pop_local(span);
    retire_hot(lab, size_class);
  }
  span = get_span(lab, size_class);
  if (span == nullptr) return nullptr;
  lab->hot[size_class].set(span);
  // A span that was reusable may have its free blocks on any of the lists.
  if (span->local_first.get() == nullptr && !carve(span)) take_remotes(span);
  return pop_local(span);
}

bool FrontEnd::is_orphan(Owner owner) {
  // acquire: pairs with the release in terminate (through that of init, if the LAB lives again): an adopter has all
  // that the span's last owner wrote.
  return lab_of(owner)->owner.load(acquire) != owner;
}

// Makes an orphan the caller's (line 113). Its owner's threads have ended, and its owner word never comes back, since
// identities are not used twice: so the CAS is between adopters, and the last user of the local list is gone.
void FrontEnd::try_adopt(Lab* lab, Span* span, Owner owner) {
  const Owner own = lab->owner.load(relaxed);  // relaxed: the caller's own
  // release: pairs with the acquire in deallocate, for others who share the LAB: what is_orphan acquired goes on to
  // them. relaxed: settle loads again, also where the weak CAS failed for no reason.
  span->owner.compare_exchange(owner, own, release, relaxed);
}

void FrontEnd::to_pool(Lab* lab, Span* span) {
  // Equation 3 with what count_freed does; see there. relaxed: a figure.
  if (parameters_.account) fragmentation_.fetch_sub(payload_bytes(span->size_class.get()), relaxed);
  pool_->put(lab != nullptr ? lab->thread.get() : 0, span);
}

// floating or reusable -> free (lines 118 to 122).
bool FrontEnd::try_free(Lab* lab, Span* span, Epoch epoch, Owner owner) {
  if (epoch.state() == State::floating) {
    if (!try_mark_free(span, epoch)) return false;
  } else if (!lab_of(owner)->reusable[span->size_class.get()].try_remove(span, epoch)) {
    return false;
  }
  to_pool(lab, span);
  return true;
}

// What follows from the number of free blocks of a span: adoption, reusable, free (lines 112 to 122). Listing 3 does it
// with the epoch from before the caller's free, once; of two frees that cross there, the first makes the span reusable,
// the second finds another epoch than it expects, and the empty span stays. Here the epoch is read after the free, and
// again when a CAS loses: whoever is the last to add a free block sees them all (push_local), and sees a state in which
// to act, or a hot span, whose owner comes here at the end of that state. So an empty span is free at its last free, or
// hot. A loop goes round only when another thread has moved the span.
void FrontEnd::settle(Lab* lab, Span* span) {
  for (;;) {
    const Epoch epoch = load_epoch(span);
    const bool floating = epoch.state() == State::floating;
    if (!floating && epoch.state() != State::reusable) return;
    // relaxed: what else belongs to the owner is acquired by is_orphan, by the set's lock and by free_blocks. It
    // belongs to `epoch` if a CAS from that succeeds: the owner of a span changes only with its life, and by adoption,
    // after which sets of the old owner refuse it.
    const Owner owner = span->owner.load(relaxed);
    const bool orphan = is_orphan(owner);
    if (floating && orphan && lab != nullptr) {
      try_adopt(lab, span, owner);
      continue;
    }
    const u32 free = free_blocks(span);
    const bool empty = free >= span->capacity.get();
    // Section 7.7.3's other version leaves empty spans to the next slow allocation of their LAB.
    const bool keep = !orphan && (!empty || parameters_.reclaim == ReclaimPolicy::allocation);
    if (keep) {
      if (!floating || (!empty && free <= span->reuse_above.get())) return;
      const ReusableSet::Put put = lab_of(owner)->reusable[span->size_class.get()].put(owner, span, epoch);
      if (put == ReusableSet::Put::changed) continue;
      // Closed: its owner ends, and the next free adopts the span, if there will be one.
      if (put == ReusableSet::Put::done || !empty) return;
    }
    if (!empty || try_free(lab, span, epoch, owner)) return;
  }
}

// A free by the owner: to the local list. Threads that share a LAB take its lock.
void FrontEnd::deallocate(Lab* lab, Span* span, Block* block) {
  if (parameters_.account) count_freed(span);
  // acquire: pairs with the release in try_adopt, for a span that another thread of the same LAB adopted. A span with a
  // live block keeps its owner while that has a thread; and if it is this one, it has.
  if (lab != nullptr && span->owner.load(acquire) == lab->owner.load(relaxed)) {  // relaxed: the caller's own
    const bool shared = lab->shared.get() != 0;
    if (shared) lab->lock.lock();
    // Only its owner makes a span hot or floating, so the state cannot become or cease to be hot meanwhile.
    const bool hot = load_epoch(span).state() == State::hot;
    if (hot) {
      push_local_hot(span, block);
    } else {
      push_local(span, block);
    }
    if (shared) lab->lock.unlock();
    if (hot) return;
  } else {
    push_remote(span, block);
  }
  settle(lab, span);
}

// --- The life of a LAB. ---

void FrontEnd::init(Lab* lab, Owner owner) {
  for (u32 c = 1; c < kClasses; ++c) {
    lab->hot[c].set(no_span());
    lab->reusable[c].open(owner);
  }
  lab->hot[0].set(no_span());
  // release: pairs with the acquire in is_orphan.
  lab->owner.store(owner, release);
}

// Lines 124 to 135. A free may be adding to the sets until they are closed; spans that it makes empty afterwards it
// gives to the pool itself, as the others that it leaves floating are looked at here.
void FrontEnd::terminate(Lab* lab) {
  for (u32 c = 1; c < kClasses; ++c) {
    lab->reusable[c].close();
    retire_hot(lab, c);
    while (Span* span = lab->reusable[c].get(State::floating)) settle(lab, span);
  }
  // release: as in init.
  lab->owner.store(kTerminated, release);
}

void FrontEnd::recount_vanished(Lab* lab) {
  has_vanished_ = true;
  for (u32 c = 1; c < kClasses; ++c) {
    if (lab->hot[c].get() != no_span()) recount_local(lab->hot[c].get());
  }
}

// --- Section 4. ---

// Equations 1 and 2 without u, which get_span adds. relaxed: a figure, and the order of its changes does not matter.
void FrontEnd::count_allocated(const Span* span) { fragmentation_.fetch_sub(span->bytes.get(), relaxed); }

// Equation 4, and 3 together with to_pool: the last free of a span gives f + size - u. Equation 3 as printed, f - u,
// would leave f too low by the size of a block for each life of a span: when all blocks but one are free, f holds
// u - size of the span.
void FrontEnd::count_freed(const Span* span) {
  fragmentation_.fetch_add(span->bytes.get(), relaxed);  // relaxed: as above
}

}  // namespace coffer::scalloc
