// SPDX-License-Identifier: MIT
// Reads a trace as one sequence of events in an order that can be replayed; docs/reference/trace.md explains it.
//
//   Reader reader(open_file(path));          // throws Error
//   for (Event event; reader.next(event);) …
//
// What the events promise: a block's identity is from 1 up, new at its allocation; reallocated and freed only while it
// lives; times never go back. A malformed file is an Error with the byte, at the latest from next(). Of a damaged one,
// or one cut short, what is whole is read: file().missing() and file().shortfall() tell the rest. A block of which the
// beginning is missing is as one from before the recording; one of which the end is missing lives on, until its address
// is given out again.
#pragma once

#include <deque>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "trace/block_table.hpp"
#include "trace/frames.hpp"
#include "trace/record.hpp"

namespace coffer::trace {

enum EventFlag : u8 {
  kFailed = 1,         // an allocation or realloc that gave nothing (a realloc's block lives on)
  kImplied = 2,        // a free that was not recorded, but must have been
  kUnknownBefore = 4,  // a realloc of a block that the trace does not know: its block is new
  kCounted = 8,        // `instructions` is there
};

// The same layout in C and Python (trace_c.h).
struct Event {
  u64 time = 0;          // nanoseconds since the start; of a realloc, when it ended
  u64 block = 0;         // identity; 0: none
  u64 size = 0;          // allocations: requested; free: of the block; otherwise field A of the record
  u64 old_size = 0;      // realloc
  u64 alignment = 0;     // aligned
  u64 address = 0;       // of the block or, for take and give, of the memory; 0 in traces with identities
  u64 instructions = 0;  // since the thread's last record
  u32 thread = 0;
  u32 stack = 0;  // 0: none
  Op op = Op::malloc;
  u8 flags = 0;
  u8 detail = 0;  // Take, Give, Figure or Lost
  u8 zero = 0;
  u32 stated_size = 0;  // free: what the caller stated, at most 2^32 - 1; 0: nothing
};
static_assert(sizeof(Event) == 72);

struct Module {
  u64 start, end, offset;
  std::string path;
  std::string build_id;  // bytes
};
struct ModuleSet {
  u64 time;  // nanoseconds: holds from here on
  std::vector<Module> modules;
};

// What the reader has found so far.
struct Summary {
  u64 events = 0;         // given by next
  u64 allocations = 0;    // malloc, calloc, aligned that gave a block, and reallocs of unknown blocks
  u64 frees = 0;          // with implied ones
  u64 reallocs = 0;       // that did not fail
  u64 failed = 0;         // allocations and reallocs
  u64 unknown_frees = 0;  // left out: their block is not from this trace
  u64 implied_frees = 0;
  u64 lost = 0;  // records that the recorder says it lost
  u64 live_blocks = 0, live_bytes = 0, peak_bytes = 0;
};

// Called after each frame that a reader has read, with its number of records; nullptr: nobody wants to know. For the
// progress of programs of one thread.
inline void (*g_frame_was_read)(u64 records) = nullptr;

class Reader {
 public:
  explicit Reader(std::unique_ptr<Source> source);
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  const FrameFile& file() const { return file_; }
  const Information& information() const { return file_.information(); }

  // false: there is no further event.
  bool next(Event& event);

  // These grow while events are read. Stacks are innermost first; by their numbers.
  const Summary& summary() const { return summary_; }
  const std::vector<ModuleSet>& modules() const { return modules_; }
  const std::unordered_map<u32, std::vector<u64>>& stacks() const { return stacks_; }
  u32 threads() const { return static_cast<u32>(threads_.size()); }

 private:
  struct Piece;
  struct Thread;
  struct Later;

  bool refill();
  void load(std::size_t index);
  void load_batches(const Frame& frame, const std::shared_ptr<const Buffer>& payload);
  void load_modules(const Frame& frame, const Buffer& payload);
  bool fetch(Thread& thread);
  Thread* pick();
  void requeue(Thread* thread);
  void park(Thread* thread, u64 key);
  void wake(u64 key);
  Thread* force();

  bool apply(Thread& thread);  // false: it waits now, or is to be looked at again
  bool apply_allocation(Thread& thread);
  bool apply_realloc(Thread& thread);
  void finish_realloc(Thread& thread);
  bool apply_free(Thread& thread);
  void apply_other(Thread& thread);
  u64 new_identity(const Thread& thread, u64 given);
  void imply_free(const Thread& thread, u64 key);
  Event& emit(const Thread& thread, Op op, u64 ticks);
  [[noreturn]] void fail(const Thread& thread, const std::string& what) const;
  // Identities leave no doubt, unless something is missing.
  bool is_certain() const { return identities_ && !file_.missing().any(); }

  FrameFile file_;
  const bool identities_;
  const u64 patience_;           // ticks that clocks may differ by
  std::vector<u64> watermarks_;  // the lowest time in the frames from this one on
  std::size_t next_frame_ = 0;
  u64 buffered_ = 0;  // bytes of payloads that are in use

  std::unordered_map<u32, std::unique_ptr<Thread>> threads_;
  std::priority_queue<Later> queue_;
  Thread* current_ = nullptr;                      // was the last one, and is not in the queue
  std::set<std::pair<u64, u32>> parked_;           // time, thread
  std::unordered_multimap<u64, Thread*> waiting_;  // for a change of this block's state

  BlockTable blocks_;
  std::vector<bool> used_identities_;
  std::unordered_set<u64> used_high_identities_;
  std::deque<Event> ready_;
  u64 last_time_ = 0;
  u64 last_identity_ = 0;

  Summary summary_;
  std::vector<ModuleSet> modules_;
  std::unordered_map<u32, std::vector<u64>> stacks_;
};

}  // namespace coffer::trace
