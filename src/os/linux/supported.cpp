// SPDX-License-Identifier: MIT
// Whether this machine and its kernel are ones that Coffer works on. Asked without a system call, which a filter may
// punish: the kernel's version stands in the notes of the object that it maps into every process (the vDSO).
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/atomic.hpp"
#include "os/linux/namespace.hpp"
#include "os/os.hpp"

namespace coffer {
namespace COFFER_OS_NAMESPACE {

namespace {

constexpr usize kLargestPage = 64 * 1024;
constexpr u32 kOldestKernel = 4u << 16 | 14u << 8;  // the first with membarrier's private expedited command

// | major (16) | minor (8) | patch (8) |, as the kernel's own LINUX_VERSION_CODE; 0: unknown, as under emulators that
// map no such object.
u32 version_in_notes(const u8* at, usize bytes) {
  const u8* const end = at + bytes;
  while (static_cast<usize>(end - at) >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    memcpy(&note, at, sizeof note);
    at += sizeof note;
    const usize name_bytes = (usize{note.n_namesz} + 3) / 4 * 4;
    const usize content_bytes = (usize{note.n_descsz} + 3) / 4 * 4;
    const usize left = static_cast<usize>(end - at);
    if (name_bytes > left || content_bytes > left - name_bytes) return 0;
    u32 version = 0;
    if (note.n_type == 0 && note.n_namesz == sizeof "Linux" && note.n_descsz == sizeof version &&
        memcmp(at, "Linux", sizeof "Linux") == 0) {
      memcpy(&version, at + name_bytes, sizeof version);
      return version;
    }
    at += name_bytes + content_bytes;
  }
  return 0;
}

u32 kernel_version() {
  const uptr base = getauxval(AT_SYSINFO_EHDR);
  if (base == 0) return 0;
  const ElfW(Ehdr)* const header = reinterpret_cast<const ElfW(Ehdr)*>(base);
  const ElfW(Phdr)* const segments = reinterpret_cast<const ElfW(Phdr)*>(base + header->e_phoff);
  for (u32 i = 0; i < header->e_phnum; ++i) {
    if (segments[i].p_type != PT_NOTE) continue;
    const u32 version =
        version_in_notes(reinterpret_cast<const u8*>(base + segments[i].p_offset), segments[i].p_filesz);
    if (version != 0) return version;
  }
  return 0;
}

os::Support find_support() {
  const usize page = os::page_size();
  if (page > kLargestPage || (page & (page - 1)) != 0) return os::Support::page_too_large;
  const u32 version = kernel_version();
  return version != 0 && version < kOldestKernel ? os::Support::kernel_too_old : os::Support::yes;
}

}  // namespace

os::Support support() {
  static Owned<u32> cached;  // 1 + the answer, which is the same for all threads
  if (cached.get() == 0) cached.set(1 + static_cast<u32>(find_support()));
  return static_cast<os::Support>(cached.get() - 1);
}

}  // namespace COFFER_OS_NAMESPACE
}  // namespace coffer
