// SPDX-License-Identifier: MIT
// The only file of the library that is compiled with exceptions (-fexceptions).
//
// C programs must link and run without a C++ runtime, so every reference to one is weak: it is null where there is no
// runtime, and asked before use. The shared library also finds a runtime that came later, by dlopen.
#include "api/new_handler.hpp"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include <new>

#include "api/shim.hpp"
#include "os/os.hpp"

#ifndef COFFER_PREFIX_ONLY

#ifndef __cpp_exceptions
#error "compile this file with -fexceptions: the nothrow forms of operator new must catch what a new-handler throws"
#endif

// What the compiler refers to for the catch clauses below.
__asm__(
    ".weak __gxx_personality_v0\n"
    ".weak __cxa_begin_catch\n"
    ".weak __cxa_end_catch\n"
    ".weak __cxa_call_terminate\n"
    ".weak _Unwind_Resume\n"
    ".weak _ZSt9terminatev\n");

#define COFFER_FROM_RUNTIME(name) __asm__(name) __attribute__((weak, visibility("default")))

namespace coffer::api {

extern "C" {
std::new_handler runtime_get_new_handler() COFFER_FROM_RUNTIME("_ZSt15get_new_handlerv");
void runtime_throw_bad_alloc() COFFER_FROM_RUNTIME("_ZSt17__throw_bad_allocv");
void runtime_personality() COFFER_FROM_RUNTIME("__gxx_personality_v0");
void* runtime_allocate_exception(usize size) COFFER_FROM_RUNTIME("__cxa_allocate_exception");
void runtime_throw(void* object, const void* type, const void* destructor) COFFER_FROM_RUNTIME("__cxa_throw");
// std::bad_alloc: its type_info, its table of virtual functions, its destructor.
extern const char runtime_bad_alloc_type COFFER_FROM_RUNTIME("_ZTISt9bad_alloc");
extern const uptr runtime_bad_alloc_table[] COFFER_FROM_RUNTIME("_ZTVSt9bad_alloc");
extern const char runtime_bad_alloc_destructor COFFER_FROM_RUNTIME("_ZNSt9bad_allocD1Ev");
}

namespace {

// Whether a weak reference found something. Through a register, since a compiler that itself refers to the name (the
// personality routine) believes that it cannot be null.
template <class T>
bool present(T* reference) {
  __asm__("" : "+r"(reference));
  return reference != nullptr;
}

// A function of a C++ runtime that was not there when Coffer was loaded; nullptr if there is none now either.
#ifdef COFFER_STATIC_LIBRARY
// What a program opens later binds to its own runtime's operators, not to those inside the program. And a static
// program that refers to dlopen is warned of by the linker.
void* find_late_symbol(const char*) { return nullptr; }
#else
// Asked for by library: most are opened with RTLD_LOCAL, for a plug-in, and not in the global scope.
void* find_late_symbol(const char* name) {
  constexpr const char* kRuntimes[] = {"libstdc++.so.6", "libc++.so.1", "libc++abi.so.1"};
  for (const char* runtime : kRuntimes) {
    void* handle = dlopen(runtime, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    void* found = dlsym(handle, name);
    dlclose(handle);  // whoever called operator new keeps the library loaded
    if (found != nullptr) return found;
  }
  return nullptr;
}
#endif

template <class Function>
Function* find_late(const char* name) {
  return reinterpret_cast<Function*>(find_late_symbol(name));
}

std::new_handler current_handler() {
  if (present(&runtime_get_new_handler)) return runtime_get_new_handler();
  auto* late = find_late<std::new_handler()>("_ZSt15get_new_handlerv");
  return late != nullptr ? late() : nullptr;
}

// Throws std::bad_alloc by the C++ ABI's own functions. A throw expression would bring its type_info into this object,
// and with that references to the runtime that cannot be weak. Returns where something of it is missing.
COFFER_COLD void throw_by_hand() {
  if (!present(&runtime_allocate_exception) || !present(&runtime_throw) || !present(&runtime_bad_alloc_type) ||
      !present(runtime_bad_alloc_table) || !present(&runtime_bad_alloc_destructor)) {
    return;
  }
  auto* object = static_cast<const uptr**>(runtime_allocate_exception(sizeof(std::bad_alloc)));
  static_assert(sizeof(std::bad_alloc) == sizeof *object);
  *object = runtime_bad_alloc_table + 2;  // past the offset to the top and the type_info
  runtime_throw(object, &runtime_bad_alloc_type, &runtime_bad_alloc_destructor);
}

[[noreturn]] COFFER_COLD void throw_bad_alloc() {
  if (present(&runtime_throw_bad_alloc)) runtime_throw_bad_alloc();
  auto* late = find_late<void()>("_ZSt17__throw_bad_allocv");
  if (late != nullptr) late();
  // A static program has of its runtime only what it refers to; that need not include the function above.
  throw_by_hand();
  constexpr char kMessage[] = "coffer: operator new: out of memory, and no C++ runtime to throw std::bad_alloc\n";
  os::write_error(kMessage, sizeof kMessage - 1);
  abort();
}

void* allocate(usize size, usize alignment) {
  void* block = allocate_aligned(alignment, size);
  if (COFFER_UNLIKELY(block == nullptr)) errno = ENOMEM;
  return block;
}

// nullptr when memory is exhausted and no handler is there to do anything about it.
void* allocate_with_handler(usize size, usize alignment) {
  for (;;) {
    void* block = allocate(size, alignment);
    if (COFFER_LIKELY(block != nullptr)) return block;
    const std::new_handler handler = current_handler();
    if (handler == nullptr) return nullptr;
    handler();
  }
}

// Without a personality routine the catch clauses below do not exist for the unwinder. The runtime that came later has
// its own nothrow form, which calls the throwing one and catches.
COFFER_COLD void* late_new_nothrow(usize size, usize alignment) {
  if (alignment == 0) {
    auto* late = find_late<void*(usize, const std::nothrow_t&)>("_ZnwmRKSt9nothrow_t");
    return late != nullptr ? late(size, std::nothrow_t{}) : nullptr;
  }
  auto* late = find_late<void*(usize, std::align_val_t, const std::nothrow_t&)>("_ZnwmSt11align_val_tRKSt9nothrow_t");
  return late != nullptr ? late(size, std::align_val_t{alignment}, std::nothrow_t{}) : nullptr;
}

}  // namespace

void* new_slow(usize size, usize alignment) {
  void* block = allocate_with_handler(size, alignment);
  if (COFFER_UNLIKELY(block == nullptr)) throw_bad_alloc();
  return block;
}

void* new_slow_nothrow(usize size, usize alignment) noexcept {
  void* block = allocate(size, alignment);
  if (COFFER_LIKELY(block != nullptr)) return block;
  if (current_handler() == nullptr) return nullptr;
  if (!present(&runtime_personality)) return late_new_nothrow(size, alignment);
  try {
    return allocate_with_handler(size, alignment);
  } catch (...) {
    return nullptr;
  }
}

void* new_aligned(usize size, std::align_val_t alignment) {
  const usize bytes = static_cast<usize>(alignment);
  if (COFFER_LIKELY(is_power_of_two(bytes))) return new_slow(size, bytes);
  errno = EINVAL;
  throw_bad_alloc();
}

void* new_aligned_nothrow(usize size, std::align_val_t alignment) noexcept {
  const usize bytes = static_cast<usize>(alignment);
  if (COFFER_LIKELY(is_power_of_two(bytes))) return new_slow_nothrow(size, bytes);
  errno = EINVAL;
  return nullptr;
}

void* replaced_new_nothrow(usize size) noexcept {
  try {
    return ::operator new(size);
  } catch (...) {
    return nullptr;
  }
}

void* replaced_new_nothrow(usize size, std::align_val_t alignment) noexcept {
  try {
    return ::operator new(size, alignment);
  } catch (...) {
    return nullptr;
  }
}

void* replaced_array_new_nothrow(usize size) noexcept {
  try {
    return ::operator new[](size);
  } catch (...) {
    return nullptr;
  }
}

void* replaced_array_new_nothrow(usize size, std::align_val_t alignment) noexcept {
  try {
    return ::operator new[](size, alignment);
  } catch (...) {
    return nullptr;
  }
}

}  // namespace coffer::api

#endif
