/* A place in a text, as parsers and editors count: bytes, characters, lines and columns.
 *
 * A line ends with LF, CR LF or CR; a column counts characters (code points), not bytes.
 */
#ifndef HR_FORMAT_CURSOR_H
#define HR_FORMAT_CURSOR_H

#include <stddef.h>

typedef struct hr_cursor {
  const char *text; /* valid UTF-8, or at least never read beyond `bytes` */
  size_t bytes;
  size_t index, byte; /* characters and bytes before this place */
  int line, column;   /* from 1 */
} hr_cursor;

hr_cursor hr__cursor(const char *text, size_t bytes);
void hr__cursor_step(hr_cursor *at); /* one character on; not at the end */
/* Both go back to the start when the place lies behind, and stop at the end. Places that come nearly in order take
 * linear time in all. */
void hr__cursor_to_index(hr_cursor *at, size_t index);
void hr__cursor_to_byte(hr_cursor *at, size_t byte);

#endif
