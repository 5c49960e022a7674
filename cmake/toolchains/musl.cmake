# SPDX-License-Identifier: MIT
# musl on x86_64, aarch64 or riscv64: clang, musl and libc++ of the wheel `ziglang`, and the binutils of Debian's cross
# compiler (tools/setup.sh). COFFER_ARCH says which; COFFER_ZIG is the wheel's program.
set(COFFER_ARCH x86_64 CACHE STRING "x86_64, aarch64 or riscv64")
set(COFFER_ZIG zig CACHE FILEPATH "The program zig")
set(COFFER_MUSL_LIBC "" CACHE FILEPATH "musl's libc.so for that architecture, which is its loader, too")
set(COFFER_MUSL_STUB "" CACHE FILEPATH "A library of musl's names, of the name that wheels need (tools/wheels.py)")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES COFFER_ARCH COFFER_ZIG COFFER_MUSL_LIBC COFFER_MUSL_STUB)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${COFFER_ARCH})
set(CMAKE_C_COMPILER ${COFFER_ZIG} cc -target ${COFFER_ARCH}-linux-musl)
set(CMAKE_CXX_COMPILER ${COFFER_ZIG} c++ -target ${COFFER_ARCH}-linux-musl)
foreach(tool AR RANLIB NM OBJCOPY READELF)
  string(TOLOWER ${tool} name)
  find_program(CMAKE_${tool} ${COFFER_ARCH}-linux-gnu-${name} REQUIRED)
endforeach()
find_program(CMAKE_LINKER ${COFFER_ARCH}-linux-gnu-ld REQUIRED)
if(NOT COFFER_ARCH STREQUAL "x86_64")
  set(CMAKE_CROSSCOMPILING_EMULATOR prlimit --as=17179869184 qemu-${COFFER_ARCH})
endif()
# Programs are fully static, unless they are compiled and linked with these. Not at a fixed place, where the linker
# would take the address of what only a preloaded library has for none.
set(COFFER_DYNAMIC_COMPILE -fPIE)
set(COFFER_DYNAMIC_LINK -dynamic -pie)
if(COFFER_MUSL_LIBC)
  list(APPEND COFFER_DYNAMIC_LINK -Wl,-dynamic-linker,${COFFER_MUSL_LIBC})
endif()
# zig's linker knows neither scripts of sections nor initfirst. What links here takes nothing of its own C library.
if(COFFER_MUSL_STUB)
  set(libraries ${COFFER_MUSL_STUB})
  set(CMAKE_USER_MAKE_RULES_OVERRIDE ${CMAKE_CURRENT_LIST_DIR}/zig-linker.cmake)
elseif(COFFER_MUSL_LIBC)
  # By its name, which musl's loader knows in every place: Debian's has none inside.
  get_filename_component(folder ${COFFER_MUSL_LIBC} DIRECTORY)
  set(libraries "-L${folder} -l:libc.so")
else()
  set(libraries -Wl,--unresolved-symbols=ignore-all)
endif()
set(CMAKE_C_CREATE_SHARED_LIBRARY "${COFFER_ARCH}-linux-gnu-gcc -nostdlib -shared <LINK_FLAGS> \
<SONAME_FLAG><TARGET_SONAME> -o <TARGET> <OBJECTS> <LINK_LIBRARIES> ${libraries} -lgcc")
