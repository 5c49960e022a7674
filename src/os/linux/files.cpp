// SPDX-License-Identifier: MIT
// Files, signals and names, with bare system calls: this runs inside malloc and in signal handlers.
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/linux/calls.hpp"
#include "os/linux/namespace.hpp"
#include "os/os.hpp"

namespace coffer {
namespace COFFER_OS_NAMESPACE {

u32 process_number() {
  // Not getpid, which C libraries before 2.25 answered from memory: wrong in a child that they did not make.
  return static_cast<u32>(syscall(SYS_getpid));
}

u32 user_number() { return geteuid(); }

u64 pid_namespace() {
  const KeepErrno keep;
  char text[64];  // "pid:[4026531836]"
  const ssize_t length = readlink("/proc/self/ns/pid", text, sizeof text);
  u64 number = 0;
  for (ssize_t i = 0; i < length; ++i) {
    if (text[i] >= '0' && text[i] <= '9') number = number * 10 + static_cast<u64>(text[i] - '0');
  }
  return number;
}

void program_name(char (&name)[os::kProgramNameBytes]) {
  const KeepErrno keep;
  if (prctl(PR_GET_NAME, name, 0, 0, 0) != 0) name[0] = 0;
  name[sizeof name - 1] = 0;
}

void* share_file(const char* path, usize length) {
  const KeepErrno keep;
  const int file = calls::open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return nullptr;
  void* mapped = MAP_FAILED;
  // A file system that is full says so here, and not by a signal when the mapping is written to.
  int full = 0;
  do {
    full = calls::allocate(file, length) == 0 ? 0 : errno;
  } while (full == EINTR);
  if (full == 0) mapped = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  calls::close(file);
  if (mapped != MAP_FAILED) return mapped;
  unlink(path);
  return nullptr;
}

void unshare_file(void* address, usize length) {
  const KeepErrno keep;
  munmap(address, length);
}

bool remove_file(const char* path) {
  const KeepErrno keep;
  return unlink(path) == 0;
}

int create_file(const char* path, os::Existing existing) {
  const KeepErrno keep;
  int how = O_EXCL;
  if (existing == os::Existing::empty) how = O_TRUNC;
  if (existing == os::Existing::append) how = O_APPEND;
  return calls::open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | how, 0600);
}

int memory_file() {
  const KeepErrno keep;
  constexpr unsigned kNoExecution = 8;  // MFD_NOEXEC_SEAL: systems may demand it, and those before 6.3 do not know it
  const auto make = [](unsigned how) {
    return static_cast<int>(syscall(SYS_memfd_create, "coffer", MFD_CLOEXEC | how));
  };
  const int file = make(kNoExecution);
  return file < 0 && errno == EINVAL ? make(0) : file;
}

bool write_file(int file, const void* from, usize length) {
  const KeepErrno keep;
  for (const char* at = static_cast<const char*>(from); length > 0;) {
    const ssize_t written = calls::write(file, at, length);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    length -= static_cast<usize>(written);
  }
  return true;
}

void write_error(const char* text, usize length) { write_file(STDERR_FILENO, text, length); }

bool close_file(int file) {
  const KeepErrno keep;
  return calls::close(file) == 0;
}

void for_each_name(const char* directory, u32 most, void (*visit)(const char* name, void* context), void* context) {
  const KeepErrno keep;
  // As the kernel writes them: readdir allocates.
  struct Entry {
    u64 inode;
    i64 offset;
    u16 bytes;
    u8 type;
    char name[];
  };
  const int file = calls::open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  alignas(u64) char buffer[2048];
  for (;;) {
    const long got = syscall(SYS_getdents64, file, buffer, sizeof buffer);
    if (got <= 0) break;
    for (long at = 0; at < got && most > 0; --most) {
      const Entry* entry = reinterpret_cast<const Entry*>(buffer + at);
      visit(entry->name, context);
      at += entry->bytes;
    }
    if (most == 0) break;
  }
  calls::close(file);
}

bool is_process_gone(u32 process) {
  const KeepErrno keep;
  return kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH;
}

bool on_signal(u32 signal, void (*handler)(int)) {
  const KeepErrno keep;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  return sigaction(static_cast<int>(signal), &action, nullptr) == 0;
}

}  // namespace COFFER_OS_NAMESPACE
}  // namespace coffer
