// SPDX-License-Identifier: MIT
// A trace that is being written: beside what has its name, which stays until the new one is done.
#pragma once

#include <string>

namespace coffer::record {

struct Output {
  Output() = default;
  // Throws std::system_error. A trace takes the place of a regular file only.
  explicit Output(const std::string& path);
  Output(Output&& other) noexcept;
  Output& operator=(Output&& other) noexcept;
  // What is not finished is removed.
  ~Output();

  explicit operator bool() const { return !unfinished_.empty(); }
  int take_file();
  // Renames it. A failure is said on stderr, and the file stays as it is called.
  void finish();

  std::string path;

 private:
  std::string unfinished_;
  int file_ = -1;
};

}  // namespace coffer::record
