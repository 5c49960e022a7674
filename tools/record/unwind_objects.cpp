// SPDX-License-Identifier: MIT
#include "record/unwind_objects.hpp"

#include <elf.h>
#include <sys/mman.h>

namespace coffer::record {

namespace {

constexpr u32 kMostSegments = 128;

u64 round_down(u64 address) { return address & ~u64{4095}; }

// Memory for as long as it is looked at.
class Copy {
 public:
  Copy(const Memory& memory, u64 address, u64 bytes) : bytes_(bytes) {
    if (bytes == 0 || bytes > u64{1} << 32) return;
    const long made =
        syscall(SYS_mmap, nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made < 0 && made > -4096) return;
    at_ = reinterpret_cast<u8*>(made);
    image_ = {at_, memory.read(address, at_, bytes), address};
  }
  ~Copy() {
    if (at_ != nullptr) syscall(SYS_munmap, at_, bytes_);
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  const Image& image() const { return image_; }

 private:
  u8* at_ = nullptr;
  u64 bytes_;
  Image image_;
};

u64 hash_of(const Image& image) {
  u64 hash = image.size;
  for (u64 i = 0; i + 8 <= image.size; i += 8) {
    u64 word;
    __builtin_memcpy(&word, image.bytes + i, 8);
    hash = (hash ^ word) * 0xD6E8FEB86659FD93u;
    hash ^= hash >> 32;
  }
  return hash;
}

// Where an object's index is, and the segment that it and the descriptions lie in.
struct Place {
  u64 header = 0, header_bytes = 0, segment = 0, segment_end = 0;
};

bool find_place(const Memory& memory, u64 base, Place& place) {
  Elf64_Ehdr head;
  if (memory.read(base, &head, sizeof head) != sizeof head || __builtin_memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != EM_X86_64 || head.e_phentsize != sizeof(Elf64_Phdr) ||
      head.e_phnum > kMostSegments) {
    return false;
  }
  bool has_bias = false;
  u64 bias = 0;
  Elf64_Phdr index{};
  for (u32 pass = 0; pass < 2; ++pass) {
    for (u32 i = 0; i < head.e_phnum; ++i) {
      Elf64_Phdr part;
      if (memory.read(base + head.e_phoff + i * sizeof part, &part, sizeof part) != sizeof part) return false;
      if (part.p_type == PT_GNU_EH_FRAME) index = part;
      if (part.p_type != PT_LOAD) continue;
      if (!has_bias) bias = base - round_down(part.p_vaddr);
      has_bias = true;
      if (pass == 0 || index.p_vaddr - part.p_vaddr >= part.p_filesz) continue;
      place = {bias + index.p_vaddr, index.p_memsz, bias + part.p_vaddr, bias + part.p_vaddr + part.p_filesz};
    }
    if (index.p_memsz == 0 || !has_bias) return false;
  }
  return place.header != 0 && place.header + place.header_bytes <= place.segment_end;
}

}  // namespace

u32 Tables::load(const Memory& memory, u64 base) {
  Place place;
  FrameIndex index;
  if (!find_place(memory, base, place)) return 0;
  const Copy header(memory, place.header, place.header_bytes);
  if (header.image().size != place.header_bytes || !read_index(header.image(), index)) return 0;
  const u64 hash = hash_of(header.image());
  for (u32 i = 0; i < count_; ++i) {
    const Known& known = known_[i];
    if (known.hash == hash && known.bytes == place.header_bytes) return i + 1;
  }
  if (count_ == kMost) return 0;
  const u64 first = index.first > place.segment ? index.first : place.segment;
  u64 last = index.last + kMostOfOne;
  if (last > place.segment_end) last = place.segment_end;
  if (last <= first) return 0;
  const Copy frames(memory, first, last - first);
  Known& made = known_[count_];
  if (!read_frames(header.image(), index, frames.image(), base, made.table)) {
    made.table.release();
    return 0;
  }
  made.hash = hash;
  made.bytes = place.header_bytes;
  return ++count_;
}

}  // namespace coffer::record
