// SPDX-License-Identifier: MIT
// glibc's functions that look into malloc or tune it: malloc_trim, mallinfo, malloc_info, malloc_stats, mallopt.
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>

#include "api/shim.hpp"
#include "base/text.hpp"
#include "coffer/coffer.h"
#include "observe/statistics.hpp"
#include "os/os.hpp"

namespace coffer::api {

namespace {

// The figures by glibc's division: memory it takes by mmap for single large blocks, and the rest, which is either in
// use or free. Figures taken while others allocate may contradict each other; differences are then 0.
struct Division {
  explicit Division(const Statistics& now)
      : large(now.large < now.live ? now.large : now.live),
        in_use(now.live - large),
        system(difference(now.held, large) + now.free_resident),
        free(difference(system, in_use)) {
    if (system < in_use) system = in_use;
  }

  static usize difference(usize a, usize b) { return a > b ? a - b : 0; }

  usize large;   // bytes in large blocks
  usize in_use;  // bytes in other blocks
  usize system;  // bytes held for other blocks: in_use + free
  usize free;
};

struct mallinfo2 info_of(const Statistics& now) {
  const Division division(now);
  usize free_blocks = 0;
  for (usize i = 0; i < now.classes; ++i) {
    const ClassStatistics& by_class = now.by_class[i];
    if (by_class.block_bytes != 0) {
      free_blocks += Division::difference(by_class.held, by_class.live) / by_class.block_bytes;
    }
  }
  struct mallinfo2 info = {};
  info.arena = division.system;
  info.ordblks = free_blocks;
  info.hblks = now.large_blocks;
  info.hblkhd = division.large;
  info.uordblks = division.in_use;
  info.fordblks = division.free;
  info.keepcost = now.free_resident;
  return info;
}

int saturated(usize value) { return value < INT_MAX ? static_cast<int>(value) : INT_MAX; }

// Free blocks of each class, with the sizes of request that the class serves.
void print_sizes(const Statistics& now, FILE* stream) {
  fputs("<sizes>\n", stream);
  usize from = 1;
  for (usize i = 0; i < now.classes; ++i) {
    const ClassStatistics& by_class = now.by_class[i];
    const usize free = Division::difference(by_class.held, by_class.live);
    if (by_class.block_bytes != 0 && free >= by_class.block_bytes) {
      // Several classes may have blocks of one size (align:all).
      fprintf(stream, "  <size from=\"%zu\" to=\"%zu\" total=\"%zu\" count=\"%zu\"/>\n",
              from <= by_class.block_bytes ? from : by_class.block_bytes, by_class.block_bytes, free,
              free / by_class.block_bytes);
    }
    from = by_class.block_bytes + 1;
  }
  fputs("</sizes>\n", stream);
}

// What an allocator has to tell beyond the common figures (the papers' allocators, their counts).
template <class A>
void add_own_lines(Text& text) {
  if constexpr (requires { A::describe(text); }) A::describe(text);
}

void print_line(Text& text, const char* name, usize value) {
  const usize start = text.length();
  text.add(name).pad(start, 16).add(" = ").number(value, 12).add('\n');
}

}  // namespace

extern "C" {

COFFER_VISIBLE int coffer_malloc_trim(size_t pad) noexcept { return Allocator::trim(pad) ? 1 : 0; }

COFFER_VISIBLE struct mallinfo2 coffer_mallinfo2(void) noexcept {
  Statistics now;
  Allocator::statistics(now);
  return info_of(now);
}

// Its fields are too small for today's sizes: one that does not fit holds INT_MAX.
COFFER_VISIBLE struct mallinfo coffer_mallinfo(void) noexcept {
  const struct mallinfo2 wide = coffer_mallinfo2();
  struct mallinfo info = {};
  info.arena = saturated(wide.arena);
  info.ordblks = saturated(wide.ordblks);
  info.hblks = saturated(wide.hblks);
  info.hblkhd = saturated(wide.hblkhd);
  info.uordblks = saturated(wide.uordblks);
  info.fordblks = saturated(wide.fordblks);
  info.keepcost = saturated(wide.keepcost);
  return info;
}

// glibc's elements, with all heaps as one: a span changes heaps, so figures by heap would say little. Writing may
// allocate, so the figures are taken before and nothing is locked meanwhile.
COFFER_VISIBLE int coffer_malloc_info(int options, FILE* stream) noexcept {
  if (options != 0 || stream == nullptr) return EINVAL;
  Statistics now;
  Allocator::statistics(now);
  const struct mallinfo2 info = info_of(now);
  const usize peak = now.peak_held > info.arena + info.hblkhd ? now.peak_held : info.arena + info.hblkhd;
  fputs("<malloc version=\"1\">\n<heap nr=\"0\">\n", stream);
  print_sizes(now, stream);
  for (int whole = 0; whole < 2; ++whole) {
    fputs("<total type=\"fast\" count=\"0\" size=\"0\"/>\n", stream);
    fprintf(stream, "<total type=\"rest\" count=\"%zu\" size=\"%zu\"/>\n", info.ordblks, info.fordblks);
    if (whole == 1) fprintf(stream, "<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n", info.hblks, info.hblkhd);
    fprintf(stream, "<system type=\"current\" size=\"%zu\"/>\n", info.arena);
    fprintf(stream, "<system type=\"max\" size=\"%zu\"/>\n", peak);
    fprintf(stream, "<aspace type=\"total\" size=\"%zu\"/>\n", now.reserved);
    fprintf(stream, "<aspace type=\"mprotect\" size=\"%zu\"/>\n", now.committed);
    fputs(whole == 0 ? "</heap>\n" : "</malloc>\n", stream);
  }
  return 0;
}

// To stderr without stdio: it may be called where a program has closed its streams, or when it ends.
COFFER_VISIBLE void coffer_malloc_stats(void) noexcept {
  Statistics now;
  Allocator::statistics(now);
  const Division division(now);
  TextBuffer<4096> text;
  text.add("Arena 0:\n");
  print_line(text, "system bytes", division.system);
  print_line(text, "in use bytes", division.in_use);
  text.add("Total (incl. mmap):\n");
  print_line(text, "system bytes", division.system + division.large);
  print_line(text, "in use bytes", division.in_use + division.large);
  print_line(text, "mmap regions", now.large_blocks);
  print_line(text, "mmap bytes", division.large);
  text.add("Coffer ").add(coffer_version()).add(":\n");
  print_line(text, "live bytes", now.live);
  print_line(text, "held bytes", now.held);
  print_line(text, "peak held bytes", now.peak_held);
  print_line(text, "resident bytes", now.resident);
  print_line(text, "free resident", now.free_resident);
  print_line(text, "committed bytes", now.committed);
  print_line(text, "reserved bytes", now.reserved);
  print_line(text, "metadata bytes", now.metadata);
  print_line(text, "spans", now.spans);
  print_line(text, "mixed spans", now.mixed_spans);
  print_line(text, "mixed held", now.mixed_held);
  print_line(text, "mixed live", now.mixed_live);
  print_line(text, "mixed resident", now.mixed_resident);
  print_line(text, "chunks", now.chunks);
  print_line(text, "heaps", now.heaps);
  print_line(text, "heaps ever", now.heaps_ever);
  print_line(text, "system calls", now.system_calls);
  add_own_lines<Allocator>(text);
  os::write_error(text.data(), text.stored());
}

// Nothing that mallopt tunes exists in Coffer. A parameter that glibc knows is accepted without effect, since programs
// take a refusal for an error.
COFFER_VISIBLE int coffer_mallopt(int parameter, int) noexcept {
  switch (parameter) {
    case M_MXFAST:
    case M_NLBLKS:
    case M_GRAIN:
    case M_KEEP:
    case M_TRIM_THRESHOLD:
    case M_TOP_PAD:
    case M_MMAP_THRESHOLD:
    case M_MMAP_MAX:
    case M_CHECK_ACTION:
    case M_PERTURB:
    case M_ARENA_TEST:
    case M_ARENA_MAX:
      return 1;
    default:
      return 0;
  }
}

#ifndef COFFER_PREFIX_ONLY
COFFER_ALIAS(coffer_malloc_trim) int malloc_trim(size_t pad) noexcept;
COFFER_ALIAS(coffer_mallinfo) struct mallinfo mallinfo(void) noexcept;
COFFER_ALIAS(coffer_mallinfo2) struct mallinfo2 mallinfo2(void) noexcept;
COFFER_ALIAS(coffer_malloc_info) int malloc_info(int options, FILE* stream) noexcept;
COFFER_ALIAS(coffer_malloc_stats) void malloc_stats(void) noexcept;
COFFER_ALIAS(coffer_mallopt) int mallopt(int parameter, int value) noexcept;
#endif

}  // extern "C"

}  // namespace coffer::api
