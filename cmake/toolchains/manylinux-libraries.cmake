# SPDX-License-Identifier: MIT
# What is preloaded, for a glibc that is older than this machine's: GCC compiles, and links with stubs of that glibc.
# So the wheel's libraries are of the same compiler as all others. What only a newer glibc has is weak in them, and of
# no version: the loader finds it where it is there.
set(COFFER_ARCH x86_64 CACHE STRING "x86_64 or aarch64")
set(COFFER_STUBS "" CACHE PATH "Folder of the stubs: names and versions, no code (tools/wheels.py)")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES COFFER_ARCH COFFER_STUBS)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${COFFER_ARCH})
set(CMAKE_C_COMPILER ${COFFER_ARCH}-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER ${COFFER_ARCH}-linux-gnu-g++)
# pthread_atfork is in the archive, and calls what each glibc has.
set(stubs "-L${COFFER_STUBS} -Wl,--as-needed -l:libc_nonshared.a -l:libc.so.6 -l:libpthread.so.0 -l:libdl.so.2 -lgcc")
set(CMAKE_C_CREATE_SHARED_LIBRARY "<CMAKE_C_COMPILER> <LANGUAGE_COMPILE_FLAGS> -nodefaultlibs -shared <LINK_FLAGS> \
<SONAME_FLAG><TARGET_SONAME> -o <TARGET> <OBJECTS> <LINK_LIBRARIES> ${stubs}")
