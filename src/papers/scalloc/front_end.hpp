// SPDX-License-Identifier: MIT
// The front end (sections 3.4 and 5, listing 3).
//
// Every function here may be called by any thread; `lab` is the caller's, and its lock is held if several threads share
// it. `lab` may be nullptr where it says so: a thread that has none frees as everybody's stranger and adopts nothing.
#pragma once

#include "papers/scalloc/lab.hpp"
#include "papers/scalloc/span_pool.hpp"

namespace coffer::scalloc {

class FrontEnd {
 public:
  void start(SpanPool* pool, const Parameters& parameters);

  // A block of the class, or nullptr: no memory.
  void* allocate(Lab* lab, u32 size_class);

  // The free of a block whose span is not the caller's own and hot. `lab` may be nullptr. `lab`'s lock, if it is
  // shared, is taken inside.
  void deallocate(Lab* lab, Span* span, Block* block);

  // init and terminate of listing 3. A new identity at each reuse: the registry gives it.
  void init(Lab* lab, Owner owner);
  void terminate(Lab* lab);
  // In the child of a fork, before terminate, for a LAB whose thread it does not have.
  void recount_vanished(Lab* lab);

  // True if all threads of the span's owning LAB have ended.
  static bool is_orphan(Owner owner);

  // f of section 4, by equations 1 to 4; for those who set `account`.
  usize fragmentation() const { return fragmentation_.load(relaxed); }  // relaxed: a figure
  void count_allocated(const Span* span);
  void count_freed(const Span* span);

 private:
  Span* get_span(Lab* lab, u32 size_class);
  void retire_hot(Lab* lab, u32 size_class);
  void settle(Lab* lab, Span* span);
  void try_adopt(Lab* lab, Span* span, Owner owner);
  bool try_free(Lab* lab, Span* span, Epoch epoch, Owner owner);
  void to_pool(Lab* lab, Span* span);
  u32 reuse_above(u32 size_class) const;

  SpanPool* pool_ = nullptr;
  Parameters parameters_;
  bool has_vanished_ = false;  // this is a fork child of a process with other threads
  Atomic<usize> fragmentation_;
};

}  // namespace coffer::scalloc
