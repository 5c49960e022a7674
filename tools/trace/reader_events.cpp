// SPDX-License-Identifier: MIT
// The reader's second half: what a record means for the blocks.
#include <algorithm>
#include <cstring>

#include "trace/reader.hpp"
#include "trace/reader_impl.hpp"

namespace coffer::trace {

Event& Reader::emit(const Thread& thread, Op op, u64 ticks) {
  Event& event = ready_.emplace_back();
  last_time_ = std::max(last_time_, file_.nanoseconds(ticks));
  event.time = last_time_;
  event.op = op;
  event.thread = thread.number;
  event.stack = thread.record.stack;
  if (thread.record.has_instructions) {
    event.flags |= kCounted;
    event.instructions = thread.record.instructions;
  }
  return event;
}

// Identities are given anew, by the order of allocations; those of the file must be from 1 and never come twice.
u64 Reader::new_identity(const Thread& thread, u64 given) {
  if (identities_) {
    bool is_new;
    if (given < (u64{1} << 20) + 16 * last_identity_) {
      if (given >= used_identities_.size()) used_identities_.resize(std::max(2 * used_identities_.size(), given + 1));
      is_new = !used_identities_[given] && used_high_identities_.count(given) == 0;
      used_identities_[given] = true;
    } else {
      is_new = used_high_identities_.insert(given).second;
    }
    if (!is_new) fail(thread, "identity " + std::to_string(given) + " is given to a second block");
  }
  ++summary_.allocations;
  return ++last_identity_;
}

bool Reader::apply(Thread& thread) {
  switch (thread.record.op) {
    case Op::malloc:
    case Op::calloc:
    case Op::aligned:
      return apply_allocation(thread);
    case Op::realloc:
      return apply_realloc(thread);
    case Op::free:
      return apply_free(thread);
    default:
      apply_other(thread);
      return true;
  }
}

// A block at this address was freed without a record, since the address was given out again.
void Reader::imply_free(const Thread& thread, u64 key) {
  const Block block = blocks_.take(key);
  Event& event = emit(thread, Op::free, thread.time());
  event.block = block.identity;
  event.size = block.size;
  event.address = identities_ ? 0 : key;
  event.flags = kImplied;
  event.stack = 0;
  event.instructions = 0;
  ++summary_.implied_frees;
  ++summary_.frees;
  --summary_.live_blocks;
  summary_.live_bytes -= block.size;
}

bool Reader::apply_allocation(Thread& thread) {
  const Record& record = thread.record;
  if (record.b != 0 && blocks_.find(record.b) != nullptr) {
    if (is_certain()) fail(thread, "identity " + std::to_string(record.b) + " is given to a second block");
    if (!thread.forced) {
      park(&thread, record.b);
      return false;
    }
    imply_free(thread, record.b);
  }
  Block block{0, record.a};
  if (record.b != 0) block.identity = new_identity(thread, record.b);
  Event& event = emit(thread, record.op, record.time);
  event.size = record.a;
  if (record.op == Op::aligned) event.alignment = u64{1} << record.detail;
  if (record.b == 0) {
    event.flags |= kFailed;
    ++summary_.failed;
    return true;
  }
  event.block = block.identity;
  event.address = identities_ ? 0 : record.b;
  blocks_.insert(record.b, block);
  ++summary_.live_blocks;
  summary_.live_bytes += block.size;
  summary_.peak_bytes = std::max(summary_.peak_bytes, summary_.live_bytes);
  wake(record.b);
  return true;
}

// First the block leaves its old address, then (detached) it comes to its new one.
bool Reader::apply_realloc(Thread& thread) {
  const Record& record = thread.record;
  if (thread.detached) {
    const u64 to = record.b != 0 ? record.b : record.old;
    if (blocks_.find(to) != nullptr) {
      if (!thread.forced) {
        park(&thread, to);
        return false;
      }
      imply_free(thread, to);
    }
    finish_realloc(thread);
    thread.detached = false;
    wake(to);
    return true;
  }
  if (identities_ && record.b != 0 && record.b != record.old) fail(thread, "a realloc changes its block's identity");
  if (blocks_.find(record.old) == nullptr) {
    if (!thread.forced) {
      park(&thread, record.old);
      return false;
    }
    if (is_certain()) fail(thread, "a realloc of block " + std::to_string(record.old) + ", which is not live");
    thread.moving = {};
  } else {
    thread.moving = blocks_.take(record.old);
    wake(record.old);
  }
  thread.detached = true;
  return true;
}

void Reader::finish_realloc(Thread& thread) {
  const Record& record = thread.record;
  Block block = thread.moving;
  const bool is_unknown = block.identity == 0;
  if (record.b == 0) {
    Event& event = emit(thread, Op::realloc, thread.time());
    event.block = block.identity;
    event.size = record.a;
    event.old_size = block.size;
    event.address = identities_ ? 0 : record.old;
    event.flags |= kFailed;
    ++summary_.failed;
    if (!is_unknown) blocks_.insert(record.old, block);
    return;
  }
  const u64 old_size = block.size;
  if (is_unknown) {
    block.identity = new_identity(thread, record.b);
    ++summary_.live_blocks;
  }
  block.size = record.a;
  Event& event = emit(thread, Op::realloc, thread.time());
  event.block = block.identity;
  event.size = record.a;
  event.old_size = old_size;
  event.address = identities_ ? 0 : record.b;
  if (is_unknown) event.flags |= kUnknownBefore;
  blocks_.insert(record.b, block);
  ++summary_.reallocs;
  summary_.live_bytes += record.a - old_size;
  summary_.peak_bytes = std::max(summary_.peak_bytes, summary_.live_bytes);
}

bool Reader::apply_free(Thread& thread) {
  const Record& record = thread.record;
  if (blocks_.find(record.b) == nullptr) {
    if (!thread.forced) {
      park(&thread, record.b);
      return false;
    }
    if (is_certain()) fail(thread, "a free of block " + std::to_string(record.b) + ", which is not live");
    ++summary_.unknown_frees;
    return true;
  }
  const Block block = blocks_.take(record.b);
  Event& event = emit(thread, Op::free, record.time);
  event.block = block.identity;
  event.size = block.size;
  event.address = identities_ ? 0 : record.b;
  event.stated_size = static_cast<u32>(std::min<u64>(record.a, ~u32{0}));
  ++summary_.frees;
  --summary_.live_blocks;
  summary_.live_bytes -= block.size;
  wake(record.b);
  return true;
}

void Reader::apply_other(Thread& thread) {
  const Record& record = thread.record;
  if (record.op == Op::stack) {
    std::vector<u64> frames(record.b);
    std::memcpy(frames.data(), record.frames, 8 * record.b);
    const auto [it, is_new] = stacks_.emplace(static_cast<u32>(record.a), frames);
    if (!is_new && it->second != frames) fail(thread, "stack " + std::to_string(record.a) + " is defined twice");
    return;
  }
  Event& event = emit(thread, record.op, record.time);
  event.size = record.a;
  event.address = record.b;
  event.detail = record.detail;
  if (record.op == Op::lost) summary_.lost += record.a;
}

}  // namespace coffer::trace
