// SPDX-License-Identifier: MIT
// Who called: the return addresses on the stack of the calling thread, by the tables that compilers make for exceptions
// (.eh_frame, in DWARF's form), found by the C library without a lock and without memory. Where there is none for an
// address, such as code that a program made at run time, by frame pointers; and where an object's table leaves a
// function out, as node's does with what it brings compiled, if the frame pointer leads to another one.
//
// Nothing here may crash, whatever a table or the stack holds: each page of the stack is probed before it is read, each
// step must lead up the stack, and a rule that is not known ends the walk. The tables themselves are the loader's.
#include <dlfcn.h>
#include <link.h>
#include <ucontext.h>

#include "os/linux/unwind.hpp"

#ifdef __GLIBC_PREREQ
#if __GLIBC_PREREQ(2, 35)
#define COFFER_FINDS_OBJECTS 1
extern "C" int _dl_find_object(void* address, struct dl_find_object* result) noexcept __attribute__((weak));
#endif
#endif
#ifndef COFFER_FINDS_OBJECTS
#define COFFER_FINDS_OBJECTS 0
#endif

namespace coffer {
namespace COFFER_OS_NAMESPACE {

namespace {

#if defined(__x86_64__)

// The object that the walk is in: mostly the next function is of the same one.
struct Object {
  uptr begin = 0, end = 0;
  const u8* table = nullptr;
  u64 mark = 0;
};

// false: the address is in none, or in one without a table.
bool find_object(uptr pc, Object& object) {
  if (pc >= object.begin && pc < object.end) return true;
#if COFFER_FINDS_OBJECTS
  struct dl_find_object found;
  if (&_dl_find_object != nullptr && _dl_find_object(reinterpret_cast<void*>(pc), &found) == 0 &&
      found.dlfo_eh_frame != nullptr) {
    object.begin = reinterpret_cast<uptr>(found.dlfo_map_start);
    object.end = reinterpret_cast<uptr>(found.dlfo_map_end);
    object.table = static_cast<const u8*>(found.dlfo_eh_frame);
    object.mark = mark_of(object.table);
    return true;
  }
#endif
  return false;
}

bool step(uptr pc, Object& object, Registers& registers, Stack& stack) {
  if (!find_object(pc, object)) return step_by_frame_pointer(registers, stack);
  return step_by_table(object.table, object.mark, pc, registers, stack);
}

#endif

}  // namespace

#if defined(__x86_64__)

namespace {

// The callers of pc, where the registers are these; `frames` has `count` already. `here`: in a page that can be read.
u32 walk(uptr pc, Registers& registers, uptr here, uptr* frames, u32 count, u32 most) {
  Stack stack(here);
  Object object;
  while (count < most && step(pc, object, registers, stack) && registers.value[kReturn] > kPage) {
    // The call, and not what comes after it, which may be another function.
    pc = registers.value[kReturn] - 1;
    frames[count++] = pc;
  }
  return count;
}

}  // namespace

COFFER_NOINLINE u32 call_stack(uptr* frames, u32 most) {
  Registers registers = {};
  __asm__ volatile(
      "leaq 0(%%rip), %%rax\n\t"
      "movq %%rax, 128(%0)\n\t"
      "movq %%rbx, 24(%0)\n\t"
      "movq %%rbp, 48(%0)\n\t"
      "movq %%rsp, 56(%0)\n\t"
      "movq %%r12, 96(%0)\n\t"
      "movq %%r13, 104(%0)\n\t"
      "movq %%r14, 112(%0)\n\t"
      "movq %%r15, 120(%0)\n\t"
      :
      : "r"(registers.value)
      : "rax", "memory");
  return walk(registers.value[kReturn], registers, registers.value[kRsp], frames, 0, most);
}

u32 interrupted_stack(const void* context, uptr* frames, u32 most) {
  // In the order of the tables' numbers.
  static constexpr int kOrder[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
                                   REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
  static_assert(sizeof kOrder / sizeof kOrder[0] == kRegisters);
  const auto& found = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  Registers registers = {};
  for (u32 i = 0; i < kRegisters; ++i) registers.value[i] = static_cast<uptr>(found[kOrder[i]]);
  const uptr pc = registers.value[kReturn];
  if (most == 0) return 0;
  frames[0] = pc;
  return walk(pc, registers, reinterpret_cast<uptr>(&registers), frames, 1, most);
}

#else

namespace {

// The callers of who has this frame; `frames` has `count` already. `here`: in a page that can be read. Inline, for the
// frame is that of who calls.
COFFER_INLINE u32 walk(uptr frame, uptr here, uptr* frames, u32 count, u32 most) {
  Stack stack(here);
  while (count < most) {
    uptr next = 0, caller = 0;
    if (!stack.read(frame, &next) || !stack.read(frame + sizeof(uptr), &caller) || caller <= kPage) break;
    frames[count++] = caller - 1;
    if (next <= frame || next - frame > kLongestFrame) break;
    frame = next;
  }
  return count;
}

}  // namespace

COFFER_NOINLINE u32 call_stack(uptr* frames, u32 most) {
  const uptr frame = reinterpret_cast<uptr>(__builtin_frame_address(0));
  return walk(frame, frame, frames, 0, most);
}

u32 interrupted_stack([[maybe_unused]] const void* context, uptr* frames, u32 most) {
  if (most == 0) return 0;
#if defined(__aarch64__)
  const auto& found = static_cast<const ucontext_t*>(context)->uc_mcontext;
  const uptr here = reinterpret_cast<uptr>(__builtin_frame_address(0));
  frames[0] = found.pc;
  return walk(found.regs[29], here, frames, 1, most);
#elif defined(__riscv)
  const auto& found = static_cast<const ucontext_t*>(context)->uc_mcontext.__gregs;
  const uptr here = reinterpret_cast<uptr>(__builtin_frame_address(0));
  constexpr u32 kPc = 0, kS0 = 8;
  frames[0] = found[kPc];
  return walk(found[kS0], here, frames, 1, most);
#else
  return 0;
#endif
}

#endif

uptr library_end(uptr inside, uptr* begin) {
#if COFFER_FINDS_OBJECTS
  struct dl_find_object found;
  // The program itself, which has no name, is no library: a program that is linked with Coffer calls from there.
  if (&_dl_find_object != nullptr && _dl_find_object(reinterpret_cast<void*>(inside), &found) == 0 &&
      found.dlfo_link_map != nullptr && found.dlfo_link_map->l_name[0] != 0) {
    *begin = reinterpret_cast<uptr>(found.dlfo_map_start);
    return reinterpret_cast<uptr>(found.dlfo_map_end);
  }
#else
  static_cast<void>(inside);
#endif
  *begin = 0;
  return 0;
}

}  // namespace COFFER_OS_NAMESPACE
}  // namespace coffer
