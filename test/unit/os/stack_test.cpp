// SPDX-License-Identifier: MIT
// The walk up the stack: through code with and without frame pointers, aligned stacks, recursion, and stacks that end.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstring>

#include "os/os.hpp"

namespace coffer {
namespace {

struct Walk {
  uptr frames[96];
  u32 count = 0;
  __attribute__((always_inline)) void take() { count = os::call_stack(frames, 96); }
};

uptr address_of(const void* code) { return reinterpret_cast<uptr>(code); }

// musl has no tables of unwinding to ask, and its toolchain no function with a frame pointer of its own choice.
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

// Whether a frame lies in a function that begins there and has at most so many bytes.
bool lies_in(uptr frame, const void* function, usize bytes = 400) {
  return frame >= address_of(function) && frame < address_of(function) + bytes;
}

__attribute__((noinline)) void plain(Walk& walk) {
  walk.take();
  __asm__ volatile("" ::: "memory");  // no tail call
}

__attribute__((noinline, optimize("omit-frame-pointer"))) void without(Walk& walk, usize more) {
  volatile char space[128];
  space[more % sizeof space] = 1;
  plain(walk);
  __asm__ volatile("" ::"r"(space) : "memory");
}

__attribute__((noinline, optimize("no-omit-frame-pointer"))) void with(Walk& walk) {
  without(walk, 3);
  __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void aligned(Walk& walk) {
  alignas(128) volatile char space[256];
  space[0] = static_cast<char>(reinterpret_cast<uptr>(&walk));
  with(walk);
  __asm__ volatile("" ::"r"(space) : "memory");
}

__attribute__((noinline)) void of_any_size(Walk& walk, usize bytes) {
  volatile char* space = static_cast<volatile char*>(__builtin_alloca(bytes));
  space[0] = 1;
  aligned(walk);
  __asm__ volatile("" ::"r"(space) : "memory");
}

__attribute__((noinline)) void recurse(Walk& walk, u32 depth) {
  if (depth == 0) {
    walk.take();
  } else {
    recurse(walk, depth - 1);
  }
  __asm__ volatile("" ::: "memory");
}

TEST(CallStack, PassesEveryKindOfFrame) {
  Walk walk;
  of_any_size(walk, 1000);
  ASSERT_GE(walk.count, 6u);
  u32 at = 0;
  EXPECT_TRUE(lies_in(walk.frames[at++], reinterpret_cast<const void*>(&plain)));
  EXPECT_TRUE(lies_in(walk.frames[at++], reinterpret_cast<const void*>(&without)));
  EXPECT_TRUE(lies_in(walk.frames[at++], reinterpret_cast<const void*>(&with)));
  EXPECT_TRUE(lies_in(walk.frames[at++], reinterpret_cast<const void*>(&aligned)));
  EXPECT_TRUE(lies_in(walk.frames[at++], reinterpret_cast<const void*>(&of_any_size)));
}

TEST(CallStack, EndsWhereTheListDoes) {
  Walk walk;
  recurse(walk, 300);
  EXPECT_EQ(walk.count, 96u);
  for (u32 i = 2; i < 96; ++i) EXPECT_TRUE(lies_in(walk.frames[i], reinterpret_cast<const void*>(&recurse)));
  EXPECT_EQ(os::call_stack(walk.frames, 0), 0u);
}

TEST(CallStack, IsTheSameAsTheCompilersOwn) {
  Walk walk;
  walk.take();
  // What called this test is called through a pointer by gtest: main and the C library are at the end.
  EXPECT_GE(walk.count, 5u);
  const void* self = __builtin_extract_return_addr(__builtin_return_address(0));
  bool found = false;
  for (u32 i = 0; i < walk.count; ++i) found |= walk.frames[i] + 1 == address_of(self);
  EXPECT_TRUE(found);
}

ucontext_t g_main, g_other;
Walk g_walk;

void on_other_stack() {
  recurse(g_walk, 3);
  swapcontext(&g_other, &g_main);
}

// The stack of a coroutine, right below memory that cannot be read, filled with what leads nowhere.
TEST(CallStack, StopsAtTheEndOfAnyStack) {
  constexpr usize kBytes = 64 * 1024;
  char* memory = static_cast<char*>(mmap(nullptr, kBytes + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(mprotect(memory, kBytes, PROT_READ | PROT_WRITE), 0);
  std::memset(memory, 0x7e, kBytes);
  getcontext(&g_other);
  g_other.uc_stack.ss_sp = memory;
  g_other.uc_stack.ss_size = kBytes;
  g_other.uc_link = &g_main;
  makecontext(&g_other, &on_other_stack, 0);
  swapcontext(&g_main, &g_other);
  EXPECT_GE(g_walk.count, 5u);
  EXPECT_LT(g_walk.count, 12u);
  munmap(memory, kBytes + 4096);
}

// Code without tables, as a program makes it at run time, whose frame pointer is anything.
TEST(CallStack, CodeWithoutTablesEndsTheWalk) {
  // push rbp; mov rbp, rdi; sub rsp, 16; mov rdi, rsi; call rdx; add rsp, 16; pop rbp; ret
  const unsigned char code[] = {0x55, 0x48, 0x89, 0xfd, 0x48, 0x83, 0xec, 0x10, 0x48, 0x89,
                                0xf7, 0xff, 0xd2, 0x48, 0x83, 0xc4, 0x10, 0x5d, 0xc3};
  void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memcpy(memory, code, sizeof code);
  using Call = void (*)(uptr frame, Walk* walk, void (*body)(Walk&));
  Call call;
  std::memcpy(&call, &memory, sizeof call);
  for (const uptr frame : {uptr{0}, uptr{8}, uptr{0x7fffffffffff}, ~uptr{0}, reinterpret_cast<uptr>(memory), uptr{3}}) {
    Walk walk;
    call(frame, &walk, &plain);
    ASSERT_GE(walk.count, 1u);
    EXPECT_LT(walk.count, 10u);
    EXPECT_TRUE(lies_in(walk.frames[walk.count - 1], memory)) << "the caller of the made code is not known";
  }
  munmap(memory, 4096);
}

// As the compiled functions that node brings: in an object with tables, which leave them out. The second one keeps what
// it is told in the frame pointer.
using Call = void (*)(Walk* walk, void (*body)(Walk&), uptr frame);
extern "C" void framed_without_entry(Walk* walk, void (*body)(Walk&), uptr frame);
extern "C" void frameless_without_entry(Walk* walk, void (*body)(Walk&), uptr frame);
__asm__(
    ".text\n"
    "framed_without_entry:\n\tpush %rbp\n\tmov %rsp, %rbp\n\tcall *%rsi\n\tpop %rbp\n\tret\n"
    "frameless_without_entry:\n\tpush %rbp\n\tmov %rdx, %rbp\n\tcall *%rsi\n\tpop %rbp\n\tret\n");

__attribute__((noinline, optimize("no-omit-frame-pointer"))) void calls(Call call, Walk& walk, uptr frame) {
  call(&walk, &plain, frame);
  __asm__ volatile("" ::: "memory");
}

TEST(CallStack, PassesFunctionsThatTheTableLeavesOut) {
  Walk walk;
  calls(&framed_without_entry, walk, 0);
  ASSERT_GE(walk.count, 5u);
  EXPECT_TRUE(lies_in(walk.frames[1], reinterpret_cast<const void*>(&framed_without_entry), 40));
  EXPECT_TRUE(lies_in(walk.frames[2], reinterpret_cast<const void*>(&calls)));
  // Words on the stack that lead nowhere, or down.
  uptr words[8];
  for (uptr& word : words) word = address_of(words);
  for (const uptr frame : {uptr{0}, uptr{8}, ~uptr{0}, address_of(words), address_of(words) + 3}) {
    calls(&frameless_without_entry, walk, frame);
    ASSERT_EQ(walk.count, 2u) << frame;
    EXPECT_TRUE(lies_in(walk.frames[1], reinterpret_cast<const void*>(&frameless_without_entry), 40));
  }
}

#endif

TEST(CodeMappings, NameTheProgramWithItsBuildId) {
  struct Found {
    u32 count = 0, with_id = 0;
    bool own = false;
  } found;
  os::for_each_code_mapping(
      [](const os::Mapping& mapping, void* context) {
        Found& to = *static_cast<Found*>(context);
        ++to.count;
        to.with_id += mapping.build_id_bytes != 0 ? 1 : 0;
        const uptr here = address_of(reinterpret_cast<const void*>(&address_of));
        to.own |= here >= mapping.begin && here < mapping.end && std::strstr(mapping.path, "unit_os") != nullptr;
        EXPECT_LT(mapping.begin, mapping.end);
      },
      &found);
  EXPECT_TRUE(found.own);
#ifdef __GLIBC__  // with musl the program is fully static
  EXPECT_GE(found.count, 3u);
  EXPECT_GE(found.with_id, 2u) << "the C library's at least has one";
#endif
}

}  // namespace
}  // namespace coffer
