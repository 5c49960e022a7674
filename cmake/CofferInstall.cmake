# SPDX-License-Identifier: MIT
# What `cmake --install` puts where. Everything installed finds the rest by its own place, so the tree may be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS coffer_shared coffer_static coffer_core coffer_hardened_shared coffer_hardened_static
  EXPORT CofferTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/coffer DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")

set(coffer_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Coffer)
install(EXPORT CofferTargets NAMESPACE Coffer:: DESTINATION ${coffer_cmake_dir})
configure_package_config_file(cmake/CofferConfig.cmake.in CofferConfig.cmake INSTALL_DESTINATION ${coffer_cmake_dir})
write_basic_package_version_file(CofferConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/CofferConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/CofferConfigVersion.cmake
  DESTINATION ${coffer_cmake_dir})

# Relative paths, from the file to the prefix and from the program to the library.
file(RELATIVE_PATH coffer_pc_to_prefix /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
configure_file(cmake/coffer.pc.in coffer.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/coffer.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

file(RELATIVE_PATH coffer_bin_to_lib /p/${CMAKE_INSTALL_BINDIR} /p/${CMAKE_INSTALL_LIBDIR})
configure_file(cmake/coffer-run.in coffer-run @ONLY)
install(PROGRAMS ${CMAKE_CURRENT_BINARY_DIR}/coffer-run DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES docs/coffer-run.1 DESTINATION ${CMAKE_INSTALL_DATADIR}/man/man1)

install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/coffer)

# A release has the manual and the completions; from a checkout they are written into the build directory.
set(coffer_manual_folder ${CMAKE_BINARY_DIR}/share)
if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/share/man)
  set(coffer_manual_folder ${CMAKE_CURRENT_SOURCE_DIR}/share)
endif()
file(RELATIVE_PATH coffer_bin_to_command /p/${CMAKE_INSTALL_BINDIR} /p/${CMAKE_INSTALL_LIBDIR}/coffer)
configure_file(tools/coffer-installed.in coffer-installed @ONLY)
configure_file(cmake/CofferInstallCommand.cmake.in CofferInstallCommand.cmake @ONLY)
install(SCRIPT ${CMAKE_CURRENT_BINARY_DIR}/CofferInstallCommand.cmake)

option(COFFER_STRIP "Install without debug information" ON)
if(COFFER_STRIP)
  configure_file(cmake/CofferStrip.cmake.in CofferStrip.cmake @ONLY)
  install(SCRIPT ${CMAKE_CURRENT_BINARY_DIR}/CofferStrip.cmake)
endif()
configure_file(cmake/CofferNoteInstalled.cmake.in CofferNoteInstalled.cmake @ONLY)
install(SCRIPT ${CMAKE_CURRENT_BINARY_DIR}/CofferNoteInstalled.cmake)
