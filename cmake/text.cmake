# Renders templates on request, for test/text/compare_templates.py.
if(TARGET hr_text)
  add_executable(render_template ${CMAKE_SOURCE_DIR}/test/text/render_template.c)
  target_link_libraries(render_template PRIVATE hr_text)
endif()
