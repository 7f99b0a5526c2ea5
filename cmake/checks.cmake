# Tests that are scripts: lint reads the tree, cli runs the program.
find_program(PYTHON3 python3 REQUIRED)

foreach(name layers hygiene ops families)
  add_test(NAME lint/${name} COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/test/lint/${name}.py)
  set_tests_properties(lint/${name} PROPERTIES LABELS lint)
endforeach()
add_test(NAME lint/format COMMAND ${CMAKE_SOURCE_DIR}/test/lint/format.sh)
set_tests_properties(lint/format PROPERTIES LABELS lint SKIP_RETURN_CODE 77)

# The longest begin first, by about their seconds: none is then left running alone at the end of a fresh tree's tests.
function(hr_test_costs)
  while(ARGN)
    list(POP_FRONT ARGN name seconds)
    foreach(test ${name} ${name}/without_bf16 ${name}/without_avx512)
      if(TEST ${test})
        set_tests_properties(${test} PROPERTIES COST ${seconds})
      endif()
    endforeach()
  endwhile()
endfunction()

if(TARGET headroom)
  file(GLOB cli_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/cli/test_*.py)
  foreach(source IN LISTS cli_tests)
    get_filename_component(name ${source} NAME_WE)
    add_test(NAME cli/${name} COMMAND ${PYTHON3} ${source} $<TARGET_FILE:headroom>)
    # A private cache folder: rates measured by the user must not change what tests see. No GPU: what they compare are
    # runs on the processor (test/cuda/suite.py is for GPUs).
    set_tests_properties(cli/${name} PROPERTIES LABELS cli SKIP_RETURN_CODE 77 TIMEOUT 600
                         ENVIRONMENT "XDG_CACHE_HOME=${CMAKE_BINARY_DIR}/test-cache;NO_COLOR=1;HEADROOM_CUDA_PLUGIN=/nonexistent/none.so")
  endforeach()
  foreach(name test_process_memory test_steady)
    if(TEST cli/${name})
      # They measure this process and this machine: alone.
      set_tests_properties(cli/${name} PROPERTIES LABELS "cli;slow" RUN_SERIAL ON)
    endif()
  endforeach()
  if(TEST cli/test_public_configs)
    set_tests_properties(cli/test_public_configs PROPERTIES RUN_SERIAL ON) # it measures seconds of the processor
  endif()
endif()
hr_test_costs(cli/test_planned_and_measured 180 cli/test_same_bits 120 dev/test_gemm 90 fit/test_search 90 run/test_measure 80
              op/test_ops 60 train/test_offload 45 cli/test_apply_kill 40 train/test_start_faults 30 cli/test_resume 28
              train/test_save_faults 28 cli/test_report_browser 40 cli/test_report 24 cli/test_fine_tune 22 cli/test_embedder 20 cli/test_multistream 60 cli/test_branches 20
              train/test_kill 20 cli/test_apply_two 18
              fit/test_closed 12 train/test_stops 12)
