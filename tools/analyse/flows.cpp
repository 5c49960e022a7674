// SPDX-License-Identifier: MIT
#include "analyse/flows.hpp"

#include <algorithm>

#include "analyse/statistics.hpp"

namespace coffer::analyse {

using trace::Event;
using trace::Op;

namespace {

using Histogram = std::map<std::pair<u32, u64>, Tally>;

void write_histogram(Json& out, const char* name, const Histogram& histogram, u64 (*value)(u64)) {
  out.key(name).open('[');
  for (const auto& [key, tally] : histogram) {
    out.open('[').number(key.first).number(value(key.second)).number(tally.count).number(tally.bytes).close(']');
  }
  out.close(']');
}

}  // namespace

Flows::Flows(u64 duration, u32 parts, u64 peak_event)
    : width_(duration / parts + 1), parts_(parts), peak_event_(peak_event) {}

Flows::Part& Flows::part_of(Stack& stack) {
  if (stack.parts.empty() || stack.parts.back().number != part_) stack.parts.push_back({part_, {}, {}, {}});
  return stack.parts.back();
}

void Flows::begin(const Event& event, const Live& block) {
  map_.insert(event.block, block);
  last_block_[event.thread] = event.block;
  Stack& stack = stacks_[block.stack];
  stack.live.add(block.size);
  part_of(stack).allocated.add(block.size);
  sizes_[{part_, size_step(block.size)}].add(block.size);
}

void Flows::end(const Live& block, const Event& event, bool is_freed) {
  Stack& stack = stacks_[block.stack];
  stack.live.remove(block.size);
  Part& part = part_of(stack);
  part.freed.add(block.size);
  u64& last = last_block_[block.thread];
  if (last == event.block) {
    if (is_freed) part.freed_at_once.add(block.size);
    last = 0;
  }
  if (is_freed) lifetimes_[{part_, log2_of(event.time - block.time)}].add(block.size);
}

void Flows::keep_peak() {
  for (auto& [number, stack] : stacks_) stack.at_peak = stack.live;
}

void Flows::add(const Event& event) {
  // Times of threads are not quite in order: a part that has ended stays so.
  part_ = std::max(part_, static_cast<u32>(std::min<u64>(event.time / width_, parts_ - 1)));
  const bool is_failed = (event.flags & trace::kFailed) != 0;
  switch (event.op) {
    case Op::free:
      end(map_.take(event.block), event, true);
      break;
    case Op::realloc: {
      if (is_failed) break;
      if ((event.flags & trace::kUnknownBefore) != 0) {
        begin(event, {event.time, event.size, event.thread, event.stack});
        break;
      }
      const Live old = map_.take(event.block);
      end(old, event, false);
      // As in Statistics, the block lives on: it keeps its birth and its thread.
      begin(event, {old.time, event.size, old.thread, event.stack != 0 ? event.stack : old.stack});
      break;
    }
    case Op::malloc:
    case Op::calloc:
    case Op::aligned:
      if (!is_failed) begin(event, {event.time, event.size, event.thread, event.stack});
      break;
    default:
      break;
  }
  if (++events_ == peak_event_) keep_peak();
}

void Flows::write(Json& out) const {
  out.number("parts", parts_).number("width_ns", width_).key("stacks").open('[');
  for (const auto& [number, stack] : stacks_) {
    out.open('{').number("stack", number).key("at_peak").open('[');
    out.number(stack.at_peak.bytes).number(stack.at_peak.count).close(']').key("flows").open('[');
    for (const Part& part : stack.parts) {
      out.open('[').number(part.number);
      for (const Tally& one : {part.allocated, part.freed, part.freed_at_once}) {
        out.number(one.bytes).number(one.count);
      }
      out.close(']');
    }
    out.close(']').close('}');
  }
  out.close(']');
  write_histogram(out, "sizes", sizes_, [](u64 step) { return step; });
  write_histogram(out, "lifetimes", lifetimes_, [](u64 power) { return power == 0 ? 0 : u64{1} << power; });
}

}  // namespace coffer::analyse
