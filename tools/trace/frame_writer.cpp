// SPDX-License-Identifier: MIT
#include "trace/frame_writer.hpp"

#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "trace/crc32.hpp"

namespace coffer::trace {

namespace {

bool pack_information(const Information& information, Buffer& bytes) {
  for (const auto& [key, value] : information) {
    if (key.empty() || key.size() > 0xFFFF) return false;
    const auto key_length = static_cast<u16>(key.size());
    const auto value_length = static_cast<u32>(value.size());
    const auto* const first = reinterpret_cast<const u8*>(&key_length);
    const auto* const second = reinterpret_cast<const u8*>(&value_length);
    bytes.insert(bytes.end(), first, first + sizeof key_length);
    bytes.insert(bytes.end(), second, second + sizeof value_length);
    bytes.insert(bytes.end(), key.begin(), key.end());
    bytes.insert(bytes.end(), value.begin(), value.end());
  }
  return bytes.size() <= kMaxInformation;
}

}  // namespace

FrameWriter::FrameWriter(int descriptor) : descriptor_(descriptor), context_(ZSTD_createCCtx()) {
  if (context_ == nullptr) throw std::bad_alloc();
}

FrameWriter::~FrameWriter() {
  ZSTD_freeCCtx(context_);
  ::close(descriptor_);
}

int FrameWriter::write_all(const void* head, std::size_t head_length, const void* payload, std::size_t length) {
  u64 at = offset_;
  const auto put = [&](const void* data, std::size_t left) {
    const auto* from = static_cast<const char*>(data);
    while (left > 0) {
      const ssize_t written = ::pwrite(descriptor_, from, left, static_cast<off_t>(at));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return errno;
      if (written == 0) return ENOSPC;
      from += written;
      at += static_cast<u64>(written);
      left -= static_cast<std::size_t>(written);
    }
    return 0;
  };
  int failure = put(head, head_length);
  if (failure == 0) failure = put(payload, length);
  if (failure == 0) {
    offset_ = at;
  } else if (::ftruncate(descriptor_, static_cast<off_t>(offset_)) != 0) {
    // The rest of a frame stays; the reader takes it for the cut-off end, or the next frame is written over it.
  }
  return failure;
}

int FrameWriter::write_head(const Information& information, Blocks blocks, const Clock& start, u64 realtime_ns) {
  Buffer bytes;
  if (!pack_information(information, bytes)) return E2BIG;
  Head head{};
  std::memcpy(head.magic, kMagic, sizeof head.magic);
  head.major = kMajor;
  head.minor = kMinor;
  head.information = static_cast<u32>(bytes.size());
  head.ticks = start.ticks;
  head.ns = start.ns;
  head.realtime_ns = realtime_ns;
  head.blocks = static_cast<u8>(blocks);
  head.crc = crc32(crc32(0, &head, sizeof head), bytes.data(), bytes.size());
  start_ = last_ = start;
  blocks_ = blocks;
  return write_all(&head, sizeof head, bytes.data(), bytes.size());
}

int FrameWriter::write_frame(Kind kind, const void* payload, std::size_t length, u64 first, u64 last, u32 records,
                             const Clock& now, int level) {
  if (length > (kind == Kind::records ? kMaxRecords : kMaxPlain)) return E2BIG;
  FrameHead head{};
  head.magic = kFrameMagic;
  head.kind = static_cast<u8>(kind);
  head.codec = static_cast<u8>(Codec::stored);
  head.blocks = static_cast<u8>(blocks_);
  head.stored = head.plain = static_cast<u32>(length);
  if (level != kStored) {
    compressed_.resize(ZSTD_compressBound(length));
    const std::size_t size =
        ZSTD_compressCCtx(context_, compressed_.data(), compressed_.size(), payload, length, level);
    if (ZSTD_isError(size) == 0 && size < length) {
      head.codec = static_cast<u8>(Codec::zstd);
      head.stored = static_cast<u32>(size);
      payload = compressed_.data();
    }
  }
  head.first = first;
  head.last = last;
  last_.ticks = head.ticks = std::max(now.ticks, last_.ticks);
  last_.ns = head.ns = std::max(now.ns, last_.ns);
  head.records = records;
  head.index = index_;
  head.before = records_;
  head.start_ticks = start_.ticks;
  head.start_ns = start_.ns;
  head.payload_crc = crc32(0, payload, head.stored);
  head.crc = crc32(0, &head, sizeof head);
  const int failure = write_all(&head, sizeof head, payload, head.stored);
  if (failure != 0) return failure;
  ++index_;
  records_ += records;
  return 0;
}

int FrameWriter::write_footer(const Information& information, const Clock& now) {
  Buffer bytes;
  if (!pack_information(information, bytes)) return E2BIG;
  return write_frame(Kind::footer, bytes.data(), bytes.size(), now.ticks, now.ticks, 0, now, 3);
}

}  // namespace coffer::trace
