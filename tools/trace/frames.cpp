// SPDX-License-Identifier: MIT
#include "trace/frames.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "trace/crc32.hpp"

namespace coffer::trace {

namespace {

// A fuzzer would spend its time on checksums.
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
constexpr bool kCheckCrc = false;
#else
constexpr bool kCheckCrc = true;
#endif

class FileSource final : public Source {
 public:
  explicit FileSource(const std::string& path) : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) throw Error(path + ": " + std::strerror(errno));
    struct stat status{};
    if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
      ::close(descriptor_);
      throw Error(path + ": no regular file, and a trace is read from several places at once");
    }
    size_ = static_cast<u64>(status.st_size);
  }
  ~FileSource() override { ::close(descriptor_); }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  u64 size() const override { return size_; }
  std::string name() const override { return path_; }
  void read(u64 offset, void* to, std::size_t length) const override {
    auto* at = static_cast<char*>(to);
    while (length > 0) {
      const ssize_t got = ::pread(descriptor_, at, length, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw Error(path_, offset, std::strerror(errno));
      if (got == 0) throw Error(path_, offset, "the file has become shorter while it was read");
      at += got;
      offset += static_cast<u64>(got);
      length -= static_cast<std::size_t>(got);
    }
  }

 private:
  std::string path_;
  int descriptor_;
  u64 size_ = 0;
};

class MemorySource final : public Source {
 public:
  MemorySource(const void* data, std::size_t length) : data_(static_cast<const u8*>(data)), length_(length) {}
  u64 size() const override { return length_; }
  std::string name() const override { return "trace"; }
  void read(u64 offset, void* to, std::size_t length) const override {
    if (length > 0) std::memcpy(to, data_ + offset, length);
  }

 private:
  const u8* data_;
  std::size_t length_;
};

std::string hex(u64 value) {
  char text[20];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace

std::unique_ptr<Source> open_file(const std::string& path) { return std::make_unique<FileSource>(path); }
std::unique_ptr<Source> from_memory(const void* data, std::size_t length) {
  return std::make_unique<MemorySource>(data, length);
}

FrameFile::FrameFile(std::unique_ptr<Source> source) : source_(std::move(source)) {
  read_head();
  scan();
  if (frames_.empty()) return;
  const FrameHead& last = frames_.back().head;
  const u64 ticks = last.ticks - head_.ticks, ns = last.ns - head_.ns;
  if (ticks != 0 && ns != 0) ns_per_tick_ = static_cast<double>(ns) / static_cast<double>(ticks);
}

void FrameFile::read_head() {
  const u64 size = source_->size();
  if (size == 0) fail(0, "the file is empty");
  source_->read(0, &head_, std::min<u64>(size, sizeof head_));
  if (std::memcmp(head_.magic, kMagic, std::min<u64>(size, sizeof kMagic)) != 0) {
    fail(0, "no trace of Coffer: it does not begin with \\x89COFTR\\r\\n");
  }
  if (size < sizeof head_) fail(size, "the head is cut off");
  if (head_.major != kMajor || head_.minor > kMinor) {
    fail(8, "format version " + std::to_string(head_.major) + "." + std::to_string(head_.minor) +
                ", and this reader knows 1.0");
  }
  if (head_.information > kMaxInformation) fail(12, "the information is longer than 1 MiB");
  if (size - sizeof head_ < head_.information) fail(size, "the head is cut off");
  Buffer bytes(head_.information);
  source_->read(sizeof head_, bytes.data(), bytes.size());
  Head plain = head_;
  plain.crc = 0;
  if (kCheckCrc && crc32(crc32(0, &plain, sizeof plain), bytes.data(), bytes.size()) != head_.crc) {
    fail(52, "the head's checksum is wrong");
  }
  if (head_.blocks > 1) fail(40, "blocks are neither addresses nor identities");
  if (std::any_of(std::begin(head_.zero), std::end(head_.zero), [](u8 byte) { return byte != 0; })) {
    fail(41, "not zero");
  }
  information_ = parse_information(bytes.data(), bytes.size(), sizeof head_);
}

Information FrameFile::parse_information(const u8* at, u64 length, u64 offset) const {
  Information result;
  for (u64 i = 0; i < length;) {
    u16 key_length;
    u32 value_length;
    if (length - i < 6) fail(offset + i, "the information ends within a key's length");
    std::memcpy(&key_length, at + i, 2);
    std::memcpy(&value_length, at + i + 2, 4);
    if (key_length == 0) fail(offset + i, "a key of no length");
    if (length - i - 6 < u64{key_length} + value_length) fail(offset + i, "a key or value ends after the information");
    const char* const key = reinterpret_cast<const char*>(at) + i + 6;
    if (!result.emplace(std::string(key, key_length), std::string(key + key_length, value_length)).second) {
      fail(offset + i, "a key is there twice: " + std::string(key, key_length));
    }
    i += 6 + u64{key_length} + value_length;
  }
  return result;
}

void FrameFile::check_frame(u64 offset, const FrameHead& head) const {
  if (head.magic != kFrameMagic) fail(offset, "no frame begins here");
  FrameHead plain = head;
  plain.crc = 0;
  if (kCheckCrc && crc32(0, &plain, sizeof plain) != head.crc)
    fail(offset + 60, "the frame header's checksum is wrong");
  const auto kind = static_cast<Kind>(head.kind);
  if (kind != Kind::records && kind != Kind::modules && kind != Kind::footer) {
    fail(offset + 4, "no such kind of frame: " + std::to_string(head.kind));
  }
  if (head.codec > 1) fail(offset + 5, "no such codec: " + std::to_string(head.codec));
  if (head.zero != 0) fail(offset + 6, "not zero");
  if (head.zero2 != 0) fail(offset + 52, "not zero");
  if (head.plain > kMaxPlain) fail(offset + 12, "a payload longer than 16 MiB");
  if (head.codec == 0 && head.stored != head.plain) fail(offset + 8, "a stored payload of two lengths");
  if (head.first > head.last) fail(offset + 16, "the frame ends before it begins");
  if (kind != Kind::records && head.records != 0) fail(offset + 48, "records in a frame of another kind");
  const u64 ticks = frames_.empty() ? head_.ticks : frames_.back().head.ticks;
  const u64 ns = frames_.empty() ? head_.ns : frames_.back().head.ns;
  if (head.ticks < ticks || head.ns < ns) fail(offset + 32, "the frame was written before the one before it");
}

void FrameFile::scan() {
  const u64 size = source_->size();
  u64 offset = sizeof head_ + head_.information;
  while (offset < size) {
    if (complete_) fail(offset, "something follows the footer");
    Frame frame{offset, {}};
    const u64 left = size - offset;
    source_->read(offset, &frame.head, std::min<u64>(left, sizeof frame.head));
    if (left < sizeof frame.head) {
      if (std::memcmp(&frame.head, &kFrameMagic, std::min<u64>(left, sizeof kFrameMagic)) != 0) {
        fail(offset, "no frame begins here");
      }
      ignored_bytes_ = left;
      return;
    }
    check_frame(offset, frame.head);
    if (left - sizeof frame.head < frame.head.stored) {
      ignored_bytes_ = left;
      return;
    }
    if (static_cast<Kind>(frame.head.kind) == Kind::footer) {
      const auto payload = load(frame);
      footer_ = parse_information(payload->data(), payload->size(), offset + sizeof frame.head);
      complete_ = true;
    } else {
      frames_.push_back(frame);
    }
    offset += sizeof frame.head + frame.head.stored;
  }
}

std::shared_ptr<const Buffer> FrameFile::load(const Frame& frame) const {
  const u64 offset = frame.offset + sizeof(FrameHead);
  auto stored = std::make_shared<Buffer>(frame.head.stored);
  source_->read(offset, stored->data(), stored->size());
  if (kCheckCrc && crc32(0, stored->data(), stored->size()) != frame.head.payload_crc) {
    fail(frame.offset + 56, "the payload's checksum is wrong");
  }
  if (static_cast<Codec>(frame.head.codec) == Codec::stored) return stored;
  if (ZSTD_getFrameContentSize(stored->data(), stored->size()) != frame.head.plain) {
    fail(offset, "no zstd frame of " + std::to_string(frame.head.plain) + " bytes");
  }
  if (ZSTD_findFrameCompressedSize(stored->data(), stored->size()) != stored->size()) {
    fail(offset, "the payload is not one zstd frame");
  }
  auto plain = std::make_shared<Buffer>(frame.head.plain);
  const std::size_t got = ZSTD_decompress(plain->data(), plain->size(), stored->data(), stored->size());
  if (ZSTD_isError(got) != 0) fail(offset, std::string("zstd: ") + ZSTD_getErrorName(got));
  if (got != plain->size()) fail(offset, "the payload is shorter than its frame says");
  return plain;
}

void FrameFile::fail(const Frame& frame, u64 byte, const std::string& what) const {
  if (static_cast<Codec>(frame.head.codec) == Codec::stored) fail(frame.offset + sizeof(FrameHead) + byte, what);
  fail(frame.offset, "at byte " + hex(byte) + " of the decompressed frame: " + what);
}

u64 FrameFile::nanoseconds(u64 ticks) const {
  if (ticks <= head_.ticks) return 0;
  const double ns = static_cast<double>(ticks - head_.ticks) * ns_per_tick_;
  return ns >= 0x1p63 ? u64{1} << 63 : static_cast<u64>(ns + 0.5);
}

u64 FrameFile::ticks(u64 nanoseconds) const {
  const double ticks = static_cast<double>(nanoseconds) / ns_per_tick_;
  return ticks >= 0x1p63 ? u64{1} << 63 : static_cast<u64>(ticks + 0.5);
}

}  // namespace coffer::trace
