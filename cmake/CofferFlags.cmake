# SPDX-License-Identifier: MIT
# coffer_warnings: the warnings all of the project's C++ is built with.
# coffer_flags:    how the library is compiled (every file of src/).
# Sanitizer flags are global: tests and library must agree.
add_library(coffer_warnings INTERFACE)
target_compile_options(coffer_warnings INTERFACE -Wall -Wextra $<$<COMPILE_LANGUAGE:CXX>:-Wshadow>)
if(COFFER_WERROR)
  target_compile_options(coffer_warnings INTERFACE -Werror)
endif()

# In this folder and those below, in place of the release build's own optimisation and debug information.
macro(coffer_release_flags flags)
  foreach(language C CXX)
    string(REGEX REPLACE "-O2 -g$" "${flags}" CMAKE_${language}_FLAGS_RELEASE "${CMAKE_${language}_FLAGS_RELEASE}")
  endforeach()
endmacro()

add_library(coffer_flags INTERFACE)
target_link_libraries(coffer_flags INTERFACE coffer_warnings)
target_compile_features(coffer_flags INTERFACE cxx_std_20)
if(coffer_is_top)
  target_compile_definitions(coffer_flags INTERFACE $<$<CONFIG:Debug>:COFFER_DEBUG>)
endif()
target_compile_options(coffer_flags INTERFACE
  -Wshadow -Wconversion
  # Nothing of the C++ runtime may be needed.
  -fno-exceptions -fno-rtti -fno-threadsafe-statics
  # Exceptions of operator new, profilers and debuggers unwind through Coffer's frames.
  -fasynchronous-unwind-tables
  -fPIC -fvisibility=hidden -fvisibility-inlines-hidden
  # For api/libcoffer.ld.
  -ffunction-sections
  # Calls of libc go straight through the GOT, which -z now has filled.
  -fno-plt
  # The fast path reads its heap at a fixed offset from the thread pointer; the other models may call malloc.
  -ftls-model=initial-exec
  # Never take a loop or a malloc + memset in here for a call of the functions that are being defined here.
  -fno-builtin-malloc -fno-builtin-calloc -fno-builtin-realloc -fno-builtin-free
  -fno-builtin-aligned_alloc -fno-builtin-posix_memalign -fno-builtin-memalign)
if(NOT coffer_is_top)
  # An allocator that is not optimised slows all of a program that is built for debugging, or for no configuration.
  target_compile_options(coffer_flags INTERFACE -O2)
endif()
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  # Ubuntu's compilers begin each function with an endbr64, an instruction in malloc and one in free, for a check that
  # Linux does not make of programs. What shadow stacks need costs no instruction and stays.
  target_compile_options(coffer_flags INTERFACE -fcf-protection=return)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Clang does so by default.
  target_compile_options(coffer_flags INTERFACE -fno-semantic-interposition)
else()
  # COFFER_ASSERT(!"what happened") means what it says.
  # And clang for RISC-V has no use for -fno-plt.
  target_compile_options(coffer_flags INTERFACE -Wno-string-conversion -Wno-unused-command-line-argument)
endif()

if(COFFER_SANITIZE)
  add_compile_options(-fsanitize=${COFFER_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${COFFER_SANITIZE})
  if(COFFER_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize=vptr)  # it needs RTTI
  endif()
  if(COFFER_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # The warning says that fences are not understood; nothing in Coffer relies on one without atomics around it.
    add_compile_options(-Wno-tsan)
  endif()
endif()
