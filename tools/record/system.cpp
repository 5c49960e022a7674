// SPDX-License-Identifier: MIT
// What the allocator's library takes from the system and gives back. These names stand in front of everyone's calls;
// only those that come from the allocator's own code are recorded.
#include <errno.h>
#include <link.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "record/recorder.hpp"

#define RECORD_EXPORT extern "C" __attribute__((visibility("default")))

namespace coffer::record {

namespace {

uintptr_t g_low = 0, g_high = 0;  // the allocator's library

int find_range(dl_phdr_info* info, std::size_t, void* address) {
  uintptr_t low = UINTPTR_MAX, high = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    const uintptr_t start = info->dlpi_addr + part.p_vaddr;
    if (start < low) low = start;
    if (start + part.p_memsz > high) high = start + part.p_memsz;
  }
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  if (wanted < low || wanted >= high) return 0;
  g_low = low;
  g_high = high;
  return 1;
}

bool is_allocator(const void* caller) { return reinterpret_cast<uintptr_t>(caller) - g_low < g_high - g_low; }

void note(Op op, u8 how, const void* address, std::size_t bytes) {
  // Coffer's reclaimer is a bare thread of the kernel whose thread-local variables nobody has set, ours neither; and it
  // has no stack to spare. What it gives back is not recorded.
  if (t_thread == nullptr) return;
  const int saved = errno;
  trace::Record record;
  record.op = op;
  record.detail = how;
  record.a = bytes;
  record.b = reinterpret_cast<u64>(address);
  record.time = stamp_after();
  record_event(record);
  errno = saved;
}
void take(trace::Take how, const void* address, std::size_t bytes) {
  note(Op::take, static_cast<u8>(how), address, bytes);
}
void give(trace::Give how, const void* address, std::size_t bytes) {
  note(Op::give, static_cast<u8>(how), address, bytes);
}

}  // namespace

void bind_system(const void* allocator) { dl_iterate_phdr(find_range, const_cast<void*>(allocator)); }

}  // namespace coffer::record

using namespace coffer::record;
using coffer::trace::Give;
using coffer::trace::Take;

RECORD_EXPORT void* mmap(void* address, std::size_t length, int protection, int flags, int descriptor, off_t offset) {
  void* const result =
      reinterpret_cast<void*>(syscall(SYS_mmap, address, length, protection, flags, descriptor, offset));
  if (is_allocator(__builtin_return_address(0)) && result != MAP_FAILED && protection != PROT_NONE) {
    take(Take::mmap, result, length);
  }
  return result;
}
RECORD_EXPORT void* mmap64(void*, std::size_t, int, int, int, off_t) __attribute__((alias("mmap")));

RECORD_EXPORT int munmap(void* address, std::size_t length) {
  if (is_allocator(__builtin_return_address(0))) give(Give::munmap, address, length);
  return static_cast<int>(syscall(SYS_munmap, address, length));
}

RECORD_EXPORT int mprotect(void* address, std::size_t length, int protection) {
  const bool is_ours = is_allocator(__builtin_return_address(0));
  if (is_ours && protection == PROT_NONE) give(Give::mprotect, address, length);
  const int result = static_cast<int>(syscall(SYS_mprotect, address, length, protection));
  if (is_ours && result == 0 && (protection & PROT_WRITE) != 0) take(Take::mprotect, address, length);
  return result;
}

RECORD_EXPORT int madvise(void* address, std::size_t length, int advice) {
  constexpr int kDontNeedLocked = 24;
  if (is_allocator(__builtin_return_address(0)) &&
      (advice == MADV_DONTNEED || advice == MADV_FREE || advice == kDontNeedLocked || advice == MADV_REMOVE)) {
    give(Give::madvise, address, length);
  }
  return static_cast<int>(syscall(SYS_madvise, address, length, advice));
}

RECORD_EXPORT void* mremap(void* old_address, std::size_t old_length, std::size_t length, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  void* const to = va_arg(arguments, void*);
  va_end(arguments);
  void* const result = reinterpret_cast<void*>(syscall(SYS_mremap, old_address, old_length, length, flags, to));
  if (is_allocator(__builtin_return_address(0)) && result != MAP_FAILED) {
    give(Give::mremap, old_address, old_length);
    take(Take::mremap, result, length);
  }
  return result;
}

RECORD_EXPORT void* sbrk(intptr_t increment) {
  void* const result = g_next.sbrk(increment);
  if (is_allocator(__builtin_return_address(0)) && result != reinterpret_cast<void*>(-1)) {
    if (increment > 0) take(Take::brk, result, static_cast<std::size_t>(increment));
    if (increment < 0) give(Give::brk, static_cast<char*>(result) + increment, static_cast<std::size_t>(-increment));
  }
  return result;
}
