// SPDX-License-Identifier: MIT
#include "attach/target.hpp"

#include <dirent.h>
#include <elf.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace coffer::attach {

namespace {

constexpr char kNoteName[] = "Coffer";
constexpr std::uint32_t kNoteType = 1;  // the layout below; another one would have another type
constexpr std::size_t kMostNotes = 64 * 1024;
constexpr std::size_t kStep = 1024 * 1024;

// Of one ELF file that is mapped from `base` on.
std::optional<Table> table_of(pid_t process, std::uint64_t base) {
  Elf64_Ehdr header;
  read_memory(process, base, &header, sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > 64) {
    return std::nullopt;
  }
  std::vector<Elf64_Phdr> parts(header.e_phnum);
  read_memory(process, base + header.e_phoff, parts.data(), parts.size() * sizeof parts[0]);
  const auto first = std::find_if(parts.begin(), parts.end(),
                                  [](const Elf64_Phdr& part) { return part.p_type == PT_LOAD && part.p_offset == 0; });
  if (first == parts.end()) return std::nullopt;
  const std::uint64_t bias = base - first->p_vaddr;
  for (const Elf64_Phdr& part : parts) {
    if (part.p_type != PT_NOTE || part.p_memsz > kMostNotes) continue;
    std::vector<char> notes(part.p_memsz);
    const std::uint64_t begin = bias + part.p_vaddr;
    read_memory(process, begin, notes.data(), notes.size());
    for (std::size_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
      Elf64_Nhdr note;
      std::memcpy(&note, notes.data() + at, sizeof note);
      const std::size_t name = at + sizeof note;
      const std::size_t said = name + (note.n_namesz + 3) / 4 * 4;
      const std::size_t next = said + (note.n_descsz + 3) / 4 * 4;
      std::int32_t offsets[5];
      if (next > notes.size() || next <= at) break;
      if (note.n_type == kNoteType && note.n_namesz == sizeof kNoteName && note.n_descsz == sizeof offsets &&
          std::memcmp(notes.data() + name, kNoteName, sizeof kNoteName) == 0) {
        std::memcpy(offsets, notes.data() + said, sizeof offsets);
        std::uint64_t found[5];
        for (std::size_t i = 0; i < 5; ++i) {
          found[i] = begin + said + i * sizeof offsets[0] + static_cast<std::uint64_t>(std::int64_t{offsets[i]});
        }
        return Table{found[0], found[1], found[2], {found[3], found[4]}};
      }
      at = next;
    }
  }
  return std::nullopt;
}

std::uint64_t search(pid_t process, const Mapping& mapped, const std::vector<std::string>& wanted) {
  std::string code;
  for (std::uint64_t at = mapped.begin; at < mapped.end; at += kStep) {
    const std::size_t bytes = std::min<std::uint64_t>(mapped.end - at, kStep + 16);
    code.resize(bytes);
    try {
      read_memory(process, at, code.data(), bytes);
    } catch (const Ended&) {
      throw;
    } catch (const Error&) {
      return 0;
    }
    for (const std::string& pattern : wanted) {
      if (const std::size_t found = code.find(pattern); found != std::string::npos) return at + found;
    }
  }
  return 0;
}

// What a thread does: "running", or the number of a system call with its arguments.
int rank_of(pid_t process, pid_t thread) {
  const std::string task = "task/" + std::to_string(thread) + "/";
  const std::string stat = read_proc(process, task + "stat");
  const std::size_t name_end = stat.rfind(')');
  const char state = name_end + 2 < stat.size() ? stat[name_end + 2] : 'X';
  if (state == 'Z' || state == 'X' || state == 'x') return -1;
  if (stat.find("(iou-") != std::string::npos) return -1;  // the kernel's own, for io_uring
  if (state == 'D') return kLate + 1;
  unsigned long long number = 0, a[6] = {};
  const std::string doing = read_proc(process, task + "syscall");
  if (std::sscanf(doing.c_str(), "%llu %llx %llx %llx %llx %llx %llx", &number, &a[0], &a[1], &a[2], &a[3], &a[4],
                  &a[5]) != 7) {
    return 1;  // it runs
  }
  switch (number) {
    case SYS_epoll_wait:
    case SYS_epoll_pwait: {
      constexpr int kShort = 10;  // ms that nobody misses
      const int timeout = static_cast<int>(a[3]);
      return timeout > kShort ? kLate : 2;
    }
#ifdef SYS_epoll_pwait2
    case SYS_epoll_pwait2:
      return a[3] != 0 ? kLate : 2;
#endif
    case SYS_semtimedop:
      return a[3] != 0 ? kLate : 2;
    case SYS_rt_sigtimedwait:
      return a[2] != 0 ? kLate : 2;
    case SYS_io_getevents:
      return a[4] != 0 ? kLate : 2;
    case SYS_close:
    case SYS_connect:
    case SYS_clone:
    case SYS_vfork:
    case SYS_execve:
    case SYS_io_uring_enter:
      return kLate + 1;  // these may fail by EINTR and cannot begin again, or are over soon
    default:
      return 0;  // the kernel continues it
  }
}

}  // namespace

std::string read_proc(pid_t process, const std::string& name) {
  const std::string path = "/proc/" + std::to_string(process) + "/" + name;
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) {
    if (errno == ENOENT || errno == ESRCH) throw Ended("the process has ended");
    if (errno == EPERM || errno == EACCES) throw Forbidden(path + ": permission denied");
    throw Error(path + ": " + std::strerror(errno));
  }
  std::string text;
  char buffer[4096];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, file)) text.append(buffer, got);
  const bool failed = std::ferror(file) != 0;
  const int why = errno;
  std::fclose(file);
  if (failed && why == ESRCH) throw Ended("the process has ended");
  if (failed && (why == EPERM || why == EACCES)) throw Forbidden(path + ": permission denied");
  if (failed) throw Error(path + ": " + std::strerror(why));
  return text;
}

std::vector<Mapping> mappings(pid_t process) {
  std::istringstream lines(read_proc(process, "maps"));
  std::vector<Mapping> found;
  for (std::string line; std::getline(lines, line);) {
    unsigned long long begin = 0, end = 0, offset = 0;
    char rights[5] = {};
    int path = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx %4s %llx %*s %*s %n", &begin, &end, rights, &offset, &path) < 4) continue;
    found.push_back({begin, end, offset, rights[0] == 'r', rights[1] == 'w', rights[2] == 'x', rights[3] == 's',
                     path > 0 && static_cast<std::size_t>(path) < line.size() ? line.substr(path) : ""});
  }
  return found;
}

std::optional<Table> find_table(pid_t process, const std::vector<Mapping>& mapped) {
  for (const Mapping& one : mapped) {
    if (!one.readable || one.offset != 0 || one.path.empty() || one.path[0] != '/') continue;
    try {
      if (auto found = table_of(process, one.begin)) return found;
    } catch (const Ended&) {
      throw;
    } catch (const Error&) {  // a file that is shorter than its mapping, a device
      continue;
    }
  }
  return std::nullopt;
}

Gadgets find_gadgets(pid_t process, const std::vector<Mapping>& mapped) {
  using namespace std::string_literals;
  const std::vector<std::string> system_call = {"\x0f\x05\xc3"s};
  // Of glibc, which debuggers know by exactly these bytes, and of musl.
  const std::vector<std::string> leave = {"\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05"s, "\xb8\x0f\x00\x00\x00\x0f\x05"s};
  Gadgets found;
  // The C library first: it is in nearly every process, has both, and stays.
  std::vector<const Mapping*> order;
  for (const Mapping& one : mapped) {
    if (one.executable && one.readable && one.path != "[vsyscall]" && !one.path.empty()) order.push_back(&one);
  }
  std::sort(order.begin(), order.end(), [](const Mapping* a, const Mapping* b) {
    const auto is_libc = [](const Mapping* one) {
      return one->path.find("/libc.so") != std::string::npos || one->path.find("/libc-") != std::string::npos ||
             one->path.find("/ld-musl") != std::string::npos;
    };
    return is_libc(a) != is_libc(b) ? is_libc(a) : a->begin < b->begin;
  });
  for (const Mapping* one : order) {
    if (found.system_call == 0) found.system_call = search(process, *one, system_call);
    if (found.leave == 0) found.leave = search(process, *one, leave);
    if (found.system_call != 0 && found.leave != 0) break;
  }
  return found;
}

std::string status_field(pid_t process, pid_t thread, const std::string& name) {
  std::istringstream lines(read_proc(process, "task/" + std::to_string(thread) + "/status"));
  for (std::string line; std::getline(lines, line);) {
    if (line.compare(0, name.size() + 1, name + ":") != 0) continue;
    const std::size_t begin = line.find_first_not_of(" \t", name.size() + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

bool may_be_in(pid_t process, pid_t thread, const Scratch& where) {
  try {
    const std::string doing = read_proc(process, "task/" + std::to_string(thread) + "/syscall");
    const std::size_t last = doing.rfind(' ');
    const std::size_t before = last == std::string::npos || last == 0 ? last : doing.rfind(' ', last - 1);
    if (before == std::string::npos) return true;  // "running"
    const unsigned long long stack = std::strtoull(doing.c_str() + before + 1, nullptr, 16);
    return stack - where.begin < where.end - where.begin;
  } catch (const Ended&) {
    return false;
  }
}

std::vector<Thread> threads(pid_t process) {
  const std::string path = "/proc/" + std::to_string(process) + "/task";
  DIR* folder = opendir(path.c_str());
  if (folder == nullptr) {
    if (errno == ENOENT || errno == ESRCH) throw Ended("the process has ended");
    throw Error(path + ": " + std::strerror(errno));
  }
  std::vector<Thread> found;
  while (const dirent* entry = readdir(folder)) {
    const pid_t number = static_cast<pid_t>(std::atol(entry->d_name));
    if (number <= 0) continue;
    try {
      if (const int rank = rank_of(process, number); rank >= 0) found.push_back({number, rank});
    } catch (const Ended&) {
      continue;  // this thread has
    }
  }
  closedir(folder);
  std::sort(found.begin(), found.end(),
            [](const Thread& a, const Thread& b) { return a.rank != b.rank ? a.rank < b.rank : a.number < b.number; });
  return found;
}

}  // namespace coffer::attach
