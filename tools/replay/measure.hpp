// SPDX-License-Identifier: MIT
// What a replay measures of its process, and the memory that it needs for itself: from mmap, all of it present before
// the first operation, so that whatever comes later is the allocator's.
#pragma once

#include <errno.h>
#include <stdarg.h>

#include <atomic>

#include "../../bench/suite/latency.hpp"

namespace coffer::replay {

using suite::Histogram;
using suite::Ticks;

enum ExitStatus { kFailed = 1, kUsage = 2, kAllocatorFailed = 3 };

[[noreturn, gnu::format(printf, 2, 3)]] inline void stop(int status, const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(text, sizeof text - 1, format, arguments);
  va_end(arguments);
  size_t end = length < 0 ? 0 : static_cast<size_t>(length);
  if (end > sizeof text - 2) end = sizeof text - 2;
  text[end] = '\n';
  if (write(STDERR_FILENO, text, end + 1) < 0) _exit(status);
  _exit(status);
}

inline size_t own_bytes = 0;

// Zeroed memory of the replay's own.
template <class T>
T* own(size_t count) {
  const size_t bytes = (count * sizeof(T) + 4095) / 4096 * 4096;
  if (bytes == 0) return nullptr;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) stop(kFailed, "no memory for the replay's own tables (%zu KiB)", bytes / 1024);
  own_bytes += bytes;
  return static_cast<T*>(memory);
}

// Memory of the process in KiB, resident and page tables. Exact, which takes as long as there are pages; where that is
// more than two milliseconds, the kernel's counters will do, which are some hundred KiB off at most.
class MemoryGauge {
 public:
  size_t now() {
    if (!is_exact()) return counted();
    const uint64_t start = bench::clock_ns(CLOCK_THREAD_CPUTIME_ID);
    const size_t kib = bench::memory_kib();
    if (bench::clock_ns(CLOCK_THREAD_CPUTIME_ID) - start > 2'000'000) {
      is_exact_.store(false, std::memory_order_relaxed);  // nothing else is said by it
    }
    return kib;
  }
  bool is_exact() const { return is_exact_.load(std::memory_order_relaxed); }

 private:
  static size_t counted() {
    const bench::Memory memory = bench::Memory::now();
    return memory.resident + memory.page_tables;
  }

  std::atomic<bool> is_exact_{true};
};

// Brings in what is mapped of files, code above all: it is no memory of the allocator's, and comes and goes as it
// likes.
inline void populate_files() {
  constexpr size_t kBytes = 1 << 20;
  constexpr int kPopulateRead = 22;  // MADV_POPULATE_READ of Linux 5.14; older ones say EINVAL, and figures are coarser
  char* text = own<char>(kBytes);
  bench::read_text("/proc/self/maps", text, kBytes);
  for (char* line = text; line != nullptr && *line != 0;) {
    char* const next = strchr(line, '\n');
    if (next != nullptr) *next = 0;
    char* end = nullptr;
    const uintptr_t from = strtoull(line, &end, 16);
    const uintptr_t to = strtoull(end + 1, &end, 16);
    const bool is_written = end[2] == 'w';
    if (!is_written && end[1] == 'r' && strchr(line, '/') != nullptr) {
      madvise(reinterpret_cast<void*>(from), to - from, kPopulateRead);
    }
    line = next == nullptr ? nullptr : next + 1;
  }
}

// The kernel forgets the highest resident memory so far.
inline void reset_peak() {
  const int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  [[maybe_unused]] const ssize_t wrote = write(file, "5", 1);
  close(file);
}

}  // namespace coffer::replay
