// SPDX-License-Identifier: MIT
#include "observe/pprof.hpp"

#include <string.h>

#include <initializer_list>

#include "observe/interpreted.h"

namespace coffer {

namespace {

// --- gzip: a header, blocks that are stored as they are, a check sum. ---

class GzipFile {
 public:
  explicit GzipFile(int file) : file_(file) {
    constexpr u8 kHeader[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff};
    good_ = os::write_file(file, kHeader, sizeof kHeader);
  }

  void put(const void* from, usize bytes) {
    const u8* data = static_cast<const u8*>(from);
    for (usize i = 0; i < bytes; ++i) {
      if (used_ == sizeof buffer_) flush(false);
      buffer_[used_++] = data[i];
    }
  }

  bool finish() {
    flush(true);
    u8 end[8];
    little_endian(end, ~check_, 4);
    little_endian(end + 4, total_, 4);
    return good_ && os::write_file(file_, end, sizeof end);
  }

 private:
  static void little_endian(u8* to, u64 value, u32 bytes) {
    for (u32 i = 0; i < bytes; ++i) to[i] = static_cast<u8>(value >> (8 * i));
  }

  void flush(bool last) {
    u8 head[5] = {static_cast<u8>(last ? 1 : 0)};
    little_endian(head + 1, used_, 2);
    little_endian(head + 3, ~u64{used_}, 2);
    good_ = good_ && os::write_file(file_, head, sizeof head) && os::write_file(file_, buffer_, used_);
    for (usize i = 0; i < used_; ++i) {
      check_ ^= buffer_[i];
      for (u32 bit = 0; bit < 8; ++bit) check_ = check_ >> 1 ^ (0xedb88320u & (0u - (check_ & 1)));
    }
    total_ += used_;
    used_ = 0;
  }

  int file_;
  bool good_;
  u32 check_ = ~0u;
  u64 total_ = 0;
  usize used_ = 0;
  u8 buffer_[2048];
};

// --- Protocol buffers: a message is built before it is written, for its length comes first. ---

constexpr u32 kVarint = 0, kBytes = 2;

template <usize kMost>
class Message {
 public:
  void varint(u64 value) {
    for (; value >= 0x80; value >>= 7) byte(static_cast<u8>(value | 0x80));
    byte(static_cast<u8>(value));
  }
  void number(u32 field, u64 value) {
    varint(field << 3 | kVarint);
    varint(value);
  }
  template <usize kOther>
  void message(u32 field, const Message<kOther>& inner) {
    varint(field << 3 | kBytes);
    varint(inner.length());
    for (usize i = 0; i < inner.length(); ++i) byte(inner.data()[i]);
  }
  const u8* data() const { return bytes_; }
  usize length() const { return length_; }

 private:
  void byte(u8 value) {
    COFFER_ASSERT(length_ < kMost);
    bytes_[length_++] = value;
  }
  usize length_ = 0;
  u8 bytes_[kMost];
};

// The fields of profile.proto that are used.
namespace profile {
enum : u32 {
  sample_type = 1,
  sample,
  mapping,
  location,
  function,
  string_table,
  time_nanos = 9,
  duration_nanos,
  period_type,
  period,
  comment,
  default_sample_type
};
}
namespace sample {
enum : u32 { location_id = 1, value };
}
namespace location {
enum : u32 { id = 1, mapping_id, address, line };
}
namespace line {
enum : u32 { function_id = 1, line };
}
namespace function {
enum : u32 { id = 1, name, system_name, filename };
}
namespace mapping {
enum : u32 { id = 1, memory_start, memory_limit, file_offset, filename, build_id };
}

constexpr const char* kStrings[] = {"",
                                    "count",
                                    "bytes",
                                    "space",
                                    "alloc_objects",
                                    "alloc_space",
                                    "inuse_objects",
                                    "inuse_space",
                                    "peak_objects",
                                    "peak_space"};
enum : u32 {
  kNone,
  kCount,
  kBytesUnit,
  kSpace,
  kAllocObjects,
  kAllocSpace,
  kInuseObjects,
  kInuseSpace,
  kPeakObjects,
  kPeakSpace,
  kStringCount
};
static_assert(sizeof kStrings / sizeof kStrings[0] == kStringCount);

constexpr u32 kMostMappings = 512;
constexpr char kOff[] = "sampling is off";  // coffer heap --pid turns it on, then

u64 rounded(double sum) { return sum > 0 ? static_cast<u64>(sum + 0.5) : 0; }

class Writer {
 public:
  Writer(const Samples& samples, int file) : samples_(samples), file_(file) {}

  bool write(const ProfileTimes& times) {
    for (const char* text : kStrings) put_string(text, strlen(text));
    for (const u32 type : {kAllocObjects, kInuseObjects, kPeakObjects}) {
      put_type(profile::sample_type, type, kCount);
      put_type(profile::sample_type, type + 1, kBytesUnit);  // each one's space is behind its objects
    }
    os::for_each_code_mapping(&Writer::visit_mapping, this);
    for (u32 i = 0; i < samples_.addresses(); ++i) put_location(i);
    for (u32 i = 0; i < samples_.stacks(); ++i) put_sample(i);
    put_type(profile::period_type, kSpace, kBytesUnit);
    Message<64> rest;
    rest.number(profile::time_nanos, times.time_ns);
    rest.number(profile::duration_nanos, times.duration_ns);
    rest.number(profile::period, times.period);
    rest.number(profile::comment, put_peak_time(times.peak_ns));
    if (!times.is_on) rest.number(profile::comment, put_string(kOff, strlen(kOff)));
    rest.number(profile::default_sample_type, kInuseSpace);
    file_.put(rest.data(), rest.length());
    return file_.finish();
  }

 private:
  struct Pair {
    u32 type, unit;
  };
  struct Range {
    uptr begin, end;
  };

  template <usize kMost>
  void put(u32 field, const Message<kMost>& message) {
    Message<16> head;
    head.varint(field << 3 | kBytes);
    head.varint(message.length());
    file_.put(head.data(), head.length());
    file_.put(message.data(), message.length());
  }

  u32 put_string(const char* text, usize length) {
    Message<16> head;
    head.varint(profile::string_table << 3 | kBytes);
    head.varint(length);
    file_.put(head.data(), head.length());
    file_.put(text, length);
    return strings_++;
  }

  // "the highest moment: 1234 ns after sampling began". pprof shows it.
  u32 put_peak_time(u64 ns) {
    TextBuffer<96> text;
    text.add("the highest moment: ").number(ns).add(" ns after sampling began");
    return put_string(text.data(), text.length());
  }

  void put_type(u32 field, u32 type, u32 unit) {
    Message<16> message;
    message.number(1, type);
    message.number(2, unit);
    put(field, message);
  }

  static void visit_mapping(const os::Mapping& one, void* self) { static_cast<Writer*>(self)->put_mapping(one); }

  void put_mapping(const os::Mapping& one) {
    if (mappings_ == kMostMappings) return;
    ranges_[mappings_++] = {one.begin, one.end};
    Message<128> message;
    message.number(mapping::id, mappings_);
    message.number(mapping::memory_start, one.begin);
    message.number(mapping::memory_limit, one.end);
    message.number(mapping::file_offset, one.offset);
    message.number(mapping::filename, put_string(one.path, strlen(one.path)));
    if (one.build_id_bytes != 0) {
      char text[2 * os::kMostBuildId];
      for (u32 i = 0; i < one.build_id_bytes; ++i) {
        text[2 * i] = "0123456789abcdef"[one.build_id[i] >> 4];
        text[2 * i + 1] = "0123456789abcdef"[one.build_id[i] & 15];
      }
      message.number(mapping::build_id, put_string(text, usize{2} * one.build_id_bytes));
    }
    put(profile::mapping, message);
  }

  void put_location(u32 index) {
    const uptr at = samples_.address(index);
    Message<64> message;
    message.number(location::id, index + 1);
    for (u32 i = 0; i < mappings_; ++i) {
      if (at >= ranges_[i].begin && at < ranges_[i].end) message.number(location::mapping_id, i + 1);
    }
    message.number(location::address, at);
    coffer_interpreted place;
    if (&coffer_interpreted_place != nullptr && coffer_interpreted_place(at, &place) != 0) {
      put_function(index + 1, place);
      Message<32> line;
      line.number(line::function_id, index + 1);
      line.number(line::line, place.line);
      message.message(location::line, line);
    }
    put(profile::location, message);
  }

  // Each place has a function of its own.
  void put_function(u64 identity, const coffer_interpreted& place) {
    const u32 name = put_string(place.function, strlen(place.function));
    Message<64> message;
    message.number(function::id, identity);
    message.number(function::name, name);
    message.number(function::system_name, name);
    message.number(function::filename, put_string(place.file, strlen(place.file)));
    put(profile::function, message);
  }

  void put_sample(u32 stack) {
    const StackSums& sums = samples_.sums(stack);
    const u64 blocks = rounded(sums.allocated_blocks);
    if (blocks == 0) return;
    Message<kMostFrames * 5> frames;
    samples_.for_each_frame(stack, [&](u32 index) { frames.varint(index + 1); });
    const LiveSums peak = samples_.at_peak(stack);
    Message<64> values;
    values.varint(blocks);
    values.varint(rounded(sums.allocated_bytes));
    values.varint(rounded(sums.allocated_blocks - sums.freed_blocks));
    values.varint(rounded(sums.allocated_bytes - sums.freed_bytes));
    values.varint(rounded(peak.blocks));
    values.varint(rounded(peak.bytes));
    Message<kMostFrames * 5 + 80> message;
    message.message(sample::location_id, frames);
    message.message(sample::value, values);
    put(profile::sample, message);
  }

  const Samples& samples_;
  GzipFile file_;
  u32 strings_ = 0;
  u32 mappings_ = 0;
  // Here and not on the stack: a signal handler may have a small one. The samples' lock is around it.
  static inline Range ranges_[kMostMappings];
};

}  // namespace

bool write_pprof(const Samples& samples, const ProfileTimes& times, int file) {
  return Writer(samples, file).write(times);
}

}  // namespace coffer
