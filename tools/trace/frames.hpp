// SPDX-License-Identifier: MIT
// A trace file as head and frames: what is where, checked; and frames decompressed one by one. Each frame stands for
// itself: where the file is damaged or cut short, the frames that are whole are read, and what is missing is counted.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
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
  u64 offset = 0;  // of its header in the file
  FrameHead head{};

  u64 head_bytes() const { return head.magic == kFrameMagic1 ? sizeof(FrameHead1) : sizeof(FrameHead); }
  u64 payload() const { return offset + head_bytes(); }
  u64 end() const { return payload() + head.stored; }
};

// What cannot be read, as far as it is known: a file that was cut short does not say how much came after.
struct Missing {
  u64 bytes = 0;   // of the file
  u64 frames = 0;  // in version 1: those of which the header is left
  u64 records = 0;
  bool is_head = false;  // then nothing says which program it was, where and when
  bool any() const { return bytes != 0 || frames != 0 || is_head; }
};

class FrameFile {
 public:
  explicit FrameFile(std::unique_ptr<Source> source);

  const Head& head() const { return head_; }
  const Information& information() const { return information_; }
  const std::vector<Frame>& frames() const { return frames_; }  // without the footer
  const Information& footer() const { return footer_; }
  bool complete() const { return complete_; }  // the footer is there, whatever is missing before it
  // Grows where load() finds a damaged payload.
  const Missing& missing() const { return missing_; }
  // The same in words, one line; empty: the file is whole.
  std::string shortfall() const;
  u64 size() const { return source_->size(); }

  // Nanoseconds since the start.
  u64 nanoseconds(u64 ticks) const;
  u64 ticks(u64 nanoseconds) const;

  // nullptr: it is damaged, and counted as missing.
  std::shared_ptr<const Buffer> load(const Frame& frame);
  [[noreturn]] void fail(u64 byte, const std::string& what) const { throw Error(source_->name(), byte, what); }
  // For a fault within a frame, at this byte of its decompressed payload.
  [[noreturn]] void fail(const Frame& frame, u64 byte, const std::string& what) const;

 private:
  std::optional<Error> read_head();
  void scan(u64 offset);
  bool read_frame(u64 offset, Frame& frame) const;
  std::optional<Error> fault_of(const Frame& frame) const;
  bool search(u64 from, Frame& frame);
  void add(const Frame& frame);
  void give_up_last();
  Information parse_information(const u8* at, u64 length, u64 offset) const;

  std::unique_ptr<Source> source_;
  Head head_{};
  Information information_, footer_;
  std::vector<Frame> frames_;
  bool complete_ = false;
  Missing missing_;
  u64 next_index_ = 0, next_record_ = 0;  // of the frame that comes next, if none is missing
  double ns_per_tick_ = 1;
};

}  // namespace coffer::trace
