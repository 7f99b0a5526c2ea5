/* Records of backups: see format/record.h. */
#include "format/record.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "format/doc.h"
#include "format/file.h"

static const char head[] = "headroom apply backup 1\n";
enum { HEAD = sizeof head - 1, SUM = HR_SHA256_HEX - 1, RECORD_BYTES = HEAD + 3 * (SUM + 1) };

static hr_status sum(const char *text, size_t bytes, char out[HR_SHA256_HEX], hr_error *err) {
  hr_hash *hash;
  HR_TRY(hr__hash_create(HR_HASH_SHA256, &hash, err));
  hr_status status = hr__hash_update(hash, text, bytes, err);
  if (status == HR_OK) status = hr__hash_hex(hash, out, err);
  hr__hash_destroy(hash);
  return status;
}

hr_status hr__record_text(const char *backup, size_t backup_bytes, const char *before, size_t before_bytes,
                          const char *behind, size_t behind_bytes, hr_arena *arena, const char **out, hr_error *err) {
  char sums[3][HR_SHA256_HEX];
  HR_TRY(sum(backup, backup_bytes, sums[0], err));
  HR_TRY(sum(before, before_bytes, sums[1], err));
  HR_TRY(sum(behind, behind_bytes, sums[2], err));
  *out = hr__arena_format(arena, "%s%s\n%s\n%s\n", head, sums[0], sums[1], sums[2]);
  return *out ? HR_OK : hr__nomem(err);
}

/* A regular file's text; *text = NULL: it is none, or larger than `most`. */
static hr_status regular_read(const char *name, size_t most, hr_arena *arena, const char **text, size_t *bytes,
                              hr_error *err) {
  struct stat facts;
  char *read = NULL;
  *text = NULL;
  if (lstat(name, &facts) != 0) return errno == ENOENT ? HR_OK : hr__fail_errno(err, name, "examine", errno);
  if (!S_ISREG(facts.st_mode) || (uint64_t)facts.st_size > most) return HR_OK;
  HR_TRY(hr__file_read(name, most, arena, &read, bytes, err));
  *text = read;
  return HR_OK;
}

/* Whether sum `which` of a record is that of a text. */
static bool names(const char *record, size_t which, const char text_sum[HR_SHA256_HEX]) {
  return memcmp(record + HEAD + which * (SUM + 1), text_sum, SUM) == 0;
}

hr_status hr__backup_examine(const char *real, const char *text, size_t bytes, hr_arena *arena, hr_backup *out,
                             const char **backup, size_t *backup_bytes, hr_error *err) {
  const char *name = hr__arena_format(arena, "%s.backup", real), *record;
  const char *record_name = hr__arena_format(arena, "%s.backup.record", real);
  size_t record_bytes = 0;
  if (!name || !record_name) return hr__nomem(err);
  HR_TRY(regular_read(name, HR_DOC_MAX_BYTES, arena, backup, backup_bytes, err));
  HR_TRY(regular_read(record_name, RECORD_BYTES, arena, &record, &record_bytes, err));
  struct stat facts;
  *out = lstat(name, &facts) != 0 ? HR_BACKUP_NONE : HR_BACKUP_FOREIGN;
  if (!*backup || !record || record_bytes != RECORD_BYTES || memcmp(record, head, HEAD) != 0) return HR_OK;
  char of_backup[HR_SHA256_HEX], of_file[HR_SHA256_HEX];
  HR_TRY(sum(*backup, *backup_bytes, of_backup, err));
  HR_TRY(sum(text, bytes, of_file, err));
  if (!names(record, 0, of_backup)) return HR_OK;
  *out = names(record, 1, of_file) || names(record, 2, of_file) ? HR_BACKUP_FIRST : HR_BACKUP_OURS;
  return HR_OK;
}
