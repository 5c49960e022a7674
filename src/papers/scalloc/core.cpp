// SPDX-License-Identifier: MIT
#include "papers/scalloc/core.hpp"

#include "base/bits.hpp"
#include "os/os.hpp"

namespace coffer::scalloc {

namespace {

// A LAB that several threads share, locked while this object lives. The paper's CLABs share the local lists of their
// spans and name no guard; one lock a LAB is the simplest.
class HeldLab {
 public:
  explicit HeldLab(Lab* lab) : lab_(lab->shared.get() != 0 ? lab : nullptr) {
    if (lab_ != nullptr) lab_->lock.lock();
  }
  ~HeldLab() {
    if (lab_ != nullptr) lab_->lock.unlock();
  }
  HeldLab(const HeldLab&) = delete;
  HeldLab& operator=(const HeldLab&) = delete;

 private:
  Lab* lab_;
};

// Blocks start this far into a virtual span plus a multiple of their size: where the size is a multiple of an alignment
// up to it, so is the address.
constexpr usize kNaturalAlignment = kHeaderBytes;

constexpr bool is_natural(usize alignment) { return alignment <= kNaturalAlignment; }

// Bytes to ask for, so that an aligned part of `size` bytes lies in the block; 0: too many.
usize aligned_request(usize size, usize alignment) {
  usize wanted = 0;
  if (is_natural(alignment)) return round_up(size != 0 ? size : 1, alignment);
  return checked_add(size, alignment - kStep, &wanted) ? wanted : 0;
}

}  // namespace

bool Core::start(const Parameters& parameters) {
  parameters_ = parameters;
  // A start that failed may have its arena already.
  if (arena_.bytes() == 0 && !arena_.start(parameters)) return false;
  pool_.start(&arena_, parameters);
  front_end_.start(&pool_, parameters);
  return registry_.start(&front_end_, parameters, os::processors());
}

void* Core::allocate(Lab* lab, usize size) {
  HeldLab held(lab);
  void* block = front_end_.allocate(lab, class_of(size));
  if (parameters_.account && block != nullptr) {
    front_end_.count_allocated(span_around(reinterpret_cast<uptr>(block)));
  }
  return block;
}

bool Core::fits_aligned(usize size, usize alignment) {
  return size <= kLargestBlock && alignment <= kLargestBlock && aligned_request(size, alignment) <= kLargestBlock;
}

void* Core::allocate_aligned(Lab* lab, usize size, usize alignment) {
  void* block = allocate(lab, aligned_request(size, alignment));
  if (block == nullptr) return nullptr;
  const uptr start = reinterpret_cast<uptr>(block);
  const uptr aligned = round_up(start, alignment);
  // Whoever frees a block of this span has to look for its start from now on. relaxed: he has the address from here,
  // and so all that was written before.
  if (aligned != start) span_around(start)->interior.store(1, relaxed);
  return reinterpret_cast<void*>(aligned);
}

void Core::deallocate(Lab* lab, void* address) {
  const uptr inside = reinterpret_cast<uptr>(address);
  Span* span = span_around(inside);
  // relaxed: see allocate_aligned.
  Block* block = span->interior.load(relaxed) != 0 ? span->block_around(inside) : static_cast<Block*>(address);
  front_end_.deallocate(lab, span, block);
}

usize Core::usable_size(void* address) const {
  const uptr inside = reinterpret_cast<uptr>(address);
  const Span* span = span_around(inside);
  return reinterpret_cast<uptr>(span->block_around(inside)) + span->bytes.get() - inside;
}

void Core::fork_prepare() {
  pool_.lock_for_fork();
  registry_.fork_prepare();
  arena_.fork_lock().lock_for_fork();
}

void Core::fork_parent() {
  arena_.fork_lock().unlock_after_fork();
  registry_.fork_parent();
  pool_.unlock_after_fork();
}

void Core::fork_child(Lab* own) {
  arena_.fork_lock().unlock_after_fork();
  registry_.fork_child(own);
  pool_.unlock_after_fork();
}

}  // namespace coffer::scalloc
