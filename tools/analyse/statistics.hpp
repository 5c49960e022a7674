// SPDX-License-Identifier: MIT
// What a trace says of itself, in one pass over its events: counts, sizes, lifetimes, threads, call sites, and live
// bytes over time. Where is needed what lived at one moment, a second pass up to that moment finds it (moment.hpp).
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "analyse/json.hpp"
#include "analyse/tally.hpp"
#include "replay/flat_map.hpp"
#include "trace/reader.hpp"

namespace coffer::analyse {

class Statistics {
 public:
  explicit Statistics(u64 expected_events);

  void add(const trace::Event& event);

  void write(Json& out) const;

  u64 peak_bytes() const { return peak_; }
  u64 peak_event() const { return peak_event_; }  // how many events come before that moment
  u64 duration() const { return last_time_; }

 private:
  struct Live {
    u64 time, size;
    u32 thread, stack;
  };
  struct ThreadFacts {
    u64 system = 0, first = ~u64{0}, last = 0;
    Tally allocations, frees, remote;
    u64 reallocs = 0, failed = 0;
  };
  struct SizeFacts {
    u64 count = 0, requested = 0, live = 0, most_live = 0, live_requested = 0, requested_at_most = 0;
  };
  struct Site {  // reallocs count as allocations
    Tally allocations, frees;
    u64 lifetimes = 0, live = 0, most_live = 0;
  };
  struct Series {
    std::vector<std::pair<u64, u64>> points;  // time, value
    u64 every = 1, seen = 0;
  };
  struct Point {
    u64 time, bytes, blocks, most;
  };

  void begin(const trace::Event& event, u64 size, bool is_new);
  void end(const Live& block, const trace::Event& event, bool is_freed);
  void sized(u64 size, bool is_born);
  void moved(u64 more, u64 less);
  void figure(const trace::Event& event);

  void write_threads(Json& out) const;
  void write_sizes(Json& out) const;
  void write_lifetimes(Json& out) const;
  void write_sites(Json& out) const;
  void write_timeline(Json& out) const;
  void write_remote(Json& out) const;

  const u64 every_;
  u64 events_ = 0, live_ = 0, blocks_ = 0, peak_ = 0, peak_event_ = 0, peak_time_ = 0, last_time_ = 0;
  u64 most_since_point_ = 0;
  u64 lost_ = 0, forks_ = 0, implied_ = 0;
  Tally operations_[trace::kOps];
  replay::FlatMap<Live> map_;
  std::map<u32, ThreadFacts> threads_;
  std::map<u64, SizeFacts> sizes_;  // by size class, what it gives
  std::map<u64, Tally> histogram_;  // by request, rounded down to a quarter of an octave
  std::map<u32, Tally> lifetimes_;  // by log2 of nanoseconds; freed blocks
  std::map<u32, Site> sites_;
  std::map<std::pair<u32, u32>, Tally> remote_;  // allocated by, freed by
  std::vector<Point> timeline_;
  std::map<u8, Series> figures_;
};

// What a request of this size gets in Coffer's size classes; whole pages above them.
u64 rounded_size(u64 size);

// The size, rounded down to a quarter of an octave.
u64 size_step(u64 size);

// Rounded down; of 0 it is 0.
u32 log2_of(u64 value);

}  // namespace coffer::analyse
