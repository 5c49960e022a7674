// SPDX-License-Identifier: MIT
// Under valgrind the kernel's /proc/self/exe is valgrind's tool, and to execute it would start that without a program.
// Only in the libraries that count instructions: who executes itself executes its own file.
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "record/recorder.hpp"

#define RECORD_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using Execute = int (*)(const char*, char* const*, char* const*);

class Path {
 public:
  explicit Path(const char* given) : given_(given) {
    char own[32];
    snprintf(own, sizeof own, "/proc/%d/exe", getpid());
    if (given == nullptr || (strcmp(given, "/proc/self/exe") != 0 && strcmp(given, own) != 0)) return;
    // Valgrind answers this with the program's file.
    const ssize_t length = readlink("/proc/self/exe", file_, sizeof file_ - 1);
    if (length > 0) given_ = file_;
  }
  const char* get() const { return given_; }

 private:
  const char* given_;
  char file_[PATH_MAX] = {};
};

}  // namespace

RECORD_EXPORT int execve(const char* path, char* const arguments[], char* const environment[]) {
  static const auto next = reinterpret_cast<Execute>(dlsym(RTLD_NEXT, "execve"));
  return next(Path(path).get(), arguments, environment);
}

RECORD_EXPORT int execv(const char* path, char* const arguments[]) { return execve(path, arguments, environ); }

RECORD_EXPORT int execvp(const char* file, char* const arguments[]) {
  static const auto next = reinterpret_cast<int (*)(const char*, char* const*)>(dlsym(RTLD_NEXT, "execvp"));
  return next(Path(file).get(), arguments);
}
