// SPDX-License-Identifier: MIT
// What lived at one moment, and what it pinned. Memory is looked at in windows, aligned runs of (by default) 32 KiB,
// the least that Coffer makes a span of. A window with a live block cannot be given back; what of it is not live is
// pinned by the blocks in it, by each the same share.
//
// Where the trace has addresses, they are the windows. A trace with identities has none: then blocks are laid out as
// a plain allocator would, a window for each size class, the lowest free place first.
#pragma once

#include <map>
#include <queue>
#include <vector>

#include "analyse/json.hpp"
#include "replay/flat_map.hpp"
#include "trace/reader.hpp"

namespace coffer::analyse {

// Addresses for blocks that have none.
class Layout {
 public:
  explicit Layout(u64 window) : window_(window) {}

  u64 place(u64 size);
  void release(u64 address, u64 size);

 private:
  struct Class {
    // The lowest free places first.
    std::priority_queue<u64, std::vector<u64>, std::greater<>> free;
    u64 next = 0, end = 0;
  };

  u64 window_;
  u64 next_window_ = u64{1} << 30;
  std::map<u64, Class> classes_;
};

class Windows {
 public:
  struct Window {
    u64 live = 0, blocks = 0;
  };
  struct Block {
    u64 address = 0, size = 0;
    u32 stack = 0, thread = 0;
  };

  // addresses: the events have them.
  Windows(u64 window, bool addresses) : window_(window), has_addresses_(addresses), layout_(window) {}

  void add(const trace::Event& event);

  u64 events() const { return events_; }
  u64 time() const { return time_; }
  u64 live() const { return live_; }
  u64 used() const { return used_; }  // bytes of windows with a live block
  u64 gap() const { return used_ > live_ ? used_ - live_ : 0; }
  u64 worst_gap() const { return worst_gap_; }
  u64 worst_event() const { return worst_event_; }

  // What is live, by call site; and who pins half-empty windows, by call site, size class and thread.
  void write(Json& out) const;

 private:
  void insert(u64 identity, const Block& block);
  void remove(const Block& block);
  template <class Visit>
  void each_part(const Block& block, Visit&& visit) const;

  u64 window_;
  bool has_addresses_;
  Layout layout_;
  replay::FlatMap<Block> blocks_;
  replay::FlatMap<Window> windows_;
  u64 events_ = 0, time_ = 0, live_ = 0, used_ = 0, worst_gap_ = 0, worst_event_ = 0;
};

}  // namespace coffer::analyse
