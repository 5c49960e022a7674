// SPDX-License-Identifier: MIT
#include "property/operation.hpp"

#include <cinttypes>
#include <cstdio>

namespace coffer::test {

namespace {

const char* pattern_of(Kind kind) {
  // slot, size, alignment
  switch (kind) {
    case Kind::malloc:
      return "b[%1$u] = malloc(%2$" PRIu64 ");";
    case Kind::calloc:
      return "b[%1$u] = calloc(1, %2$" PRIu64 ");";
    case Kind::aligned_alloc:
      return "b[%1$u] = aligned_alloc(%3$" PRIu64 ", %2$" PRIu64 ");";
    case Kind::posix_memalign:
      return "posix_memalign(&b[%1$u], %3$" PRIu64 ", %2$" PRIu64 ");";
    case Kind::memalign:
      return "b[%1$u] = memalign(%3$" PRIu64 ", %2$" PRIu64 ");";
    case Kind::valloc:
      return "b[%1$u] = valloc(%2$" PRIu64 ");";
    case Kind::pvalloc:
      return "b[%1$u] = pvalloc(%2$" PRIu64 ");";
    case Kind::realloc_null:
      return "b[%1$u] = realloc(NULL, %2$" PRIu64 ");";
    case Kind::free:
      return "free(b[%1$u]);";
    case Kind::free_sized:
      return "free_sized(b[%1$u], its size);";
    case Kind::free_aligned_sized:
      return "free_aligned_sized(b[%1$u], its alignment, its size);";
    case Kind::realloc:
      return "b[%1$u] = realloc(b[%1$u], %2$" PRIu64 ");";
    case Kind::use_all:
      return "fill(b[%1$u], malloc_usable_size(b[%1$u]));";
    case Kind::verify:
      return "verify(b[%1$u]);";
    case Kind::free_null:
      return "free(NULL);";
    case Kind::refused:
      return "malloc(too much), aligned_alloc(no alignment) and the like;";
    case Kind::trim:
      return "malloc_trim(0);";
    case Kind::stats:
      return "stats();";
    case Kind::check:
      return "check();";
  }
  return "?";
}

}  // namespace

std::string to_text(const Operation& operation) {
  char text[160];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  std::snprintf(text, sizeof text, pattern_of(operation.kind), operation.slot, operation.size,
                std::uint64_t{1} << operation.alignment_log2);
#pragma GCC diagnostic pop
  return text;
}

}  // namespace coffer::test
