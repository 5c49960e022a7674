// SPDX-License-Identifier: MIT
// The reader's own types, for its files alone.
#pragma once

#include "trace/reader.hpp"

namespace coffer::trace {

// A batch that was loaded and not read to its end. The payload is counted in buffered_ once, by its first piece.
struct Reader::Piece {
  std::shared_ptr<const Buffer> payload;
  const Frame* frame;
  u64 begin, end;  // of the records in the payload
  u32 records;
  Base base;
};

struct Reader::Thread {
  u32 number = 0;
  std::deque<Piece> pieces;
  Decoder decoder{nullptr, nullptr, {}};
  u32 left = 0;           // records of the first piece that were not fetched
  Record record;          // the next one
  u64 position = 0;       // of it, in its payload
  bool fetched = false;   // whether `record` is there
  bool detached = false;  // a realloc whose first half was done: `moving` is its block
  bool forced = false;    // it waited long enough
  Block moving;
  u64 last_time = 0;

  u64 time() const { return detached ? record.time + record.duration : record.time; }
};

// The queue has the earliest on top; of equal times, the lower thread.
struct Reader::Later {
  u64 time;
  Thread* thread;
  bool operator<(const Later& other) const {
    return time != other.time ? time > other.time : thread->number > other.thread->number;
  }
};

}  // namespace coffer::trace
