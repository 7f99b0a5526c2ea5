# Test executables whose name holds "faults" see a malloc family that can fail, for libyaml as well: they are linked with
# libyaml's static library and -Wl,--wrap, so the same works under a sanitizer. Include after tests.cmake. Without the
# static library those tests still run, with our own allocator failing only.
find_library(HR_YAML_STATIC NAMES libyaml.a)

function(hr_wrap_malloc target)
  if(NOT HR_YAML_STATIC)
    return()
  endif()
  target_sources(${target} PRIVATE ${CMAKE_SOURCE_DIR}/test/support/wrap/malloc.c)
  target_link_libraries(${target} PRIVATE -Wl,--whole-archive ${HR_YAML_STATIC} -Wl,--no-whole-archive)
  foreach(name malloc calloc realloc strdup free)
    target_link_options(${target} PRIVATE -Wl,--wrap=${name})
  endforeach()
  target_compile_definitions(${target} PRIVATE HR_TEST_WRAPPED=1)
endfunction()

get_property(targets DIRECTORY ${CMAKE_SOURCE_DIR} PROPERTY BUILDSYSTEM_TARGETS)
foreach(target IN LISTS targets)
  if(target MATCHES "_test_.*faults")
    hr_wrap_malloc(${target})
  endif()
endforeach()
