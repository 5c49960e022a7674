// SPDX-License-Identifier: MIT
#include "attach/remote.hpp"

#include <elf.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "attach/frame.hpp"

namespace coffer::attach {

namespace {

constexpr std::uint64_t kRedZone = 128;
constexpr std::uint64_t kUserCode = 0x33;  // the segment of 64-bit code
constexpr int kStopMs = 1000;
constexpr std::uint64_t kAllSignals = ~std::uint64_t{0};
constexpr std::uint64_t kFrameRoom =
    16 * 1024;  // the largest that processors have today, with 8 KiB of tiles, and more

std::uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

std::string reason() { return std::strerror(errno); }

// glibc names the requests by an enumeration, and not all of them.
long trace(int request, pid_t thread, std::uint64_t address = 0, std::uint64_t data = 0) {
  return syscall(SYS_ptrace, request, thread, address, data);
}
std::uint64_t number(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

void must(long result, const char* what) {
  if (result >= 0) return;
  if (errno == ESRCH) throw Ended("the thread has ended");
  throw Error(std::string(what) + ": " + reason());
}

// System calls that wait, end by EINTR as soon as anything stops the thread, and have done nothing then: they begin
// again, as those do for which the kernel does it. signal(7) names them; sockets are among them if they have a timeout.
bool may_begin_again(std::uint64_t number) {
  switch (number) {
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
#ifdef SYS_epoll_pwait2
    case SYS_epoll_pwait2:
#endif
    case SYS_semop:
    case SYS_semtimedop:
    case SYS_rt_sigtimedwait:
    case SYS_io_getevents:
    case SYS_read:
    case SYS_readv:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_accept:
    case SYS_accept4:
    case SYS_write:
    case SYS_writev:
    case SYS_sendto:
    case SYS_sendmsg:
      return true;
    default:
      return false;
  }
}

constexpr std::int64_t kRestartNoHandler = -514;  // the kernel's ERESTARTNOHAND: begins again, unless a handler runs

}  // namespace

void read_memory(pid_t process, std::uint64_t from, void* to, std::size_t bytes) {
  const iovec local = {to, bytes};
  const iovec remote = {reinterpret_cast<void*>(from), bytes};
  if (process_vm_readv(process, &local, 1, &remote, 1, 0) != static_cast<ssize_t>(bytes)) {
    if (errno == ESRCH) throw Ended("the process has ended");
    throw Error("memory cannot be read: " + reason());
  }
}

void write_memory(pid_t process, std::uint64_t to, const void* from, std::size_t bytes) {
  const iovec local = {const_cast<void*>(from), bytes};
  const iovec remote = {reinterpret_cast<void*>(to), bytes};
  if (process_vm_writev(process, &local, 1, &remote, 1, 0) != static_cast<ssize_t>(bytes)) {
    if (errno == ESRCH) throw Ended("the process has ended");
    throw Error("memory cannot be written: " + reason());
  }
}

Remote::Remote(pid_t process, pid_t thread, const Gadgets& gadgets, int patience_ms)
    : process_(process), thread_(thread), gadgets_(gadgets) {
  try {
    seize(patience_ms);
  } catch (...) {
    if (held_) trace(PTRACE_DETACH, thread_);
    throw;
  }
}

void Remote::seize(int patience_ms) {
  if (trace(PTRACE_SEIZE, thread_, 0, PTRACE_O_TRACESYSGOOD) != 0) {
    if (errno == ESRCH) throw Ended("the thread has ended");
    if (errno == EPERM || errno == EACCES) throw Forbidden("ptrace: " + reason());
    throw Error("ptrace: " + reason());
  }
  began_ns_ = now_ns();
  must(trace(PTRACE_INTERRUPT, thread_), "PTRACE_INTERRUPT");
  wait_for_stop(patience_ms);
  held_ = true;
  take_state();
}

void Remote::take_state() {
  changed_ = vectors_changed_ = false;
  at_ = At::stop;
  must(trace(PTRACE_GETREGS, thread_, 0, number(&own_)), "PTRACE_GETREGS");
  if (own_.cs != kUserCode) throw Error("it runs 32-bit code");
  if (static_cast<std::int64_t>(own_.orig_rax) >= 0 && static_cast<std::int64_t>(own_.rax) == -EINTR &&
      may_begin_again(own_.orig_rax)) {
    own_.rax = static_cast<std::uint64_t>(kRestartNoHandler);
  }
  stay_out_of_sequences();
  extended_.resize(kFrameRoom);
  iovec into = {extended_.data(), extended_.size()};
  must(trace(PTRACE_GETREGSET, thread_, NT_X86_XSTATE, number(&into)), "PTRACE_GETREGSET");
  extended_.resize(into.iov_len);
  must(trace(PTRACE_GETSIGMASK, thread_, sizeof own_mask_, number(&own_mask_)), "PTRACE_GETSIGMASK");
}

// Signals that come before the stop are delivered.
void Remote::wait_for_stop(int patience_ms) {
  const std::uint64_t deadline = now_ns() + static_cast<std::uint64_t>(patience_ms) * 1'000'000;
  for (int turn = 0;; ++turn) {
    int status = 0;
    const pid_t got = waitpid(thread_, &status, __WALL | WNOHANG);
    if (got < 0 || (got == thread_ && !WIFSTOPPED(status))) throw Ended("the thread has ended");
    if (got == thread_) {
      if (status >> 16 == PTRACE_EVENT_STOP) return;
      const int signal = WSTOPSIG(status);
      trace(PTRACE_CONT, thread_, 0, status >> 16 != 0 || signal == (SIGTRAP | 0x80) ? 0 : signal);
      continue;
    }
    if (now_ns() > deadline) throw Stuck("a thread of it does not stop: the kernel is at work for it");
    if (turn > 50) {
      const timespec step = {0, 20'000};
      nanosleep(&step, nullptr);
    } else {
      sched_yield();
    }
  }
}

// A restartable sequence of the thread (rseq) is begun anew by the kernel only if the thread stands in it as it goes
// on: it would not see that we were there.
void Remote::stay_out_of_sequences() {
  struct {
    std::uint64_t area;
    std::uint32_t bytes, signature, flags, pad;
  } where = {};
  if (trace(0x420f /* PTRACE_GET_RSEQ_CONFIGURATION */, thread_, sizeof where, number(&where)) <= 0) return;
  if (where.area == 0) return;
  std::uint64_t sequence = 0;
  read_memory(process_, where.area + 8, &sequence, sizeof sequence);
  if (sequence == 0) return;
  struct {
    std::uint32_t version, flags;
    std::uint64_t begin, bytes, abort;
  } parts;
  read_memory(process_, sequence, &parts, sizeof parts);
  if (own_.rip - parts.begin < parts.bytes) throw Again("it is in a restartable sequence");
}

Remote::~Remote() {
  try {
    release();
  } catch (const Error&) {  // it has ended
  }
}

Scratch Remote::below_stack(std::size_t bytes) const {
  const std::uint64_t end = (own_.rsp - kRedZone) & ~std::uint64_t{63};
  return {end - bytes, end};
}

void Remote::use(const Scratch& scratch) {
  if (scratch.end - scratch.begin < kFrameRoom + 4096) throw Error("too little memory for a frame");
  scratch_ = scratch;
}

// What the thread goes on with by itself if we are killed.
void Remote::make_frame(std::uint64_t frame, const user_regs_struct& registers) {
  const std::vector<char> bytes = signal_frame(frame, gadgets_.leave, registers, own_mask_, extended_);
  if (bytes.size() > kFrameRoom - 64) throw Error("the processor's registers take more room than is known");
  write_memory(process_, frame, bytes.data(), bytes.size());
}

// The first change of registers is after the frame is there, and before signals are blocked: what the frame leads back
// to has the thread's own mask, too.
void Remote::begin(user_regs_struct changed) {
  if (gadgets_.leave == 0) throw Error("no way out of a signal handler was found in its code");
  if (scratch_.end == 0) throw Error("no memory for a frame");
  const std::uint64_t frame = frame_at(scratch_.end, kFrameRoom);
  if (!changed_) make_frame(frame, as_if_interrupted(own_));
  changed.rsp = frame;  // it begins with the address that a function returns to
  changed.orig_rax = ~std::uint64_t{0};
  changed.cs = own_.cs, changed.ss = own_.ss, changed.ds = own_.ds, changed.es = own_.es;
  changed.fs = own_.fs, changed.gs = own_.gs, changed.fs_base = own_.fs_base, changed.gs_base = own_.gs_base;
  changed.eflags = own_.eflags & ~std::uint64_t{0x500};  // neither backwards nor step by step
  must(trace(PTRACE_SETREGS, thread_, 0, number(&changed)), "PTRACE_SETREGS");
  if (!changed_) {
    changed_ = true;
    must(trace(PTRACE_SETSIGMASK, thread_, sizeof kAllSignals, number(&kAllSignals)), "PTRACE_SETSIGMASK");
  }
}

int Remote::resume(int request) {
  int signal = 0;
  for (;;) {
    must(trace(request, thread_, 0, static_cast<std::uint64_t>(signal)), "ptrace");
    int status = 0;
    pid_t got = 0;
    do {
      got = waitpid(thread_, &status, __WALL);
    } while (got < 0 && errno == EINTR);
    if (got < 0 || !WIFSTOPPED(status)) {
      held_ = false;
      throw Ended("the process has ended");
    }
    if (status >> 16 != 0 || WSTOPSIG(status) == (SIGTRAP | 0x80)) return status;
    signal = WSTOPSIG(status);  // one that cannot be blocked
  }
}

// To the next beginning or end of a system call. Of a process that is stopped meanwhile we hear in between.
void Remote::run_to_system_call() {
  while (WSTOPSIG(resume(PTRACE_SYSCALL)) != (SIGTRAP | 0x80)) continue;
}

long Remote::system_call(long which, std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d,
                         std::uint64_t e, std::uint64_t f) {
  if (gadgets_.system_call == 0) throw Error("no system call was found in its code");
  user_regs_struct changed = {};
  changed.rip = gadgets_.system_call;
  changed.rax = static_cast<std::uint64_t>(which);
  changed.rdi = a, changed.rsi = b, changed.rdx = c, changed.r10 = d, changed.r8 = e, changed.r9 = f;
  begin(changed);
  run_to_system_call();
  run_to_system_call();
  at_ = At::call_end;
  user_regs_struct after;
  must(trace(PTRACE_GETREGS, thread_, 0, number(&after)), "PTRACE_GETREGS");
  return static_cast<long>(after.rax);
}

std::uint32_t Remote::call(std::uint64_t function, std::uint64_t a, std::uint64_t answer) {
  std::uint32_t said = 0;
  write_memory(process_, answer, &said, sizeof said);
  user_regs_struct changed = {};
  changed.rip = function;
  changed.rdi = a, changed.rsi = answer;
  vectors_changed_ = true;
  begin(changed);
  must(trace(PTRACE_CONT, thread_), "PTRACE_CONT");
  while (said == 0) {
    const timespec step = {0, 20'000};
    nanosleep(&step, nullptr);
    int status = 0;
    const pid_t got = waitpid(thread_, &status, __WALL | WNOHANG);
    if (got < 0 || (got == thread_ && !WIFSTOPPED(status))) {
      held_ = false;
      throw Ended("the process has ended");
    }
    // The process is being stopped by a signal: this thread goes on until we let go of it.
    if (got == thread_) must(trace(PTRACE_CONT, thread_, 0, status >> 16 != 0 ? 0 : WSTOPSIG(status)), "PTRACE_CONT");
    read_memory(process_, answer, &said, sizeof said);
  }
  must(trace(PTRACE_INTERRUPT, thread_), "PTRACE_INTERRUPT");
  held_ = false;
  wait_for_stop(kStopMs);
  held_ = true;
  at_ = At::stop;
  user_regs_struct now;
  must(trace(PTRACE_GETREGS, thread_, 0, number(&now)), "PTRACE_GETREGS");
  if (now.rsp - scratch_.begin >= scratch_.end - scratch_.begin) take_state();
  return said;
}

pid_t Remote::fork(std::uint64_t flags) {
  // The child has a stack of its own, whose frame has it end: all that it does if nobody holds it.
  user_regs_struct last = own_;
  last.rip = gadgets_.system_call;
  last.rax = SYS_exit_group;
  last.rdi = 0;
  last.orig_rax = ~std::uint64_t{0};
  if (scratch_.end - scratch_.begin < 2 * kFrameRoom + 4096) throw Error("too little memory for two frames");
  const std::uint64_t childs = frame_at(scratch_.end - kFrameRoom, kFrameRoom);
  make_frame(childs, last);
  must(trace(PTRACE_SETOPTIONS, thread_, 0,
             PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE),
       "PTRACE_SETOPTIONS");
  user_regs_struct changed = {};
  changed.rip = gadgets_.system_call;
  changed.rax = SYS_clone;
  changed.rdi = flags, changed.rsi = childs;
  begin(changed);
  unsigned long child = 0;
  int ends = 0;
  while (ends < 2) {
    const int status = resume(PTRACE_SYSCALL);
    if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
      ++ends;
    } else if (status >> 16 != PTRACE_EVENT_STOP) {
      must(trace(PTRACE_GETEVENTMSG, thread_, 0, number(&child)), "PTRACE_GETEVENTMSG");
    }
  }
  at_ = At::call_end;
  must(trace(PTRACE_SETOPTIONS, thread_, 0, PTRACE_O_TRACESYSGOOD), "PTRACE_SETOPTIONS");
  user_regs_struct after;
  must(trace(PTRACE_GETREGS, thread_, 0, number(&after)), "PTRACE_GETREGS");
  if (static_cast<long>(after.rax) < 0) {
    throw Error(std::string("fork: ") + std::strerror(static_cast<int>(-static_cast<long>(after.rax))));
  }
  int status = 0;
  if (child == 0 || waitpid(static_cast<pid_t>(child), &status, __WALL) < 0 || !WIFSTOPPED(status)) {
    throw Error("the copy of the process has ended");
  }
  must(trace(PTRACE_SETOPTIONS, static_cast<pid_t>(child), 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL),
       "PTRACE_SETOPTIONS");
  return static_cast<pid_t>(child);
}

// The kernel looks for signals on its way out of a system call, and there begins again what was interrupted. So the
// thread's own registers are given back there and nowhere else.
void Remote::back_to_stop() {
  must(trace(PTRACE_INTERRUPT, thread_), "PTRACE_INTERRUPT");
  while (resume(PTRACE_CONT) >> 16 != PTRACE_EVENT_STOP) continue;
  at_ = At::stop;
}

void Remote::release() {
  if (!held_) return;
  if (at_ == At::call_end) back_to_stop();
  if (changed_) {
    // The registers last: with all else the way by the frame still leads to the same.
    if (vectors_changed_) {
      iovec from = {extended_.data(), extended_.size()};
      must(trace(PTRACE_SETREGSET, thread_, NT_X86_XSTATE, number(&from)), "PTRACE_SETREGSET");
    }
    must(trace(PTRACE_SETSIGMASK, thread_, sizeof own_mask_, number(&own_mask_)), "PTRACE_SETSIGMASK");
  }
  must(trace(PTRACE_SETREGS, thread_, 0, number(&own_)), "PTRACE_SETREGS");
  held_ = false;
  must(trace(PTRACE_DETACH, thread_), "PTRACE_DETACH");
  stopped_ns_ = now_ns() - began_ns_;
}

}  // namespace coffer::attach
