# Tests of layers that multiply run again with oneDNN held to fewer instructions than the processor has: on one with
# instructions for bf16 as <name>/without_bf16, on one with AVX-512 as <name>/without_avx512. On any other processor the first
# run is that already. Tests of training are repeated where they compare what was computed; those about files, memory that runs
# out, kills and messages multiply only to get there. Under the sanitizers kernels of products alone are: which instructions
# multiplied does not change what other code does with memory, and op/test_chains goes through both of its own.
set(HR_MULTIPLIES_TO_GET_THERE "_faults$|^test_(bad_training|batches|best|changed_data|companions|damage|kill|log|manifest|room|schedule|scaler|stops|store)$")
set(HR_BF16_INSTRUCTIONS "")
set(HR_AVX512_INSTRUCTIONS "")
if(EXISTS /proc/cpuinfo)
  file(STRINGS /proc/cpuinfo HR_BF16_INSTRUCTIONS REGEX "^flags.* avx512_bf16( |$)" LIMIT_COUNT 1)
  file(STRINGS /proc/cpuinfo HR_AVX512_INSTRUCTIONS REGEX "^flags.* avx512bw( |$)" LIMIT_COUNT 1)
endif()

function(hr_test_held_to layer name suffix instructions)
  add_test(NAME ${layer}/${name}/${suffix} COMMAND ${layer}_${name})
  get_test_property(${layer}/${name} LABELS labels)
  set_tests_properties(${layer}/${name}/${suffix} PROPERTIES SKIP_RETURN_CODE 77 LABELS "${labels}"
                       ENVIRONMENT DNNL_MAX_CPU_ISA=${instructions})
  # They write the same files.
  set_tests_properties(${layer}/${name} ${layer}/${name}/${suffix} PROPERTIES RESOURCE_LOCK ${layer}/${name})
endfunction()

function(hr_test_with_fewer_instructions layer name)
  set(layers dev op run train golden)
  if(HR_ASAN)
    set(layers dev)
  endif()
  if(NOT layer IN_LIST layers OR (layer STREQUAL "train" AND name MATCHES "${HR_MULTIPLIES_TO_GET_THERE}"))
    return()
  endif()
  if(HR_BF16_INSTRUCTIONS)
    hr_test_held_to(${layer} ${name} without_bf16 AVX512_CORE)
  endif()
  if(HR_AVX512_INSTRUCTIONS)
    hr_test_held_to(${layer} ${name} without_avx512 AVX2)
  endif()
endfunction()
