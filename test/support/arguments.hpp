// SPDX-License-Identifier: MIT
// Command lines of the form --name VALUE and --name.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace coffer::test {

class Arguments {
 public:
  Arguments(int count, char** values) : count_(count), values_(values) {}

  bool given(const char* name) const { return find(name) > 0; }
  std::uint64_t number(const char* name, std::uint64_t otherwise) const {
    const char* const value = text(name, nullptr);
    if (value == nullptr) return otherwise;
    char* end = nullptr;
    const std::uint64_t got = std::strtoull(value, &end, 0);
    if (*value == 0 || *end != 0) {
      std::fprintf(stderr, "%s: not a number: %s\n", name, value);
      std::exit(2);
    }
    return got;
  }
  const char* text(const char* name, const char* otherwise) const {
    const int at = find(name);
    if (at == 0) return otherwise;
    if (at + 1 < count_) return values_[at + 1];
    std::fprintf(stderr, "%s: value missing\n", name);
    std::exit(2);
  }

 private:
  int find(const char* name) const {
    for (int i = 1; i < count_; ++i) {
      if (std::strcmp(values_[i], name) == 0) return i;
    }
    return 0;
  }

  int count_;
  char** values_;
};

}  // namespace coffer::test
