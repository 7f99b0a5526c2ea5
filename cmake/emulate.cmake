# The CUDA plug-in for the CPU, emulated/libheadroom_cuda.so: the same sources as plain C++, with test/cuda/host in place of
# CUDA's headers and libraries. Only for tests of kernels where no GPU is; HEADROOM_CUDA_PLUGIN names it to the program.
find_program(PYTHON3 python3 REQUIRED)
include(CheckLanguage)
check_language(CXX)
if(HR_FUZZ OR NOT BUILD_TESTING)
  return()
endif()
if(NOT CMAKE_CXX_COMPILER)
  message(STATUS "CUDA kernels are not tested on the CPU: there is no C++ compiler")
  return()
endif()
enable_language(CXX)
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL CMAKE_C_COMPILER_ID)
  return() # a second C compiler beside the first: once is enough
endif()
file(GLOB emulated_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/cuda/host/*.cpp)
# Each .cu file goes by way of a .cpp that includes it: with nvcc there, CMake would hand .cu files to it.
foreach(source IN LISTS device_sources op_sources)
  file(RELATIVE_PATH name ${CMAKE_SOURCE_DIR}/src ${source})
  string(MAKE_C_IDENTIFIER ${name} name)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/emulated/${name}.cpp CONTENT "#include \"${source}\"\n")
  list(APPEND emulated_sources ${CMAKE_BINARY_DIR}/generated/emulated/${name}.cpp)
endforeach()
add_library(headroom_emulated MODULE ${emulated_sources} ${CMAKE_SOURCE_DIR}/src/dev/cuda/cudnn.cpp)
set_target_properties(headroom_emulated PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS ON
                      CXX_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON COMPILE_OPTIONS ""
                      OUTPUT_NAME headroom_cuda LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/emulated)
target_compile_options(headroom_emulated PRIVATE -Wall -Werror -Wno-unused-function -Wno-unknown-pragmas
                       -Wno-unused-variable -O1 -g1 -ffp-contract=off -fno-math-errno -U_FORTIFY_SOURCE)
if(HR_ASAN) # also: an address that is no multiple of what is read there, which a GPU refuses
  target_compile_options(headroom_emulated PRIVATE -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # What goes from stack to stack tells the sanitizer so itself (test/cuda/host/sanitizer.h).
  set_source_files_properties(${CMAKE_SOURCE_DIR}/test/cuda/host/block.cpp PROPERTIES COMPILE_OPTIONS -fno-sanitize=all)
endif()
target_compile_definitions(headroom_emulated PRIVATE __CUDACC__ HR_OPS_SHA256="${ops_sha256}" HR_WARPGROUPS=1)
target_include_directories(headroom_emulated BEFORE PRIVATE ${CMAKE_SOURCE_DIR}/test/cuda/host ${CMAKE_SOURCE_DIR}/src
                           ${CMAKE_BINARY_DIR}/generated)
target_link_libraries(headroom_emulated PRIVATE ${CMAKE_DL_LIBS})
target_link_options(headroom_emulated PRIVATE $<$<NOT:$<BOOL:${HR_ASAN}>>:-Wl,-z,defs>)

# The tests of a GPU, through it: small shapes, as it is slow.
foreach(name IN ITEMS ops few lora pairs streams perceptron)
  set(test cuda_test_${name}_cuda)
  if(NOT TARGET ${test})
    set(test cuda_test_${name})
  endif()
  add_test(NAME cuda/emulated_${name} COMMAND ${test})
  set_tests_properties(cuda/emulated_${name} PROPERTIES LABELS unit ENVIRONMENT
                       "HEADROOM_CUDA_PLUGIN=$<TARGET_FILE:headroom_emulated>;HEADROOM_CASES=few")
endforeach()
# Convolutions as devices without products of warpgroups have them.
add_test(NAME cuda/emulated_convs_80 COMMAND cuda_test_ops_cuda)
set_tests_properties(cuda/emulated_convs_80 PROPERTIES LABELS unit ENVIRONMENT
                     "HEADROOM_CUDA_PLUGIN=$<TARGET_FILE:headroom_emulated>;HEADROOM_CASES=few;HEADROOM_EMULATE_CAPABILITY=80;HEADROOM_OPS=conv,conv_dx,conv_dw")
add_test(NAME cuda/emulated_trainings COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/test/cuda/emulated_trainings.py $<TARGET_FILE:headroom>)
set_tests_properties(cuda/emulated_trainings PROPERTIES LABELS cli TIMEOUT 600 ENVIRONMENT
                     "HEADROOM_CUDA_PLUGIN=$<TARGET_FILE:headroom_emulated>;NO_COLOR=1")
