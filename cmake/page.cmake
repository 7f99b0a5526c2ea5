# Page, style and script of `headroom report`, as C arrays in the build folder: what src/report/page has is what a page gets.
set(HR_PAGE_SOURCES)
set(page ${CMAKE_SOURCE_DIR}/src/report/page)
# Scripts in the order in which they stand on a page: each uses only what is above it.
set(scripts decode text dom canvas areas layout streams frontier curves tables compare main)
list(TRANSFORM scripts PREPEND ${page}/)
list(TRANSFORM scripts APPEND .js)
function(hr_page_embed name)
  set(out ${CMAKE_BINARY_DIR}/page/${name}.c)
  add_custom_command(OUTPUT ${out} DEPENDS ${ARGN} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake VERBATIM
                     COMMAND ${CMAKE_COMMAND} -DNAME=${name} -DOUT=${out} "-DFILES=${ARGN}" -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake)
  set(HR_PAGE_SOURCES ${HR_PAGE_SOURCES} ${out} PARENT_SCOPE)
endfunction()
hr_page_embed(html ${page}/page.html)
hr_page_embed(style ${page}/style.css)
hr_page_embed(script ${scripts})
