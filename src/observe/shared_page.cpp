// SPDX-License-Identifier: MIT
#include "observe/shared_page.hpp"

#include <stddef.h>
#include <string.h>

#include "base/text.hpp"
#include "observe/counters.hpp"
#include "observe/statistics.hpp"
#include "os/os.hpp"

namespace coffer {

namespace {

using page::Copy;
using page::Page;

// relaxed, wherever figures are written in this file: a reader takes them for what they are worth if `begin` and `end`
// agree, and those are ordered by the fences in write.
void put(Atomic<u64>& cell, u64 value) { cell.store(value, relaxed); }

// In all of them a name says whose page it is: user, PID namespace (another may use the same directory and the same
// numbers), and process.
void add_prefix(Text& text) {
  text.add("coffer-").number(os::user_number()).add('-').number(os::pid_namespace()).add('-');
}

// false: there is none of that number.
bool add_directory(u32 number, Text& text) {
  switch (number) {
    case 0:
      text.add("/dev/shm");
      return true;
    case 1:
      text.add("/run/user/").number(os::user_number());
      return true;
    case 2:
      text.add("/tmp");
      return true;
    default:
      return false;
  }
}

struct Place {
  const char* directory;
  const char* prefix;
};

void remove_if_stale(const char* name, void* context) {
  const Place& place = *static_cast<const Place*>(context);
  usize at = 0;
  for (; place.prefix[at] != 0; ++at) {
    if (name[at] != place.prefix[at]) return;
  }
  u64 process = 0;
  for (; name[at] >= '0' && name[at] <= '9' && process < ~u32{0}; ++at) {
    process = process * 10 + static_cast<u64>(name[at] - '0');
  }
  if (name[at] != 0 || process == 0 || !os::is_process_gone(static_cast<u32>(process))) return;
  TextBuffer<kPagePathBytes> path;
  path.add(place.directory).add('/').add(name);
  path.terminate();
  os::remove_file(path.data());
}

void put_span(page::Span& cell, const SpanFigures& span) {
  put(cell.address, span.address);
  put(cell.block_bytes, span.block_bytes);
  put(cell.state, span.state);
  put(cell.owner, span.owner);
  put(cell.held, span.held);
  put(cell.live, span.live);
  put(cell.resident, span.resident);
}

SpanFigures span_in(const page::Span& cell) {
  // relaxed, all: the writer's own.
  return {cell.address.load(relaxed), cell.block_bytes.load(relaxed), cell.state.load(relaxed),
          cell.owner.load(relaxed),   cell.held.load(relaxed),        cell.live.load(relaxed),
          cell.resident.load(relaxed)};
}

u64 free_bytes(const SpanFigures& span) { return span.held > span.live ? span.held - span.live : 0; }

// The entries are a heap in the sense of data structures: none has less free than the one at half its number, so that
// the first is the one that goes when a span with more comes. A walk that meets them in growing order then costs a
// logarithm a span.
void sift_up(page::Span* spans, usize at, const SpanFigures& span) {
  while (at > 0) {
    const SpanFigures above = span_in(spans[(at - 1) / 2]);
    if (free_bytes(above) <= free_bytes(span)) break;
    put_span(spans[at], above);
    at = (at - 1) / 2;
  }
  put_span(spans[at], span);
}

void sift_down(page::Span* spans, usize used, const SpanFigures& span) {
  usize at = 0;
  for (usize next = 1; next < used; next = 2 * at + 1) {
    if (next + 1 < used && free_bytes(span_in(spans[next + 1])) < free_bytes(span_in(spans[next]))) ++next;
    if (free_bytes(span_in(spans[next])) >= free_bytes(span)) break;
    put_span(spans[at], span_in(spans[next]));
    at = next;
  }
  put_span(spans[at], span);
}

// Pages of processes that were killed, or ended by _exit: each page that is made removes some.
void remove_stale(u32 number) {
  constexpr u32 kMostNames = 256;
  TextBuffer<40> directory, prefix;
  if (!add_directory(number, directory)) return;
  directory.terminate();
  add_prefix(prefix);
  prefix.terminate();
  Place place = {directory.data(), prefix.data()};
  os::for_each_name(directory.data(), kMostNames, &remove_if_stale, &place);
}

}  // namespace

bool page_path(u32 directory, char (&path)[kPagePathBytes]) {
  Text text(path, sizeof path);
  if (!add_directory(directory, text)) return false;
  text.add('/');
  add_prefix(text);
  text.number(os::process_number());
  text.terminate();
  return true;
}

bool SharedPage::open(u32 refresh_signal) {
  for (u32 directory = 0; page_ == nullptr && page_path(directory, path_); ++directory) {
    page_ = static_cast<Page*>(os::share_file(path_, page::kFileBytes));
    // A page of that name is this process's own, of a program that it was before exec, or of a process that is gone.
    if (page_ == nullptr && os::remove_file(path_)) {
      page_ = static_cast<Page*>(os::share_file(path_, page::kFileBytes));
    }
    if (page_ != nullptr) remove_stale(directory);
  }
  if (page_ == nullptr) return false;
  page::Header& header = page_->header;
  header.version = page::kVersion;
  header.page_bytes = page::kFileBytes;
  header.copies_offset = offsetof(Page, copies);
  header.copy_bytes = sizeof(Copy);
  header.figures = page::kFigures;
  header.now_figures = page::now::kFigures;
  header.class_entries = page::kClassEntries;
  header.class_fields = sizeof(page::Class) / sizeof(u64);
  header.heap_entries = page::kHeapEntries;
  header.heap_fields = sizeof(page::Heap) / sizeof(u64);
  header.process = os::process_number();
  header.made_ns = os::boot_ns();
  header.made_unix_ns = os::unix_ns();
  header.refresh_signal = refresh_signal;
  os::program_name(header.program);
  write_now();
  // Last: what has no magic yet is no page yet.
  compiler_fence();
  memcpy(header.magic, page::kMagic, sizeof header.magic);
  return true;
}

void SharedPage::close() {
  if (page_ == nullptr) return;
  if (is_of(os::process_number())) os::remove_file(path_);
  os::unshare_file(page_, page::kFileBytes);
  page_ = nullptr;
}

namespace {

Copy& next_of(Page* page) {
  // relaxed, here and below: only the one writer changes it.
  return page->copies[(page->header.turn.load(relaxed) + 1) % 2];
}

}  // namespace

// Here and below page_ is read once: a signal handler may fork in between, and in its child, which goes on with this,
// the page is forgotten.
void SharedPage::write_now() {
  Page* const page = page_;
  if (page == nullptr) return;
  const Counters& counts = counters();
  Atomic<u64>* now = page->header.now;
  namespace figure = page::now;
  // relaxed, all: figures, each right for itself.
  const u64 held = counts.held.load(relaxed);
  const u64 dirty = counts.dirty.load(relaxed);
  const os::Purged purged = os::purged();
  const bool same = now[figure::held].load(relaxed) == held && now[figure::free_resident].load(relaxed) == dirty &&
                    now[figure::purges].load(relaxed) == purged.calls;
  if (same && now[figure::now_ns].load(relaxed) != 0) return;
  put(now[figure::held], held);
  put(now[figure::free_resident], dirty);
  put(now[figure::committed], counts.committed.load(relaxed));
  put(now[figure::metadata], counts.metadata.load(relaxed));
  put(now[figure::mixed_held], counts.mixed.load(relaxed));
  put(now[figure::peak_held], counts.peak.load(relaxed));
  put(now[figure::system_calls], os::call_count());
  put(now[figure::purges], purged.calls);
  put(now[figure::purged_bytes], purged.bytes);
  put(now[figure::now_ns], os::monotonic_ns());
}

bool SharedPage::is_asked() const {
  // relaxed, all: who asks waits until the page says a later time than his, so that a question seen late is answered
  // late. The copy's figures are the process's own, written under the caller's lock.
  const Page* const page = page_;
  if (page == nullptr) return false;
  const page::Header& header = page->header;
  const u64 turn = header.turn.load(relaxed);
  return turn == 0 ||
         page->copies[turn % 2].figures[page::taken_ns].load(relaxed) < header.now[page::now::asked_ns].load(relaxed);
}

void SharedPage::begin() {
  Page* const page = page_;
  if (page == nullptr) return;
  Copy& copy = next_of(page);
  put(copy.begin, page->header.turn.load(relaxed) + 1);
  // seq_cst: `begin` is seen before any figure that comes after it; a reader looks at it again when it has read them.
  full_fence();
  put(copy.heaps_used, 0);
  put(copy.span_entries, page::kSpanEntries);
  put(copy.span_fields, sizeof(page::Span) / sizeof(u64));
  put(copy.spans_used, 0);
}

void SharedPage::add_span(const SpanFigures& span) {
  Page* const page = page_;
  if (page == nullptr) return;
  Copy& copy = next_of(page);
  const u64 used = copy.spans_used.load(relaxed);
  if (used < page::kSpanEntries) {
    sift_up(copy.spans, used, span);
    put(copy.spans_used, used + 1);
  } else if (free_bytes(span) > free_bytes(span_in(copy.spans[0]))) {
    sift_down(copy.spans, used, span);
  }
}

void SharedPage::add_heap(u32 index, const HeapStatistics& statistics, u64 allocated_blocks) {
  Page* const page = page_;
  if (page == nullptr) return;
  Copy& copy = next_of(page);
  const u64 used = copy.heaps_used.load(relaxed);
  if (used >= page::kHeapEntries) return;
  page::Heap& heap = copy.heaps[used];
  put(heap.index, index);
  put(heap.attached, statistics.attached);
  put(heap.held, statistics.held);
  put(heap.slack, statistics.slack);
  put(heap.mailed, statistics.mailed);
  put(heap.allocated_blocks, allocated_blocks);
  put(copy.heaps_used, used + 1);
}

void SharedPage::write(const Statistics& statistics, const Allocated& allocated, u64 taken_ns, u64 walk_ns) {
  Page* const page = page_;
  if (page == nullptr) return;
  Copy& copy = next_of(page);
  Atomic<u64>* figures = copy.figures;
#define COFFER_PUT(name) put(figures[page::name], statistics.name);
  COFFER_PUT(live)
  COFFER_PUT(held)
  COFFER_PUT(resident)
  COFFER_PUT(free_resident)
  COFFER_PUT(committed)
  COFFER_PUT(reserved)
  COFFER_PUT(metadata)
  COFFER_PUT(large)
  COFFER_PUT(large_blocks)
  COFFER_PUT(heaps)
  COFFER_PUT(heaps_ever)
  COFFER_PUT(spans)
  COFFER_PUT(chunks)
  COFFER_PUT(system_calls)
  COFFER_PUT(limit)
  COFFER_PUT(bound)
  COFFER_PUT(peak_held)
  COFFER_PUT(mixed_spans)
  COFFER_PUT(mixed_held)
  COFFER_PUT(mixed_live)
  COFFER_PUT(mixed_resident)
  COFFER_PUT(mixed_bound)
#undef COFFER_PUT
  put(page->header.now[page::now::large], statistics.large);
  put(page->header.now[page::now::large_blocks], statistics.large_blocks);
  const os::Purged purged = os::purged();
  put(figures[page::purges], purged.calls);
  put(figures[page::purged_bytes], purged.bytes);
  put(figures[page::allocated_blocks], allocated.blocks);
  put(figures[page::allocated_bytes], allocated.bytes);
  put(figures[page::large_allocated_blocks], allocated.large_blocks);
  put(figures[page::large_allocated_bytes], allocated.large_bytes);
  put(figures[page::taken_ns], taken_ns);
  put(figures[page::walk_ns], walk_ns);
  put(copy.classes_used, statistics.classes);
  for (usize i = 0; i < statistics.classes; ++i) {
    const ClassStatistics& from = statistics.by_class[i];
    page::Class& to = copy.classes[i];
    put(to.block_bytes, from.block_bytes);
    put(to.spans, from.spans);
    put(to.held, from.held);
    put(to.live, from.live);
    put(to.bound, from.bound);
    put(to.allocated_blocks, allocated.by_class[i]);
  }
  const u64 turn = page->header.turn.load(relaxed) + 1;
  copy.end.store(turn, release);  // release, both: whoever sees the number sees the figures
  page->header.turn.store(turn, release);
  write_now();
}

}  // namespace coffer
