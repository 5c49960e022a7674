// SPDX-License-Identifier: MIT
#include "trace/writer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace coffer::trace {

namespace {

// With the largest record and its batch's head behind it, a batch still fits a frame.
constexpr u64 kFrameBytes = kMaxRecords - 4096;
static_assert(sizeof(BatchHead) + stack_bytes(kMaxFrames) < 4096);

}  // namespace

Writer::Writer(const std::string& path, const Information& information, Blocks blocks, int level)
    : path_(path), level_(level) {
  const int descriptor = ::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) throw Error(path_ + ": " + std::strerror(errno));
  file_ = std::make_unique<FrameWriter>(descriptor);
  check(file_->write_head(information, blocks, {}, 0));
}

Writer::~Writer() {
  if (!closed_) ::unlink(path_.c_str());
}

void Writer::check(int failure) const {
  if (failure != 0) throw Error(path_ + ": " + std::strerror(failure));
}

u8* Writer::room(u32 thread, u64 bytes, Batch*& batch) {
  batch = &batches_[thread];
  const std::size_t used = batch->bytes.size();
  batch->bytes.resize(used + bytes + 8);
  return batch->bytes.data() + used;
}

void Writer::added(Batch& batch, const u8* end, u64 first) {
  const auto used = static_cast<std::size_t>(end - batch.bytes.data());
  bytes_ += used;
  batch.bytes.resize(used);
  ++batch.records;
  ++records_;
  first_ = std::min(first_, first);
  last_ = std::max(last_, batch.base.time);
  if (bytes_ >= kFrameBytes) flush();
}

void Writer::append(u32 thread, const Record& record) {
  Batch* batch;
  u8* const at = room(thread, kMaxRecord, batch);
  const std::size_t before = static_cast<std::size_t>(at - batch->bytes.data());
  const u64 time = std::max(record.time, batch->base.time);
  u8* const end = encode(at, record, batch->base);
  bytes_ -= before;  // `added` counts the whole batch
  added(*batch, end, time);
}

void Writer::stack(u32 thread, u64 time, u32 number, const std::vector<u64>& frames) {
  if (number == 0 || frames.empty() || frames.size() > kMaxFrames) throw Error("not a stack");
  Batch* batch;
  const auto count = static_cast<u32>(frames.size());
  u8* const at = room(thread, stack_bytes(count), batch);
  bytes_ -= static_cast<u64>(at - batch->bytes.data());
  const u64 first = std::max(time, batch->base.time);
  u8* const end = encode_stack(at, time, number, frames.data(), count, batch->base);
  added(*batch, end, first);
}

void Writer::append(const Event& event) {
  Record record;
  record.op = event.op;
  record.time = event.time;
  record.a = event.size;
  record.stack = event.stack;
  record.has_instructions = (event.flags & kCounted) != 0;
  record.instructions = event.instructions;
  record.detail = event.detail;
  switch (event.op) {
    case Op::aligned:
      record.detail = event.alignment == 0 ? 0 : static_cast<u8>(63 - __builtin_clzll(event.alignment));
      record.b = event.block;
      break;
    case Op::realloc:
      if ((event.flags & kUnknownBefore) != 0) {
        record.op = Op::malloc;
        record.b = event.block;
        break;
      }
      if (event.block == 0) return;  // it failed, and the block is not in the trace
      record.old = event.block;
      record.b = (event.flags & kFailed) != 0 ? 0 : event.block;
      break;
    case Op::free:
      record.a = event.stated_size;
      record.b = event.block;
      break;
    case Op::take:
    case Op::give:
      record.b = event.address;
      break;
    default:
      record.b = event.block;
      break;
  }
  append(event.thread, record);
}

void Writer::modules(const ModuleSet& set) {
  Buffer bytes;
  for (const Module& module : set.modules) {
    ModuleHead head{module.start,
                    module.end,
                    module.offset,
                    static_cast<u16>(module.path.size()),
                    static_cast<u8>(module.build_id.size()),
                    0};
    const auto* const from = reinterpret_cast<const u8*>(&head);
    bytes.insert(bytes.end(), from, from + 28);
    bytes.insert(bytes.end(), module.path.begin(), module.path.end());
    bytes.insert(bytes.end(), module.build_id.begin(), module.build_id.end());
  }
  now_ = std::max(now_, set.time);
  check(file_->write_frame(Kind::modules, bytes.data(), bytes.size(), set.time, set.time, 0, {now_, now_}, level_));
}

void Writer::flush() {
  if (first_ > last_) return;
  Buffer payload;
  payload.reserve(bytes_ + sizeof(BatchHead) * batches_.size());
  u32 records = 0;
  const auto write = [&] {
    now_ = std::max(now_, last_);
    check(file_->write_frame(Kind::records, payload.data(), payload.size(), first_, last_, records, {now_, now_},
                             level_));
    payload.clear();
    records = 0;
  };
  for (auto& [thread, batch] : batches_) {
    if (batch.records == 0) continue;
    if (!payload.empty() && payload.size() + sizeof(BatchHead) + batch.bytes.size() > kMaxRecords) write();
    const BatchHead head{thread,           static_cast<u32>(batch.bytes.size()), batch.records, 0, batch.begin.time,
                         batch.begin.block};
    const auto* const from = reinterpret_cast<const u8*>(&head);
    payload.insert(payload.end(), from, from + sizeof head);
    payload.insert(payload.end(), batch.bytes.begin(), batch.bytes.end());
    records += batch.records;
    batch.bytes.clear();
    batch.records = 0;
    batch.begin = batch.base;
  }
  write();
  bytes_ = 0;
  first_ = ~u64{0};
  last_ = 0;
}

void Writer::close(Information footer) {
  flush();
  footer["records"] = std::to_string(records_);
  footer["threads"] = std::to_string(batches_.size());
  check(file_->write_footer(footer, {now_, now_}));
  file_.reset();
  closed_ = true;
}

}  // namespace coffer::trace
