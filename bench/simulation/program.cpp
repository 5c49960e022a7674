// SPDX-License-Identifier: MIT
#include "program.hpp"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

namespace simulation {

void* allocate(std::size_t size) {
  Machine& machine = *g_machine;
  machine.enter(kMalloc);
  const u64 began = machine.now();
  void* const block = subject::allocate(size);
  machine.leave(kMalloc, began);
  if (block != nullptr) return block;
  std::fputs("simulate: out of memory\n", stderr);
  std::exit(1);
}

void release(void* block) {
  Machine& machine = *g_machine;
  machine.enter(kFree);
  const u64 began = machine.now();
  subject::release(block);
  machine.leave(kFree, began);
}

namespace {

struct Table {
  uptr from;
  std::size_t bytes;
};
std::vector<Table>& tables() {
  static std::vector<Table> all;
  return all;
}

}  // namespace

void* table_bytes(std::size_t bytes) {
  bytes = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  void* const memory = take_ground(bytes, kPageBytes);
  if (memory == nullptr || mprotect(memory, bytes, PROT_READ | PROT_WRITE) != 0) {
    std::fputs("simulate: no memory for a table\n", stderr);
    std::exit(1);
  }
  tables().push_back({reinterpret_cast<uptr>(memory), bytes});
  return memory;
}

bool is_table(uptr address) {
  for (const Table& one : tables()) {
    if (address - one.from < one.bytes) return true;
  }
  return false;
}

void Clock::begin() {
  g_machine->meet(meeting_);
  // All go on at one time; the first one sets the counts back.
  if (begin_ == 0) {
    begin_ = g_machine->now();
    g_machine->begin_to_count();
  }
  g_machine->set_timed(true);
}

void Clock::end() {
  if (g_machine->now() > end_) end_ = g_machine->now();
  // What the thread does from here on, its end among it, is not of the timed part.
  g_machine->set_timed(false);
}

}  // namespace simulation
