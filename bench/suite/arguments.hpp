// SPDX-License-Identifier: MIT
// A program's arguments, key=value. Each is declared once, where it is read, with the paper's value as its default and
// what it means; `help` and the list that follows an error come from these declarations.
#pragma once

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "../workloads/bench.hpp"

namespace suite {

// A text that grows in a table of its own, without malloc.
class Text {
 public:
  explicit Text(size_t capacity) : text_(bench::table<char>(capacity)), capacity_(capacity) {}

  [[gnu::format(printf, 2, 3)]] void put(const char* format, ...) {
    va_list values;
    va_start(values, format);
    int length = vsnprintf(text_ + length_, capacity_ - length_, format, values);
    va_end(values);
    bench::require(length >= 0 && length_ + static_cast<size_t>(length) < capacity_, "a text is too long");
    length_ += static_cast<size_t>(length);
  }

  void write_to(int file) const {
    for (size_t done = 0; done < length_;) {
      ssize_t wrote = write(file, text_ + done, length_ - done);
      if (wrote <= 0) _exit(1);
      done += static_cast<size_t>(wrote);
    }
  }

  bool empty() const { return length_ == 0; }
  const char* text() const { return text_; }

 private:
  char* text_;
  size_t capacity_, length_ = 0;
};

class Arguments {
 public:
  Arguments(int count, char** values, const char* name, const char* paper, const char* what)
      : values_(count, values), keys_(kText), error_(kText), echo_(kText) {
    for (int i = 1; i < count; ++i) help_ = help_ || strcmp(values[i], "help") == 0;
    keys_.put("%s: %s\npaper: %s\nkeys (key=default):\n", name, what, paper);
    decimal("scale", 1, "part of the work named by the keys marked *, which are multiplied by it", 1e-6, 1000);
    seed_ = number("seed", 1, "of everything that is random", 0);
  }

  double scale() const { return scale_; }
  uint64_t seed() const { return seed_; }

  size_t number(const char* key, size_t fallback, const char* meaning, size_t least = 1,
                size_t most = size_t{1} << 40) {
    keys_.put("  %s=%zu  %s\n", key, fallback, meaning);
    size_t result = parse(key, fallback, least, most);
    echo_.put("argument.%s=%zu\n", key, result);
    return result;
  }

  // A number of the paper's that scale= shrinks, also where it is given; never below `least`.
  size_t scaled(const char* key, size_t fallback, const char* meaning, size_t least = 1) {
    keys_.put("  %s=%zu *  %s\n", key, fallback, meaning);
    double wanted = static_cast<double>(parse(key, fallback, 0, size_t{1} << 40)) * scale_;
    size_t result = wanted < static_cast<double>(least) ? least : static_cast<size_t>(wanted + 0.5);
    echo_.put("argument.%s=%zu\n", key, result);
    return result;
  }

  const char* text(const char* key, const char* fallback, const char* meaning) {
    keys_.put("  %s=%s  %s\n", key, fallback, meaning);
    return values_.text(key, fallback);
  }

  // One of `choices`, which a | separates; returns its index. The first is the default.
  size_t choice(const char* key, const char* choices, const char* meaning) {
    keys_.put("  %s=%s  %s\n", key, choices, meaning);
    const char* value = values_.text(key, nullptr);
    size_t result = 0, index = 0;
    bool found = value == nullptr;
    for (const char* at = choices; !found && *at != 0; ++index) {
      size_t length = strcspn(at, "|");
      if (strlen(value) == length && strncmp(at, value, length) == 0) {
        found = true;
        result = index;
      }
      at += length + (at[length] == '|');
    }
    if (!found) reject("%s is one of %s", key, choices);
    echo_.put("argument.%s=%s\n", key, value == nullptr ? "default" : value);
    return result;
  }

  [[gnu::format(printf, 2, 3)]] void reject(const char* format, ...) {
    char reason[256];
    va_list values;
    va_start(values, format);
    vsnprintf(reason, sizeof reason, format, values);
    va_end(values);
    if (error_.empty()) error_.put("%s", reason);
  }

  // After the last key is read and every condition was checked: prints the help, or the first error with the keys and
  // ends with status 2.
  void done() {
    if (help_) {
      keys_.write_to(STDOUT_FILENO);
      _exit(0);
    }
    if (values_.unread() != nullptr) reject("unknown argument %.100s", values_.unread());
    if (error_.empty()) return;
    error_.put("\n");
    error_.write_to(STDERR_FILENO);
    keys_.write_to(STDERR_FILENO);
    _exit(2);
  }

  // The values in use, a line each.
  const Text& echo() const { return echo_; }

 private:
  static constexpr size_t kText = 16384;

  size_t parse(const char* key, size_t fallback, size_t least, size_t most) {
    const char* value = values_.text(key, nullptr);
    if (value == nullptr) return fallback;
    char* end = nullptr;
    errno = 0;
    unsigned long long result = strtoull(value, &end, 10);
    if (*value < '0' || *value > '9' || *end != 0 || errno != 0) {
      reject("%s is a number, not %.100s", key, value);
    } else if (result < least || result > most) {
      reject("%s is %zu to %zu, not %llu", key, least, most, result);
    } else {
      return result;
    }
    return fallback;
  }

  void decimal(const char* key, double fallback, const char* meaning, double least, double most) {
    keys_.put("  %s=%g  %s\n", key, fallback, meaning);
    const char* value = values_.text(key, nullptr);
    if (value != nullptr) {
      char* end = nullptr;
      scale_ = strtod(value, &end);
      if (end == value || *end != 0 || !(scale_ >= least && scale_ <= most)) {
        reject("%s is %g to %g, not %.100s", key, least, most, value);
        scale_ = fallback;
      }
    }
    echo_.put("argument.%s=%g\n", key, scale_);
  }

  bench::Arguments values_;
  Text keys_, error_, echo_;
  bool help_ = false;
  double scale_ = 1;
  uint64_t seed_ = 0;
};

}  // namespace suite
