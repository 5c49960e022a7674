// SPDX-License-Identifier: MIT
#include "analyse/statistics.hpp"

#include <algorithm>

#include "size_class/size_class.hpp"

namespace coffer::analyse {

using trace::Event;
using trace::Op;

namespace {

constexpr u64 kPoints = 500;
constexpr u64 kFigures = 4096;
constexpr u64 kPage = 4096;

const char* const kOperations[trace::kOps] = {"malloc",       "calloc",     "aligned", "realloc", "free",
                                              "thread_start", "thread_end", "fork",    "take",    "give",
                                              "figure",       "stack",      "lost"};
const char* const kFigureNames[6] = {"", "resident", "live", "held", "allocator_resident", "bound"};

void write_tally(Json& out, const Tally& tally) { out.number(tally.count).number(tally.bytes); }

}  // namespace

u64 rounded_size(u64 size) {
  if (size <= kLargestSmall) return class_bytes(compute_class(size));
  return size > ~u64{0} - kPage ? size : (size + kPage - 1) / kPage * kPage;
}

u32 log2_of(u64 value) { return value == 0 ? 0 : 63u - static_cast<u32>(__builtin_clzll(value)); }

u64 size_step(u64 size) {
  if (size < 8) return size;
  const u32 shift = log2_of(size) - 2;
  return size >> shift << shift;
}

Statistics::Statistics(u64 expected_events) : every_(std::max<u64>(1, expected_events / kPoints)) {}

void Statistics::moved(u64 more, u64 less) {
  live_ += more - less;
  most_since_point_ = std::max(most_since_point_, live_);
  if (live_ > peak_) {
    peak_ = live_;
    peak_event_ = events_ + 1;
    peak_time_ = last_time_;
  }
}

void Statistics::sized(u64 size, bool is_born) {
  SizeFacts& facts = sizes_[rounded_size(size)];
  if (is_born) {
    ++facts.count;
    facts.requested += size;
    ++facts.live;
    facts.live_requested += size;
    if (facts.live > facts.most_live) {
      facts.most_live = facts.live;
      facts.requested_at_most = facts.live_requested;
    }
    histogram_[size_step(size)].add(size);
  } else {
    --facts.live;
    facts.live_requested -= size;
  }
}

// `is_new`: not the other end of a realloc.
void Statistics::begin(const Event& event, u64 size, bool is_new) {
  map_.insert(event.block, {event.time, size, event.thread, event.stack});
  ++blocks_;
  if (is_new) threads_[event.thread].allocations.add(size);
  Site& site = sites_[event.stack];
  site.allocations.add(size);
  site.live += size;
  site.most_live = std::max(site.most_live, site.live);
  sized(size, true);
  moved(size, 0);
}

void Statistics::end(const Live& block, const Event& event, bool is_freed) {
  --blocks_;
  Site& site = sites_[block.stack];
  site.live -= block.size;
  sized(block.size, false);
  moved(0, block.size);
  if (!is_freed) return;
  site.frees.add(block.size);
  site.lifetimes += event.time - block.time;
  lifetimes_[log2_of(event.time - block.time)].add(block.size);
  ThreadFacts& thread = threads_[event.thread];
  thread.frees.add(block.size);
  remote_[{block.thread, event.thread}].add(block.size);
  if (block.thread != event.thread) thread.remote.add(block.size);
}

void Statistics::figure(const Event& event) {
  Series& series = figures_[event.detail];
  if (series.seen++ % series.every != 0) return;
  series.points.emplace_back(event.time, event.size);
  if (series.points.size() < 2 * kFigures) return;
  // Half of them go, and of those to come only half as many are kept.
  for (std::size_t i = 0; 2 * i < series.points.size(); ++i) series.points[i] = series.points[2 * i];
  series.points.resize(series.points.size() / 2);
  series.every *= 2;
}

void Statistics::add(const Event& event) {
  last_time_ = std::max(last_time_, event.time);
  operations_[static_cast<u8>(event.op)].add(event.size);
  const bool is_failed = (event.flags & trace::kFailed) != 0;
  ThreadFacts& thread = threads_[event.thread];
  thread.first = std::min(thread.first, event.time);
  thread.last = std::max(thread.last, event.time);
  if (is_failed) ++thread.failed;
  switch (event.op) {
    case Op::free:
      if ((event.flags & trace::kImplied) != 0) ++implied_;
      end(map_.take(event.block), event, true);
      break;
    case Op::realloc: {
      if (is_failed) break;
      ++thread.reallocs;
      // The block lives on: it keeps its birth, and whoever made it is still who pins it; its size is new.
      if ((event.flags & trace::kUnknownBefore) != 0) {
        begin(event, event.size, true);
        break;
      }
      const Live old = map_.take(event.block);
      end(old, event, false);
      Event born = event;
      born.thread = old.thread;
      born.stack = event.stack != 0 ? event.stack : old.stack;
      begin(born, event.size, false);
      map_.find(event.block)->time = old.time;
      break;
    }
    case Op::thread_start:
      thread.system = event.size;
      break;
    case Op::fork:
      ++forks_;
      break;
    case Op::figure:
      figure(event);
      break;
    case Op::lost:
      lost_ += event.size;
      break;
    case Op::malloc:
    case Op::calloc:
    case Op::aligned:
      if (!is_failed) begin(event, event.size, true);
      break;
    default:
      break;
  }
  ++events_;
  if (events_ % every_ == 0) {
    timeline_.push_back({last_time_, live_, blocks_, most_since_point_});
    most_since_point_ = live_;
  }
}

void Statistics::write_threads(Json& out) const {
  out.key("threads").open('[');
  for (const auto& [number, facts] : threads_) {
    if (number == 0) continue;  // the recorder itself
    out.open('{').number("thread", number).number("system", facts.system).number("first_ns", facts.first);
    out.number("last_ns", facts.last).number("allocations", facts.allocations.count);
    out.number("bytes", facts.allocations.bytes).number("frees", facts.frees.count);
    out.number("remote_frees", facts.remote.count).number("reallocs", facts.reallocs).number("failed", facts.failed);
    out.close('}');
  }
  out.close(']');
}

// Of each size class what was asked for in its fullest moment, so that waste is what rounding really cost.
void Statistics::write_sizes(Json& out) const {
  out.key("sizes").open('[');
  for (const auto& [size, facts] : sizes_) {
    out.open('{').number("class", size).number("count", facts.count).number("requested", facts.requested);
    out.number("rounded", facts.count * size).number("most_live", facts.most_live);
    out.number("requested_at_most", facts.requested_at_most).number("live_at_end", facts.live).close('}');
  }
  out.close(']').key("histogram").open('[');
  for (const auto& [size, tally] : histogram_) {
    out.open('[').number(size);
    write_tally(out, tally);
    out.close(']');
  }
  out.close(']');
}

void Statistics::write_lifetimes(Json& out) const {
  out.key("lifetimes").open('[');
  for (const auto& [power, tally] : lifetimes_) {
    out.open('[').number(power == 0 ? 0 : u64{1} << power);
    write_tally(out, tally);
    out.close(']');
  }
  out.close(']');
}

void Statistics::write_sites(Json& out) const {
  out.key("sites").open('[');
  for (const auto& [stack, site] : sites_) {
    out.open('{').number("stack", stack).number("allocations", site.allocations.count);
    out.number("bytes", site.allocations.bytes).number("frees", site.frees.count);
    if (site.frees.count == 0) {
      out.null("mean_lifetime_ns");
    } else {
      out.number("mean_lifetime_ns", site.lifetimes / site.frees.count);
    }
    out.number("most_live", site.most_live).number("live_at_end", site.live).close('}');
  }
  out.close(']');
}

void Statistics::write_timeline(Json& out) const {
  out.key("timeline").open('[');
  for (const Point& point : timeline_) {
    out.open('[').number(point.time).number(point.bytes).number(point.blocks).number(point.most).close(']');
  }
  out.close(']').key("figures").open('{');
  for (const auto& [which, series] : figures_) {
    if (which == 0 || which > 5) continue;
    out.key(kFigureNames[which]).open('[');
    for (const auto& [time, value] : series.points) out.open('[').number(time).number(value).close(']');
    out.close(']');
  }
  out.close('}');
}

void Statistics::write_remote(Json& out) const {
  out.key("remote").open('[');
  for (const auto& [pair, tally] : remote_) {
    out.open('[').number(pair.first).number(pair.second);
    write_tally(out, tally);
    out.close(']');
  }
  out.close(']');
}

void Statistics::write(Json& out) const {
  out.number("events", events_).number("duration_ns", last_time_).number("peak_bytes", peak_);
  out.number("peak_ns", peak_time_).number("peak_event", peak_event_).number("end_bytes", live_);
  out.number("end_blocks", blocks_);
  out.number("lost", lost_).number("forks", forks_).number("implied_frees", implied_);
  out.key("operations").open('{');
  for (std::size_t op = 0; op < trace::kOps; ++op) {
    if (operations_[op].count != 0) out.number(kOperations[op], operations_[op].count);
  }
  out.close('}');
  write_threads(out);
  write_sizes(out);
  write_lifetimes(out);
  write_sites(out);
  write_timeline(out);
  write_remote(out);
}

}  // namespace coffer::analyse
