// Call stacks by frame pointers. A chain is followed within the thread's stack only, whose bounds come from
// /proc/self/maps, read without the C library's buffers; so no address is read that may not be there.
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "record/session.hpp"

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

bool parse_hex(const char*& at, const char* end, u64& value) {
  value = 0;
  const char* const begin = at;
  for (; at < end; ++at) {
    const char c = *at;
    const u32 digit = c >= '0' && c <= '9' ? static_cast<u32>(c - '0') : static_cast<u32>(c - 'a' + 10);
    if (digit > 15) break;
    value = value << 4 | digit;
  }
  return at != begin;
}

// The bounds of the mapping that this address is in.
bool find_mapping(u64 address, u64& low, u64& high) {
  const long file = syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  char buffer[4096];
  u64 have = 0;
  bool found = false, at_start = true;
  for (;;) {
    const long got = syscall(SYS_read, file, buffer + have, sizeof buffer - have);
    if (got <= 0) break;
    const char* const end = buffer + have + got;
    const char* line = buffer;
    for (const char* at = buffer; at < end; ++at) {
      if (*at != '\n') continue;
      const char* number = line;
      u64 first, last;
      if (at_start && parse_hex(number, at, first) && *number++ == '-' && parse_hex(number, at, last) &&
          first <= address && address < last) {
        low = first;
        high = last;
        found = true;
      }
      at_start = true;
      line = at + 1;
    }
    if (found) break;
    have = static_cast<u64>(end - line);
    if (have == sizeof buffer) {  // a line longer than the buffer: its end is not a start
      have = 0;
      at_start = false;
    } else {
      __builtin_memmove(buffer, line, have);
    }
  }
  syscall(SYS_close, file);
  return found;
}

u32 walk(Thread* thread, const void* frame, u64* frames) {
  u64 at = reinterpret_cast<u64>(frame);
  if (at < reinterpret_cast<u64>(thread->stack_low) || at >= reinterpret_cast<u64>(thread->stack_high)) {
    // A first look, or the thread is on another stack (a signal's, a coroutine's).
    u64 low = 0, high = 0;
    const int saved = errno;
    const bool found = find_mapping(at, low, high);
    errno = saved;
    if (!found) return 0;
    thread->stack_low = reinterpret_cast<const u8*>(low);
    thread->stack_high = reinterpret_cast<const u8*>(high);
  }
  const u64 high = reinterpret_cast<u64>(thread->stack_high);
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

u64 hash_of(const u64* frames, u32 count) {
  u64 hash = 0x9E3779B97F4A7C15u * (count + 1);
  for (u32 i = 0; i < count; ++i) {
    hash = (hash ^ frames[i]) * 0xD6E8FEB86659FD93u;
    hash ^= hash >> 32;
  }
  return hash | 1;
}

}  // namespace

bool start_stacks(Stacks kind, u32 depth) {
  if (kind == Stacks::none) return true;
  g_depth = depth == 0 || depth > trace::kMaxFrames ? 32 : depth;
  void* const cells =
      mmap(nullptr, sizeof(Cell) * kCells, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (cells == MAP_FAILED) return false;
  if (g_cells != nullptr) munmap(g_cells, sizeof(Cell) * kCells);  // a fork child numbers its stacks anew
  g_cells = static_cast<Cell*>(cells);
  return true;
}

u32 stack_number(Thread*& thread, const void* frame) {
  u64 frames[trace::kMaxFrames];
  const u32 count = walk(thread, frame, frames);
  if (count == 0) return 0;
  const u64 hash = hash_of(frames, count);
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
    emit_stack(thread, number, frames, count);
    if (thread != nullptr) cell.number.store(number, std::memory_order_release);
    return number;
  }
  return 0;
}

}  // namespace coffer::record
