# Tests of layers that multiply run twice on a processor with instructions for bf16: with them, and again as
# <name>/without_bf16 with oneDNN held to the instructions before them. On any other processor the first run is that already.
set(HR_BF16_INSTRUCTIONS "")
if(EXISTS /proc/cpuinfo)
  file(STRINGS /proc/cpuinfo HR_BF16_INSTRUCTIONS REGEX "^flags.* avx512_bf16( |$)" LIMIT_COUNT 1)
endif()

function(hr_test_without_bf16 layer name)
  if(HR_BF16_INSTRUCTIONS AND layer MATCHES "^(dev|op|run|train|golden)$")
    add_test(NAME ${layer}/${name}/without_bf16 COMMAND ${layer}_${name})
    get_test_property(${layer}/${name} LABELS labels)
    set_tests_properties(${layer}/${name}/without_bf16 PROPERTIES SKIP_RETURN_CODE 77 LABELS "${labels}"
                         ENVIRONMENT DNNL_MAX_CPU_ISA=AVX512_CORE)
  endif()
endfunction()
