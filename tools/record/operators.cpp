// SPDX-License-Identifier: MIT
// operator new and delete, for allocators that bring their own. The library without this file is for those that do not:
// these names would stand before the C++ runtime's, which may be loaded later, where nothing can find it.
//
// Deletes end in the allocator's free, not in its operator delete: that may come to free by its exported name, and a
// free must be recorded before it is done, so nothing could tell then that it was recorded already. An allocation that
// comes here twice is seen afterwards. An exception passes through; nothing is recorded then.
#include <dlfcn.h>

#include "record/operators.hpp"

namespace coffer::record {

namespace {

using std::align_val_t;
using std::nothrow_t;
using std::size_t;

struct Operators {
  void* (*plain)(size_t);
  void* (*aligned)(size_t, align_val_t);
  void* (*nothrow)(size_t, const nothrow_t&);
  void* (*aligned_nothrow)(size_t, align_val_t, const nothrow_t&);
};
constinit Operators g_operators{};
const nothrow_t g_nothrow{};  // std::nothrow is in the C++ runtime

template <class F>
void find(F& function, const char* name) {
  function = reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

// The operators are called before malloc in some programs.
[[gnu::always_inline]] inline void need() {
  if (RECORD_UNLIKELY(g_operators.plain == nullptr)) resolve();
}

}  // namespace

void find_operators() {
  Operators found{};
  find(found.aligned, "_ZnwmSt11align_val_t");
  find(found.nothrow, "_ZnwmRKSt9nothrow_t");
  find(found.aligned_nothrow, "_ZnwmSt11align_val_tRKSt9nothrow_t");
  find(found.plain, "_Znwm");
  g_operators = found;
}

void delete_sized(void* block, size_t stated) {
  const Counted counted;
  if (block == nullptr || is_early(block)) return;
  note_free(block, stated);
  g_next.free_sized(block, stated);
}

void delete_aligned_sized(void* block, size_t stated, align_val_t alignment) {
  const Counted counted;
  if (block == nullptr || is_early(block)) return;
  note_free(block, stated);
  g_next.free_aligned_sized(block, static_cast<size_t>(alignment), stated);
}

void* new_nothrow(size_t size, bool is_ours) {
  const Counted counted;
  need();
  const Place seen = place();
  void* const block = g_operators.nothrow(size, g_nothrow);
  if (is_ours) note_allocation<Op::malloc>(seen, size, block);
  return block;
}

void* new_aligned_nothrow(size_t size, align_val_t alignment, bool is_ours) {
  const Counted counted;
  need();
  const Place seen = place();
  void* const block = g_operators.aligned_nothrow(size, alignment, g_nothrow);
  if (is_ours) note_allocation<Op::aligned>(seen, size, block, log2_of(static_cast<size_t>(alignment)));
  return block;
}

}  // namespace coffer::record

using namespace coffer::record;

RECORD_OPERATOR void* operator new(std::size_t size) {
  const Counted counted;
  need();
  const Place seen = place();
  void* const block = g_operators.plain(size);
  note_allocation<Op::malloc>(seen, size, block);
  return block;
}

RECORD_OPERATOR void* operator new(std::size_t size, std::align_val_t alignment) {
  const Counted counted;
  need();
  const Place seen = place();
  void* const block = g_operators.aligned(size, alignment);
  note_allocation<Op::aligned>(seen, size, block, log2_of(static_cast<std::size_t>(alignment)));
  return block;
}

RECORD_OPERATOR void operator delete(void* block) noexcept {
  const Counted counted;
  if (block == nullptr || is_early(block)) return;
  note_free(block);
  g_next.free(block);
}

RECORD_OPERATOR void operator delete(void* block, std::align_val_t) noexcept {
  const Counted counted;
  if (block == nullptr || is_early(block)) return;
  note_free(block);
  g_next.free(block);
}

// Names of these very functions, whatever the program puts in their place. In assembly, so that the compiler does not
// know them for the same.
__asm__(
    ".globl coffer_record_new, coffer_record_delete, coffer_record_aligned_new, coffer_record_aligned_delete\n"
    ".hidden coffer_record_new, coffer_record_delete, coffer_record_aligned_new, coffer_record_aligned_delete\n"
    ".set coffer_record_new, _Znwm\n"
    ".set coffer_record_delete, _ZdlPv\n"
    ".set coffer_record_aligned_new, _ZnwmSt11align_val_t\n"
    ".set coffer_record_aligned_delete, _ZdlPvSt11align_val_t\n");
