// SPDX-License-Identifier: MIT
#include "papers/scalloc/registry.hpp"

#include "base/bits.hpp"
#include "os/os.hpp"
#include "papers/common/gauge.hpp"

namespace coffer::scalloc {

namespace {

constexpr usize kCommitStep = 64 * 1024;

Owner owner_word(const Lab* lab) { return u64{lab->identity.get()} << kIdentityShift | reinterpret_cast<uptr>(lab); }

}  // namespace

bool Registry::start(FrontEnd* front_end, const Parameters& parameters, u32 cores) {
  front_end_ = front_end;
  policy_ = parameters.lab;
  cores_ = cores;
  const u32 wanted = policy_ == LabPolicy::core && parameters.labs > cores ? cores : parameters.labs;
  u32 capacity = wanted;
  // Records that nobody needs are address space, of which limits may leave little.
  const usize limit = os::reservation_limit(usize{wanted} * sizeof(Lab));
  while (capacity > 1 && usize{capacity} * sizeof(Lab) > limit) capacity /= 2;
  void* memory = nullptr;
  usize bytes = 0;
  for (; capacity > 0; capacity /= 2) {
    bytes = round_up(usize{capacity} * sizeof(Lab), kCommitStep);
    memory = os::reserve(bytes, kCommitStep);
    if (memory != nullptr) break;
  }
  if (memory == nullptr && wanted != 0) return false;
  if (memory != nullptr) {
    os::advise_huge_pages(memory, bytes, os::HugePages::forbid);
    os::name_mapping(memory, bytes, "scalloc LABs");
  }
  labs_ = static_cast<Lab*>(memory);
  capacity_ = capacity;
  common_.shared.set(1);
  common_.threads.set(1);  // it never ends
  open(&common_);
  return true;
}

// The next life of a LAB. Under the lock.
void Registry::open(Lab* lab) {
  lab->identity.set(lab->identity.get() + 1);
  front_end_->init(lab, owner_word(lab));
}

// A record that never was used. Under the lock.
Lab* Registry::make() {
  const u32 index = made_.load(relaxed);  // relaxed, here and below: under the lock; walks may miss the newest
  if (index >= capacity_) return nullptr;
  const usize wanted = usize{index + 1} * sizeof(Lab);
  while (committed_ < wanted) {
    if (!os::commit(reinterpret_cast<char*>(labs_) + committed_, kCommitStep)) return nullptr;
    committed_ += kCommitStep;
    papers::totals().metadata.add(kCommitStep);
  }
  Lab* lab = &labs_[index];
  lab->thread.set(index);
  // relaxed: no span has its word yet.
  lab->owner.store(kTerminated, relaxed);
  made_.store(index + 1, relaxed);
  return lab;
}

Lab* Registry::attach(u32 thread) {
  LockGuard guard(lock_);
  Lab* lab = nullptr;
  if (policy_ == LabPolicy::core) {
    // Section 3.4: threads with equal identifiers modulo the cores.
    const u32 index = thread % (cores_ < capacity_ ? cores_ : capacity_ != 0 ? capacity_ : 1);
    while (made_.load(relaxed) <= index) {  // relaxed: as in make
      if (make() == nullptr) return nullptr;
    }
    lab = &labs_[index];
    lab->shared.set(1);
  } else if (unused_ != nullptr) {
    lab = unused_;
    unused_ = lab->next_unused.get();
  } else {
    lab = make();
  }
  if (lab == nullptr) return nullptr;
  lab->threads.set(lab->threads.get() + 1);
  // relaxed: written under the lock only.
  if (lab->owner.load(relaxed) == kTerminated) open(lab);
  attached_.fetch_add(1, relaxed);  // relaxed: a figure
  return lab;
}

// Under the lock. What a CLAB's last identity leaves behind stays its own: the LAB is not terminated then, and the next
// thread of the core goes on with it.
void Registry::leave(Lab* lab) {
  attached_.fetch_sub(1, relaxed);  // relaxed: a figure
  const u32 left = lab->threads.get() - 1;
  lab->threads.set(left);
  if (left != 0) return;
  const bool spent = lab->identity.get() >= kLastIdentity;
  if (policy_ == LabPolicy::core) {
    if (!spent) front_end_->terminate(lab);
    return;
  }
  front_end_->terminate(lab);
  if (spent) return;
  lab->next_unused.set(unused_);
  unused_ = lab;
}

void Registry::detach(Lab* lab) {
  LockGuard guard(lock_);
  leave(lab);
}

// --- fork. ---

template <class Fn>
void Registry::for_each_lock(Fn&& fn) {
  const auto locks_of = [&](Lab* lab) {
    fn(lab->lock);
    for (u32 c = 1; c < kClasses; ++c) fn(lab->reusable[c].lock());
  };
  locks_of(&common_);
  for (u32 i = 0; i < made_.load(relaxed); ++i) locks_of(&labs_[i]);  // relaxed: under the lock
}

void Registry::fork_prepare() {
  lock_.lock_for_fork();
  for_each_lock([](SpinLock& lock) { lock.lock_for_fork(); });
}

void Registry::fork_parent() {
  for_each_lock([](SpinLock& lock) { lock.unlock_after_fork(); });
  lock_.unlock_after_fork();
}

// The child has no other thread, and their LABs end. What such a thread had in its registers is lost to the child: a
// span between two owners, or one whose number of free blocks it was about to act upon, and blocks that were on no
// list. One more may have been with a thread without a LAB.
void Registry::fork_child(Lab* own) {
  // The locks are still held, and let this thread in again. Behind fork_parent this one could not be taken: a signal
  // handler may fork that interrupted attach, which has it then and goes on with it.
  for (u32 i = 0; i < made_.load(relaxed); ++i) {  // relaxed: the child has one thread
    Lab* lab = &labs_[i];
    const u32 threads = lab->threads.get();
    if (threads == 0) continue;
    const u32 vanished = lab == own ? threads - 1 : threads;
    lost_ += vanished;
    if (vanished == 0) continue;
    front_end_->recount_vanished(lab);
    attached_.fetch_sub(threads - 1, relaxed);  // relaxed: a figure
    lab->threads.set(1);
    if (lab != own) leave(lab);
  }
  lost_ += 1;
  front_end_->recount_vanished(&common_);
  fork_parent();
}

}  // namespace coffer::scalloc
