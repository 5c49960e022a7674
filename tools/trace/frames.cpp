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

std::string count(u64 number, const char* what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

}  // namespace

std::unique_ptr<Source> open_file(const std::string& path) { return std::make_unique<FileSource>(path); }
std::unique_ptr<Source> from_memory(const void* data, std::size_t length) {
  return std::make_unique<MemorySource>(data, length);
}

FrameFile::FrameFile(std::unique_ptr<Source> source) : source_(std::move(source)) {
  u64 begin = 0;
  if (const std::optional<Error> fault = read_head()) {
    missing_.is_head = true;
    head_ = {};
    head_.major = kMajor;
    Frame first;
    if (!search(0, first)) throw *fault;
  } else {
    begin = sizeof head_ + head_.information;
  }
  scan(begin);
  if (frames_.empty()) return;
  const FrameHead& last = frames_.back().head;
  const u64 ticks = last.ticks - head_.ticks, ns = last.ns - head_.ns;
  if (ticks != 0 && ns != 0) ns_per_tick_ = static_cast<double>(ns) / static_cast<double>(ticks);
}

// Throws where the head is as it was written, and wrong; gives the error where it is damaged.
std::optional<Error> FrameFile::read_head() {
  const u64 size = source_->size();
  const auto damaged = [&](u64 byte, const std::string& what) { return Error(source_->name(), byte, what); };
  if (size == 0) fail(0, "the file is empty");
  source_->read(0, &head_, std::min<u64>(size, sizeof head_));
  if (std::memcmp(head_.magic, kMagic, std::min<u64>(size, sizeof kMagic)) != 0) {
    return damaged(0, "no trace of Coffer: it does not begin with \\x89COFTR\\r\\n");
  }
  if (size < sizeof head_) return damaged(size, "the head is cut off");
  if (head_.major == 0 || head_.major > kMajor || head_.minor > kMinor) {
    return damaged(8, "format version " + std::to_string(head_.major) + "." + std::to_string(head_.minor) +
                          ", and this reader knows 1.0 and 2.0");
  }
  if (head_.information > kMaxInformation) return damaged(12, "the information is longer than 1 MiB");
  if (size - sizeof head_ < head_.information) return damaged(size, "the head is cut off");
  Buffer bytes(head_.information);
  source_->read(sizeof head_, bytes.data(), bytes.size());
  Head plain = head_;
  plain.crc = 0;
  if (kCheckCrc && crc32(crc32(0, &plain, sizeof plain), bytes.data(), bytes.size()) != head_.crc) {
    return damaged(52, "the head's checksum is wrong");
  }
  if (head_.blocks > 1) fail(40, "blocks are neither addresses nor identities");
  if (std::any_of(std::begin(head_.zero), std::end(head_.zero), [](u8 byte) { return byte != 0; })) {
    fail(41, "not zero");
  }
  information_ = parse_information(bytes.data(), bytes.size(), sizeof head_);
  return std::nullopt;
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

// false: no header of this version is there whole.
bool FrameFile::read_frame(u64 offset, Frame& frame) const {
  frame = {offset, {}};
  const bool is_first = head_.major == 1;
  frame.head.magic = is_first ? kFrameMagic1 : kFrameMagic;
  const u64 size = source_->size(), length = frame.head_bytes();
  if (offset > size || size - offset < length) return false;
  u8 bytes[sizeof(FrameHead)];
  source_->read(offset, bytes, length);
  u32 crc;
  std::memcpy(&crc, bytes + length - sizeof crc, sizeof crc);
  if (std::memcmp(bytes, &frame.head.magic, sizeof frame.head.magic) != 0) return false;
  std::memset(bytes + length - sizeof crc, 0, sizeof crc);
  if (kCheckCrc && crc32(0, bytes, length) != crc) return false;
  if (!is_first) {
    std::memcpy(&frame.head, bytes, sizeof frame.head);
    return true;
  }
  FrameHead1 old;
  std::memcpy(&old, bytes, sizeof old);
  // Both numbers were to be zero: fault_of says it where they are not.
  const auto zero = static_cast<u8>(old.zero != 0 || old.zero2 != 0);
  frame.head = {old.magic,
                old.kind,
                old.codec,
                head_.blocks,
                zero,
                old.stored,
                old.plain,
                old.first,
                old.last,
                old.ticks,
                old.ns,
                old.records,
                static_cast<u32>(next_index_),
                next_record_,
                head_.ticks,
                head_.ns,
                old.payload_crc,
                crc};
  return true;
}

// What is wrong with a header whose checksum is right.
std::optional<Error> FrameFile::fault_of(const Frame& frame) const {
  const FrameHead& head = frame.head;
  const auto wrong = [&](u64 byte, const std::string& what) {
    return Error(source_->name(), frame.offset + byte, what);
  };
  const auto kind = static_cast<Kind>(head.kind);
  if (kind != Kind::records && kind != Kind::modules && kind != Kind::footer) {
    return wrong(4, "no such kind of frame: " + std::to_string(head.kind));
  }
  if (head.codec > 1) return wrong(5, "no such codec: " + std::to_string(head.codec));
  if (head.blocks > 1 || head.blocks != head_.blocks) return wrong(6, "other blocks than the head says");
  if (head.zero != 0) return wrong(head_.major == 1 ? 6 : 7, "not zero");
  if (head.plain > kMaxPlain) return wrong(12, "a payload longer than 16 MiB");
  if (head_.major > 1 && kind == Kind::records && head.plain > kMaxRecords) {
    return wrong(12, "a payload of records longer than 1 MiB");
  }
  if (head.codec == 0 && head.stored != head.plain) return wrong(8, "a stored payload of two lengths");
  if (head.first > head.last) return wrong(16, "the frame ends before it begins");
  if (kind != Kind::records && head.records != 0) return wrong(48, "records in a frame of another kind");
  const u64 ticks = frames_.empty() ? head_.ticks : frames_.back().head.ticks;
  const u64 ns = frames_.empty() ? head_.ns : frames_.back().head.ns;
  if (head.ticks < ticks || head.ns < ns) return wrong(32, "the frame was written before the one before it");
  if (head.index < next_index_) return wrong(52, "the frames' numbers do not rise");
  if (head.before < next_record_) return wrong(56, "the frames have more records than this one says");
  if (head.start_ticks != head_.ticks || head.start_ns != head_.ns) return wrong(64, "a frame of another trace");
  return std::nullopt;
}

// The next header from there on that belongs here.
bool FrameFile::search(u64 from, Frame& frame) {
  constexpr u64 kStep = 1u << 18;
  const u32 magic = head_.major == 1 ? kFrameMagic1 : kFrameMagic;
  const u64 size = source_->size();
  Buffer bytes;
  for (u64 at = from; at < size; at += kStep) {
    bytes.resize(std::min<u64>(kStep + sizeof magic - 1, size - at));  // one may lie across two steps
    source_->read(at, bytes.data(), bytes.size());
    const u8* next = bytes.data();
    const u8* const end = next + bytes.size();
    while ((next = static_cast<const u8*>(memmem(next, static_cast<std::size_t>(end - next), &magic, sizeof magic))) !=
           nullptr) {
      const u64 offset = at + static_cast<u64>(next - bytes.data());
      ++next;
      if (!read_frame(offset, frame)) continue;
      if (missing_.is_head && frames_.empty()) {  // the frame says what the head said
        head_.blocks = frame.head.blocks;
        head_.ticks = frame.head.start_ticks;
        head_.ns = frame.head.start_ns;
      }
      if (!fault_of(frame)) return true;
    }
  }
  return false;
}

void FrameFile::add(const Frame& frame) {
  missing_.frames += frame.head.index - next_index_;
  missing_.records += frame.head.before - next_record_;
  next_index_ = u64{frame.head.index} + 1;
  next_record_ = frame.head.before + frame.head.records;
  frames_.push_back(frame);
}

// Its payload is not whole.
void FrameFile::give_up_last() {
  ++missing_.frames;
  missing_.records += frames_.back().head.records;
  frames_.pop_back();
}

void FrameFile::scan(u64 offset) {
  const u64 size = source_->size(), begin = offset;
  while (offset != size) {
    Frame frame;
    if (read_frame(offset, frame)) {
      if (const std::optional<Error> fault = fault_of(frame)) throw *fault;
    } else {
      // It is damaged, or bytes are missing or too many: the next one may begin within the payload of the last one.
      if (!search(frames_.empty() ? begin : frames_.back().payload(), frame)) break;
      if (!frames_.empty() && frame.offset < frames_.back().end()) give_up_last();
    }
    add(frame);
    offset = frame.end();
    if (static_cast<Kind>(frame.head.kind) == Kind::footer) break;
  }
  u64 whole = begin;
  if (!frames_.empty() && frames_.back().end() > size) give_up_last();
  for (const Frame& frame : frames_) whole += frame.end() - frame.offset;
  missing_.bytes = size - whole;
  if (frames_.empty() || static_cast<Kind>(frames_.back().head.kind) != Kind::footer) return;
  complete_ = true;
  const Frame footer = frames_.back();
  if (const auto payload = load(footer)) {
    footer_ = parse_information(payload->data(), payload->size(), footer.payload());
  }
  frames_.pop_back();
}

std::string FrameFile::shortfall() const {
  std::string text;
  const auto add = [&text](const std::string& more) { text += (text.empty() ? "" : "; ") + more; };
  if (missing_.bytes != 0) {
    add(std::to_string(missing_.bytes) + " of " + std::to_string(size()) + " bytes cannot be read");
  }
  if (missing_.records != 0) {
    add(count(missing_.records, "record") + " in " + count(missing_.frames, "frame") +
        (missing_.records == 1 ? " is missing" : " are missing"));
  }
  if (missing_.is_head) add("the head is damaged: which program it was, and when, is not known");
  if (!complete_) add("the recording was cut off, and how much came after is not known");
  return text;
}

std::shared_ptr<const Buffer> FrameFile::load(const Frame& frame) {
  const u64 offset = frame.payload();
  auto stored = std::make_shared<Buffer>(frame.head.stored);
  source_->read(offset, stored->data(), stored->size());
  if (kCheckCrc && crc32(0, stored->data(), stored->size()) != frame.head.payload_crc) {
    ++missing_.frames;
    missing_.records += frame.head.records;
    missing_.bytes += frame.end() - frame.offset;
    return nullptr;
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
  if (static_cast<Codec>(frame.head.codec) == Codec::stored) fail(frame.payload() + byte, what);
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
