// SPDX-License-Identifier: MIT
// Figures of one size class and of one heap.
#include "coffer/coffer.h"

#include <errno.h>
#include <string.h>

#include "api/shim.hpp"
#include "observe/statistics.hpp"

namespace coffer::api {

namespace {

// A program built for a later version knows more fields than there are here: those read 0.
template <class Struct>
int give(const Struct& from, Struct* to, size_t size) {
  memset(static_cast<void*>(to), 0, size);
  memcpy(static_cast<void*>(to), &from, size < sizeof from ? size : sizeof from);
  return 0;
}

}  // namespace

extern "C" {

COFFER_VISIBLE int coffer_class_stats(unsigned index, struct coffer_class_stats* stats, size_t size) noexcept {
  if (stats == nullptr || size == 0) return EINVAL;
  Statistics now;
  Allocator::statistics(now);
  if (index >= now.classes) return ENOENT;
  const ClassStatistics& entry = now.by_class[index];
  struct coffer_class_stats all = {};
  all.block_bytes = entry.block_bytes;
  all.spans = entry.spans;
  all.held = entry.held;
  all.live = entry.live;
  all.bound = entry.bound;
  return give(all, stats, size);
}

COFFER_VISIBLE int coffer_heap_stats(unsigned index, struct coffer_heap_stats* stats, size_t size) noexcept {
  if (stats == nullptr || size == 0) return EINVAL;
  HeapStatistics now;
  if (!Allocator::heap_statistics(index, now)) return ENOENT;
  struct coffer_heap_stats all = {};
  all.attached = now.attached;
  all.held = now.held;
  all.slack = now.slack;
  all.mailed = now.mailed;
  return give(all, stats, size);
}

}  // extern "C"

}  // namespace coffer::api
