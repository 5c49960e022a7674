// SPDX-License-Identifier: MIT
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

void* Pieces::cut() {
  LockGuard guard(lock_);
  if (rest_ == end_) return nullptr;
  void* piece = reinterpret_cast<void*>(rest_);
  rest_ += bytes_;
  return piece;
}

void* Pieces::take() {
  void* piece = cut();
  if (piece == nullptr) {
    // One at a time: of two batches mapped at once nobody wants the second, and until it is unmapped a third thread may
    // be refused what nobody has.
    LockGuard guard(growth_);
    // Others may take every piece of a batch before this thread has one.
    do piece = cut();
    while (piece == nullptr && grow());
  }
  if (piece != nullptr) totals().held.add(bytes_);
  return piece;
}

// Under `growth_`, and no piece is left: nobody else adds any.
bool Pieces::grow() {
  // A batch may be refused where one piece is not.
  usize length = kBatchBytes > bytes_ ? kBatchBytes : bytes_;
  void* batch = map(length, bytes_);
  if (batch == nullptr && length > bytes_) batch = map(length = bytes_, bytes_);
  if (batch == nullptr) return false;
  LockGuard guard(lock_);
  rest_ = reinterpret_cast<uptr>(batch);
  end_ = rest_ + length;
  return true;
}

void Pieces::give_back(void* piece) {
  totals().held.subtract(bytes_);
  os::release(piece, bytes_);
}

}  // namespace coffer::papers
