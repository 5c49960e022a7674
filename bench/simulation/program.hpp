// SPDX-License-Identifier: MIT
// What a simulated program calls. Its own accesses to memory the compiler reports, so that they are plain code.
#pragma once

#include <cstddef>
#include <cstdint>

#include "machine.hpp"

namespace simulation {

// --- The allocator under test: subject.cpp and others. ---

namespace subject {
extern const char* const name;
void* allocate(std::size_t size);
void release(void* block);
// What lies at an address of the allocator's, in words of its own; "": it does not know.
std::string name_of(uptr address);
}  // namespace subject

// --- For workloads. ---

void* allocate(std::size_t size);
void release(void* block);

// Memory of the program itself, zero; and whether an address lies in such memory.
void* table_bytes(std::size_t bytes);
bool is_table(uptr address);
template <class T>
T* table(std::size_t count) {
  return static_cast<T*>(table_bytes(count * sizeof(T)));
}

struct Plan {
  u32 cores = 1;
  u64 seed = 1;
  double scale = 1;
  u64 scaled(u64 count) const {
    const u64 result = static_cast<u64>(static_cast<double>(count) * scale);
    return result == 0 ? 1 : result;
  }
};

struct Measured {
  u64 operations = 0;
  u64 cycles = 0;  // of the timed part
  u64 checksum = 0;
};

// The timed part: all threads begin together, when everything is ready; it ends with the last of them.
class Clock {
 public:
  explicit Clock(u32 threads) { meeting_.count = threads; }
  void begin();
  void end();
  u64 cycles() const { return end_ - begin_; }

 private:
  Machine::Meeting meeting_;
  u64 begin_ = 0, end_ = 0;
};

struct Workload {
  const char* name;
  const char* what;
  Measured (*run)(Machine& machine, const Plan& plan);
};
extern const Workload kWorkloads[];
extern const u32 kWorkloadCount;

}  // namespace simulation
