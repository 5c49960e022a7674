// SPDX-License-Identifier: MIT
// The process's connection to its collector.
#pragma once

#include "record/recorder.hpp"

namespace coffer::record {

inline constexpr u32 kMaxThreads = 32768;  // at one time

enum class State : u32 { untried, trying, on, off };

// In memory that a fork child finds wiped.
struct Table {
  u32 alive;
  std::atomic<u32> fresh;        // states from here on were never used
  std::atomic<u64> free_states;  // tag (high half), index + 1 (low half)
  std::atomic<u32> owners[kOwners];
  Thread threads[kMaxThreads];
};

struct Session {
  std::atomic<State> state{State::untried};
  Area* area = nullptr;
  ChunkHead* heads = nullptr;
  u8* data = nullptr;
  u64 length = 0;
  u32 capacity = 0;
  std::atomic<u32> writable{0};  // chunks that were made accessible
  Table* table = nullptr;
};
extern Session g_session;

bool start_session();
// Sees to it that threads which end give their chunk back.
bool start_thread_ends();

}  // namespace coffer::record
