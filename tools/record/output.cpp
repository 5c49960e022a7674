// SPDX-License-Identifier: MIT
#include "record/output.hpp"

#include <fcntl.h>
#include <limits.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

namespace coffer::record {

namespace {

[[noreturn]] void fail(int error, const std::string& path) {
  throw std::system_error(error, std::generic_category(), path);
}

// A name in the same folder that nothing has.
std::string beside(const std::string& path) {
  std::uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != static_cast<ssize_t>(sizeof random)) fail(errno, path);
  char ending[32];
  std::snprintf(ending, sizeof ending, ".%016llx.part", static_cast<unsigned long long>(random));
  const std::size_t slash = path.rfind('/'), begin = slash == std::string::npos ? 0 : slash + 1;
  return path.substr(0, begin) + path.substr(begin, NAME_MAX - std::strlen(ending)) + ending;
}

}  // namespace

Output::Output(const std::string& given) : path(given) {
  // A link to a file stays one.
  if (char* const target = realpath(path.c_str(), nullptr); target != nullptr) {
    path = target;
    std::free(target);
  }
  struct stat status{};
  const bool is_there = stat(path.c_str(), &status) == 0;
  if (is_there && S_ISDIR(status.st_mode)) fail(EISDIR, given);
  if (is_there && !S_ISREG(status.st_mode)) fail(ENOTSUP, given);
  if (is_there && access(path.c_str(), W_OK) != 0) fail(errno, given);
  const std::string name = beside(path);
  file_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file_ < 0) fail(errno, given);
  unfinished_ = name;
  // If it cannot have the old one's rights, it has a new file's.
  if (is_there && fchmod(file_, status.st_mode & 07777) != 0) errno = 0;
}

Output::Output(Output&& other) noexcept
    : path(std::move(other.path)),
      unfinished_(std::exchange(other.unfinished_, {})),
      file_(std::exchange(other.file_, -1)) {}

Output& Output::operator=(Output&& other) noexcept {
  std::swap(path, other.path);
  std::swap(unfinished_, other.unfinished_);
  std::swap(file_, other.file_);
  return *this;
}

Output::~Output() {
  if (file_ >= 0) close(file_);
  if (!unfinished_.empty()) unlink(unfinished_.c_str());
}

int Output::take_file() { return std::exchange(file_, -1); }

void Output::finish() {
  if (rename(unfinished_.c_str(), path.c_str()) != 0) {
    std::fprintf(stderr, "coffer record: %s: %s; the trace is %s\n", path.c_str(), std::strerror(errno),
                 unfinished_.c_str());
  }
  unfinished_.clear();
}

}  // namespace coffer::record
