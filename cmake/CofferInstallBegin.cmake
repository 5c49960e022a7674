# SPDX-License-Identifier: MIT
# Before everything else that is installed: what `make uninstall` has to know.
include(GNUInstallDirs)
configure_file(cmake/CofferNoteFolders.cmake.in CofferNoteFolders.cmake @ONLY)
install(SCRIPT ${CMAKE_CURRENT_BINARY_DIR}/CofferNoteFolders.cmake)
