/* What tells a file of data from another one: taken when a run begins, saved with it, compared when it is resumed.
 *
 * Files up to HR_TRACE_WHOLE_BYTES are hashed whole, which takes some tenths of a second; so are files that are read
 * whole at every start anyway. Of larger ones HR_TRACE_PIECES pieces are hashed, spread evenly with both ends, and the
 * time of the last change counts as well, since what lies between the pieces is not looked at.
 */
#ifndef HR_DATA_TRACE_H
#define HR_DATA_TRACE_H

#include "base/hash.h"
#include "data/file.h"

enum { HR_TRACE_WHOLE_BYTES = 256 << 20, HR_TRACE_PIECES = 256, HR_TRACE_PIECE_BYTES = 256 << 10 };

typedef struct hr_trace {
  char hash[HR_XXH_HEX]; /* empty: there is no file */
  bool whole;            /* of all bytes */
  int64_t changed_ns;    /* time of the last change; 0 where the hash says all */
} hr_trace;

hr_status hr__trace_file(const hr_data_file *file, hr_trace *out, hr_error *err);
/* The same of one of many files, which are too large together: only its two ends are hashed, and the time counts. */
hr_status hr__trace_ends(const hr_data_file *file, hr_trace *out, hr_error *err);
/* The trace of files up to one more, in order. One file has its own. */
void hr__trace_add(hr_trace *all, const hr_trace *one);

#endif
