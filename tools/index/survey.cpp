// SPDX-License-Identifier: MIT
// Paper 3's survey: allocates `count` blocks of one size and says where they lie. Which allocator it asks is decided by
// LD_PRELOAD. Prints an address list (address_list.hpp).
//
//   survey low=64 high=8192 step=16 count=256     each size in a process of its own, as the paper has it
//   survey ... together=1                         all sizes in one process, nothing freed
//   survey ... aligned=1                          powers of two from low to high, each aligned to itself
//   survey ... held=1                             besides, how much memory each size makes resident
#include <errno.h>
#include <malloc.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/wait.h>

#include "../../bench/workloads/bench.hpp"

extern char** environ;

namespace {

using bench::require;

constexpr size_t kHeldBytes = size_t{32} << 20;

struct Survey {
  size_t low, high, step, count;
  bool aligned, held;

  size_t after(size_t size) const { return aligned ? size * 2 : size + step; }
};

// Text is gathered in memory of its own, so that printing asks the allocator for nothing.
class Output {
 public:
  Output() : text_(bench::table<char>(kBytes)) {}

  [[gnu::format(printf, 2, 3)]] void put(const char* format, ...) {
    if (length_ + kLongest > kBytes) flush();
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text_ + length_, kLongest, format, arguments);
    va_end(arguments);
    require(length > 0 && static_cast<size_t>(length) < kLongest, "a line is too long");
    length_ += static_cast<size_t>(length);
  }

  void flush() {
    for (size_t done = 0; done < length_;) {
      ssize_t wrote = write(STDOUT_FILENO, text_ + done, length_ - done);
      if (wrote < 0 && errno == EINTR) continue;
      require(wrote > 0, "cannot write");
      done += static_cast<size_t>(wrote);
    }
    length_ = 0;
  }

 private:
  static constexpr size_t kBytes = 1 << 16, kLongest = 4352;  // a path fits
  char* text_;
  size_t length_ = 0;
};

// The pages counted one by one: the counters of /proc/self/statm may be off by hundreds of KiB.
size_t resident_kib() {
  char text[4096];
  bench::read_text("/proc/self/smaps_rollup", text, sizeof text);
  size_t resident = bench::figure(text, "\nRss:");
  require(resident > 0, "/proc/self/smaps_rollup cannot be read");
  return resident;
}

void* allocate(const Survey& survey, size_t size) {
  void* block = survey.aligned ? aligned_alloc(size, size) : malloc(size);
  require(block != nullptr, "malloc failed");
  return block;
}

void survey_size(const Survey& survey, size_t size, Output& output) {
  const size_t alignment = survey.aligned ? size : 0;
  for (size_t i = 0; i < survey.count; ++i) {
    void* block = allocate(survey, size);
    output.put("%zu 0x%zx %zu %zu\n", size, reinterpret_cast<size_t>(block), alignment, malloc_usable_size(block));
    if (survey.held) memset(block, 1, size);
  }
  if (!survey.held) return;
  // What the allocator needed to begin with is not theirs. So many that pages, and even huge ones, matter little.
  const size_t more = survey.count * size < kHeldBytes ? kHeldBytes / size : survey.count;
  const size_t before = resident_kib();
  for (size_t i = 0; i < more; ++i) memset(allocate(survey, size), 1, size);
  const size_t after = resident_kib();
  output.put("resident %zu %zu %zu %zu\n", size, alignment, more, after > before ? (after - before) * 1024 : 0);
}

// Runs this program again for one size, with the same environment.
void survey_apart(const Survey& survey, size_t size, const char* program) {
  char one[5][48];
  snprintf(one[0], sizeof one[0], "low=%zu", size);
  snprintf(one[1], sizeof one[1], "high=%zu", size);
  snprintf(one[2], sizeof one[2], "count=%zu", survey.count);
  snprintf(one[3], sizeof one[3], "aligned=%d", survey.aligned);
  snprintf(one[4], sizeof one[4], "held=%d", survey.held);
  char name[] = "survey", together[] = "together=1", silent[] = "silent=1";
  char* arguments[] = {name, one[0], one[1], one[2], one[3], one[4], together, silent, nullptr};
  pid_t child = 0;
  require(posix_spawn(&child, program, nullptr, nullptr, arguments, environ) == 0, "cannot start a process");
  int status = 0;
  while (waitpid(child, &status, 0) < 0) require(errno == EINTR, "cannot wait");
  if (WIFSIGNALED(status)) fprintf(stderr, "%zu bytes: ended by signal %d\n", size, WTERMSIG(status));
  require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a size failed");
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  Survey survey{};
  survey.low = arguments.number("low", 64);
  survey.high = arguments.number("high", 8192);
  survey.step = arguments.number("step", 16);
  survey.count = arguments.number("count", 256);
  survey.aligned = arguments.number("aligned", 0) != 0;
  survey.held = arguments.number("held", 0) != 0;
  const bool together = arguments.number("together", 0) != 0, silent = arguments.number("silent", 0) != 0;
  arguments.done();
  require(survey.low > 0 && survey.low <= survey.high && survey.step > 0 && survey.count > 0, "bad range of sizes");
  require(!survey.aligned || (survey.low & (survey.low - 1)) == 0, "an alignment must be a power of two");

  Output output;
  if (!silent) output.put("# library=%s\n", bench::Measurement::library());
  if (!together) output.flush();
  for (size_t size = survey.low; size <= survey.high; size = survey.after(size)) {
    if (together) {
      survey_size(survey, size, output);
    } else {
      survey_apart(survey, size, "/proc/self/exe");
    }
  }
  output.flush();
}
