// SPDX-License-Identifier: MIT
#include "papers/cif/heap.hpp"

#include "os/os.hpp"
#include "papers/common/gauge.hpp"

namespace coffer::cif {

namespace {

class Guard {
 public:
  explicit Guard(Heap& heap) : heap_(heap) { heap_.lock.lock(); }
  ~Guard() { heap_.lock.unlock(); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  Heap& heap_;
};

// A number in which every bit depends on every bit of x (a bijection; the constants are those of splitmix64).
constexpr u64 mix(u64 x) {
  x = (x ^ (x >> 30)) * 0xbf58'476d'1ce4'e5b9;
  x = (x ^ (x >> 27)) * 0x94d0'49bb'1331'11eb;
  return x ^ (x >> 31);
}

}  // namespace

// --- heaps and processors. ---

bool Heaps::start(const Settings& settings, u32 heaps, u64 seed) {
  settings_ = settings;
  pieces_.set_size(settings.superblock);
  seed_colours(seed);
  record_bytes_ = round_up(sizeof(Heap) + settings.class_count * sizeof(ClassHeap), os::page_size());
  // A start that failed may have its records already, and fewer than were wished.
  if (records_ == nullptr && !reserve_records(heaps != 0 && heaps < kMostHeaps ? heaps : kMostHeaps)) return false;
  return commit_record(0);
}

// Records of heaps that nobody needs are address space and nothing else; where that is short, fewer must do.
bool Heaps::reserve_records(u32 heaps) {
  for (; records_ == nullptr; heaps /= 2) {
    if (heaps == 0) return false;
    records_ = static_cast<char*>(os::reserve((heaps + 1) * record_bytes_, os::page_size()));
    most_heaps_ = heaps;
  }
  os::advise_huge_pages(records_, (most_heaps_ + 1) * record_bytes_, os::HugePages::forbid);
  return true;
}

bool Heaps::commit_record(u32 number) {
  if (!os::commit(&heap(number), record_bytes_)) return false;
  papers::totals().metadata.add(record_bytes_);
  return true;
}

// The paper's "processor-private heap". The thread may be moved to another processor right after it asked; then two
// meet at one lock, which is all that happens.
Heap* Heaps::own_heap() {
  const u32 processor = os::current_processor() % kProcessors;
  Heap* own = by_processor_[processor].load(acquire);  // acquire: pairs with the release in make_heap
  return COFFER_LIKELY(own != nullptr) ? own : make_heap(processor);
}

// Heaps are numbered as processors first ask, so that a process that may run on some processors only has no heap for
// the others, and no two of its own share one.
Heap* Heaps::make_heap(u32 processor) {
  LockGuard guard(growth_);
  // relaxed, all here: written under this lock only.
  if (Heap* own = by_processor_[processor].load(relaxed)) return own;
  const u32 count = made_.load(relaxed);
  Heap* own = nullptr;
  if (count < most_heaps_ && commit_record(count + 1)) {
    own = &heap(count + 1);
    made_.store(count + 1, release);  // release: pairs with the acquire in made
  } else if (count == most_heaps_) {
    own = &heap(1 + processor % count);
  } else {
    return count != 0 ? &heap(1 + processor % count) : nullptr;  // no memory: to be tried again
  }
  by_processor_[processor].store(own, release);  // release: pairs with the acquire in own_heap
  return own;
}

// --- allocate. ---

// Empty superblocks of other heaps and classes may do, before the caller is told that there is no memory.
void* Heaps::allocate(u32 size_class) {
  return reclaim_.allocate([&] { return try_allocate(size_class); }, [this] { gather_empty(); });
}

void* Heaps::try_allocate(u32 size_class) {
  Heap* own = own_heap();
  if (COFFER_UNLIKELY(own == nullptr)) return nullptr;
  Guard guard(*own);
  ClassHeap& mine = own->of(size_class);
  Superblock* superblock = mine.fullest();
  if (COFFER_UNLIKELY(superblock == nullptr)) {
    superblock = refill(*own, size_class);
    if (superblock == nullptr) return nullptr;
  }
  void* block = take_block(superblock);
  mine.groups.took(superblock, settings_.empty_log2);
  ++mine.used;
  COFFER_DEBUG_ASSERT(mine.used <= mine.held && superblock->used <= superblock->capacity);
  return block;
}

// A superblock with room for the heap, which has none. Under the heap's lock.
COFFER_NOINLINE Superblock* Heaps::refill(Heap& own, u32 size_class) {
  {
    Guard guard(global());
    if (Superblock* superblock = take_from_global(size_class)) {
      put(own, superblock);  // still under the global heap's lock, which its owner was
      ++own.arrivals;
      return superblock;
    }
  }
  void* memory = pieces_.take();
  if (memory == nullptr) return nullptr;
  Superblock* superblock = format(settings_, memory, size_class, next_colour());
  put(own, superblock);
  return superblock;
}

Superblock* Heaps::take_from_global(u32 size_class) {
  Heap& from = global();
  if (Superblock* superblock = from.of(size_class).fullest()) {
    take_out(from, superblock);
    return superblock;
  }
  Superblock* superblock = from.empty;
  if (superblock == nullptr) return nullptr;
  from.empty = static_cast<Superblock*>(superblock->next);
  --from.empty_count;
  // It serves any class (paper 1, section 3: empty superblocks are recycled), in the colour that it has.
  return format(settings_, memory_of(settings_, superblock), size_class, superblock->colour);
}

// --- superblocks of heaps. Under the heap's lock. ---

void Heaps::put(Heap& to, Superblock* superblock) {
  ClassHeap& its = to.of(superblock->size_class);
  its.held += superblock->capacity;
  its.used += superblock->used;
  // Colours make a difference of a block.
  const usize k_blocks = usize{settings_.k} * superblock->capacity;
  if (k_blocks > its.k_blocks) its.k_blocks = k_blocks;
  its.groups.insert(superblock, settings_.empty_log2);
  // relaxed: see deallocate.
  superblock->owner.store(&to, relaxed);
}

void Heaps::take_out(Heap& from, Superblock* superblock) {
  ClassHeap& its = from.of(superblock->size_class);
  its.held -= superblock->capacity;
  its.used -= superblock->used;
  its.groups.remove(superblock);
}

// Both heaps locked. What is to be given back to the system, a list of one, or nullptr.
Superblock* Heaps::settle_in_global(Superblock* superblock) {
  Heap& to = global();
  if (superblock->used != 0) {
    put(to, superblock);
    return nullptr;
  }
  if (settings_.release) {
    superblock->next = nullptr;  // it was another's in the group that it left
    return superblock;
  }
  superblock->next = to.empty;
  to.empty = superblock;
  ++to.empty_count;
  return nullptr;
}

// From a processor's heap, out of which it was taken.
Superblock* Heaps::pass_on(Superblock* superblock) {
  Guard guard(global());
  ++global().arrivals;
  return settle_in_global(superblock);
}

// --- deallocate. ---

void Heaps::deallocate(void* data) {
  auto* superblock = papers::superblock_of<Superblock>(papers::word_before(data));
  // relaxed, both: whoever wrote what is read here held the lock of the heap that it names, and that lock is taken
  // before anything else of the heap is looked at. So even a heap that is new to this thread is whole; and under the
  // right lock the second load is the latest, for the owner changes under that lock only.
  Heap* owner = superblock->owner.load(relaxed);
  for (;;) {
    owner->lock.lock();
    Heap* now = superblock->owner.load(relaxed);
    if (COFFER_LIKELY(now == owner)) break;
    owner->lock.unlock();
    owner = now;
  }
  ClassHeap& its = owner->of(superblock->size_class);
  give_block(superblock, data);
  --its.used;
  Superblock* unneeded = nullptr;
  if (COFFER_UNLIKELY(owner == &global() && superblock->used == 0)) {
    take_out(*owner, superblock);
    unneeded = settle_in_global(superblock);
  } else {
    its.groups.gave(superblock, settings_.empty_log2);
    // One superblock is enough to restore the invariant but for rounding: what leaves may be f empty and no more, and
    // then a block can be missing. While u < (1 - f) * a one of them is f empty.
    while (COFFER_UNLIKELY(is_too_empty(its, settings_.empty_log2) && owner != &global())) {
      Superblock* emptiest = its.emptiest();
      take_out(*owner, emptiest);
      if (Superblock* one = pass_on(emptiest)) {
        one->next = unneeded;
        unneeded = one;
      }
    }
  }
  COFFER_DEBUG_ASSERT(owner == &global() || !is_too_empty(its, settings_.empty_log2));
  owner->lock.unlock();
  if (COFFER_UNLIKELY(unneeded != nullptr)) give_back(unneeded);
}

// --- memory. ---

// To the system, without a lock.
void Heaps::give_back(Superblock* list) {
  while (list != nullptr) {
    auto* next = static_cast<Superblock*>(list->next);
    pieces_.give_back(memory_of(settings_, list));
    list = next;
  }
}

// Moves the empty superblocks of all heaps into the global heap. Under reclaim's lock, as the next.
void Heaps::gather_empty() {
  for (u32 i = 1, count = made(); i <= count; ++i) {
    Superblock* unneeded = nullptr;
    {
      Guard guard(heap(i));
      for (u32 c = 0; c < settings_.class_count; ++c) {
        ClassHeap& its = heap(i).of(c);
        while (auto* empty = static_cast<Superblock*>(its.groups.first(FullnessGroups::kEmpty))) {
          take_out(heap(i), empty);
          if (pass_on(empty) == nullptr) continue;
          empty->next = unneeded;
          unneeded = empty;
        }
      }
    }
    give_back(unneeded);
  }
}

bool Heaps::give_back_empty() {
  gather_empty();
  Superblock* all = nullptr;
  {
    Guard guard(global());
    all = global().empty;
    global().empty = nullptr;
    global().empty_count = 0;
  }
  give_back(all);
  return all != nullptr;
}

// --- colours. ---

void Heaps::seed_colours(u64 seed) {
  // relaxed, here and below: each value is a random number, whichever is seen.
  colour_seed_.store(seed, relaxed);
  colours_given_.store(0, relaxed);
}

u32 Heaps::next_colour() {
  // relaxed, both: see seed_colours.
  const u64 number = colours_given_.fetch_add(1, relaxed);
  return static_cast<u32>(mix(colour_seed_.load(relaxed) + (number + 1) * 0x9e37'79b9'7f4a'7c15) % settings_.colours);
}

// --- fork and check. ---

void Heaps::lock_for_fork() {
  reclaim_.lock_for_fork();
  growth_.lock_for_fork();
  for (u32 i = 1; i <= made(); ++i) heap(i).lock.lock_for_fork();
  global().lock.lock_for_fork();
  pieces_.lock_for_fork();
}

void Heaps::unlock_after_fork() {
  pieces_.unlock_after_fork();
  global().lock.unlock_after_fork();
  for (u32 i = made(); i >= 1; --i) heap(i).lock.unlock_after_fork();
  growth_.unlock_after_fork();
  reclaim_.unlock_after_fork();
}

usize Heaps::check() {
  usize violations = 0;
  const auto expect = [&](bool holds) { violations += holds ? 0 : 1; };
  visit_heaps([&](Heap& one, u32 number) {
    for (u32 c = 0; c < settings_.class_count; ++c) {
      ClassHeap& its = one.of(c);
      usize held = 0, used = 0;
      for (u32 g = 0; g < FullnessGroups::kGroups; ++g) {
        for (Filling* filling = its.groups.first(g); filling != nullptr; filling = filling->next) {
          auto* superblock = static_cast<Superblock*>(filling);
          violations += cif::check(settings_, superblock);
          expect(superblock->size_class == c && superblock->group == g);
          expect(group_of(superblock->used, superblock->capacity, settings_.empty_log2).group == g);
          expect(superblock->owner.load(relaxed) == &one);  // relaxed: other threads are outside
          held += superblock->capacity;
          used += superblock->used;
        }
      }
      expect(held == its.held && used == its.used);
      // Paper 1, section 3.1. (Without slack a heap's only superblock may have one block in use.)
      if (number != 0 && settings_.k != 0) expect(!is_too_empty(its, settings_.empty_log2));
    }
    usize empty = 0;
    for (Filling* filling = one.empty; filling != nullptr; filling = filling->next) {
      expect(filling->used == 0);
      ++empty;
    }
    expect(empty == one.empty_count && (number == 0 || empty == 0));
  });
  return violations;
}

}  // namespace coffer::cif
