// SPDX-License-Identifier: MIT
#include "fiber.hpp"

#include <asm/prctl.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#if !defined(__x86_64__)
#error The simulator switches stacks and thread pointers of x86-64 only.
#endif

// Saves what a function must keep and the stack pointer, and goes on where another fiber left off.
extern "C" void simulation_change_stack(void** save, void* next);
asm(R"(
.text
.globl simulation_change_stack
.hidden simulation_change_stack
.type simulation_change_stack, @function
simulation_change_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size simulation_change_stack, .-simulation_change_stack
)");

namespace simulation {

namespace {

constexpr std::size_t kStackBytes = 256 * 1024;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "simulate: %s\n", what);
  std::exit(1);
}

bool can_write_pointer() {
  constexpr unsigned long kFsGsBase = 2;  // of AT_HWCAP2
  static const bool can = (getauxval(AT_HWCAP2) & kFsGsBase) != 0;
  return can;
}

uptr thread_pointer() {
  uptr value;
  asm("movq %%fs:0, %0" : "=r"(value));
  return value;
}

void set_thread_pointer(uptr value) {
  if (can_write_pointer()) {
    asm volatile("wrfsbase %0" : : "r"(value) : "memory");
  } else {
    // No function of the C library: its errno would be another thread's by then.
    long result;
    asm volatile("syscall" : "=a"(result) : "a"(SYS_arch_prctl), "D"(ARCH_SET_FS), "S"(value) : "rcx", "r11", "memory");
  }
}

// The program's own thread-local variables: what they are at first, and where they lie before the thread pointer.
struct Variables {
  const void* initial = nullptr;
  std::size_t initial_bytes = 0, bytes = 0;
  uptr before_pointer = 0;
};

int find_variables(dl_phdr_info* info, std::size_t, void* found) {
  // The first one is the program.
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_TLS || info->dlpi_tls_data == nullptr) continue;
    *static_cast<Variables*>(found) = {reinterpret_cast<const void*>(info->dlpi_addr + segment.p_vaddr),
                                       segment.p_filesz, segment.p_memsz,
                                       thread_pointer() - reinterpret_cast<uptr>(info->dlpi_tls_data)};
  }
  return 1;
}

const Variables& variables() {
  static const Variables found = [] {
    Variables result;
    dl_iterate_phdr(&find_variables, &result);
    return result;
  }();
  return found;
}

// A thread that does nothing but to have a thread pointer. What it says that by outlives both sides.
sem_t g_started;
uptr g_started_pointer;

void* wait_for_ever(void*) {
  g_started_pointer = thread_pointer();
  sem_post(&g_started);
  for (;;) pause();
}

uptr borrow_thread() {
  static const bool ready = sem_init(&g_started, 0, 0) == 0;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, std::size_t{64} * 1024);
  pthread_t thread;
  if (!ready || pthread_create(&thread, &attributes, &wait_for_ever, nullptr) != 0) fail("cannot start a thread");
  pthread_detach(thread);
  pthread_attr_destroy(&attributes);
  while (sem_wait(&g_started) != 0) {
  }
  return g_started_pointer;
}

}  // namespace

Fiber::Fiber() : thread_pointer_(borrow_thread()) {
  void* const memory =
      mmap(nullptr, kStackBytes + kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  // Its lowest page catches what grows too far.
  if (memory == MAP_FAILED || mprotect(memory, kPageBytes, PROT_NONE) != 0) fail("no memory for a stack");
  stack_ = static_cast<char*>(memory) + kPageBytes;
}

Fiber::Fiber(Own) : thread_pointer_(thread_pointer()) {}

std::unique_ptr<Fiber> Fiber::own() { return std::unique_ptr<Fiber>(new Fiber(Own{})); }

void Fiber::prepare(void (*body)()) {
  const Variables& own = variables();
  char* const at = reinterpret_cast<char*>(thread_pointer_ - own.before_pointer);
  if (own.bytes != 0) {
    std::memcpy(at, own.initial, own.initial_bytes);
    std::memset(at + own.initial_bytes, 0, own.bytes - own.initial_bytes);
  }
  // As if `body` had been called: a return address that is never used, and the six registers below.
  void** top = reinterpret_cast<void**>(stack_ + kStackBytes);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(body);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  stack_pointer_ = top;
}

void Fiber::change(Fiber& from, Fiber& to) {
  set_thread_pointer(to.thread_pointer_);
  simulation_change_stack(&from.stack_pointer_, to.stack_pointer_);
}

}  // namespace simulation
