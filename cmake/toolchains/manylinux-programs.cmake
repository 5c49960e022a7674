# SPDX-License-Identifier: MIT
# Programs for a glibc that is older than this machine's: clang and libc++ of the wheel `ziglang`, with the headers and
# the stubs of that glibc. libc++ is inside of each.
set(COFFER_ARCH x86_64 CACHE STRING "x86_64 or aarch64")
set(COFFER_ZIG zig CACHE FILEPATH "The program zig")
set(COFFER_GLIBC 2.28 CACHE STRING "The version of glibc")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES COFFER_ARCH COFFER_ZIG COFFER_GLIBC)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${COFFER_ARCH})
set(CMAKE_C_COMPILER ${COFFER_ZIG} cc -target ${COFFER_ARCH}-linux-gnu.${COFFER_GLIBC})
set(CMAKE_CXX_COMPILER ${COFFER_ZIG} c++ -target ${COFFER_ARCH}-linux-gnu.${COFFER_GLIBC})
set(CMAKE_USER_MAKE_RULES_OVERRIDE ${CMAKE_CURRENT_LIST_DIR}/zig-linker.cmake)
