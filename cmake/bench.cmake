# bench/*.c: one program each, run by bench/run.
if(TARGET hr_train)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/bench/*.c)
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    add_executable(bench_${name} ${source})
    target_link_libraries(bench_${name} PRIVATE hr_train)
  endforeach()
  # Planned memory is the process's with batches of 16 MiB; its times are for bench/input.sh.
  add_test(NAME bench/input COMMAND bench_input ${CMAKE_SOURCE_DIR}/bench/input.yaml training.batch_size=4
           model.config.width=16)
  set_tests_properties(bench/input PROPERTIES LABELS unit
                       ENVIRONMENT "XDG_CACHE_HOME=${CMAKE_BINARY_DIR}/test-cache;HEADROOM_THREADS=2")
endif()
