# cmake -DNAME=n -DOUT=n.c "-DFILES=a;b" -P embed.cmake: the bytes of files, one behind the other, as the C array hr__page_n.
set(hex "")
foreach(file IN LISTS FILES)
  file(READ ${file} bytes HEX)
  string(APPEND hex ${bytes})
endforeach()
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" hex "${hex}")
file(WRITE ${OUT} "/* Made by cmake/embed.cmake. */\n#include \"report/assets.h\"\n\nconst unsigned char hr__page_${NAME}[] = {\n${hex}};\n"
                  "const size_t hr__page_${NAME}_bytes = sizeof hr__page_${NAME};\n")
