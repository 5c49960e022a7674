// SPDX-License-Identifier: MIT
#include "retain/memory.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace coffer::retain {

namespace {

std::string path_of(int process, const char* what) { return "/proc/" + std::to_string(process) + "/" + what; }

constexpr u64 kPresent = u64{1} << 63, kSwapped = u64{1} << 62;
constexpr u64 kWindow = u64{64} << 20;

// PAGEMAP_SCAN of Linux 6.7, which older headers do not know.
struct Region {
  u64 start, end, categories;
};
struct Scan {
  u64 size, flags, start, end, walk_end, vec, vec_len, max_pages;
  u64 category_inverted, category_mask, category_anyof_mask, return_mask;
};
constexpr unsigned long kScan = _IOWR('f', 16, Scan);
constexpr u64 kIsPresent = u64{1} << 3, kIsSwapped = u64{1} << 4, kRegions = 1024;

}  // namespace

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

std::vector<Range> Memory::present(u64 begin, u64 end, u64* next) const {
  *next = end;
  if (sysconf(_SC_PAGESIZE) != static_cast<long>(kPage) || pagemap_ < 0) return {{begin, end}};
  std::vector<Range> found;
  const auto add = [&](u64 from, u64 to) {
    from = from < begin ? begin : from;
    to = to > end ? end : to;
    if (from < to) found.push_back({from, to});
  };
  std::vector<Region> regions(kRegions);
  Scan scan{};
  scan.size = sizeof scan;
  scan.start = begin / kPage * kPage;
  scan.end = (end + kPage - 1) / kPage * kPage;
  scan.vec = reinterpret_cast<u64>(regions.data());
  scan.vec_len = kRegions;
  scan.category_anyof_mask = scan.return_mask = kIsPresent | kIsSwapped;
  if (const int count = ioctl(pagemap_, kScan, &scan); count >= 0) {
    for (int i = 0; i < count; ++i) add(regions[static_cast<usize>(i)].start, regions[static_cast<usize>(i)].end);
    if (scan.walk_end > begin && scan.walk_end < end) *next = scan.walk_end;
    return found;
  }
  // Before Linux 6.7: an entry for each page.
  if (end - begin > kWindow) *next = end = begin + kWindow;
  const u64 first = begin / kPage, pages = (end + kPage - 1) / kPage - first;
  std::vector<u64> entries(pages);
  const ssize_t got = pread(pagemap_, entries.data(), pages * sizeof(u64), static_cast<off_t>(first * sizeof(u64)));
  const u64 known = got > 0 ? static_cast<u64>(got) / sizeof(u64) : 0;
  for (u64 i = 0; i < pages;) {
    u64 j = i;
    while (j < pages && (j >= known || (entries[j] & (kPresent | kSwapped)) != 0)) ++j;
    add((first + i) * kPage, (first + j) * kPage);
    i = j + 1;
  }
  return found;
}

}  // namespace coffer::retain
