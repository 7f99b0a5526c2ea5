# Fuzz targets: every fuzz/fuzz_<name>.c is one. Always: replay_<name> runs fuzz/corpus/<name> through it, as a test.
# With HR_FUZZ=ON (clang): fuzz_<name> under libFuzzer; tools/fuzz runs them.
set(HR_FUZZ_LAYER_safetensors format)
set(HR_FUZZ_LAYER_yaml format)
set(HR_FUZZ_LAYER_json format)
set(HR_FUZZ_LAYER_edit format)
set(HR_FUZZ_LAYER_tokenizer_json text)
set(HR_FUZZ_LAYER_sentencepiece text)

# A target links the layer named above, or everything.
function(hr_fuzz_executable executable name)
  add_executable(${executable} ${ARGN} ${CMAKE_SOURCE_DIR}/fuzz/fuzz_${name}.c ${CMAKE_SOURCE_DIR}/fuzz/doc_text.c
                 ${CMAKE_SOURCE_DIR}/fuzz/tokenized.c)
  if(DEFINED HR_FUZZ_LAYER_${name})
    target_link_libraries(${executable} PRIVATE hr_${HR_FUZZ_LAYER_${name}})
  else()
    target_link_libraries(${executable} PRIVATE ${HR_ALL})
  endif()
endfunction()

file(GLOB fuzz_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/fuzz/fuzz_*.c)
foreach(source IN LISTS fuzz_sources)
  get_filename_component(name ${source} NAME_WE)
  string(REGEX REPLACE "^fuzz_" "" name ${name})
  hr_fuzz_executable(replay_${name} ${name} ${CMAKE_SOURCE_DIR}/fuzz/replay.c)
  add_test(NAME fuzz/${name} COMMAND replay_${name} ${CMAKE_SOURCE_DIR}/fuzz/corpus/${name})
  set_tests_properties(fuzz/${name} PROPERTIES LABELS fuzz)
  if(HR_FUZZ)
    hr_fuzz_executable(fuzz_${name} ${name})
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  endif()
endforeach()
