# SPDX-License-Identifier: MIT
set(COFFER_ARCH aarch64)
include(${CMAKE_CURRENT_LIST_DIR}/linux-gnu.cmake)
