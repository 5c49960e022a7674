// SPDX-License-Identifier: MIT
// glibc's functions that look into malloc or tune it: malloc_trim, mallinfo, malloc_info, malloc_stats, mallopt.
//
// They work on the smallest stack that a thread can have (PTHREAD_STACK_MIN, 16 KiB, of which 12 are left to it): the
// record with the classes is gone before anything is printed, for printing may allocate a stream's buffer.
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>

#include "api/c_library.hpp"
#include "api/report.hpp"
#include "api/shim.hpp"
#include "base/atomic.hpp"
#include "base/text.hpp"
#include "coffer/coffer.h"
#include "observe/statistics.hpp"
#include "os/os.hpp"

namespace coffer::api {

namespace {

// The figures by glibc's division: memory it takes by mmap for single large blocks, and the rest, which is either in
// use or free. Figures taken while others allocate may contradict each other; differences are then 0.
struct Division {
  explicit Division(const Figures& now)
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

struct mallinfo2 info_of(const Figures& now) {
  const Division division(now);
  struct mallinfo2 info = {};
  info.arena = division.system;
  info.ordblks = now.free_blocks;
  info.hblks = now.large_blocks;
  info.hblkhd = division.large;
  info.uordblks = division.in_use;
  info.fordblks = division.free;
  info.keepcost = now.free_resident;
  return info;
}

int saturated(usize value) { return value < INT_MAX ? static_cast<int>(value) : INT_MAX; }

// Free blocks of each class, with the sizes of request that the class serves.
struct Sizes {
  static constexpr usize kMost = sizeof(Statistics::by_class) / sizeof(ClassStatistics);
  usize count = 0;
  u32 block_bytes[kMost];
  usize free_bytes[kMost];
};

COFFER_NOINLINE void collect(Figures& now, Sizes& sizes) {
  Statistics all;
  Allocator::statistics(all);
  for (usize i = 0; i < all.classes; ++i) {
    const ClassStatistics& by_class = all.by_class[i];
    sizes.block_bytes[i] = static_cast<u32>(by_class.block_bytes);
    sizes.free_bytes[i] = Division::difference(by_class.held, by_class.live);
  }
  sizes.count = all.classes;
  now = all;
}

// An element of an XML document, with attributes that are numbers. Not by fprintf, which takes 9 KiB of stack where the
// stream has no buffer.
class Element {
 public:
  explicit Element(const char* begin) { line_.add(begin); }
  Element& number(const char* name, usize value) {
    line_.add(' ').add(name).add("=\"").number(value).add('"');
    return *this;
  }
  void write(FILE* stream) {
    line_.add("/>\n");
    fwrite(line_.data(), 1, line_.stored(), stream);
  }

 private:
  TextBuffer<192> line_;
};

void print_sizes(const Sizes& sizes, FILE* stream) {
  fputs("<sizes>\n", stream);
  usize from = 1;
  for (usize i = 0; i < sizes.count; ++i) {
    const usize bytes = sizes.block_bytes[i];
    const usize free = sizes.free_bytes[i];
    if (bytes != 0 && free >= bytes) {
      Element line("  <size");
      // Several classes may have blocks of one size (align:all).
      line.number("from", from <= bytes ? from : bytes).number("to", bytes);
      line.number("total", free).number("count", free / bytes).write(stream);
    }
    from = bytes + 1;
  }
  fputs("</sizes>\n", stream);
}

void print_totals(const Figures& now, bool whole, FILE* stream) {
  const struct mallinfo2 info = info_of(now);
  const usize peak = now.peak_held > info.arena + info.hblkhd ? now.peak_held : info.arena + info.hblkhd;
  Element("<total type=\"fast\"").number("count", 0).number("size", 0).write(stream);
  Element("<total type=\"rest\"").number("count", info.ordblks).number("size", info.fordblks).write(stream);
  if (whole) Element("<total type=\"mmap\"").number("count", info.hblks).number("size", info.hblkhd).write(stream);
  Element("<system type=\"current\"").number("size", info.arena).write(stream);
  Element("<system type=\"max\"").number("size", peak).write(stream);
  Element("<aspace type=\"total\"").number("size", now.reserved).write(stream);
  Element("<aspace type=\"mprotect\"").number("size", now.committed).write(stream);
}

void print_line(Text& text, const char* name, usize value) {
  const usize start = text.length();
  text.add(name).pad(start, 16).add(" = ").number(value, 12).add('\n');
}

// What an allocator has to tell beyond the common figures (the papers' allocators, their counts).
template <class A>
concept DescribesItself = requires(Text& text) { A::describe(text); };

// The most that malloc_stats saw: glibc has such a line, and nothing else asks for the figure.
class Most {
 public:
  usize with(usize now) {
    usize seen = most_.load(relaxed);  // relaxed, all: a figure
    while (now > seen && !most_.compare_exchange(seen, now, relaxed, relaxed)) {
    }
    return now > seen ? now : seen;
  }

 private:
  Atomic<usize> most_;
};
Most g_most_large_blocks, g_most_large;

// The text of malloc_stats.
struct Report {
  // 27 lines of 32 characters; a paper's own come on top.
  TextBuffer<DescribesItself<Allocator> ? 4096 : 1024> text;
  Report();
};

template <class A>
void add_own_lines(Text& text) {
  if constexpr (DescribesItself<A>) A::describe(text);
}

Report::Report() {
  Figures now;
  Allocator::figures(now);
  const Division division(now);
  text.add("Arena 0:\n");
  print_line(text, "system bytes", division.system);
  print_line(text, "in use bytes", division.in_use);
  text.add("Total (incl. mmap):\n");
  print_line(text, "system bytes", division.system + division.large);
  print_line(text, "in use bytes", division.in_use + division.large);
  print_line(text, "mmap regions", now.large_blocks);
  print_line(text, "mmap bytes", division.large);
  print_line(text, "max mmap regions", g_most_large_blocks.with(now.large_blocks));
  print_line(text, "max mmap bytes", g_most_large.with(division.large));
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
}

}  // namespace

void report_statistics() {
  const Report report;
  os::write_error(report.text.data(), report.text.stored());
}

extern "C" {

COFFER_VISIBLE int coffer_malloc_trim(size_t pad) noexcept { return Allocator::trim(pad) ? 1 : 0; }

COFFER_VISIBLE struct mallinfo2 coffer_mallinfo2(void) noexcept {
  Figures now;
  Allocator::figures(now);
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
  Figures now;
  Sizes sizes;
  collect(now, sizes);
  fputs("<malloc version=\"1\">\n<heap nr=\"0\">\n", stream);
  print_sizes(sizes, stream);
  print_totals(now, false, stream);
  fputs("</heap>\n", stream);
  print_totals(now, true, stream);
  fputs("</malloc>\n", stream);
  return 0;
}

// To the stream `stderr`, which the program may have put another one in the place of. As glibc's it is no point of
// cancellation.
COFFER_VISIBLE void coffer_malloc_stats(void) noexcept {
  const Report report;
  int before = PTHREAD_CANCEL_ENABLE;
  const int changed = pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  fwrite(report.text.data(), 1, report.text.stored(), stderr);
  if (changed == 0) pthread_setcancelstate(before, nullptr);
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
COFFER_ALIAS(coffer_malloc_trim) int malloc_trim(size_t pad) COFFER_AS_DECLARED;
COFFER_ALIAS(coffer_mallinfo) struct mallinfo mallinfo(void) COFFER_AS_DECLARED;
COFFER_ALIAS(coffer_mallinfo2) struct mallinfo2 mallinfo2(void) COFFER_AS_DECLARED;
COFFER_ALIAS(coffer_malloc_info) int malloc_info(int options, FILE* stream) COFFER_AS_DECLARED;
COFFER_ALIAS(coffer_malloc_stats) void malloc_stats(void) COFFER_AS_DECLARED;
COFFER_ALIAS(coffer_mallopt) int mallopt(int parameter, int value) COFFER_AS_DECLARED;
#endif

}  // extern "C"

}  // namespace coffer::api
