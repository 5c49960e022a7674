// SPDX-License-Identifier: MIT
#include "retain/snapshot.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <set>

namespace coffer::retain {

namespace {

constexpr int kPatienceMs = 500;  // a thread that does not stop by then is in the kernel, and stays there
constexpr int kTries = 5;
constexpr usize kScratch = 40 * 1024;  // below a thread's stack: two frames, and a page

double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

std::string name_of(pid_t process, pid_t thread) {
  std::string name = attach::read_proc(process, "task/" + std::to_string(thread) + "/comm");
  while (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

// Whether memory is there below what the thread has of its stack, and is its stack, too: that of the kernel's making,
// or one that has the thread's own record above, as the C library makes them. Of others, such as those of coroutines,
// nobody knows where they end.
bool has_room(const std::vector<attach::Mapping>& mapped, const attach::Remote& remote) {
  const attach::Scratch scratch = remote.below_stack(kScratch);
  const u64 tls = remote.registers().fs_base;
  return std::any_of(mapped.begin(), mapped.end(), [&](const attach::Mapping& one) {
    return one.begin <= scratch.begin && scratch.end < one.end &&
           (one.path == "[stack]" || (scratch.end < tls && tls < one.end));
  });
}

}  // namespace

Snapshot::~Snapshot() { release(); }

std::string Snapshot::stop_all() {
  std::set<pid_t> known;
  std::string problem;
  bool is_forbidden = false;
  // Threads may be made meanwhile, by those that still run.
  for (bool more = true; more;) {
    more = false;
    for (const attach::Thread& one : attach::threads(process_)) {
      if (!known.insert(one.number).second) continue;
      more = true;
      for (int left = kTries; left > 0; --left) {
        try {
          Thread thread;
          thread.id = one.number;
          auto remote = std::make_unique<attach::Remote>(process_, one.number, gadgets_, kPatienceMs);
          thread.name = name_of(process_, one.number);
          const user_regs_struct& r = remote->registers();
          thread.ip = r.rip;
          thread.sp = r.rsp;
          thread.tls = r.fs_base;
          thread.registers = {r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.r8,
                              r.r9,  r.r10, r.r11, r.r12, r.r13, r.r14, r.r15};
          // Within a system call it is the number of an error, or of the call.
          if (static_cast<i64>(r.orig_rax) < 0) thread.registers.push_back(r.rax);
          held_.push_back(std::move(remote));
          threads_.push_back(std::move(thread));
          break;
        } catch (const attach::Again&) {
          continue;  // in the end it is one that is in the kernel, touches no memory, and cannot be asked
        } catch (const attach::Ended&) {
          break;
        } catch (const attach::Forbidden& error) {
          problem = error.what();
          is_forbidden = true;
          break;
        } catch (const attach::Error& error) {
          problem = error.what();
          break;
        }
      }
    }
    if (held_.empty() && !problem.empty()) break;
  }
  if (!held_.empty()) return "";
  if (problem.empty()) return "none of its threads can be stopped";
  const std::string tracer = attach::status_field(process_, process_, "TracerPid");
  if (!tracer.empty() && tracer != "0") return "process " + tracer + " traces it, as debuggers do";
  if (!is_forbidden) return problem;
  return "permission denied: be root, or its user where /proc/sys/kernel/yama/ptrace_scope is 0";
}

void Snapshot::let_go() {
  for (auto& one : held_) {
    try {
      one->release();
    } catch (const attach::Error&) {  // it has ended
    }
  }
  held_.clear();
  stopped_ = now() - began_;
}

std::string Snapshot::make_copy() {
  const std::vector<attach::Mapping> mapped = attach::mappings(process_);
  std::string problem = "none of its threads has room on its stack";
  for (auto& one : held_) {
    if (!has_room(mapped, *one)) continue;
    try {
      one->use(one->below_stack(kScratch));
      // As fork has it, but for the signal at its end: none.
      copy_ = one->fork(0);
      return "";
    } catch (const attach::Error& error) {
      problem = error.what();
    }
  }
  return "it cannot be copied: " + problem + "; --stop keeps it stopped instead";
}

std::string Snapshot::take(pid_t process, bool still) try {
  process_ = process;
  const std::string state = attach::status_field(process, process, "State");
  if (state.empty() || state[0] == 'Z' || state[0] == 'X') return "it has ended";
  still |= state[0] == 'T';
  // A filter of system calls may kill who makes one that it does not expect.
  if (!still && attach::status_field(process, process, "Seccomp") != "0") {
    return "a filter of system calls (seccomp) may forbid to copy it; --stop keeps it stopped instead";
  }
  try {
    gadgets_ = attach::find_gadgets(process, attach::mappings(process));
  } catch (const attach::Ended&) {
    throw;
  } catch (const attach::Error&) {  // of another user, as the next step says
  }
  began_ = now();
  std::string problem = stop_all();
  if (problem.empty() && !still) problem = make_copy();
  if (!problem.empty() || !still) let_go();
  return problem;
} catch (const attach::Error& error) {
  let_go();
  return error.what();
}

// What is left of it is the process's child, and nobody there will ask for it.
void Snapshot::take_away_copy() {
  kill(copy_, SIGKILL);
  int status = 0;
  waitpid(copy_, &status, __WALL);
  const std::vector<attach::Mapping> mapped = attach::mappings(process_);
  for (const attach::Thread& one : attach::threads(process_)) {
    try {
      attach::Remote remote(process_, one.number, gadgets_, kPatienceMs);
      if (!has_room(mapped, remote)) continue;
      remote.use(remote.below_stack(kScratch));
      remote.system_call(SYS_wait4, static_cast<u64>(copy_), 0, __WALL | WNOHANG);
      return;
    } catch (const attach::Error&) {
      continue;  // another thread may do
    }
  }
}

void Snapshot::release() {
  if (copy_ != 0) {
    try {
      take_away_copy();
    } catch (const attach::Error&) {  // the process has ended
    }
    copy_ = 0;
  }
  if (!held_.empty()) let_go();
}

}  // namespace coffer::retain
