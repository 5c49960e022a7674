// SPDX-License-Identifier: MIT
#include "record/machine.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>

#include "coffer/coffer.h"
#include "record/process.hpp"

namespace coffer::record {

namespace {

u64 nanoseconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<u64>(now.tv_sec) * 1'000'000'000 + static_cast<u64>(now.tv_nsec);
}

std::string value_of(const std::string& text, const std::string& key) {
  const auto at = text.find(key);
  if (at == std::string::npos) return "";
  const auto colon = text.find(':', at);
  if (colon == std::string::npos) return "";
  const auto start = text.find_first_not_of(" \t", colon + 1), end = text.find('\n', colon);
  return start == std::string::npos || start >= end ? "" : text.substr(start, end - start);
}

// The build-id in a file's notes.
std::string read_build_id(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return "";
  std::string result;
  Elf64_Ehdr head;
  if (pread(file, &head, sizeof head, 0) == sizeof head && std::memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
      head.e_ident[EI_CLASS] == ELFCLASS64 && head.e_phentsize == sizeof(Elf64_Phdr)) {
    for (unsigned i = 0; i < head.e_phnum && result.empty(); ++i) {
      Elf64_Phdr part;
      if (pread(file, &part, sizeof part, static_cast<off_t>(head.e_phoff + i * sizeof part)) != sizeof part) break;
      if (part.p_type != PT_NOTE || part.p_filesz > 65536) continue;
      std::string notes(part.p_filesz, '\0');
      if (pread(file, notes.data(), notes.size(), static_cast<off_t>(part.p_offset)) !=
          static_cast<ssize_t>(notes.size()))
        break;
      for (std::size_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
        Elf64_Nhdr note;
        std::memcpy(&note, notes.data() + at, sizeof note);
        const std::size_t name = at + sizeof note, value = name + (std::size_t{note.n_namesz} + 3) / 4 * 4;
        const std::size_t next = value + (std::size_t{note.n_descsz} + 3) / 4 * 4;
        if (next > notes.size() + 3 || value + note.n_descsz > notes.size()) break;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(notes.data() + name, "GNU", 4) == 0 &&
            note.n_descsz <= 255) {
          result = notes.substr(value, note.n_descsz);
          break;
        }
        at = next;
      }
    }
  }
  ::close(file);
  return result;
}

const std::string& build_id(const std::string& path) {
  static std::map<std::string, std::string> known;
  const auto [it, is_new] = known.emplace(path, "");
  if (is_new) it->second = read_build_id(path);
  return it->second;
}

}  // namespace

trace::Clock read_clock(bool use_tsc) {
  trace::Clock clock;
  clock.ns = nanoseconds(CLOCK_MONOTONIC);
  clock.ticks = clock.ns;
#if defined(__x86_64__)
  if (use_tsc) {
    unsigned processor;
    clock.ticks = __builtin_ia32_rdtscp(&processor);
  }
#else
  (void)use_tsc;
#endif
  return clock;
}

bool can_use_tsc() {
#if defined(__x86_64__)
  const std::string flags = " " + value_of(contents_of("/proc/cpuinfo"), "flags") + " ";
  const std::string source = contents_of("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  return source == "tsc\n" && flags.find(" rdtscp ") != std::string::npos &&
         flags.find(" constant_tsc ") != std::string::npos && flags.find(" nonstop_tsc ") != std::string::npos;
#else
  return false;
#endif
}

u64 realtime_ns() { return nanoseconds(CLOCK_REALTIME); }

std::string contents_of(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return "";
  std::string text;
  char buffer[16384];
  for (ssize_t got; (got = read(file, buffer, sizeof buffer)) > 0 && text.size() < (64u << 20);) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(file);
  return text;
}

std::string link_of(const std::string& path) {
  char target[PATH_MAX];
  const ssize_t length = readlink(path.c_str(), target, sizeof target);
  return length < 0 ? "" : std::string(target, static_cast<std::size_t>(length));
}

trace::Information machine_information() {
  trace::Information information;
  utsname name{};
  uname(&name);
  information["system"] = std::string(name.sysname) + " " + name.release;
  information["machine"] = name.machine;
  information["cpu"] = value_of(contents_of("/proc/cpuinfo"), "model name");
  information["processors"] = std::to_string(sysconf(_SC_NPROCESSORS_ONLN));
  information["page_size"] = std::to_string(sysconf(_SC_PAGESIZE));
  information["memory"] =
      std::to_string(static_cast<u64>(sysconf(_SC_PHYS_PAGES)) * static_cast<u64>(sysconf(_SC_PAGESIZE)));
  information["coffer"] = std::to_string(COFFER_VERSION_MAJOR) + "." + std::to_string(COFFER_VERSION_MINOR) + "." +
                          std::to_string(COFFER_VERSION_PATCH);
  return information;
}

u64 private_resident_bytes(pid_t pid) {
  const std::string text = contents_of("/proc/" + std::to_string(pid) + "/statm");
  u64 size = 0, resident = 0, shared = 0;
  if (std::sscanf(text.c_str(), "%lu %lu %lu", &size, &resident, &shared) != 3 || resident < shared) return 0;
  return (resident - shared) * static_cast<u64>(sysconf(_SC_PAGESIZE));
}

std::string module_payload(pid_t pid) {
  std::istringstream maps(contents_of("/proc/" + std::to_string(pid) + "/maps"));
  std::string payload;
  u64 end_before = 0;
  for (std::string line; std::getline(maps, line);) {
    trace::ModuleHead head{};
    char access[8];
    int path_at = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %7s %lx %*s %*s %n", &head.start, &head.end, access, &head.offset,
                    &path_at) != 4 ||
        access[2] != 'x' || path_at == 0 || static_cast<std::size_t>(path_at) >= line.size()) {
      continue;
    }
    const std::string path = line.substr(static_cast<std::size_t>(path_at));
    if (path.size() > 0xFFFF || head.start < end_before || head.start >= head.end) continue;
    end_before = head.end;
    const std::string& id = path[0] == '/' ? build_id(path) : std::string();
    head.path = static_cast<u16>(path.size());
    head.build_id = static_cast<u8>(id.size());
    payload.append(reinterpret_cast<const char*>(&head), 28);
    payload += path;
    payload += id;
  }
  return payload;
}

}  // namespace coffer::record
