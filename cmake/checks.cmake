# Tests that are scripts: lint reads the tree, cli runs the program.
find_program(PYTHON3 python3 REQUIRED)

foreach(name layers hygiene ops families)
  add_test(NAME lint/${name} COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/test/lint/${name}.py)
  set_tests_properties(lint/${name} PROPERTIES LABELS lint)
endforeach()
add_test(NAME lint/format COMMAND ${CMAKE_SOURCE_DIR}/test/lint/format.sh)
set_tests_properties(lint/format PROPERTIES LABELS lint SKIP_RETURN_CODE 77)

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
