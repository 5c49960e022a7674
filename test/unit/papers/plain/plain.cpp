// SPDX-License-Identifier: MIT
#include "papers/plain/plain.hpp"

#include "base/bits.hpp"
#include "config/config.hpp"
#include "papers/common/counted_lock.hpp"
#include "papers/common/mapped.hpp"
#include "papers/common/pieces.hpp"
#include "papers/common/word.hpp"

namespace coffer::papers {

namespace {

// The head of a piece.
struct Piece {
  usize used;  // bytes
  usize live;  // bytes of blocks that are not free
};

struct State {
  CountedLock lock;  // all below, and all pieces
  Pieces pieces;
  usize piece_bytes = 0;
  Piece* current = nullptr;
  usize live = 0;
  u64 freed = 0;
};

State g;
Atomic<u32> g_ended;

bool is_mapped(void* block) { return kind_of(word_before(block)) == Kind::mapped; }

// The size stands before the word.
usize& size_of(void* block) { return static_cast<usize*>(block)[-2]; }

void* cut(usize size) {
  const usize stride = round_up((size != 0 ? size : 1) + 16, 16);
  if (g.current == nullptr || g.piece_bytes - g.current->used < stride) {
    void* memory = g.pieces.take();
    if (memory == nullptr) return nullptr;
    g.current = static_cast<Piece*>(memory);
    g.current->used = sizeof(Piece);
  }
  char* block = reinterpret_cast<char*>(g.current) + g.current->used + 16;
  g.current->used += stride;
  g.current->live += stride - 16;
  g.live += stride - 16;
  word_before(block) = superblock_word(g.current);
  size_of(block) = stride - 16;
  return block;
}

}  // namespace

u32 plain_threads_ended() { return g_ended.load(relaxed); }

bool Plain::start() {
  g.piece_bytes = usize{1} << ceil_log2(config::options().piece);
  g.pieces.set_size(g.piece_bytes);
  return true;
}

void Plain::thread_ended(void*) { g_ended.fetch_add(1, relaxed); }

void Plain::fork_prepare() {
  g.lock.lock_for_fork();
  g.pieces.lock_for_fork();
}
void Plain::fork_parent() {
  g.pieces.unlock_after_fork();
  g.lock.unlock_after_fork();
}
void Plain::fork_child() { fork_parent(); }

void* Plain::allocate(usize size) {
  if (t_local == nullptr && !thread_has_ended()) set_local(&g);
  if (size > g.piece_bytes / 4) return map_block(size, kBlockAlignment);
  g.lock.lock();
  void* block = cut(size);
  g.lock.unlock();
  return block;
}

void* Plain::allocate_aligned(usize size, usize alignment) {
  if (with_room_for(size, alignment) > g.piece_bytes / 4) return map_block(size, alignment);
  void* block = allocate(with_room_for(size, alignment));
  return block != nullptr ? aligned_inside(block, alignment) : nullptr;
}

void Plain::deallocate(void* block) {
  block = whole_block(block);
  if (is_mapped(block)) return unmap_block(block);
  g.lock.lock();
  superblock_of<Piece>(word_before(block))->live -= size_of(block);
  g.live -= size_of(block);
  ++g.freed;
  g.lock.unlock();
}

usize Plain::usable_size(void* block) {
  void* whole = whole_block(block);
  if (is_mapped(whole)) return mapped_size(whole);
  return size_of(whole) - static_cast<usize>(static_cast<char*>(block) - static_cast<char*>(whole));
}

bool Plain::is_zero(void* block) { return is_mapped(block); }
void* Plain::resize(void* block, usize size) {
  return is_mapped(block) && size > g.piece_bytes / 4 ? resize_mapped(block, size) : nullptr;
}
bool Plain::trim() { return false; }
void Plain::statistics(Statistics& statistics) { statistics.live = g.live + totals().mapped.now(); }
void Plain::describe(Text& text) { text.add("plain frees = ").number(g.freed).add('\n'); }
usize Plain::check() { return g.current != nullptr && g.current->used > g.piece_bytes ? 1 : 0; }

}  // namespace coffer::papers
