/* Names of buffers, modules and shapes in a page. Those of one kind differ in numbers only ("model.layers.7.mlp"), so a
 * name is a pattern with holes, which is written once, and the numbers in them. */
#ifndef HR_REPORT_NAMES_H
#define HR_REPORT_NAMES_H

#include "base/mem.h"
#include "base/status.h"
#include "report/columns.h"

typedef struct hr_names {
  hr_arena arena;
  char **patterns; /* a hole is the byte 1, which no name has as it stands there */
  size_t count, capacity;
  uint32_t *table; /* hash table of patterns; UINT32_MAX: free */
  size_t slots;
} hr_names;

void hr__names_init(hr_names *names);
void hr__names_fini(hr_names *names);

enum { HR_NAME_HOLES = 16 }; /* further numbers stay text */

/* A list of names: which pattern each is of, and the numbers of all holes, each as the difference from what was last in
 * a hole of that place. */
typedef struct hr_name_column {
  hr_column pattern, number;
  int64_t before[HR_NAME_HOLES];
} hr_name_column;

hr_status hr__names_add(hr_names *names, const char *name, hr_name_column *column, hr_error *err);
/* [patterns, numbers], and the end of the column; NULL: out of memory. */
json_t *hr__name_column_end(hr_name_column *column);

/* A list of patterns, each the list of its texts between holes; NULL: out of memory. */
json_t *hr__names_json(const hr_names *names);

#endif
