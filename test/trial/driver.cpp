// SPDX-License-Identifier: MIT
#include "trial/driver.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <memory>

#include "support/check.hpp"

namespace coffer::trial {

namespace {

// A world that takes longer hangs: of a processor's time, or, where it waits, of all time on a busy machine. One with
// 25,000 operations of 1,544 threads takes 78 seconds.
constexpr rlim_t kSeconds = 60;
constexpr usize kOperationsASecond = 50;
constexpr unsigned kSecondsOfAll = 15;  // for each

// A place for one child at a time.
class Seat {
 public:
  Seat() {
    void* const memory = mmap(nullptr, sizeof(Result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED, "no memory to share with a child");
    result_ = static_cast<Result*>(memory);
    errors_ = memfd_create("errors", MFD_CLOEXEC);
    REQUIRE(errors_ >= 0, "no file for what a child says");
  }
  ~Seat() {
    munmap(result_, sizeof(Result));
    close(errors_);
  }
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;

  void start(const Scene& scene) {
    // Its list of choices stays as it is: only so many of them count.
    std::memset(static_cast<void*>(result_), 0, offsetof(Result, choices));
    result_->failure[0] = 0;
    REQUIRE(ftruncate(errors_, 0) == 0, "what a child said cannot be thrown away");
    child_ = fork();
    REQUIRE(child_ >= 0, "fork failed");
    if (child_ != 0) return;
    dup2(errors_, STDERR_FILENO);
    lseek(STDERR_FILENO, 0, SEEK_SET);
    test::g_failure_text = result_->failure;
    const rlim_t seconds = kSeconds + scene.operations.size() / kOperationsASecond;
    const rlimit most = {seconds, seconds};
    setrlimit(RLIMIT_CPU, &most);
    alarm(static_cast<unsigned>(seconds) * kSecondsOfAll);
    run_scene(scene, result_);
    _exit(0);
  }

  Verdict end(int status) {
    child_ = 0;
    Verdict verdict;
    verdict.failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0 || !result_->whole;
    if (!verdict.failed) return verdict;
    // What the allocator itself said comes first.
    char text[400] = {};
    const ssize_t got = pread(errors_, text, sizeof text - 1, 0);
    verdict.how = got > 0 ? std::string(text, static_cast<usize>(got)) : std::string(result_->failure);
    verdict.how = verdict.how.substr(0, verdict.how.find('\n'));
    if (verdict.how.empty() && WIFSIGNALED(status)) verdict.how = strsignal(WTERMSIG(status));
    return verdict;
  }

  pid_t child() const { return child_; }
  const Result& result() const { return *result_; }
  u64 number = 0;

 private:
  Result* result_ = nullptr;
  int errors_ = -1;
  pid_t child_ = 0;
};

}  // namespace

void run_all(u32 jobs, const std::function<bool(Scene&, u64&)>& next,
             const std::function<bool(u64, const Verdict&, const Result&)>& done) {
  std::vector<std::unique_ptr<Seat>> seats;
  for (u32 i = 0; i < jobs; ++i) seats.push_back(std::make_unique<Seat>());
  bool more = true;
  u32 busy = 0;
  Scene scene;
  const auto start = [&](Seat& seat) {
    more = more && next(scene, seat.number);
    if (!more) return;
    seat.start(scene);
    ++busy;
  };
  for (const auto& seat : seats) start(*seat);
  while (busy > 0) {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, 0);
    for (const auto& seat : seats) {
      if (seat->child() != ended) continue;
      --busy;
      const Verdict verdict = seat->end(status);
      more = done(seat->number, verdict, seat->result()) && more;
      start(*seat);
    }
  }
}

Verdict run_one(const Scene& scene, Result* result) {
  bool given = false;
  Verdict found;
  run_all(
      1,
      [&](Scene& next, u64&) {
        if (given) return false;
        given = true;
        next = scene;
        return true;
      },
      [&](u64, const Verdict& verdict, const Result& got) {
        found = verdict;
        if (result != nullptr) std::memcpy(static_cast<void*>(result), &got, sizeof got);
        return false;
      });
  return found;
}

}  // namespace coffer::trial
