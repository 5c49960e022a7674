// SPDX-License-Identifier: MIT
#include "analyse/moment.hpp"

#include <algorithm>

#include "analyse/statistics.hpp"

namespace coffer::analyse {

using trace::Event;
using trace::Op;

u64 Layout::place(u64 size) {
  const u64 bytes = std::max<u64>(1, rounded_size(size));
  if (bytes > window_ / 2) {
    // Large blocks have windows of their own, which their release frees whole: none needs to be used again.
    const u64 address = next_window_;
    next_window_ += (bytes + window_ - 1) / window_ * window_;
    return address;
  }
  Class& one = classes_[bytes];
  if (!one.free.empty()) {
    const u64 address = one.free.top();
    one.free.pop();
    return address;
  }
  if (one.next + bytes > one.end) {
    one.next = next_window_;
    one.end = next_window_ += window_;
  }
  const u64 address = one.next;
  one.next += bytes;
  return address;
}

void Layout::release(u64 address, u64 size) {
  const u64 bytes = std::max<u64>(1, rounded_size(size));
  if (bytes <= window_ / 2) classes_[bytes].free.push(address);
}

// The windows that the block is in, with how many of its bytes; those that it fills whole are left out, for nothing in
// them is pinned.
template <class Visit>
void Windows::each_part(const Block& block, Visit&& visit) const {
  const u64 size = std::max<u64>(1, block.size);
  const u64 first = block.address / window_, last = (block.address + size - 1) / window_;
  if (first == last) {
    visit(first + 1, size);
    return;
  }
  visit(first + 1, (first + 1) * window_ - block.address);
  visit(last + 1, block.address + size - last * window_);
}

void Windows::insert(u64 identity, const Block& block) {
  blocks_.insert(identity, block);
  u64 in_parts = 0;
  each_part(block, [&](u64 key, u64 bytes) {
    if (windows_.find(key) == nullptr) {
      windows_.insert(key, {});
      used_ += window_;
    }
    Window& window = *windows_.find(key);
    window.live += bytes;
    ++window.blocks;
    in_parts += bytes;
  });
  live_ += block.size;
  used_ += std::max<u64>(1, block.size) - in_parts;
}

void Windows::remove(const Block& block) {
  u64 in_parts = 0;
  each_part(block, [&](u64 key, u64 bytes) {
    Window& window = *windows_.find(key);
    window.live -= bytes;
    in_parts += bytes;
    if (--window.blocks == 0) {
      windows_.take(key);
      used_ -= window_;
    }
  });
  live_ -= block.size;
  used_ -= std::max<u64>(1, block.size) - in_parts;
}

void Windows::add(const Event& event) {
  ++events_;
  time_ = event.time;
  if (!trace::has_block(event.op) || (event.flags & trace::kFailed) != 0) return;
  u32 stack = event.stack, thread = event.thread;
  if (event.op == Op::free || (event.op == Op::realloc && (event.flags & trace::kUnknownBefore) == 0)) {
    const Block old = blocks_.take(event.block);
    remove(old);
    if (!has_addresses_) layout_.release(old.address, old.size);
    thread = old.thread;
    if (stack == 0) stack = old.stack;
  }
  if (event.op != Op::free) {
    const u64 address = has_addresses_ ? event.address : layout_.place(event.size);
    insert(event.block, {address, event.size, stack, thread});
  }
  if (gap() > worst_gap_) {
    worst_gap_ = gap();
    worst_event_ = events_;
  }
}

void Windows::write(Json& out) const {
  struct Share {
    u64 blocks = 0, live = 0, half_empty = 0;
    double pinned = 0;
  };
  std::map<u32, Share> stacks, threads;
  std::map<u64, Share> classes;
  u64 half_empty = 0, windows = 0;
  double pinned_all = 0;
  replay::FlatMap<Window> seen = windows_;
  seen.each([&](u64, const Window& window) {
    ++windows;
    if (2 * window.live >= window_) return;
    ++half_empty;
    pinned_all += static_cast<double>(window_ - window.live);
  });
  blocks_.each([&](u64, const Block& block) {
    double pinned = 0;
    each_part(block, [&](u64 key, u64) {
      const Window& window = *seen.find(key);
      if (2 * window.live < window_) {
        pinned += static_cast<double>(window_ - window.live) / static_cast<double>(window.blocks);
      }
    });
    const auto add = [&](Share& share) {
      ++share.blocks;
      share.live += block.size;
      share.half_empty += pinned > 0 ? 1 : 0;
      share.pinned += pinned;
    };
    add(stacks[block.stack]);
    add(threads[block.thread]);
    add(classes[rounded_size(block.size)]);
  });
  out.number("time_ns", time_).number("event", events_).number("window", window_).number("live", live_);
  out.number("used", used_).number("windows", windows).number("half_empty", half_empty);
  out.number("pinned", static_cast<u64>(pinned_all)).key("addresses").string(has_addresses_ ? "recorded" : "model");
  const auto write_all = [&out](const char* name, const char* key, const auto& shares) {
    out.key(name).open('[');
    for (const auto& [id, share] : shares) {
      out.open('{').number(key, id).number("blocks", share.blocks).number("live", share.live);
      out.number("pinning", share.half_empty).number("pinned", static_cast<u64>(share.pinned + 0.5)).close('}');
    }
    out.close(']');
  };
  write_all("by_stack", "stack", stacks);
  write_all("by_class", "class", classes);
  write_all("by_thread", "thread", threads);
}

}  // namespace coffer::analyse
