# SPDX-License-Identifier: MIT
# aarch64 with glibc: Debian's cross compiler (tools/setup.sh aarch64), and QEMU that runs what it made.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
# Under a limit of address space, by which Coffer reserves 4 GiB and not 16 TiB: QEMU before version 8 has a record for
# each page that is mapped.
set(CMAKE_CROSSCOMPILING_EMULATOR prlimit --as=17179869184 qemu-aarch64 -L /usr/aarch64-linux-gnu)
# Programs are this machine's; what is compiled and linked is the other's.
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
