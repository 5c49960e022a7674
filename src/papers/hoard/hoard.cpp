// SPDX-License-Identifier: MIT
#include "papers/hoard/hoard.hpp"

#include "base/bits.hpp"
#include "os/os.hpp"
#include "papers/common/mapped.hpp"
#include "papers/common/reclaim.hpp"
#include "papers/common/word.hpp"
#include "papers/hoard/assign.hpp"
#include "papers/hoard/small.hpp"
#include "papers/hoard/walk.hpp"

namespace coffer::papers {

using namespace hoard;

namespace {

Reclaim g_reclaim;

// What a pointer of the program leads to.
struct Found {
  void* block;             // the block that it points to or into
  Superblock* superblock;  // nullptr: the block is mapped
};

// "Through a pointer in the block's header" (section 3.4).
COFFER_INLINE Found find_by_word(void* pointer) {
  void* block = whole_block(pointer);
  const u64 word = word_before(block);
  return {block, kind_of(word) == Kind::mapped ? nullptr : superblock_of<Superblock>(word)};
}

// By the address alone: superblocks are aligned to S, no block begins at such an address, and mapped blocks do.
COFFER_INLINE Found find_by_mask(void* pointer) {
  const uptr address = reinterpret_cast<uptr>(pointer);
  const usize offset = address & (g_hoard.superblock_bytes - 1);
  if (offset == 0) return {pointer, nullptr};
  Superblock* superblock = reinterpret_cast<Superblock*>(address - offset);
  const usize inside = (offset - head_bytes(0)) % superblock->stride;
  return {reinterpret_cast<void*>(address - inside), superblock};
}

COFFER_INLINE Found find(void* pointer) {
  return COFFER_LIKELY(g_hoard.has_words()) ? find_by_word(pointer) : find_by_mask(pointer);
}

// Large requests: "allocated via mmap and freed using munmap" (section 3).
COFFER_NOINLINE void* allocate_mapped(usize size, usize alignment) {
  if (!g_hoard.has_words() && alignment < g_hoard.superblock_bytes) alignment = g_hoard.superblock_bytes;
  void* block = g_reclaim.allocate([=] { return map_block(size, alignment); }, release_empties);
  if (block != nullptr && g_hoard.peaks) live_gauge().add(mapped_size(block));
  return block;
}

Heap* make_heaps(usize bytes) {
  void* memory = os::reserve(bytes, os::page_size());
  if (memory == nullptr) return nullptr;
  if (os::commit(memory, bytes)) return static_cast<Heap*>(memory);  // zero: no locks held, empty lists
  os::release(memory, bytes);
  return nullptr;
}

}  // namespace

bool Hoard::start() {
  read_parameters(config::options(), os::processors(), os::page_size());
  superblock_source().set_size(g_hoard.superblock_bytes);
  if (g_hoard.first_heap == nullptr) {
    const usize bytes = round_up(heap_count() * sizeof(Heap), os::page_size());
    g_hoard.first_heap = make_heaps(bytes);
    if (g_hoard.first_heap == nullptr) return false;
    totals().metadata.add(bytes);
  }
  for (u32 i = 0; i < heap_count(); ++i) heap_at(i)->number = i;
  return true;
}

void Hoard::thread_ended(void* local) { leave_heap(static_cast<Heap*>(local)); }

void Hoard::fork_prepare() {
  g_reclaim.lock_for_fork();
  lock_heaps_for_fork();
  superblock_source().lock_for_fork();
}

void Hoard::fork_parent() {
  superblock_source().unlock_after_fork();
  unlock_heaps_after_fork();
  g_reclaim.unlock_after_fork();
}

void Hoard::fork_child() {
  forget_superblock_locks();
  forget_other_threads();
  fork_parent();
}

void* Hoard::allocate(usize size) {
  if (COFFER_UNLIKELY(size > g_hoard.classes.largest())) return allocate_mapped(size, kBlockAlignment);
  const u32 size_class = g_hoard.classes.of(size);
  void* block = g_reclaim.allocate([=] { return allocate_small(size_class); }, release_empties);
  if (COFFER_UNLIKELY(g_hoard.peaks) && block != nullptr) live_gauge().add(g_hoard.classes.stride(size_class));
  return block;
}

void* Hoard::allocate_aligned(usize size, usize alignment) {
  // Of no bytes, the aligned address may be the block's end, which without words is where the next one starts.
  const usize room = with_room_for(size != 0 ? size : 1, alignment);
  if (room > g_hoard.classes.largest()) return allocate_mapped(size, alignment);
  void* block = allocate(room);
  if (block == nullptr) return nullptr;
  if (g_hoard.has_words()) return aligned_inside(block, alignment);
  return reinterpret_cast<void*>(round_up(reinterpret_cast<uptr>(block), alignment));
}

void Hoard::deallocate(void* pointer) {
  const Found found = find(pointer);
  if (COFFER_UNLIKELY(g_hoard.peaks)) {
    live_gauge().subtract(found.superblock != nullptr ? found.superblock->stride : mapped_size(found.block));
  }
  if (COFFER_UNLIKELY(found.superblock == nullptr)) return unmap_block(found.block);
  free_small(found.superblock, found.block);
}

usize Hoard::usable_size(void* pointer) {
  const Found found = find(pointer);
  if (found.superblock == nullptr) return mapped_size(found.block);
  const usize inside = reinterpret_cast<uptr>(pointer) - reinterpret_cast<uptr>(found.block);
  return found.superblock->stride - g_hoard.word - inside;
}

bool Hoard::is_zero(void* block) { return find(block).superblock == nullptr; }

void* Hoard::resize(void* block, usize size) {
  if (find(block).superblock != nullptr || size <= g_hoard.classes.largest()) return nullptr;
  const usize had = mapped_size(block);
  // By its mask, a mapped block must stay at its alignment, which only shrinking is sure to keep.
  if (!g_hoard.has_words() && size > had) return nullptr;
  void* resized = resize_mapped(block, size);
  if (resized != nullptr && g_hoard.peaks) {
    live_gauge().subtract(had);
    live_gauge().add(mapped_size(resized));
  }
  return resized;
}

bool Hoard::trim() { return g_hoard.release && g_reclaim.trim(release_empties); }
void Hoard::statistics(Statistics& statistics) { collect(statistics); }
void Hoard::describe(Text& text) { describe_heaps(text); }
usize Hoard::check() { return check_heaps(); }

}  // namespace coffer::papers
