// SPDX-License-Identifier: MIT
// One thread of another process, held for a moment as debuggers hold it, that makes system calls and calls functions
// for us, and then goes on as if nothing had been.
//
// What must hold at every moment, since this program may be killed at any:
//   - The thread has either its own registers, or ones from which it finds its own by itself: each call returns into
//     the C library's way out of a signal handler, with a frame for the kernel that has all of them. The frame is there
//     before the registers change, and they change by one system call.
//   - The kernel lets go of the thread when this program ends, and a process that was stopped stays stopped.
//
// While we live, the registers are given back by hand, where the kernel decides whether an interrupted system call
// begins again: so the program sees no EINTR that it would not see without us, and one that sleeps does so no longer
// than it wanted.
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace coffer::attach {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Another moment, or another thread, may do.
struct Again : Error {
  using Error::Error;
};
struct Ended : Error {
  using Error::Error;
};
struct Forbidden : Error {
  using Error::Error;
};
// The kernel is at work for the thread, which stops when that is done: end this program, so that it goes on then.
struct Stuck : Error {
  using Error::Error;
};

// Code of the process that is lent. An address of 0: there is none.
struct Gadgets {
  std::uint64_t system_call = 0;  // syscall; ret
  std::uint64_t leave = 0;        // rt_sigreturn, as the C library has it behind signal handlers
};

// Memory of the process that nobody else uses meanwhile: frames, and the stack of functions that are called.
struct Scratch {
  std::uint64_t begin = 0, end = 0;
};

void read_memory(pid_t process, std::uint64_t from, void* to, std::size_t bytes);
void write_memory(pid_t process, std::uint64_t to, const void* from, std::size_t bytes);

class Remote {
 public:
  // Stops the thread. Again: it stands where it must not be moved. Stuck: it does not stop within so long.
  Remote(pid_t process, pid_t thread, const Gadgets& gadgets, int patience_ms);
  // Lets go of it.
  ~Remote();
  Remote(const Remote&) = delete;
  Remote& operator=(const Remote&) = delete;

  // Below the thread's own stack, if there is no other memory. That is wrong for threads whose stacks are small.
  [[nodiscard]] Scratch below_stack(std::size_t bytes) const;
  void use(const Scratch& scratch);

  // As the kernel answers: -errno on failure. The thread makes it with all signals blocked.
  long system_call(long number, std::uint64_t a = 0, std::uint64_t b = 0, std::uint64_t c = 0, std::uint64_t d = 0,
                   std::uint64_t e = 0, std::uint64_t f = 0);
  // Calls function(a, answer), which writes its answer, other than 0, and then waits for us for some time. The thread
  // runs freely meanwhile. If we come late it has gone on by itself, and is stopped anew.
  std::uint32_t call(std::uint64_t function, std::uint64_t a, std::uint64_t answer);
  // A copy of the process, with this thread alone, that is stopped and traced by us, and is killed when we end, or let
  // go of it. `flags`: for clone, without CLONE_VM. Of a copy that we did not get hold of before we are killed, the
  // thread's first step is to end. Whoever calls has the parent wait for it (by system_call(SYS_wait4, ...)).
  pid_t fork(std::uint64_t flags);

  // Restores everything and lets go; the destructor does if this was not called.
  void release();

  [[nodiscard]] const user_regs_struct& registers() const { return own_; }
  [[nodiscard]] std::uint64_t stopped_ns() const { return stopped_ns_; }  // from the stop to the release

 private:
  enum class At { stop, call_end };  // within the kernel's look for signals; or at the end of a system call

  void seize(int patience_ms);
  void wait_for_stop(int patience_ms);
  void take_state();
  void stay_out_of_sequences();
  void make_frame(std::uint64_t frame, const user_regs_struct& registers);
  void begin(user_regs_struct changed);
  int resume(int request);
  void run_to_system_call();
  void back_to_stop();

  pid_t process_, thread_;
  Gadgets gadgets_;
  Scratch scratch_;
  user_regs_struct own_ = {};
  std::vector<char> extended_;  // floating point and vector registers
  std::uint64_t own_mask_ = 0;
  At at_ = At::stop;
  bool held_ = false, changed_ = false, vectors_changed_ = false;
  std::uint64_t began_ns_ = 0, stopped_ns_ = 0;
};

}  // namespace coffer::attach
