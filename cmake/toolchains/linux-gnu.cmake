# SPDX-License-Identifier: MIT
# COFFER_ARCH with glibc: Debian's cross compiler (tools/setup.sh arch), and QEMU that runs what it made. Included by
# the files of each.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${COFFER_ARCH})
set(CMAKE_C_COMPILER ${COFFER_ARCH}-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER ${COFFER_ARCH}-linux-gnu-g++)
# Under a limit of address space, by which Coffer reserves 4 GiB and not 16 TiB: QEMU before version 8 has a record for
# each page that is mapped.
set(CMAKE_CROSSCOMPILING_EMULATOR prlimit --as=17179869184 qemu-${COFFER_ARCH} -L /usr/${COFFER_ARCH}-linux-gnu)
# Programs are this machine's; what is compiled and linked is the other's.
set(CMAKE_FIND_ROOT_PATH /usr/${COFFER_ARCH}-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
