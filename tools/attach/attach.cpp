// SPDX-License-Identifier: MIT
// Has a thread of a process that runs under Coffer call what Coffer brings for that (src/inspect/attached.cpp).
//
//   attach [--force] PID start MEAN     samples from now on, one in so many bytes
//   attach [--force] PID stop
//   attach [--force] PID dump FILE      the heap profile
//
// Prints how long the thread was held, in microseconds. Ends with 0; 1: it cannot be done, stderr says why; 2: wrong
// arguments; 3: the process does not run under Coffer; 4: the same under a Coffer that knows nothing of this; 5: not
// just now, another try may do.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "attach/target.hpp"

namespace {

using namespace coffer::attach;

constexpr int kFailed = 1, kUsage = 2, kNoCoffer = 3, kOldCoffer = 4, kNotNow = 5;
constexpr int kStopMs = 5000;      // a thread stops as soon as it has a processor, unless the kernel is at work for it
constexpr int kBetterMs = 1000;    // so long we look for a thread that is not disturbed at all
constexpr int kPatienceMs = 8000;  // and so long for any
constexpr std::uint64_t kFirst = 64;  // of the area; before it is src/inspect/attached.cpp's Exchange
constexpr std::uint64_t kHolder = 0, kStep = 4, kFile = 8, kTaken = 12;
constexpr std::uint32_t kDone = 2, kBusy = 4;  // steps

struct Request {
  pid_t process = 0;
  std::string what;
  std::uint64_t mean = 0;
  std::string file;
  bool force = false;
};

struct Problem {
  int status;
  std::string text;
};

std::string one_line(const char* path) {
  char text[64] = {};
  if (std::FILE* file = std::fopen(path, "re")) {
    if (std::fgets(text, sizeof text, file) == nullptr) text[0] = 0;
    std::fclose(file);
  }
  return text;
}

std::string no_permission() {
  switch (std::atoi(one_line("/proc/sys/kernel/yama/ptrace_scope").c_str())) {
    case 0:
      return "permission denied: it belongs to another user or hides itself, be root; in a container root needs the"
             " capability SYS_PTRACE";
    case 3:
      return "permission denied: this system lets nobody look into processes (kernel.yama.ptrace_scope=3) until it is"
             " started anew";
    default:
      return "permission denied: this system lets only root look into processes that run already: sudo, or sysctl"
             " kernel.yama.ptrace_scope=0";
  }
}

void sleep_ms(long ms) {
  const timespec time = {ms / 1000, ms % 1000 * 1'000'000};
  nanosleep(&time, nullptr);
}

long now_ms() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

// One of us at a time; the name goes with this process.
void wait_for_others(pid_t process) {
  const int one = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string name = "coffer-attach-" + std::to_string(process);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const socklen_t bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  for (const long deadline = now_ms() + kPatienceMs; now_ms() < deadline; sleep_ms(5)) {
    if (bind(one, reinterpret_cast<const sockaddr*>(&address), bytes) == 0 || errno != EADDRINUSE) return;
  }
  throw Problem{kNotNow, "another command looks into it just now"};
}

bool has_filter(pid_t process, pid_t thread) {
  const std::string filter = status_field(process, thread, "Seccomp");
  return !filter.empty() && filter != "0";
}

void refuse_what_cannot_be(const Request& request) {
  const pid_t process = request.process;
  if (const std::string tracer = status_field(process, process, "TracerPid"); !tracer.empty() && tracer != "0") {
    throw Problem{kNotNow, "process " + tracer + " traces it, a debugger or strace: end that first"};
  }
  if (!request.force && has_filter(process, process)) {
    throw Problem{kFailed,
                  "it has a seccomp filter, which may end it for system calls that the question needs"
                  " (memfd_create, write, close, and reading /proc/self/maps): --force asks nevertheless"};
  }
  if (status_field(process, process, "x86_Thread_features").find("shstk") != std::string::npos) {
    throw Problem{kFailed, "it has a shadow stack, which ends it for calls that it did not make itself"};
  }
  if (request.what == "dump") {
    rlimit limit = {};
    constexpr rlim_t kMostBytes = 64 * 1024 * 1024;
    if (prlimit(process, RLIMIT_FSIZE, nullptr, &limit) == 0 && limit.rlim_cur < kMostBytes) {
      throw Problem{kFailed, "it may write small files only (ulimit -f), and a profile could end it"};
    }
  }
}

// What is done while a thread is held. The file that it wrote, or -1.
int ask(Remote& remote, const Request& request, const Table& table, pid_t thread) {
  const std::uint64_t area = table.scratch.begin;
  const std::uint32_t no = 0, yes = 1;
  write_memory(request.process, area + kTaken, &no, sizeof no);
  int file = -1;
  const auto take = [&] {
    std::uint32_t number = 0;
    read_memory(request.process, area + kFile, &number, sizeof number);
    const std::string path = "/proc/" + std::to_string(request.process) + "/task/" + std::to_string(thread) + "/fd/" +
                             std::to_string(number);
    file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    write_memory(request.process, area + kTaken, &yes, sizeof yes);
  };
  const std::uint64_t function = request.what == "start"  ? table.start
                                 : request.what == "stop" ? table.stop
                                                          : table.dump;
  const std::uint32_t answer = remote.call(function, request.mean, area + kStep, kDone, take);
  if (answer == kBusy) throw Again("it is at work on its samples");
  if (answer != kDone) throw Problem{kFailed, "it could not write the profile: no memory, or no file may be opened"};
  if (request.what == "dump" && file < 0) throw Again("it did not wait for us");
  return file;
}

void copy(int from, const std::string& path) {
  const int to = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  char buffer[64 * 1024];
  ssize_t got = 0;
  off_t at = 0;
  while (to >= 0 && (got = pread(from, buffer, sizeof buffer, at)) > 0) {
    if (write(to, buffer, static_cast<size_t>(got)) != got) break;
    at += got;
  }
  const int why = errno;
  if (to < 0 || got != 0 || close(to) != 0) throw Problem{kFailed, path + ": " + std::strerror(why)};
}

// A thread whose registers lead into the area comes back by itself: somebody was killed while it was away. Until then
// there is no room for another.
pid_t who_has(const Request& request, const Table& table) {
  std::uint32_t thread = 0;
  read_memory(request.process, table.scratch.begin + kHolder, &thread, sizeof thread);
  return static_cast<pid_t>(thread);
}

// true: done.
bool try_thread(pid_t thread, const Request& request, const Table& table, const Gadgets& gadgets) {
  int file = -1;
  std::uint64_t held_ns = 0;
  try {
    if (!request.force && has_filter(request.process, thread)) return false;
    Remote remote(request.process, thread, gadgets, kStopMs);
    if (remote.registers().rsp - table.scratch.begin < table.scratch.end - table.scratch.begin) return false;
    const std::uint32_t number = static_cast<std::uint32_t>(thread);
    write_memory(request.process, table.scratch.begin + kHolder, &number, sizeof number);
    remote.use({table.scratch.begin + kFirst, table.scratch.end});
    file = ask(remote, request, table, thread);
    remote.release();
    held_ns = remote.stopped_ns();
  } catch (const Again&) {
    return false;
  } catch (const Ended&) {
    if (kill(request.process, 0) != 0 && errno == ESRCH) throw;
    return false;
  }
  try {
    const std::uint32_t nobody = 0;
    write_memory(request.process, table.scratch.begin + kHolder, &nobody, sizeof nobody);
  } catch (const Error&) {  // it has ended since, which changes nothing about the answer
  }
  if (file >= 0) copy(file, request.file);
  std::printf("%llu\n", static_cast<unsigned long long>(held_ns / 1000));
  return true;
}

void attach(const Request& request) {
  refuse_what_cannot_be(request);
  const std::vector<Mapping> mapped = mappings(request.process);
  if (mapped.empty()) throw Ended("the process has ended");  // or is about to: its memory is gone
  const std::optional<Table> table = find_table(request.process, mapped);
  if (!table) {
    for (const Mapping& one : mapped) {
      if (one.path.find("libcoffer") != std::string::npos || one.path.find("[anon:coffer") != std::string::npos) {
        throw Problem{kOldCoffer, "it runs a Coffer that knows nothing of this"};
      }
    }
    throw Problem{kNoCoffer, "it does not run Coffer"};
  }
  const Gadgets gadgets = find_gadgets(request.process, mapped);
  wait_for_others(request.process);
  const long begun = now_ms();
  while (now_ms() - begun < kPatienceMs) {
    const bool any = now_ms() - begun > kBetterMs;
    const pid_t busy = who_has(request, *table);
    bool is_busy_there = false;
    const std::vector<Thread> found = threads(request.process);
    if (found.empty()) throw Ended("the process has ended");
    const int later = found.front().rank < kInterrupted ? kInterrupted : kLate;  // the best is the first
    for (const Thread& one : found) {
      is_busy_there |= one.number == busy && may_be_in(request.process, busy, table->scratch);
    }
    for (const Thread& one : found) {
      if (is_busy_there && one.number != busy) continue;
      if (one.rank > kLate || (one.rank >= later && !any)) continue;
      if (try_thread(one.number, request, *table, gadgets)) return;
    }
    sleep_ms(2);
  }
  throw Problem{kNotNow,
                "none of its threads could be asked: they are in system calls that must not be interrupted,"
                " or at work on its samples"};
}

bool parse(int argc, char** argv, Request& request) {
  int at = 1;
  if (at < argc && std::strcmp(argv[at], "--force") == 0) request.force = true, ++at;
  if (argc - at < 2) return false;
  request.process = static_cast<pid_t>(std::atol(argv[at]));
  request.what = argv[at + 1];
  const char* more = argc - at > 2 ? argv[at + 2] : nullptr;
  if (request.process <= 0 || argc - at > 3) return false;
  if (request.what == "stop") return more == nullptr;
  if (more == nullptr) return false;
  if (request.what == "start") return (request.mean = std::strtoull(more, nullptr, 10)) != 0;
  request.file = more;
  return request.what == "dump";
}

}  // namespace

int main(int argc, char** argv) {
  Request request;
  if (!parse(argc, argv, request)) {
    std::fputs("attach [--force] PID start MEAN|stop|dump FILE\n", stderr);
    return kUsage;
  }
  // Whoever ends us does so between two threads, and while one is held we shall not wait for a processor.
  sigset_t ending;
  sigemptyset(&ending);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) sigaddset(&ending, signal);
  sigprocmask(SIG_BLOCK, &ending, nullptr);
  setpriority(PRIO_PROCESS, 0, -20);
  const auto fail = [](int status, const std::string& text) {
    std::fprintf(stderr, "%s\n", text.c_str());
    return status;
  };
  try {
    attach(request);
    return 0;
  } catch (const Problem& problem) {
    return fail(problem.status, problem.text);
  } catch (const Forbidden&) {
    return fail(kFailed, no_permission());
  } catch (const Stuck& error) {
    return fail(kNotNow, error.what());
  } catch (const Error& error) {
    return fail(kFailed, error.what());
  }
}
