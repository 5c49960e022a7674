// SPDX-License-Identifier: MIT
#include "api/system_malloc.hpp"

#include <dlfcn.h>

#include "base/text.hpp"
#include "harden/foreign.hpp"
#include "os/os.hpp"

// Weak: a fully static program has no loader to ask, and its linker would warn.
#pragma weak dlsym

namespace coffer::api {

namespace {

struct System {
  harden::Foreign foreign;
  void* (*allocate)(usize size);
  void* (*allocate_zeroed)(usize count, usize size);
  void* (*allocate_aligned)(usize alignment, usize size);
};
System g_system;

enum class State : u32 { unknown, searching, found, absent };
Atomic<State> g_state;
// The search may allocate, in older C libraries: that fails, and they go on.
__thread bool t_searching;

template <class Function>
bool find(Function*& function, const char* name) {
  function = &::dlsym != nullptr ? reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name)) : nullptr;
  return function != nullptr;
}

// musl's posix_memalign calls aligned_alloc, which is Coffer's here, and would come back without end.
bool find_all() {
  return find(g_system.allocate, "malloc") && find(g_system.allocate_zeroed, "calloc") &&
         find(g_system.allocate_aligned, "aligned_alloc") && find(g_system.foreign.release, "free") &&
         find(g_system.foreign.resize, "realloc") && find(g_system.foreign.usable, "malloc_usable_size");
}

const char* reason(os::Support support) {
  switch (support) {
    case os::Support::page_too_large:
      return "pages over 64 KiB";
    case os::Support::kernel_too_old:
      return "a kernel before 4.14";
    case os::Support::yes:
      break;
  }
  return "unknown";
}

State search() {
  State state = g_state.load(acquire);  // acquire, here and below: pairs with the release at the end
  if (state == State::found || state == State::absent || t_searching) return state;
  State expected = State::unknown;
  if (!g_state.compare_exchange(expected, State::searching, acquire, acquire)) {
    while ((state = g_state.load(acquire)) == State::searching) os::yield();
    return state == State::unknown ? search() : state;
  }
  t_searching = true;
  state = find_all() ? State::found : State::absent;
  t_searching = false;
  // release, both: pair with the acquire above and in harden::foreign.
  if (state == State::found) harden::g_foreign.store(&g_system.foreign, release);
  g_state.store(state, release);
  TextBuffer<128> line;
  line.add("coffer: does not start: ").add(reason(os::support())).add("; ");
  line.add(state == State::found ? "the C library's malloc serves" : "there is no other malloc");
  os::write_line(line);
  return state;
}

bool system_serves() { return os::support() != os::Support::yes && search() == State::found; }

}  // namespace

void* allocate_from_system(usize size, usize alignment) {
  if (!system_serves()) return nullptr;
  if (alignment <= sizeof(void*)) return g_system.allocate(size);
  return g_system.allocate_aligned(alignment, size);
}

void* allocate_zeroed_from_system(usize size) { return system_serves() ? g_system.allocate_zeroed(1, size) : nullptr; }

}  // namespace coffer::api
