// SPDX-License-Identifier: MIT
// What recorded cells and the compiler call (record.hpp), handed to the machine. Memory that is nobody else's (stacks,
// thread-local variables, the C library's) is a hit, always.
#include "base/atomic.hpp"
#include "machine.hpp"

extern "C" {
extern char __executable_start[];  // NOLINT: the linker's names
extern char _end[];                // NOLINT
}

namespace {

using simulation::Access;
using simulation::g_machine;
using simulation::uptr;
using simulation::Where;

bool is_shared(uptr address) {
  return simulation::is_ground(address) ||
         (address >= reinterpret_cast<uptr>(__executable_start) && address < reinterpret_cast<uptr>(_end));
}

bool runs() { return g_machine != nullptr && g_machine->running(); }

void see(const void* at, std::size_t bytes, Access access, const Where& where) {
  if (!runs()) return;
  const uptr address = reinterpret_cast<uptr>(at);
  if (is_shared(address)) {
    g_machine->access(address, bytes, access, where);
  } else {
    g_machine->spend(g_machine->costs().hit);
  }
}

Where where_of(const coffer::recorded::Place& at) { return {at.file, at.function, at.line}; }

void see_plain(const void* at, std::size_t bytes, Access access, const void* caller) {
  see(at, bytes, access, {nullptr, nullptr, reinterpret_cast<uptr>(caller)});
}

}  // namespace

namespace coffer::recorded {

void access(const void* cell, usize bytes, Kind kind, const Place& at) {
  const Access access = kind == Kind::change                               ? Access::change
                        : kind == Kind::store || kind == Kind::owned_store ? Access::write
                                                                           : Access::read;
  see(cell, bytes, access, where_of(at));
}

void failed(const void* cell, const Place& at) {
  if (runs() && is_shared(reinterpret_cast<uptr>(cell))) g_machine->failed(reinterpret_cast<uptr>(cell), where_of(at));
}

void fence() {
  if (runs()) g_machine->spend(g_machine->costs().fence);
}

void pause() {
  if (runs()) g_machine->spin(g_machine->costs().pause);
}

}  // namespace coffer::recorded

// The compiler's calls, for each size of access. Aligned or not makes no difference here.
#define SIMULATION_ACCESS(bytes)                                                                                     \
  void __tsan_read##bytes(void* at) { see_plain(at, bytes, Access::read, __builtin_return_address(0)); }             \
  void __tsan_write##bytes(void* at) { see_plain(at, bytes, Access::write, __builtin_return_address(0)); }           \
  void __tsan_unaligned_read##bytes(void* at) { see_plain(at, bytes, Access::read, __builtin_return_address(0)); }   \
  void __tsan_unaligned_write##bytes(void* at) { see_plain(at, bytes, Access::write, __builtin_return_address(0)); } \
  void __tsan_volatile_read##bytes(void* at) { see_plain(at, bytes, Access::read, __builtin_return_address(0)); }    \
  void __tsan_volatile_write##bytes(void* at) { see_plain(at, bytes, Access::write, __builtin_return_address(0)); }  \
  void __tsan_read_write##bytes(void* at) { see_plain(at, bytes, Access::write, __builtin_return_address(0)); }

extern "C" {

SIMULATION_ACCESS(1)
SIMULATION_ACCESS(2)
SIMULATION_ACCESS(4)
SIMULATION_ACCESS(8)
SIMULATION_ACCESS(16)

void __tsan_read_range(void* at, unsigned long bytes) {
  see_plain(at, bytes, Access::read, __builtin_return_address(0));
}
void __tsan_write_range(void* at, unsigned long bytes) {
  see_plain(at, bytes, Access::write, __builtin_return_address(0));
}
void* __tsan_memset(void* at, int value, unsigned long bytes) {
  if (bytes != 0) see_plain(at, bytes, Access::write, __builtin_return_address(0));
  return __builtin_memset(at, value, bytes);
}
void* __tsan_memcpy(void* to, const void* from, unsigned long bytes) {
  if (bytes != 0) see_plain(from, bytes, Access::read, __builtin_return_address(0));
  if (bytes != 0) see_plain(to, bytes, Access::write, __builtin_return_address(0));
  return __builtin_memcpy(to, from, bytes);
}
void* __tsan_memmove(void* to, const void* from, unsigned long bytes) {
  if (bytes != 0) see_plain(from, bytes, Access::read, __builtin_return_address(0));
  if (bytes != 0) see_plain(to, bytes, Access::write, __builtin_return_address(0));
  return __builtin_memmove(to, from, bytes);
}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_atomic_signal_fence(int) {}
void __tsan_atomic_thread_fence(int) { coffer::recorded::fence(); }

}  // extern "C"
