// SPDX-License-Identifier: MIT
// The reader's first half: frames to threads' records, and the order of threads. reader_events.cpp has the second,
// records to events.
#include "trace/reader.hpp"

#include <algorithm>
#include <cstring>

#include "trace/reader_impl.hpp"

namespace coffer::trace {

namespace {

// By as much clocks of two processors may differ.
constexpr u64 kPatienceNs = 100'000;
// A file may ask the reader to hold frames until later ones are read; honest ones ask for a few.
constexpr u64 kMaxBuffered = u64{1} << 30;

}  // namespace

Reader::Reader(std::unique_ptr<Source> source)
    : file_(std::move(source)),
      identities_(static_cast<Blocks>(file_.head().blocks) == Blocks::identities),
      patience_(file_.ticks(kPatienceNs)) {
  const std::vector<Frame>& frames = file_.frames();
  watermarks_.assign(frames.size() + 1, ~u64{0});
  for (std::size_t i = frames.size(); i-- > 0;) {
    const bool has_records = static_cast<Kind>(frames[i].head.kind) == Kind::records;
    watermarks_[i] = has_records ? std::min(watermarks_[i + 1], frames[i].head.first) : watermarks_[i + 1];
  }
}

Reader::~Reader() = default;

void Reader::load(std::size_t index) {
  const Frame& frame = file_.frames()[index];
  const auto payload = file_.load(frame);
  if (g_frame_was_read != nullptr) g_frame_was_read(frame.head.records);
  if (payload == nullptr) return;
  if (static_cast<Kind>(frame.head.kind) == Kind::modules) {
    load_modules(frame, *payload);
  } else {
    load_batches(frame, payload);
  }
}

void Reader::load_batches(const Frame& frame, const std::shared_ptr<const Buffer>& payload) {
  u64 records = 0;
  bool is_first = true;
  for (u64 at = 0; at < payload->size();) {
    BatchHead head;
    if (payload->size() - at < sizeof head) file_.fail(frame, at, "a batch header ends after the frame");
    std::memcpy(&head, payload->data() + at, sizeof head);
    if (head.zero != 0) file_.fail(frame, at + 12, "not zero");
    if (payload->size() - at - sizeof head < head.bytes) file_.fail(frame, at + 4, "a batch ends after the frame");
    if (head.records == 0 || head.bytes == 0) file_.fail(frame, at, "a batch without records");
    const u64 begin = at + sizeof head;
    at = begin + head.bytes;
    records += head.records;

    std::unique_ptr<Thread>& thread = threads_[head.thread];
    if (thread == nullptr) {
      thread = std::make_unique<Thread>();
      thread->number = head.thread;
    }
    thread->pieces.push_back({payload, &frame, begin, at, head.records, {head.base_time, head.base_block}});
    if (is_first) buffered_ += payload->size();
    is_first = false;
    if (thread->pieces.size() == 1) {
      thread->left = head.records;
      thread->decoder = Decoder(payload->data() + begin, payload->data() + at, thread->pieces.front().base);
      // One that waits for a block, or is being looked at, has its record already.
      if (!thread->fetched && thread.get() != current_ && fetch(*thread)) requeue(thread.get());
    }
  }
  if (records != frame.head.records) file_.fail(frame, 0, "the batches have not as many records as the frame says");
  if (buffered_ > kMaxBuffered) file_.fail(frame.offset, "more than 1 GiB of frames overlap in time");
}

void Reader::load_modules(const Frame& frame, const Buffer& payload) {
  ModuleSet set{file_.nanoseconds(frame.head.first), {}};
  constexpr u64 kHead = 3 * 8 + 4;
  for (u64 at = 0; at < payload.size();) {
    ModuleHead head{};
    if (payload.size() - at < kHead) file_.fail(frame, at, "a module ends after the frame");
    std::memcpy(&head, payload.data() + at, kHead);
    if (head.zero != 0) file_.fail(frame, at + 27, "not zero");
    const u64 text = u64{head.path} + head.build_id;
    if (payload.size() - at - kHead < text) file_.fail(frame, at, "a module ends after the frame");
    if (head.start >= head.end) file_.fail(frame, at, "a module of no length");
    if (!set.modules.empty() && head.start < set.modules.back().end) file_.fail(frame, at, "modules overlap");
    const char* const path = reinterpret_cast<const char*>(payload.data()) + at + kHead;
    set.modules.push_back({head.start, head.end, head.offset, std::string(path, head.path),
                           std::string(path + head.path, head.build_id)});
    at += kHead + text;
  }
  modules_.push_back(std::move(set));
}

void Reader::fail(const Thread& thread, const std::string& what) const {
  if (thread.pieces.empty()) file_.fail(file_.size(), what);
  file_.fail(*thread.pieces.front().frame, thread.position, what);
}

// The thread's next record into thread.record. A piece stays until the record after its last one is wanted, so that
// fail() can say where a record is.
bool Reader::fetch(Thread& thread) {
  while (thread.left == 0) {
    if (thread.pieces.empty()) return false;
    const Piece& done = thread.pieces.front();
    thread.position = static_cast<u64>(thread.decoder.at() - done.payload->data());
    if (!thread.decoder.done()) fail(thread, "the batch has more bytes than records");
    if (done.payload.use_count() == 1) buffered_ -= done.payload->size();
    thread.pieces.pop_front();
    if (thread.pieces.empty()) return false;
    const Piece& piece = thread.pieces.front();
    thread.left = piece.records;
    thread.decoder = Decoder(piece.payload->data() + piece.begin, piece.payload->data() + piece.end, piece.base);
  }
  const Piece& piece = thread.pieces.front();
  thread.position = static_cast<u64>(thread.decoder.at() - piece.payload->data());
  if (thread.decoder.done()) fail(thread, "the batch has fewer records than it says");
  if (const Fault fault = thread.decoder.next(thread.record); fault != nullptr) fail(thread, fault);
  --thread.left;
  const Record& record = thread.record;
  const FrameHead& frame = piece.frame->head;
  if (record.time < thread.last_time) fail(thread, "the thread goes back in time");
  if (record.time < frame.first) fail(thread, "the record is earlier than its frame");
  thread.last_time = record.time + record.duration;
  if (thread.last_time > frame.last) fail(thread, "the record is later than its frame");
  thread.fetched = true;
  return true;
}

void Reader::requeue(Thread* thread) { queue_.push({thread->time(), thread}); }

// Loads frames until the earliest record that is there is earlier than all that are not. false: nothing is left that
// does not wait for another.
bool Reader::refill() {
  const std::size_t count = file_.frames().size();
  while (next_frame_ < count) {
    u64 earliest = current_ != nullptr ? current_->time() : ~u64{0};
    if (!queue_.empty()) earliest = std::min(earliest, queue_.top().time);
    const bool is_there = current_ != nullptr || !queue_.empty();
    if (is_there && earliest < watermarks_[next_frame_]) break;
    load(next_frame_++);
  }
  return current_ != nullptr || !queue_.empty();
}

// The thread whose record comes next; it is in no queue then. nullptr: there is none.
Reader::Thread* Reader::pick() {
  const bool any = refill();
  if (!parked_.empty()) {
    const u64 oldest = parked_.begin()->first;
    u64 earliest = current_ != nullptr ? current_->time() : ~u64{0};
    if (!queue_.empty()) earliest = std::min(earliest, queue_.top().time);
    if (!any || (earliest > oldest && earliest - oldest > patience_ && !is_certain())) {
      if (current_ != nullptr) requeue(current_);
      current_ = nullptr;
      return force();
    }
  }
  if (!any) return nullptr;
  Thread* const mine = current_;
  current_ = nullptr;
  if (mine != nullptr && (queue_.empty() || !(Later{mine->time(), mine} < queue_.top()))) return mine;
  Thread* const first = queue_.top().thread;
  queue_.pop();
  if (mine != nullptr) requeue(mine);
  return first;
}

void Reader::park(Thread* thread, u64 key) {
  parked_.emplace(thread->time(), thread->number);
  waiting_.emplace(key, thread);
}

void Reader::wake(u64 key) {
  if (waiting_.empty()) return;
  const auto [first, last] = waiting_.equal_range(key);
  for (auto it = first; it != last; ++it) {
    parked_.erase({it->second->time(), it->second->number});
    requeue(it->second);
  }
  waiting_.erase(first, last);
}

// The thread that has waited longest waits no more.
Reader::Thread* Reader::force() {
  const auto oldest = parked_.begin();
  Thread* const thread = threads_.at(oldest->second).get();
  parked_.erase(oldest);
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    if (it->second == thread) {
      waiting_.erase(it);
      break;
    }
  }
  thread->forced = true;
  return thread;
}

bool Reader::next(Event& event) {
  while (ready_.empty()) {
    Thread* const thread = pick();
    if (thread == nullptr) return false;
    if (!apply(*thread)) continue;
    thread->forced = false;
    if (!thread->detached) thread->fetched = false;
    if (thread->fetched || fetch(*thread)) current_ = thread;
  }
  event = ready_.front();
  ready_.pop_front();
  ++summary_.events;
  return true;
}

}  // namespace coffer::trace
