# SPDX-License-Identifier: MIT
# What is built from src/:
#   coffer_objects   everything but api/, compiled once
#   coffer_latency   coffer_heap_create and its kin, with the real-time heap of rt/ inside
#   coffer_core      lib/libcoffer_core.a: the coffer_ names only, replaces nothing; tests link it
#   coffer_shared    lib/libcoffer.so
#   coffer_static    lib/libcoffer.a
#   coffer_hardened_shared, coffer_hardened_static
#                    lib/libcoffer_hardened.so, .a: src/hardened over the heaps, and kHardening (base/hardening.hpp)
#   coffer_variants  lib/variants/*.so: for the benchmarks, never installed
# api/ is compiled once for each library. It decides by these macros what it defines:
#   COFFER_PREFIX_ONLY     libcoffer_core.a
#   COFFER_STATIC_LIBRARY  libcoffer.a
#   neither                libcoffer.so
set(coffer_source_dir ${CMAKE_CURRENT_SOURCE_DIR}/src)
set(coffer_folders base cpu os/linux config harden observe budget guard size_class arena pool span large mixed
  exchange heap inspect)
set(coffer_sources "")
foreach(folder IN LISTS coffer_folders)
  file(GLOB files CONFIGURE_DEPENDS ${coffer_source_dir}/${folder}/*.cpp)
  list(APPEND coffer_sources ${files})
endforeach()
file(GLOB coffer_api_sources CONFIGURE_DEPENDS ${coffer_source_dir}/api/*.cpp)

# For builds with another kernel: of these sources those of os/linux, as linux_sources, and other_sources; and
# fake_sources, those of os/fake.
function(coffer_split_sources)
  set(linux_sources ${ARGN})
  set(other_sources ${ARGN})
  list(FILTER linux_sources INCLUDE REGEX "/os/linux/")
  list(FILTER other_sources EXCLUDE REGEX "/os/linux/")
  file(GLOB fake_sources CONFIGURE_DEPENDS ${coffer_source_dir}/os/fake/*.cpp)
  set(linux_sources ${linux_sources} PARENT_SCOPE)
  set(other_sources ${other_sources} PARENT_SCOPE)
  set(fake_sources ${fake_sources} PARENT_SCOPE)
endfunction()

# These have names that other sources of their folder have, too.
set(coffer_alone exchange/seizing.cpp os/linux/process.cpp pool/tails.cpp pool/huge_pages.cpp)

# Objects of the layers below api/ (`sources`) or of api/ itself, with the library's flags. ALLOCATOR: the macros that
# name the allocator and its options, if it is not Coffer. TOGETHER: for what only tests link; the sources of a folder
# are compiled as one, in half of the time. What is installed or measured is not: the compiler would see across files.
function(coffer_add_objects target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TOGETHER" "" "SOURCES;DEFINITIONS;ALLOCATOR")
  if(NOT arg_ALLOCATOR)
    set(arg_ALLOCATOR COFFER_ALLOCATOR_HEADER="heap/allocator.hpp")
  endif()
  add_library(${target} OBJECT ${arg_SOURCES})
  if(arg_TOGETHER OR COFFER_TOGETHER)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    foreach(source IN LISTS arg_SOURCES)
      file(RELATIVE_PATH path ${coffer_source_dir} ${source})
      if(NOT path IN_LIST coffer_alone)
        get_filename_component(folder ${path} DIRECTORY)
        string(REPLACE "/" "_" folder ${folder})
        set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder})
      endif()
    endforeach()
  endif()
  target_link_libraries(${target} PRIVATE coffer_flags)
  target_include_directories(${target} PRIVATE ${coffer_source_dir} ${PROJECT_SOURCE_DIR}/include)
  target_compile_definitions(${target} PRIVATE ${arg_ALLOCATOR} ${arg_DEFINITIONS})
  # operator new throws, and its nothrow forms catch what a new-handler throws; this file alone knows of exceptions.
  # (Here and not once for all: the property holds for the folder whose CMakeLists.txt calls.)
  set_source_files_properties(${coffer_source_dir}/api/new_handler.cpp PROPERTIES COMPILE_OPTIONS -fexceptions)
endfunction()

# What most processes never run: it comes last in the libraries, so that a small program maps less of their code (the
# kernel maps 64 KiB around each page that is touched).
set(coffer_seldom_run "/(api/(coffer|glibc|new_delete_[a-z]+|new_handler|system_malloc)|config/parse|harden/report\
|mixed/(idle|vanished)|span/purge_span|exchange/(forking|vanished|sums|bad_pointer)\
|inspect/(walk|check|profiling|attached)|observe/(pprof|samples|shared_page|callers)|guard/[a-z_]+\
|os/linux/(unwind|unwind_step|stack|mappings|page_tables|files|faults|cgroup)\
|latency/[a-z_]+|rt/src/[a-z_]+)[.]c(pp)?[.]o(bj)?$")

# The objects of some object libraries in the order in which they are to be linked.
function(coffer_link_order result)
  set(often "")
  set(seldom "")
  foreach(objects IN LISTS ARGN)
    list(APPEND often "$<FILTER:$<TARGET_OBJECTS:${objects}>,EXCLUDE,${coffer_seldom_run}>")
    list(APPEND seldom "$<FILTER:$<TARGET_OBJECTS:${objects}>,INCLUDE,${coffer_seldom_run}>")
  endforeach()
  set(${result} ${often} ${seldom} PARENT_SCOPE)
endfunction()

# musl's loader knows no initfirst, and not all linkers for it know these four.
include(CheckLinkerFlag)
check_linker_flag(C LINKER:-z,initfirst COFFER_LINKER_HAS_INITFIRST)
check_linker_flag(C LINKER:--exclude-libs,ALL COFFER_LINKER_HAS_EXCLUDE_LIBS)
check_linker_flag(C LINKER:--no-as-needed COFFER_LINKER_HAS_NO_AS_NEEDED)
check_linker_flag(C LINKER:--undefined=malloc COFFER_LINKER_HAS_UNDEFINED)
include(CofferLayout)

# A shared library that replaces malloc, from object libraries. Linked as C: it needs libc and nothing else.
function(coffer_add_shared target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "OUTPUT_NAME" "OBJECTS")
  coffer_link_order(objects ${arg_OBJECTS})
  add_library(${target} SHARED ${objects})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${arg_OUTPUT_NAME} LINKER_LANGUAGE C
    LINK_DEPENDS "${coffer_source_dir}/api/libcoffer.map;${coffer_layout}")
  target_link_options(${target} PRIVATE
    # Nothing to do at load but what api/lifetime.cpp has.
    -nostartfiles
    $<$<BOOL:${coffer_layout}>:LINKER:-T,${coffer_layout}>
    # initfirst: the options are read before any other library's constructor allocates.
    $<$<BOOL:${COFFER_LINKER_HAS_INITFIRST}>:LINKER:-z,initfirst>
    # nodelete: blocks outlive a dlclose. exclude-libs: nothing of libgcc.a is exported.
    LINKER:-z,now LINKER:-z,relro LINKER:-z,noexecstack LINKER:-z,nodelete
    LINKER:--no-undefined
    $<$<BOOL:${COFFER_LINKER_HAS_EXCLUDE_LIBS}>:LINKER:--exclude-libs,ALL>
    LINKER:--version-script=${coffer_source_dir}/api/libcoffer.map)
endfunction()

# Linking C++ objects as C, CMake would add libstdc++ by itself.
set(CMAKE_CXX_IMPLICIT_LINK_LIBRARIES "")

coffer_add_objects(coffer_objects SOURCES ${coffer_sources})
coffer_add_objects(coffer_api_core SOURCES ${coffer_api_sources} DEFINITIONS COFFER_PREFIX_ONLY)

# The heaps for threads that must not wait, and the real-time heap that they are made of, compiled as in rt/: hidden in
# here, so that a program may link libcoffer_rt.a besides.
file(GLOB coffer_latency_sources CONFIGURE_DEPENDS ${coffer_source_dir}/latency/*.cpp)
file(GLOB coffer_rt_inside_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/rt/src/*.c)
coffer_add_objects(coffer_latency SOURCES ${coffer_latency_sources})
add_library(coffer_rt_inside OBJECT ${coffer_rt_inside_sources})
set_target_properties(coffer_rt_inside PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF
  POSITION_INDEPENDENT_CODE ON)
target_compile_options(coffer_rt_inside PRIVATE -ffreestanding -fvisibility=hidden)
target_include_directories(coffer_rt_inside PRIVATE ${PROJECT_SOURCE_DIR}/include)
set(coffer_latency_objects coffer_latency coffer_rt_inside)

add_library(coffer_core STATIC $<TARGET_OBJECTS:coffer_objects> $<TARGET_OBJECTS:coffer_latency>
  $<TARGET_OBJECTS:coffer_rt_inside> $<TARGET_OBJECTS:coffer_api_core>)
add_library(coffer::core ALIAS coffer_core)
add_library(Coffer::core ALIAS coffer_core)  # as find_package names it
target_include_directories(coffer_core INTERFACE $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>)
if(coffer_is_top)
  # Unit tests include internal headers, so they see src/ and the macros that the objects were compiled with.
  target_include_directories(coffer_core INTERFACE $<BUILD_INTERFACE:${coffer_source_dir}>)
  target_compile_features(coffer_core INTERFACE $<BUILD_INTERFACE:cxx_std_20>)
  target_compile_definitions(coffer_core INTERFACE $<BUILD_INTERFACE:$<$<CONFIG:Debug>:COFFER_DEBUG>>
    $<BUILD_INTERFACE:COFFER_ALLOCATOR_HEADER="heap/allocator.hpp">)
endif()
set_target_properties(coffer_core PROPERTIES EXPORT_NAME core)

if(COFFER_SANITIZE)
  add_custom_target(coffer_libraries DEPENDS coffer_core)
  return()  # the sanitizers' own malloc must stay in place
endif()

coffer_add_objects(coffer_api_shared SOURCES ${coffer_api_sources})
coffer_add_shared(coffer_shared OUTPUT_NAME coffer OBJECTS coffer_objects coffer_api_shared ${coffer_latency_objects})
set_target_properties(coffer_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  EXPORT_NAME coffer)
target_include_directories(coffer_shared INTERFACE $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>)
add_library(coffer::coffer ALIAS coffer_shared)
add_library(Coffer::coffer ALIAS coffer_shared)  # as find_package names it

# libcoffer.a holds one object. A linker that needs any of its functions then takes all of them: malloc from here and
# free from libc cannot happen, whatever the order of archives. Hidden names become local to it, so that a program may
# use the same ones; comdat groups are dissolved first, since a group that loses against the program's own copy would
# take local names with it.
function(coffer_add_archive target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "OUTPUT_NAME" "OBJECTS")
  coffer_link_order(joined_objects ${arg_OBJECTS})
  # Makefiles know the objects of a target within it only: others depend on the target's own file.
  set(parts "")
  foreach(objects IN LISTS arg_OBJECTS)
    list(APPEND parts $<TARGET_OBJECTS:${objects}>)
  endforeach()
  add_library(${target}_parts STATIC ${parts})
  set_target_properties(${target}_parts PROPERTIES ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  set(joined ${CMAKE_CURRENT_BINARY_DIR}/${arg_OUTPUT_NAME}_joined.o)
  add_custom_command(OUTPUT ${joined}
    COMMAND ${CMAKE_LINKER} -r --force-group-allocation -T ${coffer_source_dir}/api/libcoffer_static.ld
      -o ${joined} ${joined_objects}
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${joined}
    DEPENDS ${target}_parts ${coffer_source_dir}/api/libcoffer_static.ld
    COMMAND_EXPAND_LISTS VERBATIM COMMENT "Joining the objects of lib${arg_OUTPUT_NAME}.a")
  set_source_files_properties(${joined} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  add_library(${target} STATIC ${joined})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${arg_OUTPUT_NAME} LINKER_LANGUAGE C)
  target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
endfunction()

coffer_add_objects(coffer_api_static SOURCES ${coffer_api_sources} DEFINITIONS COFFER_STATIC_LIBRARY)
coffer_add_archive(coffer_static OUTPUT_NAME coffer
  OBJECTS coffer_objects coffer_api_static ${coffer_latency_objects})
set_target_properties(coffer_static PROPERTIES EXPORT_NAME static)
add_library(coffer::static ALIAS coffer_static)
add_library(Coffer::static ALIAS coffer_static)  # as find_package names it

# The hardened build: the same sources with another kHardening, and a layer between api/ and the heaps.
file(GLOB coffer_hardened_sources CONFIGURE_DEPENDS ${coffer_source_dir}/hardened/*.cpp)
file(GLOB coffer_hardened_api_sources CONFIGURE_DEPENDS ${coffer_source_dir}/api/hardened/*.cpp)
list(APPEND coffer_hardened_api_sources ${coffer_api_sources})
set(coffer_hardened_definitions COFFER_ALLOCATOR_HEADER="hardened/allocator.hpp" COFFER_HARDENED)
coffer_add_objects(coffer_hardened_objects SOURCES ${coffer_sources} ${coffer_hardened_sources}
  ALLOCATOR ${coffer_hardened_definitions})
coffer_add_objects(coffer_hardened_api_shared SOURCES ${coffer_hardened_api_sources}
  ALLOCATOR ${coffer_hardened_definitions})
coffer_add_objects(coffer_hardened_api_static SOURCES ${coffer_hardened_api_sources}
  ALLOCATOR ${coffer_hardened_definitions} DEFINITIONS COFFER_STATIC_LIBRARY)
coffer_add_shared(coffer_hardened_shared OUTPUT_NAME coffer_hardened
  OBJECTS coffer_hardened_objects coffer_hardened_api_shared ${coffer_latency_objects})
set_target_properties(coffer_hardened_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  EXPORT_NAME hardened)
target_include_directories(coffer_hardened_shared INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
coffer_add_archive(coffer_hardened_static OUTPUT_NAME coffer_hardened
  OBJECTS coffer_hardened_objects coffer_hardened_api_static ${coffer_latency_objects})
set_target_properties(coffer_hardened_static PROPERTIES EXPORT_NAME hardened_static)
add_library(coffer::hardened ALIAS coffer_hardened_shared)
add_library(Coffer::hardened ALIAS coffer_hardened_shared)
add_library(coffer::hardened_static ALIAS coffer_hardened_static)
add_library(Coffer::hardened_static ALIAS coffer_hardened_static)

# A program that calls no malloc itself, though its libraries do, would otherwise be linked without Coffer.
foreach(name coffer coffer_hardened)
  if(COFFER_LINKER_HAS_NO_AS_NEEDED)
    target_link_options(${name}_shared INTERFACE LINKER:--no-as-needed)
  endif()
  if(COFFER_LINKER_HAS_UNDEFINED)
    target_link_options(${name}_static INTERFACE LINKER:--undefined=malloc)
  endif()
endforeach()

if(coffer_is_top)
  # What the misuse checks cost is measured, not guessed: the same library without them.
  coffer_add_objects(coffer_nocheck_objects SOURCES ${coffer_sources} DEFINITIONS COFFER_NO_CHECKS)
  coffer_add_objects(coffer_nocheck_api SOURCES ${coffer_api_sources} DEFINITIONS COFFER_NO_CHECKS)
  coffer_add_shared(coffer_nocheck OUTPUT_NAME coffer_nocheck OBJECTS coffer_nocheck_objects coffer_nocheck_api
    ${coffer_latency_objects})
  set_target_properties(coffer_nocheck PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/variants)

  add_custom_target(coffer_variants DEPENDS coffer_nocheck)
endif()
add_custom_target(coffer_libraries DEPENDS coffer_shared coffer_static coffer_core coffer_hardened_shared
  coffer_hardened_static)
