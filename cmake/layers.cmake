# One static library per folder of src/, in the order of LAYERS: each links only what lies left of it.
file(STRINGS ${CMAKE_SOURCE_DIR}/LAYERS HR_LAYERS)
add_library(hr_libraries INTERFACE)
target_include_directories(hr_libraries INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
target_link_libraries(hr_libraries INTERFACE PkgConfig::YAML PkgConfig::JANSSON PkgConfig::XXHASH PkgConfig::CRYPTO
                      PkgConfig::PCRE2 PkgConfig::UTF8PROC DNNL::dnnl Threads::Threads m ${CMAKE_DL_LIBS})

set(left hr_libraries)
foreach(layer IN LISTS HR_LAYERS)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${layer}/*.c ${CMAKE_SOURCE_DIR}/src/${layer}/cpu/*.c)
  if(layer STREQUAL "dev")
    file(GLOB loader CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/dev/cuda/*.c)
    list(APPEND sources ${loader})
  endif()
  if(layer STREQUAL "report")
    include(cmake/page.cmake)
    list(APPEND sources ${HR_PAGE_SOURCES})
  endif()
  list(FILTER sources EXCLUDE REGEX "/cli/main\\.c$")
  if(sources)
    add_library(hr_${layer} STATIC ${sources})
    target_link_libraries(hr_${layer} PUBLIC ${left})
    set(left hr_${layer})
  endif()
endforeach()
# Codes of stored moments are to be the same on every instruction set: no fused multiply-add where one has it.
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/op/adamw8bit.c PROPERTIES COMPILE_OPTIONS -ffp-contract=off)
# So are weights that are read from blocks of GGUF files.
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/format/gguf_blocks.c PROPERTIES COMPILE_OPTIONS -ffp-contract=off)
# Chains have fused ones where the loops have, and say so (AVX-512 always comes with them).
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/op/pointwise_avx512.c PROPERTIES COMPILE_OPTIONS -ffp-contract=off)
# Kernels are optimised under the sanitizers too: that keeps their sums in registers, and every access to memory is checked.
if(HR_ASAN)
  file(GLOB kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/op/*.c ${CMAKE_SOURCE_DIR}/src/dev/cpu/*.c)
  set_property(SOURCE ${kernels} APPEND PROPERTY COMPILE_OPTIONS -O2)
  set_property(SOURCE ${CMAKE_SOURCE_DIR}/src/dev/cpu/rowwise.c APPEND PROPERTY COMPILE_OPTIONS -O3) # its loops unrolled
endif()
set(HR_ALL ${left})
if(EXISTS ${CMAKE_SOURCE_DIR}/src/cli/main.c)
  add_executable(headroom src/cli/main.c)
  target_link_libraries(headroom PRIVATE ${HR_ALL})
endif()
