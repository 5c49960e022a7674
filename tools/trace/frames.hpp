// SPDX-License-Identifier: MIT
// A trace file as head and frames: what is where, checked; and frames decompressed one by one.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "trace/format.hpp"

namespace coffer::trace {

// Why a trace cannot be read: the message begins with the file's name and the byte.
class Error : public std::runtime_error {
 public:
  Error(const std::string& file, u64 byte, const std::string& what)
      : std::runtime_error(file + ": byte " + std::to_string(byte) + ": " + what), byte_(byte) {}
  explicit Error(const std::string& what) : std::runtime_error(what) {}
  u64 byte() const { return byte_; }

 private:
  u64 byte_ = 0;
};

// What bytes come from. Reading throws Error, also when fewer bytes are there than size() said.
class Source {
 public:
  virtual ~Source() = default;
  virtual u64 size() const = 0;
  virtual void read(u64 offset, void* to, std::size_t length) const = 0;
  virtual std::string name() const = 0;
};
std::unique_ptr<Source> open_file(const std::string& path);
// The bytes must outlive the source.
std::unique_ptr<Source> from_memory(const void* data, std::size_t length);

using Information = std::map<std::string, std::string>;
using Buffer = std::vector<u8>;

struct Frame {
  u64 offset;  // of its header in the file
  FrameHead head;
};

class FrameFile {
 public:
  explicit FrameFile(std::unique_ptr<Source> source);

  const Head& head() const { return head_; }
  const Information& information() const { return information_; }
  const std::vector<Frame>& frames() const { return frames_; }  // without the footer
  const Information& footer() const { return footer_; }
  bool complete() const { return complete_; }
  u64 ignored_bytes() const { return ignored_bytes_; }  // of an incomplete last frame
  u64 size() const { return source_->size(); }

  // Nanoseconds since the start.
  u64 nanoseconds(u64 ticks) const;
  u64 ticks(u64 nanoseconds) const;

  std::shared_ptr<const Buffer> load(const Frame& frame) const;
  [[noreturn]] void fail(u64 byte, const std::string& what) const { throw Error(source_->name(), byte, what); }
  // For a fault within a frame, at this byte of its decompressed payload.
  [[noreturn]] void fail(const Frame& frame, u64 byte, const std::string& what) const;

 private:
  void read_head();
  void scan();
  void check_frame(u64 offset, const FrameHead& head) const;
  Information parse_information(const u8* at, u64 length, u64 offset) const;

  std::unique_ptr<Source> source_;
  Head head_{};
  Information information_, footer_;
  std::vector<Frame> frames_;
  bool complete_ = false;
  u64 ignored_bytes_ = 0;
  double ns_per_tick_ = 1;
};

}  // namespace coffer::trace
