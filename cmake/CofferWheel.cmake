# SPDX-License-Identifier: MIT
# What the wheel has besides the Python packages: libraries and programs in coffer/box, laid out as in a build
# directory, and manual pages and completions, which pip puts below the environment's share. `tree` is the build
# directory that they come from.
set(coffer_box coffer/box)
set(tree ${CMAKE_CURRENT_BINARY_DIR})
if(COFFER_WHEEL_FROM)
  set(tree ${COFFER_WHEEL_FROM})
endif()

# A wheel has no symbolic links: one file, of the name that is preloaded.
foreach(library coffer coffer_hardened)
  install(PROGRAMS ${tree}/lib/lib${library}.so.${PROJECT_VERSION} DESTINATION ${coffer_box}/lib
    RENAME lib${library}.so COMPONENT wheel)
endforeach()
foreach(library hoard scalloc cif)
  install(PROGRAMS ${tree}/lib/lib${library}.so DESTINATION ${coffer_box}/lib COMPONENT wheel)
endforeach()
# Every recorder, the thread of coffer heap, what names Python's functions, and every program; a test names them.
install(DIRECTORY ${tree}/lib/ DESTINATION ${coffer_box}/lib COMPONENT wheel USE_SOURCE_PERMISSIONS
  FILES_MATCHING PATTERN "libcoffer_record*.so" PATTERN "libcoffer_moments.so" PATTERN "libcoffer_python.so"
  PATTERN "variants" EXCLUDE)
install(DIRECTORY ${tree}/libexec/coffer DESTINATION ${coffer_box}/libexec COMPONENT wheel USE_SOURCE_PERMISSIONS
  PATTERN "trace_sample" EXCLUDE PATTERN "simulate_*" EXCLUDE)
install(FILES ${tree}/version DESTINATION ${coffer_box} COMPONENT wheel)
install(DIRECTORY ${tree}/share/man ${tree}/share/bash-completion ${tree}/share/zsh ${tree}/share/fish
  DESTINATION ${SKBUILD_DATA_DIR}/share COMPONENT wheel)
if(COFFER_WHEEL_FROM)
  add_custom_target(coffer_wheel)
else()
  add_custom_target(coffer_wheel DEPENDS coffer_shared coffer_hardened_shared coffer_tools coffer_manual
    hoard_shared scalloc_shared cif_shared)
endif()
