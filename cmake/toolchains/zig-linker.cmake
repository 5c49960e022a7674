# SPDX-License-Identifier: MIT
# zig knows more options of the linker behind -Wl than behind -Xlinker, which CMake gives to clang: --as-needed and
# --version-script are of them.
foreach(language C CXX)
  set(CMAKE_${language}_LINKER_WRAPPER_FLAG "-Wl,")
  set(CMAKE_${language}_LINKER_WRAPPER_FLAG_SEP ",")
endforeach()
