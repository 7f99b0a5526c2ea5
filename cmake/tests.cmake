# One executable per test/<layer>/test_*.c, linked with that layer and everything left of it.
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)

# What every test is compiled and linked with.
add_library(hr_for_tests INTERFACE)
target_include_directories(hr_for_tests INTERFACE ${CMAKE_SOURCE_DIR}/test)
target_compile_definitions(hr_for_tests INTERFACE HR_SOURCE_DIR="${CMAKE_SOURCE_DIR}" HR_BINARY_DIR="${CMAKE_BINARY_DIR}")
target_link_libraries(hr_for_tests INTERFACE PkgConfig::CMOCKA)

# What tests share is compiled once: test/support for all of them, the parts of a folder of test/ for its own.
file(GLOB support CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/support/*.c)
add_library(hr_test_support OBJECT ${support})
target_link_libraries(hr_test_support PUBLIC hr_for_tests hr_base)

# hr_test_parts_<folder>: its part_*.c as objects, with the layer that its tests are linked with.
function(hr_test_parts folder layer)
  set(reach INTERFACE)
  set(kind INTERFACE)
  file(GLOB parts CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/${folder}/part_*.c)
  if(parts)
    set(reach PUBLIC)
    set(kind OBJECT)
  endif()
  add_library(hr_test_parts_${folder} ${kind} ${parts})
  target_link_libraries(hr_test_parts_${folder} ${reach} hr_for_tests ${layer})
endfunction()

# References in f64 are the tests' own: loops over all elements, without what the sanitizers put into each.
if(HR_ASAN)
  file(GLOB references CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/op/part_reference*.c)
  set_property(SOURCE ${references} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=all -O2)
endif()

foreach(layer IN LISTS HR_LAYERS)
  if(TARGET hr_${layer})
    hr_test_parts(${layer} hr_${layer})
    file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/${layer}/test_*.c)
    foreach(source IN LISTS tests)
      get_filename_component(name ${source} NAME_WE)
      add_executable(${layer}_${name} ${source})
      target_link_libraries(${layer}_${name} PRIVATE hr_test_parts_${layer} hr_test_support)
      add_test(NAME ${layer}/${name} COMMAND ${layer}_${name})
      set_tests_properties(${layer}/${name} PROPERTIES SKIP_RETURN_CODE 77 LABELS unit)
      hr_test_with_fewer_instructions(${layer} ${name})
    endforeach()
  endif()
endforeach()
if(TEST fit/test_closed)
  set_tests_properties(fit/test_closed PROPERTIES LABELS "unit;slow" TIMEOUT 900) # hundreds of searches
endif()
if(TEST train/test_offload)
  set_tests_properties(train/test_offload PROPERTIES LABELS "unit;slow") # six minutes under the sanitizers
endif()
