// SPDX-License-Identifier: MIT
#include "papers/common/mapped.hpp"

#include "base/bits.hpp"
#include "cpu/cpu.hpp"
#include "os/os.hpp"
#include "papers/common/gauge.hpp"
#include "papers/common/word.hpp"

namespace coffer::papers {

namespace {

// A cache line, so that the blocks of an ordinary mapping begin on one.
struct alignas(kCacheLine) Header {
  uptr start;    // of the mapping
  usize length;  // of the mapping
  u64 unused[5];
  u64 word;
};
static_assert(sizeof(Header) == kCacheLine && offsetof(Header, word) == sizeof(Header) - kWord);

Header* header_of(const void* block) {
  return reinterpret_cast<Header*>(reinterpret_cast<uptr>(block) - sizeof(Header));
}

// Writes the header of a block whose mapping is known.
void* begin_block(uptr block, uptr start, usize length) {
  Header* header = header_of(reinterpret_cast<void*>(block));
  header->start = start;
  header->length = length;
  header->word = static_cast<u64>(Kind::mapped);
  return reinterpret_cast<void*>(block);
}

void count_mapped(usize length) {
  totals().held.add(length);
  totals().mapped.add(length);
  totals().mapped_blocks.add(1);
}

// Maps memory for a header and a block of `size` bytes, so that the block is aligned; writes where the block and the
// mapping start and how long the mapping is. false: no memory.
bool map_memory(usize size, usize alignment, uptr* block, uptr* start, usize* length) {
  const usize page = os::page_size();
  // Room before the block: the header, or up to a whole alignment where that is larger than a page.
  const usize before = alignment > sizeof(Header) ? alignment : sizeof(Header);
  usize wanted = 0;
  if (!checked_add(size, before, &wanted) || !checked_add(wanted, page - 1, &wanted)) return false;
  *length = round_down(wanted, page);
  void* got = os::map(*length, alignment > page ? alignment : page);
  if (got == nullptr) return false;
  *start = reinterpret_cast<uptr>(got);
  *block = *start + before;
  // The header needs one page of what lies before.
  const uptr first = round_down(*block - sizeof(Header), page);
  if (first > *start) {
    os::release(got, first - *start);
    *length -= first - *start;
    *start = first;
  }
  return true;
}

}  // namespace

void* map_block(usize size, usize alignment) {
  uptr block = 0;
  uptr start = 0;
  usize length = 0;
  if (!map_memory(size, alignment, &block, &start, &length)) return nullptr;
  count_mapped(length);
  return begin_block(block, start, length);
}

void unmap_block(void* block) {
  const Header* header = header_of(block);
  totals().mapped_blocks.subtract(1);
  totals().mapped.subtract(header->length);
  totals().held.subtract(header->length);
  os::release(reinterpret_cast<void*>(header->start), header->length);
}

usize mapped_size(const void* block) {
  const Header* header = header_of(block);
  return header->start + header->length - reinterpret_cast<uptr>(block);
}

void* resize_mapped(void* block, usize size) {
  Header* header = header_of(block);
  const usize page = os::page_size();
  const uptr address = reinterpret_cast<uptr>(block);
  if (size <= mapped_size(block)) {
    // The pages behind go back.
    const uptr end = header->start + header->length;
    const uptr keep = round_up(address + size, page);
    if (keep < end) {
      header->length -= end - keep;
      totals().mapped.subtract(end - keep);
      totals().held.subtract(end - keep);
      os::release(reinterpret_cast<void*>(keep), end - keep);
    }
    return block;
  }
  // Its place in its first page stays; of an alignment beyond that nothing is promised (C's realloc promises none).
  const usize before = address - header->start;
  usize length = 0;
  if (!checked_add(size, before, &length) || !checked_add(length, page - 1, &length)) return nullptr;
  length = round_down(length, page);
  const usize old_length = header->length;
  void* memory = os::grow(reinterpret_cast<void*>(header->start), old_length, length);
  if (memory == nullptr) return nullptr;
  totals().held.add(length - old_length);
  totals().mapped.add(length - old_length);
  const uptr start = reinterpret_cast<uptr>(memory);
  return begin_block(start + before, start, length);
}

}  // namespace coffer::papers
