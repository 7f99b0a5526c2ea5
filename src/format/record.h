/* What proves that FILE.backup is of a transaction, and that nothing else has written FILE since.
 *
 * FILE.backup.record holds the SHA-256 of three texts: of the backup, and of the file before and behind the last
 * transaction. The new backup is renamed into place before its record, and the record before the new file. A process
 * that ends in between leaves either a backup that is the file itself, which nothing is lost with, or a record that
 * names the file's text as the one before.
 */
#ifndef HR_FORMAT_RECORD_H
#define HR_FORMAT_RECORD_H

#include "base/mem.h"
#include "base/status.h"

typedef enum hr_backup {
  HR_BACKUP_NONE,
  HR_BACKUP_FOREIGN, /* not a regular file, or without proof */
  HR_BACKUP_OURS,    /* somebody else has written the file since */
  HR_BACKUP_FIRST    /* ours, and nothing but transactions has written the file since */
} hr_backup;

/* The backup of the file `real`, which holds `text`; *backup is what it holds itself, where it is a regular file. */
hr_status hr__backup_examine(const char *real, const char *text, size_t bytes, hr_arena *arena, hr_backup *out,
                             const char **backup, size_t *backup_bytes, hr_error *err);

/* The text of a record. */
hr_status hr__record_text(const char *backup, size_t backup_bytes, const char *before, size_t before_bytes,
                          const char *behind, size_t behind_bytes, hr_arena *arena, const char **out, hr_error *err);

#endif
