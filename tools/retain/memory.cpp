// SPDX-License-Identifier: MIT
#include "retain/memory.hpp"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>

namespace coffer::retain {

namespace {

std::string path_of(int process, const char* what) { return "/proc/" + std::to_string(process) + "/" + what; }

constexpr u64 kPresent = u64{1} << 63, kSwapped = u64{1} << 62;

}  // namespace

std::vector<Mapping> read_mappings(int process) {
  std::vector<Mapping> found;
  std::FILE* file = std::fopen(path_of(process, "maps").c_str(), "re");
  if (file == nullptr) return found;
  char* line = nullptr;
  size_t room = 0;
  while (getline(&line, &room, file) > 0) {
    Mapping one{};
    char rights[8] = {};
    int name = 0;
    if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %" SCNu64 " %n", &one.begin, &one.end, rights,
                    &one.offset, &one.inode, &name) < 5) {
      continue;
    }
    one.readable = rights[0] == 'r';
    one.writable = rights[1] == 'w';
    one.executable = rights[2] == 'x';
    one.shared = rights[3] == 's';
    one.name = line + name;
    while (!one.name.empty() && one.name.back() == '\n') one.name.pop_back();
    found.push_back(std::move(one));
  }
  std::free(line);
  std::fclose(file);
  return found;
}

Memory::Memory(int process)
    : process_(process),
      memory_(open(path_of(process, "mem").c_str(), O_RDONLY | O_CLOEXEC)),
      pagemap_(open(path_of(process, "pagemap").c_str(), O_RDONLY | O_CLOEXEC)) {}

Memory::~Memory() {
  if (memory_ >= 0) close(memory_);
  if (pagemap_ >= 0) close(pagemap_);
}

bool Memory::read(u64 address, void* to, usize bytes) const {
  char* at = static_cast<char*>(to);
  bool all = true;
  while (bytes != 0) {
    iovec local{at, bytes}, remote{reinterpret_cast<void*>(address), bytes};
    ssize_t got = process_vm_readv(process_, &local, 1, &remote, 1, 0);
    // The other way is there for processes that one may trace, but not read so (a filter of system calls).
    if (got < 0 && memory_ >= 0) got = pread(memory_, at, bytes, static_cast<off_t>(address));
    if (got <= 0) {
      // A page that cannot be read: the next one may.
      all = false;
      const usize skip = kPage - address % kPage;
      got = static_cast<ssize_t>(skip < bytes ? skip : bytes);
      std::memset(at, 0, static_cast<usize>(got));
    }
    address += static_cast<u64>(got);
    at += got;
    bytes -= static_cast<usize>(got);
  }
  return all;
}

std::vector<bool> Memory::present(u64 address, usize pages) const {
  std::vector<bool> found(pages, true);
  if (sysconf(_SC_PAGESIZE) != static_cast<long>(kPage) || pagemap_ < 0) return found;
  std::vector<u64> entries(pages);
  const usize bytes = pages * sizeof(u64);
  const ssize_t got = pread(pagemap_, entries.data(), bytes, static_cast<off_t>(address / kPage * sizeof(u64)));
  for (usize i = 0; i < (got > 0 ? static_cast<usize>(got) / sizeof(u64) : 0); ++i) {
    found[i] = (entries[i] & (kPresent | kSwapped)) != 0;
  }
  return found;
}

}  // namespace coffer::retain
