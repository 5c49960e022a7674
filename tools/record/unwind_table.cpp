// SPDX-License-Identifier: MIT
#include "record/unwind_rules.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace coffer::record {

namespace {

constexpr u8 kDatarelSdata4 = 0x3b, kUdata4 = 0x03, kOmitted = 0xff;
constexpr u64 kGap = 64;  // padding between functions gets no row of its own

void* map(u64 bytes) {
  const long made =
      syscall(SYS_mmap, nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return made < 0 && made > -4096 ? nullptr : reinterpret_cast<void*>(made);
}

template <class T>
bool grow(T*& array, u32 from, u32 to) {
  void* const made = map(u64{to} * sizeof(T));
  if (made == nullptr) return false;
  if (array != nullptr) {
    __builtin_memcpy(made, array, u64{from} * sizeof(T));
    syscall(SYS_munmap, array, u64{from} * sizeof(T));
  }
  array = static_cast<T*>(made);
  return true;
}

u32 pointer_bytes(u8 encoding) {
  switch (encoding & 0x0f) {
    case 0x02:
    case 0x0a:
      return 2;
    case 0x03:
    case 0x0b:
      return 4;
    case 0x00:
    case 0x04:
    case 0x0c:
      return 8;
    default:
      return 0;
  }
}

// The entry at this address: its bytes after the length. Empty if there is none, or it is in the format for more than
// 4 GiB.
Cursor entry_at(const Image& frames, u64 address) {
  if (address < frames.address || address - frames.address >= frames.size) return {nullptr, nullptr};
  Cursor in(frames.bytes + (address - frames.address), frames.bytes + frames.size);
  const u32 length = in.number<u32>();
  if (!in.good() || length < 4 || length == ~u32{0} || length > in.left()) return {nullptr, nullptr};
  return {in.at(), in.at() + length};
}

void read_common(const Image& frames, u64 address, Common& common) {
  common = {};
  common.address = address;
  Cursor in = entry_at(frames, address);
  if (!in.more() || in.number<u32>() != 0) return;
  const u8 version = in.number<u8>();
  if (version != 1 && version != 3) return;
  char letters[8] = {};
  u32 count = 0;
  for (u8 letter = 0; (letter = in.number<u8>()) != 0;) {
    if (count == sizeof letters || !in.good()) return;
    letters[count++] = static_cast<char>(letter);
  }
  common.code_unit = in.uleb();
  common.data_unit = in.sleb();
  if ((version == 1 ? in.number<u8>() : in.uleb()) != kReturnNumber) return;
  common.pointer_bytes = 8;
  if (count != 0 && letters[0] != 'z') return;
  if (count != 0) {
    common.has_data = true;
    Cursor data = in.block();
    for (u32 i = 1; i < count; ++i) {
      switch (letters[i]) {
        case 'R':
          common.pointer_bytes = pointer_bytes(data.number<u8>());
          break;
        case 'P':
          data.skip(pointer_bytes(data.number<u8>()));
          break;
        case 'L':
          data.number<u8>();
          break;
        case 'S':
          common.is_signal = true;
          break;
        default:
          return;
      }
    }
    if (!data.good()) return;
  }
  common.good = in.good() && common.pointer_bytes != 0;
  common.begin = in.at();
  common.end = in.at() + in.left();
}

}  // namespace

bool UnwindTable::add(u32 start, const Rule& rule) {
  if (count_ != 0) {
    const u32 last = starts_[count_ - 1];
    if (start < last) return true;
    if (start == last) {
      rules_[count_ - 1] = rule;
      return true;
    }
    if (rules_[count_ - 1] == rule) return true;
  }
  if (count_ == capacity_) {
    const u32 wanted = capacity_ == 0 ? 1024 : 2 * capacity_;
    if (wanted > (1u << 30) || !grow(starts_, capacity_, wanted)) return false;
    if (!grow(rules_, capacity_, wanted)) {
      syscall(SYS_munmap, starts_, u64{wanted} * sizeof(u32));
      starts_ = nullptr;
      release();
      return false;
    }
    capacity_ = wanted;
  }
  starts_[count_] = start;
  rules_[count_++] = rule;
  return true;
}

Rule UnwindTable::find(u32 at) const {
  u32 low = 0, high = count_;
  while (low < high) {
    const u32 middle = low + (high - low) / 2;
    if (starts_[middle] <= at) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low == 0 ? Rule{} : rules_[low - 1];
}

void UnwindTable::release() {
  if (starts_ != nullptr) syscall(SYS_munmap, starts_, u64{capacity_} * sizeof(u32));
  if (rules_ != nullptr) syscall(SYS_munmap, rules_, u64{capacity_} * sizeof(Rule));
  *this = {};
}

bool read_index(const Image& header, FrameIndex& index) {
  Cursor in(header.bytes, header.bytes + header.size);
  if (in.number<u8>() != 1) return false;
  const u8 frames = in.number<u8>(), count = in.number<u8>(), entries = in.number<u8>();
  if (frames == kOmitted || count != kUdata4 || entries != kDatarelSdata4) return false;
  in.skip(pointer_bytes(frames));
  index.count = in.number<u32>();
  index.entries = static_cast<u64>(in.at() - header.bytes);
  if (!in.good() || index.count == 0 || in.left() / 8 < index.count) return false;
  index.first = ~u64{0};
  index.last = 0;
  for (u32 i = 0; i < index.count; ++i) {
    in.skip(4);
    const u64 at = header.address + static_cast<u64>(i64{in.number<std::int32_t>()});
    if (at < index.first) index.first = at;
    if (at > index.last) index.last = at;
  }
  // The common parts lie in front of the first function's.
  index.first = index.first < kMostOfOne ? 0 : index.first - kMostOfOne;
  return in.good();
}

bool read_frames(const Image& header, const FrameIndex& index, const Image& frames, u64 base, UnwindTable& table) {
  Cursor entries(header.bytes + index.entries, header.bytes + header.size);
  Common common;
  u64 end_before = 0;
  for (u32 i = 0; i < index.count; ++i) {
    const u64 begin = header.address + static_cast<u64>(i64{entries.number<std::int32_t>()});
    const u64 at = header.address + static_cast<u64>(i64{entries.number<std::int32_t>()});
    if (!entries.good()) return true;
    Cursor in = entry_at(frames, at);
    if (!in.more()) continue;
    const u64 back = in.number<u32>();
    if (back == 0 || back > at + 4) continue;
    if (common.address != at + 4 - back) read_common(frames, at + 4 - back, common);
    if (!common.good) continue;
    in.skip(common.pointer_bytes);
    u64 length = 0;
    if (in.left() >= common.pointer_bytes) __builtin_memcpy(&length, in.at(), common.pointer_bytes);
    in.skip(common.pointer_bytes);
    if (common.has_data) in.block();
    const u64 end = begin + length;
    if (!in.good() || length == 0 || end < begin || begin < base || end - base > ~u32{0}) continue;
    if (end_before != 0 && begin > end_before + kGap && !table.add(static_cast<u32>(end_before - base), {})) {
      return false;
    }
    if (common.is_signal) {
      Rule rule;
      rule.cfa = Cfa::signal;
      if (!table.add(static_cast<u32>(begin - base), rule)) return false;
    } else if (!add_rules(common, in, {base, begin, end}, table)) {
      return false;
    }
    end_before = end;
  }
  return end_before == 0 || table.add(static_cast<u32>(end_before - base), {});
}

}  // namespace coffer::record
