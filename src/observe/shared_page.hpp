// SPDX-License-Identifier: MIT
// The shared page: figures that a process shows to viewers, in a file of a few dozen KiB in memory. The process maps
// it for writing; viewers read it (docs/reference/shared-page.md; tools/coffer/live/page.py is a reader). Everything
// in it is a 64-bit number, except the names in its header.
//
//   header    what the page is, whose it is, how large its parts are; written once, except `turn` and `now`
//   copy 0    figures, classes, heaps; spans
//   copy 1    the same
//
// A writer fills the older copy and then says that this is the newest. So one copy is whole at any time, even if the
// process is stopped or killed in the middle. The writer stores `begin` of a copy first and `end` last, so that a
// reader notices when it was overtaken twice.
#pragma once

#include "base/atomic.hpp"

namespace coffer {

// The figures of a copy, in their order: those of struct coffer_stats, and after them what a process counts only while
// it is watched.
// clang-format off: it finds no end with these
#define COFFER_PAGE_FIGURES(FIGURE)                                                                        \
  FIGURE(taken_ns) FIGURE(walk_ns) FIGURE(live) FIGURE(held) FIGURE(resident) FIGURE(free_resident)        \
  FIGURE(committed) FIGURE(reserved) FIGURE(metadata) FIGURE(large) FIGURE(large_blocks) FIGURE(heaps)     \
  FIGURE(heaps_ever) FIGURE(spans) FIGURE(chunks) FIGURE(system_calls) FIGURE(limit) FIGURE(bound)         \
  FIGURE(peak_held) FIGURE(mixed_spans) FIGURE(mixed_held) FIGURE(mixed_live) FIGURE(mixed_resident)       \
  FIGURE(mixed_bound) FIGURE(purges) FIGURE(purged_bytes) FIGURE(allocated_blocks) FIGURE(allocated_bytes) \
  FIGURE(large_allocated_blocks) FIGURE(large_allocated_bytes)
// clang-format on

// What needs no walk: written whenever a thread comes by and one of them changed; but asked_ns, which is the readers'.
// clang-format off: it finds no end with these
#define COFFER_PAGE_NOW(FIGURE)                                                                      \
  FIGURE(now_ns) FIGURE(held) FIGURE(free_resident) FIGURE(committed) FIGURE(metadata) FIGURE(large) \
  FIGURE(large_blocks) FIGURE(mixed_held) FIGURE(peak_held) FIGURE(system_calls) FIGURE(purges)      \
  FIGURE(purged_bytes) FIGURE(asked_ns)
// clang-format on

namespace page {
#define COFFER_PAGE_ENUMERATOR(name) name,
enum Figure : u32 { COFFER_PAGE_FIGURES(COFFER_PAGE_ENUMERATOR) kFigures };
namespace now {
enum Figure : u32 { COFFER_PAGE_NOW(COFFER_PAGE_ENUMERATOR) kFigures };
}
#undef COFFER_PAGE_ENUMERATOR

inline constexpr u32 kVersion = 1;
inline constexpr char kMagic[8] = {'C', 'O', 'F', 'F', 'E', 'R', 'P', 'G'};
inline constexpr u32 kClassEntries = 128;
inline constexpr u32 kHeapEntries = 256;  // of more heaps than this, the first ones are shown
inline constexpr u32 kSpanEntries = 512;  // of more spans, those with most free bytes

struct Header {
  char magic[8];
  u32 version;        // another one: another layout
  u32 page_bytes;     // of the file
  u32 copies_offset;  // of copy 0; copy 1 follows it
  u32 copy_bytes;
  u32 figures;  // of a copy
  u32 now_figures;
  u32 class_entries;
  u32 class_fields;
  u32 heap_entries;
  u32 heap_fields;
  u64 process;  // its number as it sees itself
  u64 made_ns;  // when the page was made, since the machine started
  u64 made_unix_ns;
  u64 refresh_signal;  // has the page written anew; 0: none
  char program[16];    // with its final 0
  Atomic<u64> turn;    // copies finished; the newest is turn % 2. 0: none yet
  Atomic<u64> now[now::kFigures];
};

struct Class {
  Atomic<u64> block_bytes, spans, held, live, bound, allocated_blocks;
};
struct Heap {
  Atomic<u64> index, attached, held, slack, mailed, allocated_blocks;
};
struct Span {
  Atomic<u64> address, block_bytes, state, owner, held, live, resident;
};

struct Copy {
  Atomic<u64> begin;  // the turn that this copy is of
  Atomic<u64> figures[kFigures];
  Atomic<u64> classes_used, heaps_used;  // entries
  Class classes[kClassEntries];
  Heap heaps[kHeapEntries];
  Atomic<u64> end;  // as begin; written after the spans, too, which came later into the layout
  Atomic<u64> span_entries, span_fields, spans_used;
  Span spans[kSpanEntries];
};

struct Page {
  Header header;
  alignas(64) Copy copies[2];
};

inline constexpr usize kFileBytes = (sizeof(Page) + 4095) / 4096 * 4096;

}  // namespace page

struct Statistics;

// One span, as the page shows it.
struct SpanFigures {
  static constexpr u64 kNoOwner = ~u64{0};
  u64 address;
  u64 block_bytes;  // 0: blocks of any size
  u64 state;        // SpanState
  u64 owner;        // its heap's index, or kNoOwner
  u64 held;
  u64 live;
  u64 resident;
};

// What a process counts only while it is watched.
struct Allocated {
  u64 blocks = 0;
  u64 bytes = 0;
  u64 large_blocks = 0;
  u64 large_bytes = 0;
  u64 by_class[128] = {};  // blocks
};

// The path of this process's page in the directory of that number; false: there is no such directory.
inline constexpr usize kPagePathBytes = 96;
bool page_path(u32 directory, char (&path)[kPagePathBytes]);

// The page of this process. One thread at a time, the caller sees to it.
class SharedPage {
 public:
  bool is_open() const { return page_ != nullptr; }
  // Makes the file. false: none of the directories takes it (say so once).
  bool open(u32 refresh_signal);
  // Removes it; the page of another process, a parent's, is only unmapped.
  void close();
  // In a fork child. The page stays mapped: the fork may have interrupted a writer, who goes on in the child.
  void forget() { page_ = nullptr; }
  // In a fork child, or in the process itself: whose page it is.
  bool is_of(u32 process) const { return page_ != nullptr && page_->header.process == process; }

  // Whether a reader wants figures that are newer than the newest copy. Of an open page.
  bool is_asked() const;

  // What needs no walk: cheap, and only if something changed.
  void write_now();
  // A whole copy.
  void write(const Statistics& statistics, const Allocated& allocated, u64 taken_ns, u64 walk_ns);
  // In between: entries of the copy that is being written, for figures that statistics do not have.
  void begin();
  void add_heap(u32 index, const struct HeapStatistics& statistics, u64 allocated_blocks);
  void add_span(const SpanFigures& span);

  const char* path() const { return path_; }

 private:
  page::Page* page_ = nullptr;
  char path_[kPagePathBytes] = {};
};

}  // namespace coffer
