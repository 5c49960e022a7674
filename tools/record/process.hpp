// SPDX-License-Identifier: MIT
// A process that is recorded, on the collector's side: the mapping it writes to, and the trace that is written.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "record/output.hpp"
#include "record/shared.hpp"
#include "trace/frame_writer.hpp"
#include "trace/record.hpp"
#include "trace/writer.hpp"

namespace coffer::record {

// Ticks of the clock that the program stamps with, and nanoseconds, at one time.
trace::Clock read_clock(bool use_tsc);
// Whether the kernel itself trusts the processors' time stamp counters to run together.
bool can_use_tsc();

struct Settings {
  Stacks stacks = Stacks::none;
  u32 depth = 32;
  int level = 1;
  bool use_tsc = can_use_tsc();
  bool instructions = false;  // are wanted; these are the program's arguments then
  std::string arguments;
};

class Process {
 public:
  // Throws std::runtime_error.
  Process(pid_t pid, const Hello& hello, const Settings& settings, Output output);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  int memory() const { return memory_; }  // to be sent to the program
  u32 capacity() const { return capacity_; }
  const std::string& path() const { return output_.path; }
  void set_path(std::string path) { output_.path = std::move(path); }
  bool has_ended() const;
  // The program that it has become without saying hello; empty: none that was seen.
  const std::string& other() const { return other_; }
  void forget_other() { other_.clear(); }

  // Copies out what threads have recorded; what was handed in always, the rest when it is time for a frame. Returns
  // whether there was something.
  bool drain();
  // The process writes no more. The trace gets its name.
  void close(const std::string& end, int status);

  u64 records() const { return records_; }
  u64 lost() const { return lost_; }
  u64 bytes() const { return writer_.bytes(); }
  std::size_t threads() const { return expected_.size(); }
  const std::string& program() const { return program_; }
  bool counts() const { return counts_; }

 private:
  struct Item {
    u32 thread, sequence, index;
    ChunkState state;
    u32 used;
  };
  struct Progress {  // of a chunk
    u32 drained = 0;
    trace::Base base;
  };

  void map(u64 room);
  trace::Information describe(const Hello& hello);
  void collect(std::vector<Item>& items);
  void show_life();
  bool pass(bool everything, bool final);
  void copy(const Item& item);
  void release(u32 index);
  void note(trace::Op op, u64 a, u8 detail);
  void sample();
  void look_at_program();
  void note_losses();
  void flush();
  void write_modules();
  int choose_level() const;

  pid_t pid_;
  int end_ = -1;  // readable when the process has ended; -1: not to be had
  int memory_ = -1;
  u32 capacity_ = 0;
  u64 length_ = 0;
  Area* area_ = nullptr;
  ChunkHead* heads_ = nullptr;
  u8* data_ = nullptr;
  Settings settings_;
  Output output_;
  std::string program_, other_;
  std::pair<u64, u64> file_;  // the program's, by device and number
  bool counts_;               // instructions
  trace::FrameWriter writer_;

  std::vector<Progress> progress_;           // by chunk
  std::unordered_map<u32, u32> expected_;    // thread -> sequence of the chunk to go on with
  std::unordered_map<u32, u64> last_times_;  // thread -> end of its last record
  trace::Buffer payload_;
  trace::Base own_base_;  // of thread 0
  trace::Buffer own_;     // its records
  u32 own_records_ = 0;
  trace::Base own_begin_;
  u64 first_ = ~u64{0}, last_ = 0;
  u32 payload_records_ = 0;
  u64 flushed_ns_ = 0, sampled_ns_ = 0, modules_ns_ = 0;
  std::string modules_;  // of the last frame
  u32 mapped_ = 0;       // Area::mapped at that time
  u32 backlog_ = 0;

  u64 records_ = 0, lost_ = 0;
  u64 seen_lost_[kLostKinds] = {};
  u64 unsaid_lost_ = 0;  // records in frames that could not be written
  u64 overwritten_ = 0;
  int failure_ = 0;
};

}  // namespace coffer::record
