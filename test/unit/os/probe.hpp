// SPDX-License-Identifier: MIT
// What the kernel says about memory, for the tests of os/.
#pragma once

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "base/base.hpp"
#include "support/build.hpp"

namespace coffer::test {

// One mapping of /proc/self/maps.
struct Mapping {
  uptr start, end;
  std::string access;  // "rw-p"
  std::string name;
};

// The mappings that touch a range, cut to it.
inline std::vector<Mapping> mappings_of(const void* address, usize length) {
  std::vector<Mapping> found;
  const uptr from = reinterpret_cast<uptr>(address), to = from + length;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uptr start = 0, end = 0;
    char access[8] = {};
    int name_at = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %7s %*s %*s %*s %n", &start, &end, access, &name_at) < 3) {
      continue;
    }
    if (end <= from || start >= to) continue;
    found.push_back(
        {start < from ? from : start, end > to ? to : end, access, line.substr(static_cast<usize>(name_at))});
  }
  return found;
}

// Whether a range consists of mappings with this access, without holes.
inline bool has_access(const void* address, usize length, const char* access) {
  uptr at = reinterpret_cast<uptr>(address);
  for (const Mapping& mapping : mappings_of(address, length)) {
    if (mapping.start != at || mapping.access != access) return false;
    at = mapping.end;
  }
  return at == reinterpret_cast<uptr>(address) + length;
}

// The mappings of /proc/self/smaps that touch a range, whole: whether they can be accessed, and whether core files
// leave them out.
struct DumpFlags {
  uptr start, end;
  bool accessible;
  bool left_out;
};
inline std::vector<DumpFlags> dump_flags_of(const void* address, usize length) {
  std::vector<DumpFlags> found;
  const uptr from = reinterpret_cast<uptr>(address), to = from + length;
  std::ifstream maps("/proc/self/smaps");
  DumpFlags now = {};
  for (std::string line; std::getline(maps, line);) {
    uptr start = 0, end = 0;
    char access[8] = {};
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %7s", &start, &end, access) == 3) {
      now = {start, end, access[0] == 'r', false};
    } else if (line.rfind("VmFlags:", 0) == 0 && now.start < to && now.end > from) {
      now.left_out = line.find(" dd") != std::string::npos;
      found.push_back(now);
    }
  }
  return found;
}

inline usize resident_pages(void* address, usize length) {
  const usize page = static_cast<usize>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> in_core(length / page);
  if (mincore(address, length, in_core.data()) != 0) return ~usize{0};
  usize count = 0;
  for (unsigned char bits : in_core) count += bits & 1;
  return count;
}

// "VmLck" and the like of /proc/self/status, in bytes.
inline usize status_bytes(const char* field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(std::string(field) + ":", 0) == 0) {
      return std::strtoull(line.c_str() + std::strlen(field) + 1, nullptr, 10) * 1024;
    }
  }
  return ~usize{0};
}

inline bool all_bytes(const void* address, usize length, unsigned char value) {
  const unsigned char* const bytes = static_cast<const unsigned char*>(address);
  for (usize i = 0; i < length; ++i) {
    if (bytes[i] != value) return false;
  }
  return true;
}

// Runs a function in a child of its own (limits and locks are of the process); what it returns, or -1 if it died.
template <class Body>
int in_child(Body body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

}  // namespace coffer::test

// In a child: ends it with the number of the line that did not hold (modulo 200, so that it fits an exit status).
#define EXPECT_IN_CHILD(condition)                                                                    \
  do {                                                                                                \
    if (!(condition)) {                                                                               \
      std::fprintf(stderr, "%s:%d: %s does not hold in the child\n", __FILE__, __LINE__, #condition); \
      return __LINE__ % 200 + 1;                                                                      \
    }                                                                                                 \
  } while (false)
