// SPDX-License-Identifier: MIT
// A file of text that is written from its beginning; every failure is an Error with the file's name.
#pragma once

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>

#include "trace/frames.hpp"

namespace coffer::analyse {

class TextFile {
 public:
  explicit TextFile(const std::string& path) : path_(path) {
    file_ = path == "-" ? stdout : std::fopen(path.c_str(), "we");
    if (file_ == nullptr) fail();
  }
  ~TextFile() {
    if (file_ != nullptr && file_ != stdout) std::fclose(file_);
  }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  [[gnu::format(printf, 2, 3)]] void put(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int length = std::vfprintf(file_, format, arguments);
    va_end(arguments);
    if (length < 0) fail();
  }
  void put_text(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) fail();
  }
  void close() {
    const bool is_written = std::fflush(file_) == 0;
    const int failure = errno;
    std::FILE* const file = file_;
    file_ = nullptr;
    const bool is_closed = file == stdout || std::fclose(file) == 0;
    if (!is_written) errno = failure;
    if (!is_written || !is_closed) fail();
  }

 private:
  [[noreturn]] void fail() const { throw trace::Error(path_ + ": " + std::strerror(errno)); }

  std::string path_;
  std::FILE* file_;
};

}  // namespace coffer::analyse
