// SPDX-License-Identifier: MIT
// Writes head and frames to a file, each whole or not at all: when the disk is full the file is cut back to its last
// whole frame, and writing can be tried again later.
#pragma once

#include <cstddef>
#include <string>

#include "trace/frames.hpp"

struct ZSTD_CCtx_s;

namespace coffer::trace {

struct Clock {
  u64 ticks = 0, ns = 0;
};

class FrameWriter {
 public:
  // Takes the descriptor of an empty file.
  explicit FrameWriter(int descriptor);
  ~FrameWriter();
  FrameWriter(const FrameWriter&) = delete;
  FrameWriter& operator=(const FrameWriter&) = delete;

  // All return 0 or an errno; then nothing was written. A payload of records has at most kMaxRecords bytes, another one
  // kMaxPlain. `level`: zstd's; kStored: not compressed at all.
  static constexpr int kStored = 1000;
  int write_head(const Information& information, Blocks blocks, const Clock& start, u64 realtime_ns);
  int write_frame(Kind kind, const void* payload, std::size_t length, u64 first, u64 last, u32 records,
                  const Clock& now, int level);
  int write_footer(const Information& information, const Clock& now);

  u64 bytes() const { return offset_; }

 private:
  int write_all(const void* head, std::size_t head_length, const void* payload, std::size_t length);

  int descriptor_;
  u64 offset_ = 0;
  Clock start_, last_;
  Blocks blocks_ = Blocks::addresses;
  u32 index_ = 0;    // of the next frame
  u64 records_ = 0;  // in those before it
  Buffer compressed_;
  ZSTD_CCtx_s* context_;
};

}  // namespace coffer::trace
