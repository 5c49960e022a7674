// SPDX-License-Identifier: MIT
#include "harness.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace conformance {
namespace {

Case* first_case = nullptr;
int argument_count = 0;
char** arguments = nullptr;

void write_all(int file, const char* text, std::size_t length) {
  while (length > 0) {
    const ssize_t written = write(file, text, length);
    if (written <= 0) return;
    text += written;
    length -= static_cast<std::size_t>(written);
  }
}

void print(int file, const char* start, const char* format, va_list list) {
  char line[1024];
  int length = std::snprintf(line, sizeof line, "%s", start);
  length += std::vsnprintf(line + length, sizeof line - static_cast<std::size_t>(length) - 1, format, list);
  if (length > static_cast<int>(sizeof line) - 2) length = static_cast<int>(sizeof line) - 2;
  line[length++] = '\n';
  write_all(file, line, static_cast<std::size_t>(length));
}

// Reads /proc files line by line through a buffer of its own.
class LineReader {
 public:
  explicit LineReader(const char* path) : file_(open(path, O_RDONLY | O_CLOEXEC)) {}
  ~LineReader() {
    if (file_ >= 0) close(file_);
  }
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  const char* next() {
    char* newline = static_cast<char*>(std::memchr(buffer_ + begin_, '\n', end_ - begin_));
    while (newline == nullptr) {
      std::memmove(buffer_, buffer_ + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
      const ssize_t got = file_ < 0 ? 0 : read(file_, buffer_ + end_, sizeof buffer_ - end_);
      if (got <= 0) return nullptr;
      end_ += static_cast<std::size_t>(got);
      newline = static_cast<char*>(std::memchr(buffer_, '\n', end_));
    }
    *newline = '\0';
    const char* line = buffer_ + begin_;
    begin_ = static_cast<std::size_t>(newline - buffer_) + 1;
    return line;
  }

 private:
  int file_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  char buffer_[8192];
};

std::size_t figure(const char* path, const char* name) {
  LineReader reader(path);
  const std::size_t length = std::strlen(name);
  while (const char* line = reader.next()) {
    if (std::strncmp(line, name, length) == 0 && line[length] == ':')
      return std::strtoul(line + length + 1, nullptr, 10);
  }
  return 0;
}

}  // namespace

Case::Case(const char* name, Function function) : name_(name), function_(function), next_(first_case) {
  first_case = this;
}

const Case* Case::find(const char* name) {
  for (const Case* c = first_case; c != nullptr; c = c->next_) {
    if (std::strcmp(c->name_, name) == 0) return c;
  }
  return nullptr;
}

void Case::list() {
  for (const Case* c = first_case; c != nullptr; c = c->next_) note("%s", c->name_);
}

const char* argument(int index) { return index + 2 < argument_count ? arguments[index + 2] : nullptr; }

long argument_number(int index) {
  const char* text = argument(index);
  return text == nullptr ? 0 : std::strtol(text, nullptr, 0);
}

void fail(const char* file, int line, const char* format, ...) {
  const char* name = std::strrchr(file, '/');
  char start[160];
  std::snprintf(start, sizeof start, "FAILED %s:%d: ", name == nullptr ? file : name + 1, line);
  va_list list;
  va_start(list, format);
  print(2, start, format, list);
  va_end(list);
  _exit(1);
}

void fail_check(const char* file, int line, const char* condition, const char* format, ...) {
  const char* name = std::strrchr(file, '/');
  char start[400];
  std::snprintf(start, sizeof start, "FAILED %s:%d: not true: %s ", name == nullptr ? file : name + 1, line, condition);
  va_list list;
  va_start(list, format);
  print(2, start, format, list);
  va_end(list);
  _exit(1);
}

void skip(const char* format, ...) {
  va_list list;
  va_start(list, format);
  print(1, "SKIPPED: ", format, list);
  va_end(list);
  _exit(77);
}

void note(const char* format, ...) {
  va_list list;
  va_start(list, format);
  print(1, "", format, list);
  va_end(list);
}

void* symbol(const char* name) { return dlsym(RTLD_DEFAULT, name); }

bool is_coffer() { return symbol("coffer_version") != nullptr; }

void check_metadata() {
  auto* check = function<std::size_t()>("coffer_check");
  if (check == nullptr) return;
  const std::size_t violations = check();
  CHECK(violations == 0, "coffer_check found %zu", violations);
}

std::size_t resident_kib() { return figure("/proc/self/smaps_rollup", "Rss"); }

std::size_t page_tables_kib() { return status_kib("VmPTE"); }

std::size_t status_kib(const char* name) { return figure("/proc/self/status", name); }

bool find_mapping(const void* address, Mapping& mapping) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  LineReader reader("/proc/self/smaps");
  bool inside = false;
  while (const char* line = reader.next()) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char* rest = nullptr;
    begin = std::strtoul(line, &rest, 16);
    if (*rest == '-') {
      if (inside) return true;
      end = std::strtoul(rest + 1, nullptr, 16);
      inside = begin <= wanted && wanted < end;
      if (inside) mapping = {begin, end, 0, false};
    } else if (inside && std::strncmp(line, "Locked:", 7) == 0) {
      mapping.locked_kib = std::strtoul(line + 7, nullptr, 10);
    } else if (inside && std::strncmp(line, "VmFlags:", 8) == 0) {
      mapping.marked_locked = std::strstr(line, " lo") != nullptr;
    }
  }
  return inside;
}

std::size_t Random::size() {
  const std::size_t kind = below(1000);
  if (kind < 800) return below(512);
  if (kind < 970) return below(8192);
  if (kind < 997) return below(200'000);
  return below(3'000'000);
}

void fill(void* block, std::size_t size, std::uint64_t seed) {
  auto* bytes = static_cast<unsigned char*>(block);
  std::size_t place = 0;
  for (; place + 8 <= size; place += 8) {
    const std::uint64_t word = (seed + place) * 0x9e3779b97f4a7c15ull;
    __builtin_memcpy(bytes + place, &word, 8);
  }
  for (; place < size; ++place) bytes[place] = static_cast<unsigned char>(seed + place);
}

bool holds_pattern(const void* block, std::size_t size, std::uint64_t seed) {
  const auto* bytes = static_cast<const unsigned char*>(block);
  std::size_t place = 0;
  for (; place + 8 <= size; place += 8) {
    const std::uint64_t expected = (seed + place) * 0x9e3779b97f4a7c15ull;
    std::uint64_t word;
    __builtin_memcpy(&word, bytes + place, 8);
    if (word != expected) return false;
  }
  for (; place < size; ++place) {
    if (bytes[place] != static_cast<unsigned char>(seed + place)) return false;
  }
  return true;
}

bool all_zero(const void* block, std::size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(block);
  return size == 0 || (bytes[0] == 0 && std::memcmp(bytes, bytes + 1, size - 1) == 0);
}

}  // namespace conformance

int main(int count, char** values) {
  using conformance::Case;
  if (count < 2) {
    std::fprintf(stderr, "usage: %s CASE [ARGUMENT...] | --list\n", values[0]);
    return 2;
  }
  conformance::argument_count = count;
  conformance::arguments = values;
  if (std::strcmp(values[1], "--list") == 0) {
    Case::list();
    return 0;
  }
  const Case* chosen = Case::find(values[1]);
  if (chosen == nullptr) {
    std::fprintf(stderr, "no case %s\n", values[1]);
    return 2;
  }
  chosen->run();
  return 0;
}
