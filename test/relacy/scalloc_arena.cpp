// SPDX-License-Identifier: MIT
// scalloc's arena under Relacy: the map of spans that a walk (statistics, check) may look into. The code is arena.cpp
// whole. Where the kernel gives a span its first memory, all zero, stands a write to a plain field: a walk that the map
// does not order behind it would read what was there before, or fault.
//
//   scalloc_arena_relacy [--weaken FILE:LINE:s=ORDER] [ITERATIONS]   exit status 1: some test found an error
#include <new>

#include "os/os.hpp"
#include "papers/scalloc/arena.hpp"
#include "simulate.hpp"

namespace coffer {

namespace scalloc {
namespace {

constexpr usize kSpanBytes = usize{64} << 10;
constexpr u32 kSpans = 4;
alignas(kSpans* kSpanBytes) unsigned char g_arena[kSpans * kSpanBytes];
alignas(4096) unsigned char g_map[4096];  // of Atomic<u64>: one does for kSpans

Span* memory_of(u32 index) { return reinterpret_cast<Span*>(g_arena + index * kSpanBytes); }

struct MadeTest : rl::test_suite<MadeTest, 3> {
  Arena arena;

  void before() {
    new (g_map) Atomic<u64>();
    for (u32 i = 0; i < kSpans; ++i) new (memory_of(i)) Span();
    Parameters parameters;
    parameters.arena = kSpans * kSpanBytes;
    parameters.virtual_span = kSpanBytes;

    RL_ASSERT(arena.start(parameters));
  }
  void thread(unsigned index) {
    if (index < 2) {
      for (int i = 0; i < 2; ++i) RL_ASSERT(arena.allocate_virtual_span(real_span_bytes(0)) != nullptr);
      return;
    }
    for (int round = 0; round < 2; ++round) {
      for (u32 number = 1; number <= arena.taken(); ++number) {
        if (arena.is_made(number)) RL_ASSERT(arena.span(number)->local_first.get() == nullptr);
      }
    }
  }
  void after() {
    RL_ASSERT(arena.taken() == kSpans);
    for (u32 number = 1; number <= kSpans; ++number) RL_ASSERT(arena.is_made(number));
    for (u32 i = 0; i < kSpans; ++i) memory_of(i)->~Span();
    reinterpret_cast<Atomic<u64>*>(g_map)->~Atomic<u64>();
  }
};

}  // namespace
}  // namespace scalloc

using namespace scalloc;

usize os::page_size() { return 4096; }
usize os::reservation_limit(usize wanted) { return wanted; }
// First the arena, then the map of its spans.
void* os::reserve(usize length, usize) {
  if (length == sizeof g_arena) return g_arena;
  return length <= sizeof g_map ? g_map : nullptr;
}
bool os::commit(void* address, usize) {
  if (address == g_map) return true;
  static_cast<Span*>(address)->local_first.set(nullptr);
  return true;
}
void os::release(void*, usize) {}
bool os::limit_allows(usize, usize) { return true; }
bool os::decommit(void*, usize) { return true; }
bool os::purge(void*, usize) { return true; }
void os::advise_huge_pages(void*, usize, HugePages) {}
void os::name_mapping(void*, usize, const char*) {}

}  // namespace coffer

int main(int count, char** arguments) {
  return coffer::run_program(count, arguments, [](rl::iteration_t iterations) {
    return coffer::simulate<coffer::scalloc::MadeTest>("spans made", iterations);
  });
}
