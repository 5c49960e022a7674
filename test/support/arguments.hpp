// SPDX-License-Identifier: MIT
// Command lines of the form --name VALUE and --name.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace coffer::test {

class Arguments {
 public:
  Arguments(int count, char** values) : count_(count), values_(values) {}

  // Ends the program at the first one that is none of these.
  void expect_only(std::initializer_list<const char*> with_value, std::initializer_list<const char*> alone) const {
    for (int i = 1; i < count_; ++i) {
      if (is_one_of(values_[i], alone)) continue;
      if (is_one_of(values_[i], with_value)) {
        ++i;
        continue;
      }
      std::fprintf(stderr, "%s: no such argument\n", values_[i]);
      std::exit(2);
    }
  }
  bool given(const char* name) const { return find(name) > 0; }
  std::uint64_t number(const char* name, std::uint64_t otherwise) const {
    const char* const value = text(name, nullptr);
    if (value == nullptr) return otherwise;
    char* end = nullptr;
    errno = 0;
    const std::uint64_t got = std::strtoull(value, &end, 0);
    // strtoull takes a sign, and turns -1 into the largest number.
    if (*value == 0 || *end != 0 || errno != 0 || std::strchr(value, '-') != nullptr) {
      std::fprintf(stderr, "%s: not a number from 0 to %llu: %s\n", name, ~0ull, value);
      std::exit(2);
    }
    return got;
  }
  // The same, where others make no sense.
  std::uint64_t number_in(const char* name, std::uint64_t otherwise, std::uint64_t least, std::uint64_t most) const {
    const std::uint64_t got = number(name, otherwise);
    if (got >= least && got <= most) return got;
    std::fprintf(stderr, "%s: from %llu to %llu, not %llu\n", name, static_cast<unsigned long long>(least),
                 static_cast<unsigned long long>(most), static_cast<unsigned long long>(got));
    std::exit(2);
  }
  const char* text(const char* name, const char* otherwise) const {
    const int at = find(name);
    if (at == 0) return otherwise;
    if (at + 1 < count_) return values_[at + 1];
    std::fprintf(stderr, "%s: value missing\n", name);
    std::exit(2);
  }

 private:
  static bool is_one_of(const char* value, std::initializer_list<const char*> names) {
    for (const char* const name : names) {
      if (std::strcmp(value, name) == 0) return true;
    }
    return false;
  }
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
