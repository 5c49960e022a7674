// SPDX-License-Identifier: MIT
// An allocator that must not scale: free lists by size behind one lock, in one piece of memory for all. It shows that
// the simulation can show something bad: every call waits for the lock, and neighbours on a line go to different
// threads.
#include "os/spin_lock.hpp"
#include "program.hpp"

namespace coffer {
__thread char t_lock_identity;
}  // namespace coffer

namespace simulation::subject {

namespace {

constexpr std::size_t kStep = 16, kLargest = 4096, kHeader = 16, kPiece = std::size_t{1} << 20;

struct Free {
  Free* next;
};
coffer::SpinLock g_lock;
Free* g_lists[kLargest / kStep + 1];
char* g_next;
char* g_end;

// Under the lock.
void* cut(std::size_t bytes) {
  if (static_cast<std::size_t>(g_end - g_next) < bytes) {
    g_next = static_cast<char*>(table_bytes(kPiece));
    g_end = g_next + kPiece;
  }
  char* const at = g_next;
  g_next += bytes;
  return at;
}

}  // namespace

const char* const name = "one-lock";

void* allocate(std::size_t size) {
  const std::size_t index = (size + kStep - 1) / kStep;
  if (index * kStep > kLargest) return nullptr;
  const coffer::LockGuard guard(g_lock);
  char* memory = reinterpret_cast<char*>(g_lists[index]);
  if (memory != nullptr) {
    g_lists[index] = g_lists[index]->next;
  } else {
    memory = static_cast<char*>(cut(index * kStep + kHeader));
  }
  *reinterpret_cast<std::size_t*>(memory) = index;
  return memory + kHeader;
}

void release(void* block) {
  char* const memory = static_cast<char*>(block) - kHeader;
  const coffer::LockGuard guard(g_lock);
  const std::size_t index = *reinterpret_cast<std::size_t*>(memory);
  Free* const free = reinterpret_cast<Free*>(memory);
  free->next = g_lists[index];
  g_lists[index] = free;
}

std::string name_of(uptr address) { return is_table(address) ? "blocks, the program's tables" : ""; }

}  // namespace simulation::subject
