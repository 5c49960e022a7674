// SPDX-License-Identifier: MIT
// What every crime shares: the cell's size, neighbours and threads, the stages that the runner reads, the traffic
// afterwards. A crime is a CASE of the harness: attack CRIME SIZE NEIGHBOURS THREADS.
#pragma once

#include <pthread.h>

#include <cstddef>

#include "harness.hpp"
#include "ledger.hpp"

namespace attack {

using conformance::hide;

// A thread that does what it is told, and waits in between, so that its heap and all that this heap holds back live on.
class Helper {
 public:
  void run(void (*function)(void*), void* argument);

 private:
  void start();
  void serve();

  pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t changed_ = PTHREAD_COND_INITIALIZER;
  void (*function_)(void*) = nullptr;
  void* argument_ = nullptr;
  bool started_ = false;
};

class Scene {
 public:
  // Makes half of the neighbours, then `own` blocks of the crime's own, then the other half.
  explicit Scene(std::size_t own = 1);

  std::size_t size() const { return size_; }
  bool two_threads() const { return two_; }
  void needs_two_threads() const;
  // Crimes that are the same for every size are one cell a row.
  void needs_first_size() const;
  void* own(std::size_t index) const { return own_[index]; }

  // Live blocks, which the ledger watches.
  void* take(std::size_t size);
  void give(void* block);
  // No longer watched; the crime goes on with it.
  void forget(void* block) { ledger().remove(block); }

  // Frees without asking anybody: by the second thread in cells of two, by this one in others.
  void free(void* block);
  void free_here(void* block);
  void free_by_second(void* block);
  void free_by_third(void* block);

  // Two live blocks, of which the second begins closest behind the first one's end.
  struct Pair {
    const Block *lower, *upper;
  };
  Pair closest();

  // From here to `done` a report is a report of the crime itself. `address`: what it has to name.
  void crime(const void* address);
  void done();
  // Much is allocated and freed, by both threads; then the verdict.
  [[noreturn]] void aftermath();
  [[noreturn]] void finish() {
    done();
    aftermath();
  }

  // How many blocks of the size traffic takes: as many as are cheap.
  std::size_t many(std::size_t size) const;
  void take_many(std::size_t count, std::size_t size);
  // Of all live blocks, one in so many.
  void give_one_in(std::size_t step);
  // Half of all live blocks go, and more of the size come.
  void traffic();
  // Takes blocks of another size.
  void busy_second();
  // So much that the second thread passes on what it holds back of others' blocks.
  void traffic_of_second();

  static Ledger& ledger();

 private:
  static constexpr std::size_t kOwn = 20'000;

  std::size_t size_;
  std::size_t neighbours_;
  bool two_;
  void** own_ = nullptr;
};

// What aligned_alloc takes everywhere.
inline std::size_t multiple_of(std::size_t alignment, std::size_t size) {
  return (size + alignment - 1) / alignment * alignment;
}

// An address beside or within a block, without a word of the compiler's.
inline char* at(void* block, std::ptrdiff_t offset) {
  return reinterpret_cast<char*>(reinterpret_cast<std::uintptr_t>(block) + static_cast<std::uintptr_t>(offset));
}

}  // namespace attack
