#include "papers/common/pieces.hpp"

#include "os/os.hpp"
#include "papers/common/gauge.hpp"

namespace coffer::papers {

namespace {

constexpr usize kBatchBytes = 512 * 1024;

// Memory of `length` bytes, aligned to a piece. nullptr: there is none.
void* map(usize length, usize alignment) {
  void* memory = os::map(length, alignment);
  // What was not handed out must stay untouched: a huge page would touch it.
  if (memory != nullptr) os::advise_huge_pages(memory, length, os::HugePages::forbid);
  return memory;
}

}  // namespace

// Under the lock.
void* Pieces::cut() {
  if (rest_ == end_) return nullptr;
  void* piece = reinterpret_cast<void*>(rest_);
  rest_ += bytes_;
  return piece;
}

void* Pieces::take() {
  for (;;) {
    {
      LockGuard guard(lock_);
      if (void* piece = cut()) {
        totals().held.add(bytes_);
        return piece;
      }
    }
    // A batch may be refused where one piece is not.
    usize length = kBatchBytes > bytes_ ? kBatchBytes : bytes_;
    void* batch = map(length, bytes_);
    if (batch == nullptr && length > bytes_) batch = map(length = bytes_, bytes_);
    if (batch == nullptr) return nullptr;
    lock_.lock();
    const bool wanted = rest_ == end_;  // nobody else was faster
    if (wanted) {
      rest_ = reinterpret_cast<uptr>(batch);
      end_ = rest_ + length;
    }
    lock_.unlock();
    if (!wanted) os::release(batch, length);
  }
}

void Pieces::give_back(void* piece) {
  totals().held.subtract(bytes_);
  os::release(piece, bytes_);
}

}  // namespace coffer::papers
