# SPDX-License-Identifier: MIT
# The tests: each folder has a CMakeLists.txt that adds its own, all to CTest.
if(COFFER_TESTS STREQUAL "OFF")
  return()
endif()

# Debian's pytest belongs to Debian's Python.
if(NOT Python3_EXECUTABLE AND EXISTS /usr/bin/python3)
  set(Python3_EXECUTABLE /usr/bin/python3)
endif()
# For another architecture or C library GoogleTest is compiled with the tests; Debian has its sources.
set(COFFER_GTEST_SOURCE /usr/src/googletest CACHE PATH "GoogleTest's sources, for a cross build")
if(CMAKE_CROSSCOMPILING)
  if(COFFER_TESTS STREQUAL "AUTO" OR NOT EXISTS ${COFFER_GTEST_SOURCE}/CMakeLists.txt)
    message(STATUS "No tests: a cross build has them with COFFER_TESTS=ON and COFFER_GTEST_SOURCE")
    return()
  endif()
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(BUILD_GMOCK OFF)
  set(INSTALL_GTEST OFF)
  add_subdirectory(${COFFER_GTEST_SOURCE} ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
elseif(COFFER_TESTS STREQUAL "AUTO")
  find_package(GTest QUIET)
  find_package(Python3 QUIET COMPONENTS Interpreter)
  if(NOT GTest_FOUND OR NOT Python3_FOUND)
    message(STATUS "No tests: GoogleTest or Python is missing (tools/setup.sh test installs both)")
    return()
  endif()
else()
  find_package(GTest REQUIRED)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
endif()
find_package(Threads REQUIRED)
enable_testing()

# Folders whose tests link libcoffer_core; a sanitizer build has these only.
set(coffer_test_folders test/unit test/property test/stress test/fault)
if(CMAKE_CROSSCOMPILING)
  list(APPEND coffer_test_folders test/misuse test/conformance)
elseif(NOT COFFER_SANITIZE)
  list(APPEND coffer_test_folders test/misuse test/conformance test/apps test/platforms
    test/tidy test/install test/tools test/relacy
    bench models rt/test hw)
endif()
# The words before a program that runs with Coffer, or whatever `library` is, before its C library; and those that run a
# program of a cross build by hand (CTest itself does so where a command begins with a target).
set(coffer_emulator ${CMAKE_CROSSCOMPILING_EMULATOR})
function(coffer_preloaded result library)
  if(coffer_emulator)
    set(${result} ${coffer_emulator} -E LD_PRELOAD=${library} PARENT_SCOPE)
  else()
    set(${result} ${CMAKE_COMMAND} -E env LD_PRELOAD=${library} PARENT_SCOPE)
  endif()
endfunction()
# What only tests is compiled once for each run of it: less optimised and with lines but no variables for a debugger,
# in six tenths of the time. The library, its tools and what measures them are as they are installed.
function(coffer_add_tests folder)
  if(folder MATCHES "^test/")
    foreach(language C CXX)
      string(REGEX REPLACE "-O2 -g$" "-O1 -g1" CMAKE_${language}_FLAGS_RELEASE "${CMAKE_${language}_FLAGS_RELEASE}")
    endforeach()
  endif()
  add_subdirectory(${folder})
endfunction()
# The tests' own atomics of one byte: GCC before 13 calls a library for them.
if(CMAKE_CROSSCOMPILING AND CMAKE_SYSTEM_PROCESSOR STREQUAL "riscv64" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  link_libraries(atomic)
endif()
foreach(folder IN LISTS coffer_test_folders)
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/CMakeLists.txt)
    coffer_add_tests(${folder})
  endif()
endforeach()
