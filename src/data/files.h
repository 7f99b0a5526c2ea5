/* The files of data.path: one, a list, all of a folder, or those that a pattern matches; read as if they were one, the
 * bytes of each behind those of the one before it.
 *
 * A list keeps its order. Of a folder those files are taken whose names end as the source's formats do, of a pattern
 * all that it matches; both by name, as bytes.
 */
#ifndef HR_DATA_FILES_H
#define HR_DATA_FILES_H

#include "data/file.h"
#include "data/watch.h"

typedef struct hr_data_files {
  hr_data_file *list; /* with paths; fd is -1 where they are not open */
  size_t count;
  uint64_t *begins; /* once they are open: of each, among the bytes of all; one more than there are files */
  uint64_t bytes;   /* of all */
  hr_arena arena;   /* of the paths */
} hr_data_files;

/* Whether a path ends as one of a list does: ".txt|.md". */
bool hr__data_ends_as(const char *path, const char *endings);

/* Which files they are. key: "data.path", whose absence is an error too; endings: ".txt|.md". HR_BAD_INPUT where a
 * folder or pattern has none. */
hr_status hr__data_files_find(const hr_recipe *recipe, const char *key, const char *endings, hr_data_files *out,
                              hr_error *err);
/* Opens them, to be read by several threads at once. */
hr_status hr__data_files_open(hr_data_files *files, hr_error *err);
void hr__data_files_close(hr_data_files *files);

uint64_t
hr__data_files_bytes(const hr_data_files *files); /* of all, as far as the system tells, without opening them */

/* How far reading of the files is, one after the other. */
typedef struct hr_progress_of_files {
  hr_data_watch watch;
  uint64_t done, all; /* bytes of the files before this one, and of all */
} hr_progress_of_files;
static inline void hr__files_told(const hr_progress_of_files *p, uint64_t here) {
  if (p->watch.tokenized) p->watch.tokenized(p->watch.user, p->done + here, p->all);
}

size_t hr__data_files_at(const hr_data_files *files, uint64_t at); /* number of the file that has that byte */
hr_status hr__data_files_read(const hr_data_files *files, uint64_t at, void *to, size_t bytes, hr_error *err);

#endif
