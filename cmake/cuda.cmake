# The CUDA plug-in, libheadroom_cuda.so: built with -DHR_CUDA=ON where nvcc is, loaded by the program at run time.
#
# The program and the plug-in both carry the hash of ops.def and refuse each other when it differs.
set(ops_def ${CMAKE_SOURCE_DIR}/src/op/ops.def)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ops_def})
file(SHA256 ${ops_def} ops_sha256)
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/dev/cuda/loader.c PROPERTIES
                            COMPILE_DEFINITIONS HR_OPS_SHA256="${ops_sha256}")

# The tests are plain C and build everywhere; without plug-in or GPU they are skipped.
if(TARGET hr_run)
  file(GLOB cuda_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/cuda/test_*.c)
  foreach(source IN LISTS cuda_tests)
    get_filename_component(name ${source} NAME_WE)
    add_executable(cuda_${name} ${source})
    if(name STREQUAL "test_ops_cuda")
      target_sources(cuda_${name} PRIVATE ${CMAKE_SOURCE_DIR}/test/cuda/part_samples.c)
      target_link_libraries(cuda_${name} PRIVATE hr_test_parts_op)
    elseif(name MATCHES "test_(few|lora)_cuda")
      target_sources(cuda_${name} PRIVATE ${CMAKE_SOURCE_DIR}/test/cuda/part_sequence.c)
    elseif(name STREQUAL "test_pairs_cuda")
      target_link_libraries(cuda_${name} PRIVATE hr_test_parts_run)
    endif()
    target_link_libraries(cuda_${name} PRIVATE hr_run PkgConfig::CMOCKA)
    add_test(NAME cuda/${name} COMMAND cuda_${name})
    set_tests_properties(cuda/${name} PROPERTIES SKIP_RETURN_CODE 77 LABELS gpu)
  endforeach()
endif()
# A device for the program's tests on machines that have none.
add_library(fake_cuda MODULE ${CMAKE_SOURCE_DIR}/test/cuda/fake_plugin.c)
target_include_directories(fake_cuda PRIVATE ${CMAKE_SOURCE_DIR}/src)
set_target_properties(fake_cuda PROPERTIES PREFIX "")
# One launcher for every op whose source has a .cu file: an op that is added there needs no edit here.
file(GLOB op_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/op/*.cu)
file(GLOB device_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/dev/cuda/*.cu)
# Names only: brackets and semicolons of the meanings would upset a CMake list.
file(READ ${ops_def} ops_text)
string(REGEX MATCHALL "\nHR_OP\\([a-z0-9_]+, *[a-z0-9_]+\\)" op_lines "\n${ops_text}")
set(launchers "")
foreach(line IN LISTS op_lines)
  string(REGEX MATCH "HR_OP\\(([a-z0-9_]+), *([a-z0-9_]+)\\)" matched "${line}")
  if(matched AND EXISTS ${CMAKE_SOURCE_DIR}/src/op/${CMAKE_MATCH_2}.cu)
    string(APPEND launchers "HR_LAUNCHER(${CMAKE_MATCH_1})\n")
  endif()
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/launchers.inc CONTENT "${launchers}")

if(NOT HR_CUDA)
  return()
endif()
if(HR_ASAN OR HR_FUZZ)
  message(STATUS "the CUDA plug-in is not built with sanitizers")
  return()
endif()

set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
  set(CMAKE_CUDA_ARCHITECTURES 80-real 86-real 89-real 90) # machine code for each, and PTX of 90 for what comes later
endif()
if(NOT DEFINED CMAKE_CUDA_COMPILER)
  find_program(HR_NVCC nvcc REQUIRED)
  set(CMAKE_CUDA_COMPILER ${HR_NVCC})
endif()
# The shared compile options are the C compiler's; nvcc passes its own on to the host compiler.
get_property(c_options DIRECTORY PROPERTY COMPILE_OPTIONS)
set_property(DIRECTORY PROPERTY COMPILE_OPTIONS "")
enable_language(CUDA)
set_property(DIRECTORY PROPERTY COMPILE_OPTIONS "${c_options}")
find_package(CUDAToolkit 12.1 REQUIRED)

# Each kernel's machine code is compressed by itself: a smaller file to install. What is packed as a whole for another
# machine is much smaller without (test/cuda/run_on_gpu.sh).
set(HR_FATBIN "-Xfatbin=-compress-all" CACHE STRING "How nvcc is to store machine code in the plug-in")

add_library(headroom_cuda MODULE ${device_sources} ${op_sources})
set_target_properties(headroom_cuda PROPERTIES CUDA_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON
                      COMPILE_OPTIONS "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
install(TARGETS headroom_cuda LIBRARY DESTINATION lib OPTIONAL) # where the program looks for it
target_compile_options(headroom_cuda PRIVATE -lineinfo -Xcompiler=-Wall,-Wextra,-Wno-unused-function
                       --Werror=all-warnings ${HR_FATBIN})
target_compile_definitions(headroom_cuda PRIVATE HR_OPS_SHA256="${ops_sha256}")
target_include_directories(headroom_cuda PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_BINARY_DIR}/generated)
target_link_libraries(headroom_cuda PRIVATE CUDA::cublasLt ${CMAKE_DL_LIBS})
# Only the entry is visible, also against symbols of the static runtime; a missing symbol is found here, not at loading.
target_link_options(headroom_cuda PRIVATE -Wl,--exclude-libs,ALL -Wl,-z,defs)

# Attention through cuDNN: its headers, and cudnn_frontend's (header-only) as tools/setup fetches them. The library is
# opened at run time.
# No code of the device is in it, so that the host's compiler has it once; nothing in it is hot, but without optimizing it would want functions that nobody calls.
enable_language(CXX)
file(GLOB cudnn_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/dev/cuda/cudnn*.cpp)
add_library(headroom_cudnn OBJECT ${cudnn_sources})
set_target_properties(headroom_cudnn PROPERTIES CXX_STANDARD 17 CXX_VISIBILITY_PRESET hidden
                      POSITION_INDEPENDENT_CODE ON COMPILE_OPTIONS "")
target_compile_options(headroom_cudnn PRIVATE -Wall -Wextra -Werror -Wno-unused-function -Wno-unknown-pragmas -O1 -g0)
target_include_directories(headroom_cudnn PRIVATE ${CMAKE_SOURCE_DIR}/src)
target_include_directories(headroom_cudnn SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(headroom_cuda PRIVATE headroom_cudnn)
find_path(HR_CUDNN_INCLUDE cudnn_graph.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_path(HR_CUDNN_FRONTEND_INCLUDE cudnn_frontend.h HINTS ${CMAKE_SOURCE_DIR}/.deps/cudnn-frontend/include)
if(HR_CUDNN_INCLUDE AND HR_CUDNN_FRONTEND_INCLUDE)
  target_include_directories(headroom_cudnn SYSTEM PRIVATE ${HR_CUDNN_FRONTEND_INCLUDE} ${HR_CUDNN_INCLUDE})
  target_compile_definitions(headroom_cudnn PRIVATE HR_CUDNN=1)
else()
  message(STATUS "attention through cuDNN is not built: tools/setup fetches what it needs where cuDNN is installed")
endif()
