# Compiler settings shared by every target.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

option(HR_ASAN "AddressSanitizer and UndefinedBehaviorSanitizer, dead arena slots poisoned" OFF)
option(HR_FUZZ "build libFuzzer targets (clang)" OFF)
option(HR_CUDA "build the CUDA plug-in (needs nvcc)" OFF)

add_compile_options(-Wall -Wextra -Wconversion -Wshadow -Werror -fno-math-errno -fno-trapping-math -fopenmp-simd
                    -fvisibility=hidden)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-Wno-format-truncation) # texts for people are cut on purpose, and what gcc sees depends on -O
else()
  add_compile_options(-Wno-pass-failed) # a loop that clang cannot vectorise at some -O is slow, not wrong
endif()
add_compile_definitions(_GNU_SOURCE)
string(REPLACE "-O2" "-O3" CMAKE_C_FLAGS_RELWITHDEBINFO "${CMAKE_C_FLAGS_RELWITHDEBINFO}")
if(HR_ASAN)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
  add_compile_definitions(HR_ASAN=1)
endif()
if(HR_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  add_link_options(-fsanitize=address,undefined)
endif()
