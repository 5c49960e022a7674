// SPDX-License-Identifier: MIT
// A file, character by character. Its buffer is small: the caller may have the smallest stack there is.
#pragma once

#include "os/linux/calls.hpp"

namespace coffer {
namespace COFFER_OS_NAMESPACE {

class Reader {
 public:
  explicit Reader(const char* path) : file_(calls::open(path, O_RDONLY | O_CLOEXEC)) {}
  ~Reader() {
    if (file_ >= 0) calls::close(file_);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  bool is_open() const { return file_ >= 0; }

  static constexpr int kEnd = -1;
  // The next character; kEnd when there is none, or none can be read.
  int next() {
    if (at_ == length_) {
      if (file_ < 0) return kEnd;
      ssize_t got = 0;
      do {
        got = calls::read(file_, buffer_, sizeof buffer_);
      } while (got < 0 && errno == EINTR);
      if (got <= 0) return kEnd;
      at_ = 0;
      length_ = static_cast<usize>(got);
    }
    return static_cast<unsigned char>(buffer_[at_++]);
  }

 private:
  int file_;
  usize at_ = 0, length_ = 0;
  char buffer_[256];
};

}  // namespace COFFER_OS_NAMESPACE
}  // namespace coffer
