// SPDX-License-Identifier: MIT
// Coffer's own functions, those without a counterpart in libc.
#include "coffer/coffer.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "api/shim.hpp"
#include "config/config.hpp"
#include "observe/statistics.hpp"

namespace coffer::api {

namespace {

#define COFFER_TO_TEXT(x) #x
#define COFFER_VERSION_TEXT(major, minor, patch) \
  COFFER_TO_TEXT(major) "." COFFER_TO_TEXT(minor) "." COFFER_TO_TEXT(patch)

constexpr char kVersion[] = COFFER_VERSION_TEXT(COFFER_VERSION_MAJOR, COFFER_VERSION_MINOR, COFFER_VERSION_PATCH);

// Of an allocator that can be watched; of another, nothing.
template <class A>
struct Profile {
  static void start(usize) {}
  static void stop() {}
  static bool dump(const char*) { return false; }
};
template <WatchedAllocator A>
struct Profile<A> {
  static void start(usize mean) { A::profile_start(mean); }
  static void stop() { A::profile_stop(); }
  static bool dump(const char* path) { return A::profile_dump(path); }
};

// A program built for a later version knows more fields than there are here: those read 0.
template <class Struct>
int give(const Struct& from, Struct* to, size_t size) {
  memset(static_cast<void*>(to), 0, size);
  memcpy(static_cast<void*>(to), &from, size < sizeof from ? size : sizeof from);
  return 0;
}

}  // namespace

extern "C" {

COFFER_VISIBLE int coffer_stats(struct coffer_stats* stats, size_t size) noexcept {
  if (stats == nullptr || size == 0) return EINVAL;
  Figures now;
  Allocator::figures(now);
  struct coffer_stats all = {};
  all.live = now.live;
  all.held = now.held;
  all.resident = now.resident;
  all.free_resident = now.free_resident;
  all.committed = now.committed;
  all.reserved = now.reserved;
  all.metadata = now.metadata;
  all.large = now.large;
  all.heaps = now.heaps;
  all.heaps_ever = now.heaps_ever;
  all.spans = now.spans;
  all.chunks = now.chunks;
  all.system_calls = now.system_calls;
  all.limit = now.limit;
  all.bound = now.bound;
  all.page_tables = now.page_tables;
  all.mixed_held = now.mixed_held;
  all.mixed_live = now.mixed_live;
  all.mixed_resident = now.mixed_resident;
  return give(all, stats, size);
}

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

COFFER_VISIBLE int coffer_set_limit(size_t bytes) noexcept {
  Allocator::set_limit(bytes);
  return 0;
}

COFFER_VISIBLE size_t coffer_get_limit(void) noexcept {
  Allocator::read_options();
  return Allocator::limit();
}

COFFER_VISIBLE void coffer_profile_start(size_t mean_bytes) noexcept { Profile<Allocator>::start(mean_bytes); }

COFFER_VISIBLE void coffer_profile_stop(void) noexcept { Profile<Allocator>::stop(); }

COFFER_VISIBLE int coffer_profile_dump(const char* path) noexcept { return Profile<Allocator>::dump(path) ? 0 : -1; }

COFFER_VISIBLE size_t coffer_check(void) noexcept { return Allocator::check(); }

COFFER_VISIBLE const char* coffer_version(void) noexcept { return kVersion; }

COFFER_VISIBLE int coffer_conf(const char* name, char* text, size_t size) noexcept {
  Allocator::read_options();
  Text out(text, text != nullptr ? size : 0);
  if (name == nullptr) {
    config::print_all(config::options(), out);
  } else {
    const config::Option* option = config::find_option(name, strlen(name));
    if (option == nullptr) {
      errno = ENOENT;
      return -1;
    }
    config::print_value(*option, option->get(config::options()), out);
  }
  out.terminate();
  return static_cast<int>(out.length());
}

}  // extern "C"

}  // namespace coffer::api
