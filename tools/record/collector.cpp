// SPDX-License-Identifier: MIT
// coffer record's C++ part: starts a program with the recorder before its allocator, takes the records of all threads
// over shared memory, and writes the trace.
//
//   record --output FILE --preload LIB[:LIB…] [--stacks none|frames|unwind] [--depth N] [--instructions TOOL]
//          [--children] [--level N] [--quiet] -- PROGRAM [ARGUMENT…]
//
// Ends as the program did: with its exit status, or by its signal. 127 and 126 as a shell: the program was not found,
// or cannot be run. 125: recording could not begin, and the program was not started.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "record/options.hpp"
#include "record/process.hpp"
#include "record/summary.hpp"

namespace {

using namespace coffer::record;

std::string make_token() {
  unsigned char random[kTokenBytes / 2];
  if (getrandom(random, sizeof random, 0) != static_cast<ssize_t>(sizeof random)) give_up(with_reason("getrandom"));
  std::string token;
  for (const unsigned char byte : random) {
    constexpr const char* kDigits = "0123456789abcdef";
    token += kDigits[byte >> 4];
    token += kDigits[byte & 15];
  }
  return token;
}

class Collector {
 public:
  explicit Collector(Options options) : options_(std::move(options)) {}
  ~Collector() { remove_folder(); }

  int run() {
    block_signals();
    raise_file_limit();
    listen_to_programs();
    open_first_output();
    start();
    loop();
    report();
    return status_;
  }

 private:
  // Before the program is started, which may take long and cannot be undone.
  void open_first_output() {
    try {
      output_ = Output(options_.output);
    } catch (const std::system_error& error) {
      cleanup_and_give_up(options_.output + ": " + reason(error));
    }
  }

  static std::string reason(const std::system_error& error) {
    return error.code().value() == ENOTSUP ? "no regular file" : error.code().message();
  }

  void block_signals() {
    old_xfsz_ = signal(SIGXFSZ, SIG_IGN);
    old_pipe_ = signal(SIGPIPE, SIG_IGN);
    sigset_t set;
    sigemptyset(&set);
    // All that would end this process, but for faults: they are meant for the program.
    for (const int number : {SIGCHLD, SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF,
                             SIGXCPU, SIGIO, SIGPWR, SIGSTKFLT}) {
      sigaddset(&set, number);
    }
    for (int number = SIGRTMIN; number <= SIGRTMAX; ++number) sigaddset(&set, number);
    sigprocmask(SIG_BLOCK, &set, &old_mask_);
    signals_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals_ < 0) give_up(with_reason("signalfd"));
  }

  // A process that is recorded takes three descriptors here. The program has the limit that it would have.
  void raise_file_limit() {
    getrlimit(RLIMIT_NOFILE, &old_files_);
    const rlimit most{old_files_.rlim_max, old_files_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &most);
  }

  void listen_to_programs() {
    const char* const base = std::getenv("TMPDIR");
    std::string pattern = std::string(base != nullptr && base[0] == '/' ? base : "/tmp") + "/coffer-record.XXXXXX";
    sockaddr_un address{};
    if (pattern.size() + 8 >= sizeof address.sun_path) pattern = "/tmp/coffer-record.XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) give_up(with_reason(pattern));
    directory_ = pattern;
    token_ = make_token();
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, (directory_ + "/socket").c_str());
    listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener_ < 0 || bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        chmod(address.sun_path, 0666) != 0 || chmod(directory_.c_str(), 0711) != 0 || listen(listener_, 128) != 0) {
      const std::string why = with_reason(address.sun_path);
      cleanup_and_give_up(why);
    }
  }

  void remove_folder() {
    if (directory_.empty()) return;
    unlink((directory_ + "/socket").c_str());
    rmdir(directory_.c_str());
  }

  [[noreturn]] void cleanup_and_give_up(const std::string& why) {
    output_ = {};
    remove_folder();
    give_up(why);
  }

  void start() {
    int failed[2];
    if (pipe2(failed, O_CLOEXEC) != 0) cleanup_and_give_up(with_reason("pipe"));
    main_ = fork();
    if (main_ < 0) cleanup_and_give_up(with_reason("fork"));
    if (main_ == 0) become_program(failed[1]);
    close(failed[1]);
    int error = 0;
    // The end closes when the program has been executed.
    const ssize_t got = read(failed[0], &error, sizeof error);
    close(failed[0]);
    if (got != static_cast<ssize_t>(sizeof error)) return;
    waitpid(main_, nullptr, 0);
    std::fprintf(stderr, "coffer record: %s: %s\n", options_.program[0], std::strerror(error));
    output_ = {};
    remove_folder();
    std::exit(error == ENOENT ? 127 : 126);
  }

  [[noreturn]] void become_program(int failed) {
    signal(SIGXFSZ, old_xfsz_);
    signal(SIGPIPE, old_pipe_);
    setrlimit(RLIMIT_NOFILE, &old_files_);
    sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
    const char* const others = std::getenv("LD_PRELOAD");
    std::string preload = options_.preload;
    if (others != nullptr && *others != '\0') preload += std::string(":") + others;
    setenv("LD_PRELOAD", preload.c_str(), 1);
    setenv(kSocketVariable, (token_ + ":" + directory_ + "/socket").c_str(), 1);
    if (options_.tool.empty()) {
      execvp(options_.program[0], options_.program);
    } else {
      become_counted();
    }
    const int error = errno;
    const ssize_t told = write(failed, &error, sizeof error);
    _exit(told == static_cast<ssize_t>(sizeof error) ? 127 : 126);
  }

  // The tool itself and not the command valgrind, which would load the recorder into itself. Returns if it fails.
  void become_counted() {
    std::string program = find_program(options_.program[0]);
    if (program.empty()) return;
    std::vector<std::string> words{"valgrind", "--tool=coffer_count", "-q", "--vgdb=no", "--max-threads=10000"};
    words.push_back(program);
    for (char** argument = options_.program + 1; *argument != nullptr; ++argument) words.push_back(*argument);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    setenv("VALGRIND_LAUNCHER", "/usr/bin/valgrind", 1);  // it wants one, for programs that this one executes
    execv(options_.tool.c_str(), arguments.data());
  }

  void loop() {
    int patience = 5;
    while (main_ > 0 || (!processes_.empty() && !stopping_)) {
      pollfd wanted[] = {{listener_, POLLIN, 0}, {signals_, POLLIN, 0}};
      poll(wanted, 2, patience);
      if ((wanted[1].revents & POLLIN) != 0) handle_signals();
      bool any = false;
      for (const auto& process : processes_) any = process->drain() || any;
      patience = any ? 5 : std::min(2 * patience, 20);
      if ((wanted[0].revents & POLLIN) != 0) accept_programs();
      for (auto it = processes_.begin(); it != processes_.end();) {
        // The program itself is closed when its status is known.
        if ((*it)->pid() != main_ && (*it)->has_ended()) {
          finish(**it, "unknown", -1);
          it = processes_.erase(it);
        } else {
          ++it;
        }
      }
    }
    for (const auto& process : processes_) finish(*process, "unknown", -1);
    processes_.clear();
  }

  void handle_signals() {
    signalfd_siginfo info;
    while (read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const int number = static_cast<int>(info.ssi_signo);
      if (number == SIGCHLD) {
        reap();
      } else if (main_ > 0) {
        // A terminal's signals go to the program by themselves, and it has a limit of its own on its time. An alarm
        // that was set before this process became the collector is the program's.
        const bool is_timer = number == SIGALRM || number == SIGVTALRM || number == SIGPROF;
        if (info.ssi_code != SI_KERNEL || is_timer) kill(main_, number);
      } else if (number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGALRM) {
        stopping_ = true;
      }
    }
  }

  void reap() {
    int status;
    if (main_ <= 0 || waitpid(main_, &status, WNOHANG) != main_) return;
    ended_main_ = main_;
    main_ = -1;
    end_ = WIFSIGNALED(status) ? "killed" : "exited";
    code_ = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    status_ = WIFSIGNALED(status) ? -code_ : code_;
    for (auto it = processes_.begin(); it != processes_.end();) {
      if ((*it)->pid() == ended_main_) {
        finish(**it, end_, code_);
        it = processes_.erase(it);
      } else {
        ++it;
      }
    }
    if (!processes_.empty() && !options_.quiet) {
      std::fprintf(stderr, "coffer record: the program has ended, %zu of its children are still recorded\n",
                   processes_.size());
    }
  }

  void accept_programs() {
    for (;;) {
      const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) return;
      greet(connection);
      close(connection);
    }
  }

  void greet(int connection) {
    const timeval patience{1, 0};
    setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ucred credentials{};
    socklen_t length = sizeof credentials;
    Hello hello{};
    if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0 ||
        recv(connection, &hello, sizeof hello, 0) != static_cast<ssize_t>(sizeof hello) || hello.magic != kHelloMagic ||
        token_.compare(0, token_.npos, hello.token, sizeof hello.token) != 0) {
      return;
    }
    Answer answer{
        kHelloMagic, Mode::off, 0, options_.settings.use_tsc, options_.settings.stacks, options_.settings.depth};
    Process* const process = begin(credentials.pid, hello);
    if (process == nullptr) {
      send(connection, &answer, sizeof answer, MSG_NOSIGNAL);
      return;
    }
    answer.mode = Mode::on;
    answer.capacity = process->capacity();
    iovec part{&answer, sizeof answer};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    const int memory = process->memory();
    std::memcpy(CMSG_DATA(rights), &memory, sizeof memory);
    sendmsg(connection, &message, MSG_NOSIGNAL);
  }

  // nullptr: this one is not recorded.
  Process* begin(pid_t pid, const Hello& hello) {
    const bool is_main = pid == main_ || pid == ended_main_;
    if (!is_main && !options_.children) {
      unrecorded_.insert(pid);
      return nullptr;
    }
    for (auto it = processes_.begin(); it != processes_.end(); ++it) {
      if ((*it)->pid() != pid) continue;
      set_aside(**it);
      processes_.erase(it);
      break;
    }
    try {
      Output output = is_main && output_
                          ? std::move(output_)
                          : Output(is_main ? options_.output : options_.output + "." + std::to_string(pid));
      processes_.push_back(std::make_unique<Process>(pid, hello, options_.settings, std::move(output)));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "coffer record: process %d is not recorded: %s\n", pid, error.what());
      return nullptr;
    }
    ++recorded_;
    return processes_.back().get();
  }

  // The process executes another program: what it was has its own trace.
  void set_aside(Process& process) {
    process.set_path(process.path() + ".exec" + std::to_string(++executions_[process.pid()]));
    finish(process, "exec", -1);
  }

  void finish(Process& process, const std::string& end, int status) {
    if (end == "exec") process.forget_other();  // it has said hello
    const bool is_other = !process.other().empty();
    process.close(is_other ? "exec" : end, is_other ? -1 : status);
    say_done(process, options_.settings, options_.quiet);
  }

  void report() {
    if (recorded_ == 0) {
      std::fprintf(stderr,
                   "coffer record: nothing was recorded: %s did not load the recorder (a static or setuid program?)\n",
                   options_.program[0]);
    } else if (!unrecorded_.empty() && !options_.quiet) {
      std::fprintf(stderr, "coffer record: %zu other process%s started and not recorded (--children records them)\n",
                   unrecorded_.size(), unrecorded_.size() == 1 ? " was" : "es were");
    }
  }

  Options options_;
  sigset_t old_mask_{};
  rlimit old_files_{};
  sighandler_t old_xfsz_ = SIG_DFL, old_pipe_ = SIG_DFL;
  int signals_ = -1, listener_ = -1;
  Output output_;  // of the program itself, until it is there
  std::string directory_, token_;
  pid_t main_ = -1, ended_main_ = -1;
  std::string end_ = "unknown";
  int code_ = -1, status_ = 0;
  bool stopping_ = false;
  std::list<std::unique_ptr<Process>> processes_;
  std::map<pid_t, int> executions_;
  std::set<pid_t> unrecorded_;
  unsigned recorded_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  int status;
  {
    Collector collector(parse(argc, argv));
    status = collector.run();
  }
  if (status >= 0) return status;
  // Ends by the signal that ended the program, without a core of its own.
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  signal(-status, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, -status);
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  raise(-status);
  return 128 - status;
}
