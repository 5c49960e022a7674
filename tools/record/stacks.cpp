// SPDX-License-Identifier: MIT
// Call stacks and their numbers. They are followed within the thread's stack only, whose bounds come from
// /proc/self/maps; so no address is read that may not be there.
#include <errno.h>
#include <sys/mman.h>

#include "record/last_walk.hpp"
#include "record/maps.hpp"
#include "record/session.hpp"
#include "record/unwind.hpp"

namespace coffer::record {

namespace {

// Known stacks by their hash. A cell is taken by its hash and filled with its number after; whoever comes in between
// does without a stack. When the table is full, further stacks have no number.
constexpr u32 kCells = 1u << 18;
struct Cell {
  std::atomic<u64> hash;
  std::atomic<u32> number;
};
Cell* g_cells = nullptr;
u32 g_depth = 32;

// Frame pointers, as far as they go.
u32 follow(u64 at, u64 high, u64* frames) {
  u32 count = 0;
  while (count < g_depth && (at & 7) == 0 && at <= high - 16) {  // `at + 16` may overflow: it can be any number
    const u64 next = reinterpret_cast<const u64*>(at)[0], address = reinterpret_cast<const u64*>(at)[1];
    if (address < 4096) break;
    frames[count++] = address;
    if (next <= at) break;  // callers' frames lie higher
    at = next;
  }
  return count;
}

// A thread's own, made at its first stack. nullptr: no memory. In a fork child threads begin anew, without one.
Walker* walker_of(Thread* thread) {
  if (thread->walker == nullptr) {
    const long made = syscall(SYS_mmap, nullptr, sizeof(Walker), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made < 0 && made > -4096) return nullptr;
    thread->walker = reinterpret_cast<Walker*>(made);
  }
  return thread->walker;
}

u32 walk(Thread* thread, const void* frame, Walker& walker, u64& hash) {
  const u64 at = reinterpret_cast<u64>(frame);
  if (at < reinterpret_cast<u64>(thread->stack_low) || at >= reinterpret_cast<u64>(thread->stack_high)) {
    // A first look, or the thread is on another stack (a signal's, a coroutine's).
    const StackBounds found = stack_at(at, walker.text);
    if (found.high == 0) return 0;
    thread->stack_low = reinterpret_cast<const u8*>(found.low);
    thread->stack_high = reinterpret_cast<const u8*>(found.high);
  }
  const StackBounds bounds{reinterpret_cast<u64>(thread->stack_low), reinterpret_cast<u64>(thread->stack_high)};
  // relaxed: a coarse clock.
  if (g_stacks == Stacks::unwind) {
    return unwind(at, bounds, thread->beat->load(std::memory_order_relaxed), walker, g_depth, hash);
  }
  const u32 count = follow(at, bounds.high, walker.frames);
  hash = hash_of_stack(walker.frames, count);
  return count;
}

u32 number_of(Thread*& thread, const void* frame, Walker& walker) {
  u64 hash = 0;
  const u32 count = walk(thread, frame, walker, hash);
  if (count == 0) return 0;
  hash |= 1;  // 0 is a free cell
  for (u32 i = 0; i < 16; ++i) {
    Cell& cell = g_cells[(hash + i) % kCells];
    // acquire: pairs with the release of the number. A number is published after its hash, so 0 may be seen.
    u64 seen = cell.hash.load(std::memory_order_relaxed);
    if (seen == hash) return cell.number.load(std::memory_order_acquire);
    if (seen != 0) continue;
    if (!cell.hash.compare_exchange_strong(seen, hash, std::memory_order_relaxed)) {
      if (seen == hash) return cell.number.load(std::memory_order_acquire);
      continue;
    }
    const u32 number = static_cast<u32>(new_stack_number());
    emit_stack(thread, number, walker.frames, count);
    if (thread != nullptr) cell.number.store(number, std::memory_order_release);
    return number;
  }
  return 0;
}

}  // namespace

u64 hash_of_stack(const u64* frames, u32 count) {
  u64 hash = kStackSeed;
  for (u32 i = count; i-- != 0;) hash = stack_hash(hash, frames[i]);
  return hash;
}

StackBounds stack_at(u64 address, char* buffer) {
  const int saved = errno;
  StackBounds bounds;
  for_each_mapping(buffer, [&](const Mapping& mapping) {
    if (address >= mapping.end) return true;
    if (address >= mapping.begin) bounds = {mapping.begin, mapping.end};
    return false;
  });
  errno = saved;
  // A thread's own block lies above its stack, and what lies above that may be anyone's.
  const u64 own = reinterpret_cast<u64>(__builtin_thread_pointer());
  if (own > address && own < bounds.high) bounds.high = own & ~u64{7};
  return bounds;
}

bool start_stacks(Stacks kind, u32 depth) {
  if (kind == Stacks::none) return true;
  g_depth = depth == 0 || depth > trace::kMaxFrames ? 32 : depth;
  void* const cells =
      mmap(nullptr, sizeof(Cell) * kCells, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (cells == MAP_FAILED) return false;
  if (g_cells != nullptr) munmap(g_cells, sizeof(Cell) * kCells);  // a fork child numbers its stacks anew
  g_cells = static_cast<Cell*>(cells);
  return kind == Stacks::frames || start_unwinding();
}

u32 stack_number(Thread*& thread, const void* frame) {
  Walker* const walker = walker_of(thread);
  if (walker == nullptr || !walker->enter()) return 0;
  const u32 number = number_of(thread, frame, *walker);
  walker->leave();
  return number;
}

}  // namespace coffer::record
