// SPDX-License-Identifier: MIT
// Writes a trace from records or events, for tools; times are nanoseconds since the start. Throws Error.
//
//   Writer writer("out.trace", {{"made_by", "…"}}, Blocks::identities);
//   writer.append(event); …
//   writer.close({});
//
// A writer that is not closed leaves no file behind. Who wants the old one to stay until then gives another name (the
// coffer command does).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trace/frame_writer.hpp"
#include "trace/reader.hpp"
#include "trace/record.hpp"

namespace coffer::trace {

class Writer {
 public:
  Writer(const std::string& path, const Information& information, Blocks blocks, int level = 3);
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Of each thread in its order; `record` is no stack.
  void append(u32 thread, const Record& record);
  // As a reader gives it. Into a trace with identities; realloc of an unknown block becomes malloc.
  void append(const Event& event);
  void stack(u32 thread, u64 time, u32 number, const std::vector<u64>& frames);
  void modules(const ModuleSet& set);
  void flush();
  // `footer` gets `records` and `threads`.
  void close(Information footer);

  u64 records() const { return records_; }

 private:
  struct Batch {
    Buffer bytes;
    u32 records = 0;
    Base begin, base;
  };
  u8* room(u32 thread, u64 bytes, Batch*& batch);
  void added(Batch& batch, const u8* end, u64 first);
  void check(int failure) const;

  std::string path_;
  std::unique_ptr<FrameWriter> file_;
  std::map<u32, Batch> batches_;
  int level_;
  u64 bytes_ = 0, records_ = 0;
  u64 first_ = ~u64{0}, last_ = 0;  // of what is not flushed
  u64 now_ = 0;
  bool closed_ = false;
};

}  // namespace coffer::trace
