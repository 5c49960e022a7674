// SPDX-License-Identifier: MIT
// trap single|shared|system-call|page-fault: uses a latency heap in every way for half a million calls while the kernel
// answers each system call of the process with SIGSYS, and compares the page faults before and after.
//
// Status 0: as it should be; in the last two modes, which do on purpose what must not happen, that it was noticed. 77:
// the kernel has no filters. 1: a failure, in words on stderr.
#include <coffer/coffer.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {

volatile sig_atomic_t g_expected;  // a system call is what this run must notice

void say(const char* text) {
  const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
  static_cast<void>(written);
}

void on_trap(int) {
  if (!g_expected) say("a system call while the heap was in use\n");
  _exit(g_expected ? 0 : 1);
}

// From now on every system call but those with which the program ends raises SIGSYS. getrusage, which tells of page
// faults, is one of the few; it is called outside of the heap only.
bool close_the_kernel() {
  const struct sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getrusage, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog filter = {sizeof program / sizeof program[0], const_cast<struct sock_filter*>(program)};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

long page_faults() {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

constexpr int kBlocks = 500;
unsigned char* g_blocks[kBlocks];
size_t g_sizes[kBlocks];

// Every call, in an order and with sizes that look random, with writes to all of each block; the heap is too small for
// all that is asked, so that calls fail, too.
bool use(struct coffer_heap* heap, int calls) {
  uint64_t random = 1;
  int refused = 0;
  for (int call = 0; call < calls; ++call) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const unsigned slice = static_cast<unsigned>(random >> 33) % kBlocks;
    const size_t size = 1 + (random >> 40) % (call % 64 == 0 ? 60'000 : 600);
    unsigned char*& block = g_blocks[slice];
    switch ((random >> 60) % 4) {
      case 0: {
        auto* const moved = static_cast<unsigned char*>(coffer_heap_realloc(heap, block, size));
        if (moved == nullptr) {
          ++refused;
          continue;
        }
        block = moved;
        break;
      }
      case 1:
        if (coffer_heap_free(heap, block) != 0) return false;
        block = static_cast<unsigned char*>(coffer_heap_calloc(heap, size, 1));
        break;
      case 2:
        if (coffer_heap_free(heap, block) != 0) return false;
        block = static_cast<unsigned char*>(coffer_heap_aligned_alloc(heap, 64, size));
        break;
      default:
        if (coffer_heap_free(heap, block) != 0) return false;
        block = static_cast<unsigned char*>(coffer_heap_malloc(heap, size));
    }
    if (block == nullptr) {
      ++refused;
      continue;
    }
    g_sizes[slice] = size;
    std::memset(block, static_cast<int>(slice), size);
    if (coffer_heap_usable_size(heap, block) < size) return false;
  }
  if (coffer_heap_free(heap, heap) == 0) return false;  // a wrong call is told without the kernel's help, too
  return refused > 0 && coffer_heap_largest_free(heap) > 0;
}

}  // namespace

int main(int count, char** arguments) {
  const char* const mode = count > 1 ? arguments[1] : "single";
  struct coffer_heap_options options = {};
  options.single_thread = std::strcmp(mode, "shared") != 0;
  options.allow_unlocked = 1;
  struct coffer_heap* const heap = coffer_heap_create(size_t{256} << 10, &options);
  if (heap == nullptr) {
    std::perror("coffer_heap_create");
    return 1;
  }
  auto* const absent =
      static_cast<volatile char*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  // The program's own pages: its tables, its code, the C library's.
  if (!use(heap, 20'000)) {
    std::fputs("the heap went wrong before the kernel was closed\n", stderr);
    return 1;
  }
  for (unsigned char*& block : g_blocks) {
    coffer_heap_free(heap, block);
    block = nullptr;
  }
  page_faults();
  std::signal(SIGSYS, on_trap);
  if (!close_the_kernel()) {
    std::perror("no system call filters here");
    return 77;
  }
  const long before = page_faults();
  const bool good = use(heap, 500'000);
  if (std::strcmp(mode, "page-fault") == 0) *absent = 1;
  const long faults = page_faults() - before;
  if (std::strcmp(mode, "system-call") == 0) {
    g_expected = 1;
    // A plain malloc of this size asks the kernel for memory.
    _exit(coffer_malloc(size_t{100} << 20) != nullptr ? 1 : 1);
  }
  if (!good) say("the heap went wrong\n");
  const long wanted = std::strcmp(mode, "page-fault") == 0 ? 1 : 0;
  if (faults != wanted) say("page faults while the heap was in use\n");
  _exit(good && faults == wanted ? 0 : 1);
}
