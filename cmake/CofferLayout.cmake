# SPDX-License-Identifier: MIT
# coffer_layout: the linker's script for shared libraries, made of its own with the two parts of src/api/libcoffer.ld;
# "" where the linker has no such script. It works without, and small processes are larger then.
set(coffer_layout_parts ${CMAKE_CURRENT_SOURCE_DIR}/src/api/libcoffer.ld)
set(coffer_layout "")

function(coffer_make_layout)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${coffer_layout_parts})
  execute_process(
    COMMAND ${CMAKE_C_COMPILER} -shared -nostdlib -Wl,-z,now,-z,relro,--verbose -x c /dev/null
      -o ${CMAKE_CURRENT_BINARY_DIR}/coffer_layout_probe.so
    OUTPUT_VARIABLE said ERROR_QUIET)
  if(NOT said MATCHES "\n==========+\n(.*)\n==========+\n")
    return()
  endif()
  set(script "${CMAKE_MATCH_1}")
  file(READ ${coffer_layout_parts} parts)
  set(first "*(.text.unlikely")
  set(behind ".rodata1 ")
  foreach(part IN ITEMS load functions)
    string(REGEX MATCH "/\\* ${part}: begin \\*/.*/\\* ${part}: end \\*/" ${part} "${parts}")
  endforeach()
  foreach(place IN ITEMS first behind)
    string(FIND "${script}" "${${place}}" at)
    if(at EQUAL -1)
      return()
    endif()
  endforeach()
  string(FIND "${script}" "${first}" at)
  string(SUBSTRING "${script}" 0 ${at} before)
  string(SUBSTRING "${script}" ${at} -1 after)
  set(script "${before}${functions}\n    ${after}")
  string(REGEX REPLACE "(\n *\\.rodata1 [^\n]*\n)" "\\1${load}\n" script "${script}")
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/coffer_layout.ld CONTENT "@script@" @ONLY)
  set(coffer_layout ${CMAKE_CURRENT_BINARY_DIR}/coffer_layout.ld PARENT_SCOPE)
endfunction()
coffer_make_layout()
