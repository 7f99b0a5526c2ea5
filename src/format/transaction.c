/* Transactions: see format/transaction.h. */
#include "format/transaction.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/fs.h>

#include "base/hash.h"
#include "format/doc.h"
#include "format/file.h"
#include "format/journal.h"
#include "format/record.h"

/* --- opening ------------------------------------------------------------------------------------------------------ */

static hr_status real_path(const char *path, hr_arena *arena, const char **out, hr_error *err) {
  char buffer[PATH_MAX];
  const char *real = realpath(path, buffer);
  if (!real && (errno == ENOENT || errno == ENOTDIR))
    return hr__fail(err, HR_BAD_INPUT, path, "check the path", "there is no such file");
  if (!real) return hr__fail_errno(err, path, "find", errno);
  *out = hr__arena_text(arena, real);
  return *out ? HR_OK : hr__nomem(err);
}

static bool same_file(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Opens and locks, against all or, only to `look`, against those who write; the lock counts only if the file under that
 * name is still the one that was opened. */
static hr_status file_lock(hr_transaction_file *file, bool look, hr_error *err) {
  uint64_t length;
  HR_TRY(hr__file_open(file->real, &file->fd, &length, err));
  struct stat named;
  int kind = look ? LOCK_SH : LOCK_EX; /* some file systems have none */
  bool taken = flock(file->fd, kind | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (taken || fstat(file->fd, &file->facts) != 0 || stat(file->real, &named) != 0 || !same_file(&named, &file->facts))
    return hr__fail(err, HR_FAILURE, file->path, "try again when it is done",
                    "another process is at work on this file");
  return HR_OK;
}

static void file_unlock(hr_transaction_file *file) {
  if (file->fd >= 0) close(file->fd);
  file->fd = -1;
}

static hr_status file_open(hr_transaction *t, hr_transaction_file *file, bool look, hr_error *err) {
  HR_TRY(real_path(file->path, &t->arena, &file->real, err));
  struct stat named;
  bool there = stat(file->real, &named) == 0;
  for (const hr_transaction_file *other = t->files; other < file; other++)
    if (strcmp(other->real, file->real) == 0 || (there && same_file(&named, &other->facts))) /* or a hard link */
      return hr__fail(err, HR_USAGE, file->path, "name each file once", "this is the same file as %s", other->path);
  HR_TRY(file_lock(file, look, err));
  if (look && hr__journal_stands(file->real))
    return hr__fail(err, HR_FAILURE, file->path, "headroom apply without --dry-run finishes it first",
                    "an earlier headroom apply on this file was cut off");
  if (!look) {
    bool finished = false;
    HR_TRY(hr__journal_recover(file->real, &finished, err));
    t->finished |= finished;
    if (finished) { /* the file is another one now */
      file_unlock(file);
      HR_TRY(file_lock(file, look, err));
    }
  }
  if (file->facts.st_size > HR_DOC_MAX_BYTES)
    return hr__fail(err, HR_BAD_INPUT, file->path, "check that this is the right file",
                    "this file is larger than any config (%d MiB)", HR_DOC_MAX_BYTES >> 20);
  file->bytes = (size_t)file->facts.st_size;
  char *text = hr__arena_alloc(&t->arena, file->bytes + 1);
  if (!text) return hr__nomem(err);
  file->text = text;
  return hr__file_read_at(file->fd, file->path, 0, text, file->bytes, err);
}

hr_status hr__transaction_open(const char *const *paths, size_t count, bool look, hr_transaction **out, hr_error *err) {
  if (count > HR_TRANSACTION_FILES)
    return hr__fail(err, HR_USAGE, NULL, NULL, "more than %d files at once", HR_TRANSACTION_FILES);
  hr_transaction *t = hr__alloc_zero(1, sizeof *t);
  if (!t) return hr__nomem(err);
  hr_status status = HR_OK;
  for (size_t i = 0; i < count && status == HR_OK; i++) {
    hr_transaction_file *file = &t->files[t->count++];
    *file = (hr_transaction_file){.path = paths[i], .fd = -1};
    status = file_open(t, file, look, err);
  }
  if (status == HR_OK)
    *out = t;
  else
    hr__transaction_close(t);
  return status;
}

void hr__transaction_close(hr_transaction *t) {
  if (!t) return;
  for (size_t i = 0; i < t->count; i++)
    file_unlock(&t->files[i]);
  hr__arena_fini(&t->arena);
  hr__free(t);
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* Owner before mode: a new owner takes the set-user bit away. */
static hr_status owner_keep(int fd, const char *path, const struct stat *like, hr_error *err) {
  struct stat now;
  if (fstat(fd, &now) != 0) return hr__fail_errno(err, path, "examine", errno);
  bool other = now.st_uid != like->st_uid || now.st_gid != like->st_gid;
  if (other && hr__file_calls.fchown(fd, like->st_uid, like->st_gid) != 0)
    return hr__fail_errno(err, path, "keep the owner", errno);
  bool mode = ((now.st_mode ^ like->st_mode) & 07777) != 0;
  if ((other || mode) && hr__file_calls.fchmod(fd, like->st_mode & 07777) != 0)
    return hr__fail_errno(err, path, "keep the mode", errno);
  return HR_OK;
}

/* A file beside another one, on the disk with all it has. */
static hr_status aside_write(const char *path, const char *text, size_t bytes, const struct stat *like, hr_error *err) {
  int fd = hr__file_calls.open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return hr__fail_errno(err, path, "create", errno);
  hr_status status = hr__file_write_all(fd, path, text, bytes, err);
  if (status == HR_OK) status = owner_keep(fd, path, like, err);
  if (status == HR_OK && hr__file_calls.fdatasync(fd) != 0) status = hr__fail_errno(err, path, "make durable", errno);
  if (hr__file_calls.close(fd) != 0 && status == HR_OK && errno != EINTR)
    status = hr__fail_errno(err, path, "close", errno);
  return status;
}

/* The file's backup as it is; one that a transaction would have to replace and has not made is an error. */
static hr_status backup_check(hr_transaction *t, const hr_transaction_file *file, hr_backup *kind, const char **backup,
                              size_t *bytes, hr_error *err) {
  *bytes = 0;
  HR_TRY(hr__backup_examine(file->real, file->text, file->bytes, &t->arena, kind, backup, bytes, err));
  bool same =
      *backup && *bytes == file->bytes && memcmp(*backup, file->text, *bytes) == 0; /* nothing is lost with it */
  if (*kind != HR_BACKUP_FOREIGN || same) return HR_OK;
  const char *name = hr__arena_format(&t->arena, "%s.backup", file->real);
  if (!name) return hr__nomem(err);
  return hr__fail(err, HR_BAD_INPUT, name, "move it away, then run the command again",
                  "this file stands where the backup of %s belongs, and headroom apply has not made it", file->path);
}

hr_status hr__transaction_check(hr_transaction *t, hr_error *err) {
  for (size_t i = 0; i < t->count; i++) {
    hr_backup kind;
    const char *backup;
    size_t bytes;
    if (t->files[i].now) HR_TRY(backup_check(t, &t->files[i], &kind, &backup, &bytes, err));
  }
  return HR_OK;
}

static hr_status file_prepare(hr_transaction *t, hr_transaction_file *file, hr_error *err) {
  const char *from[HR_JOURNAL_RENAMES], *to[HR_JOURNAL_RENAMES];
  if (hr__journal_renames(HR_JOURNAL_REPLACE, file->real, &t->arena, from, to) == 0) return hr__nomem(err);
  hr_backup kind;
  const char *backup, *record;
  size_t bytes;
  HR_TRY(backup_check(t, file, &kind, &backup, &bytes, err));
  file->first = kind == HR_BACKUP_NONE;
  if (kind != HR_BACKUP_FIRST) {
    backup = file->text;
    bytes = file->bytes;
    HR_TRY(aside_write(from[0], backup, bytes, &file->facts, err));
  }
  HR_TRY(hr__record_text(backup, bytes, file->text, file->bytes, file->now, file->now_bytes, &t->arena, &record, err));
  HR_TRY(aside_write(from[1], record, strlen(record), &file->facts, err));
  return aside_write(from[2], file->now, file->now_bytes, &file->facts, err);
}

/* Nobody has written the file since it was read. */
static hr_status file_unchanged(const hr_transaction_file *file, hr_error *err) {
  struct stat now;
  if (stat(file->real, &now) != 0) return hr__fail_errno(err, file->path, "examine", errno);
  const struct timespec *a = &now.st_mtim, *b = &file->facts.st_mtim;
  if (same_file(&now, &file->facts) && now.st_size == file->facts.st_size && a->tv_sec == b->tv_sec &&
      a->tv_nsec == b->tv_nsec)
    return HR_OK;
  return hr__fail(err, HR_FAILURE, file->path, "run the command again", "this file was changed meanwhile");
}

/* Nothing can be renamed over a file with these attributes, whoever asks; where there are none, nothing is known. */
static hr_status file_replaceable(const hr_transaction_file *file, hr_error *err) {
  int flags = 0;
  if (ioctl(file->fd, FS_IOC_GETFLAGS, &flags) != 0 || !(flags & (FS_IMMUTABLE_FL | FS_APPEND_FL))) return HR_OK;
  return hr__fail(err, HR_FAILURE, file->path, "chattr -i -a takes that away",
                  "this file cannot be replaced: it is marked as immutable or append-only");
}

static void aside_remove(hr_transaction *t, const hr_journal *journal) {
  const char *from[HR_JOURNAL_RENAMES], *to[HR_JOURNAL_RENAMES];
  for (size_t i = 0; i < journal->count; i++)
    for (size_t k = hr__journal_renames(HR_JOURNAL_REPLACE, journal->files[i], &t->arena, from, to); k-- > 0;)
      hr__file_calls.unlink(from[k]);
}

static hr_status hash_text(hr_hash *hash, const char *text, size_t bytes, hr_error *err) {
  HR_TRY(hr__hash_update(hash, &bytes, sizeof bytes, err));
  return hr__hash_update(hash, text, bytes, err);
}

/* The id says what the transaction does: two that have the same one do the same. */
static hr_status journal_name_it(const hr_transaction *t, hr_journal *journal, hr_error *err) {
  hr_hash *hash;
  HR_TRY(hr__hash_create(HR_HASH_SHA256, &hash, err));
  hr_status status = hr__hash_update(hash, &journal->kind, sizeof journal->kind, err);
  for (size_t i = 0; i < t->count && status == HR_OK; i++) {
    const hr_transaction_file *file = &t->files[i];
    status = hash_text(hash, file->real, strlen(file->real), err);
    if (status == HR_OK) status = hash_text(hash, file->text, file->bytes, err);
    if (status == HR_OK && file->now) status = hash_text(hash, file->now, file->now_bytes, err);
  }
  if (status == HR_OK) status = hr__hash_hex(hash, journal->id, err);
  hr__hash_destroy(hash);
  return status;
}

/* A single file that could not be replaced leaves nothing behind: neither the new text nor a backup made for it. */
static void single_undo(hr_transaction *t, const hr_journal *journal) {
  const char *from[HR_JOURNAL_RENAMES], *to[HR_JOURNAL_RENAMES];
  const hr_transaction_file *file = t->files;
  while (file->real != journal->files[0])
    file++;
  size_t count = hr__journal_renames(HR_JOURNAL_REPLACE, file->real, &t->arena, from, to);
  if (count == 0 || access(from[count - 1], F_OK) != 0) return; /* the file is the new one */
  aside_remove(t, journal);
  for (size_t k = count - 1; file->first && k-- > 0;)
    hr__file_calls.unlink(to[k]);
}

/* From here on it is done, by this process or by the next one. */
static hr_status decided(hr_transaction *t, const hr_journal *journal, hr_error *err) {
  hr_error why = {0};
  hr_status status = hr__journal_finish(journal, &why);
  if (status != HR_OK && journal->count == 1 && journal->kind == HR_JOURNAL_REPLACE) single_undo(t, journal);
  if (status == HR_OK || !err) return status;
  if (journal->count < 2 || status == HR_NOMEM) {
    *err = why;
    return status;
  }
  return hr__fail(err, status, why.place, "the next headroom apply on any of these files finishes it", "%s",
                  why.message);
}

hr_status hr__transaction_commit(hr_transaction *t, hr_error *err) {
  hr_journal journal = {.kind = HR_JOURNAL_REPLACE};
  hr_status status = HR_OK;
  for (size_t i = 0; i < t->count; i++)
    if (t->files[i].now) HR_TRY(file_replaceable(&t->files[i], err));
  for (size_t i = 0; i < t->count && status == HR_OK; i++) {
    if (!t->files[i].now) continue;
    journal.files[journal.count++] = t->files[i].real;
    status = file_prepare(t, &t->files[i], err);
  }
  if (journal.count == 0) return HR_OK;
  if (status == HR_OK) status = journal_name_it(t, &journal, err);
  for (size_t i = 0; i < t->count && status == HR_OK; i++)
    if (t->files[i].now) status = file_unchanged(&t->files[i], err);
  bool stands = false;
  if (status == HR_OK && journal.count > 1) status = hr__journal_write(&journal, &stands, err);
  if (status == HR_OK) return decided(t, &journal, err);
  if (!stands) aside_remove(t, &journal);
  return status;
}

/* --- putting back ------------------------------------------------------------------------------------------------- */

hr_status hr__transaction_backup(hr_transaction *t, size_t index, const char **text, size_t *bytes, bool *edited,
                                 hr_error *err) {
  hr_transaction_file *file = &t->files[index];
  hr_backup kind;
  HR_TRY(hr__backup_examine(file->real, file->text, file->bytes, &t->arena, &kind, text, bytes, err));
  file->bare = kind == HR_BACKUP_NONE;
  if (kind == HR_BACKUP_FOREIGN)
    return hr__fail(err, HR_BAD_INPUT, file->path, "put it back by hand if it is the one you want",
                    "%s.backup is none that headroom apply has made, or it was changed since", file->real);
  *edited = kind == HR_BACKUP_OURS;
  return HR_OK;
}

hr_status hr__transaction_bare(const hr_transaction *t, hr_error *err) {
  for (size_t i = 0; i < t->count; i++)
    if (!t->files[i].bare) return HR_OK;
  if (t->count == 0) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, t->files[0].path, "nothing was applied, or it was reverted before",
                  "this file has no backup (%s.backup)", t->files[0].real);
}

hr_status hr__transaction_revert(hr_transaction *t, bool force, hr_error *err) {
  hr_journal journal = {.kind = HR_JOURNAL_REVERT};
  for (size_t i = 0; i < t->count; i++) {
    const char *text;
    size_t bytes;
    bool edited = false;
    HR_TRY(hr__transaction_backup(t, i, &text, &bytes, &edited, err));
    if (t->files[i].bare) continue;
    if (edited && !force)
      return hr__fail(err, HR_BAD_INPUT, t->files[i].path, "--force puts the backup back all the same",
                      "this file was changed after headroom apply wrote it, and those changes would go");
    HR_TRY(file_replaceable(&t->files[i], err));
    journal.files[journal.count++] = t->files[i].real;
  }
  if (journal.count == 0) return hr__transaction_bare(t, err);
  HR_TRY(journal_name_it(t, &journal, err));
  bool stands;
  if (journal.count > 1) HR_TRY(hr__journal_write(&journal, &stands, err));
  return decided(t, &journal, err);
}
