# SPDX-License-Identifier: MIT
# The papers' own allocators (src/papers): the same lower layers and the same api/ as Coffer, another allocator between.
#   coffer_paper_library(NAME)   of src/papers/NAME: NAME_objects, NAME_core (lib/libNAME_core.a: the coffer_ names, for
#                                tests), NAME_shared (lib/libNAME.so)
# The tests of every paper named in COFFER_PAPERS: test/unit/papers, test/conformance, test/stress, test/apps.
set(COFFER_PAPERS "" CACHE INTERNAL "")
option(COFFER_PAPERS_ALL_TESTS "Run the long conformance cases, full stress and all programs over them, too" OFF)

set(coffer_paper_ground_folders base cpu os/linux harden)
set(coffer_paper_ground_sources "")
foreach(folder IN LISTS coffer_paper_ground_folders)
  file(GLOB files CONFIGURE_DEPENDS ${coffer_source_dir}/${folder}/*.cpp)
  list(APPEND coffer_paper_ground_sources ${files})
endforeach()
# What no paper's options or types reach is compiled once.
coffer_add_objects(coffer_paper_ground SOURCES ${coffer_paper_ground_sources})

# The sources that are compiled once a paper, since its options are in them, and the macros that say which paper.
function(coffer_paper_sources name directory result_sources result_definitions)
  file(GLOB files CONFIGURE_DEPENDS ${coffer_source_dir}/config/*.cpp ${coffer_source_dir}/papers/common/*.cpp
    ${directory}/*.cpp)
  set(${result_sources} ${files} PARENT_SCOPE)
  set(${result_definitions} COFFER_ALLOCATOR_HEADER="papers/${name}/${name}.hpp"
    COFFER_OPTIONS_HEADER="papers/${name}/options.hpp" PARENT_SCOPE)
endfunction()

# NAME_core, which unit tests and stress link. `directory` holds the paper's own sources.
function(coffer_paper_core name directory)
  coffer_paper_sources(${name} ${directory} sources definitions)
  coffer_add_objects(${name}_objects SOURCES ${sources} ALLOCATOR ${definitions})
  coffer_add_objects(${name}_api_core SOURCES ${coffer_api_sources} ALLOCATOR ${definitions}
    DEFINITIONS COFFER_PREFIX_ONLY)
  add_library(${name}_core STATIC $<TARGET_OBJECTS:coffer_paper_ground> $<TARGET_OBJECTS:${name}_objects>
    $<TARGET_OBJECTS:${name}_api_core>)
  target_include_directories(${name}_core INTERFACE ${PROJECT_SOURCE_DIR}/include ${coffer_source_dir})
  target_compile_features(${name}_core INTERFACE cxx_std_20)
  target_compile_definitions(${name}_core INTERFACE ${definitions})
endfunction()

function(coffer_paper_library name)
  coffer_paper_core(${name} ${coffer_source_dir}/papers/${name})
  set(COFFER_PAPERS ${COFFER_PAPERS} ${name} CACHE INTERNAL "")
  add_dependencies(coffer_libraries ${name}_core)
  if(COFFER_SANITIZE)
    return()
  endif()
  coffer_paper_sources(${name} ${coffer_source_dir}/papers/${name} sources definitions)
  coffer_add_objects(${name}_api_shared SOURCES ${coffer_api_sources} ALLOCATOR ${definitions})
  coffer_add_shared(${name}_shared OUTPUT_NAME ${name} OBJECTS coffer_paper_ground ${name}_objects ${name}_api_shared)
  add_dependencies(coffer_libraries ${name}_shared)
endfunction()

foreach(name hoard scalloc cif)
  if(EXISTS ${coffer_source_dir}/papers/${name}/${name}.hpp)
    coffer_paper_library(${name})
  endif()
endforeach()
