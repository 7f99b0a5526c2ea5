/* Journals: see format/journal.h.
 *
 * A journal is "headroom apply 1", the kind, the id and the files, each ended by NUL. It lies beside every file of the
 * transaction: so it is found from any of them, and a file takes part only where its own folder says so.
 */
#include "format/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "format/file.h"

static const char head[] = "headroom apply 1";
static const char *const kinds[] = {[HR_JOURNAL_REPLACE] = "replace", [HR_JOURNAL_REVERT] = "revert"};
enum { JOURNAL_BYTES = 2 << 20 };

const char *hr__journal_folder(const char *real, hr_arena *arena) {
  const char *slash = strrchr(real, '/');
  int length = slash && slash != real ? (int)(slash - real) : 1;
  return hr__arena_format(arena, "%.*s", length, slash ? real : ".");
}

size_t hr__journal_renames(hr_journal_kind kind, const char *real, hr_arena *arena, const char *from[],
                           const char *to[]) {
  size_t count = 0;
  const char *backup = hr__arena_format(arena, "%s.backup", real);
  if (kind == HR_JOURNAL_REPLACE) {
    from[count] = hr__arena_format(arena, "%s.apply-backup", real);
    to[count++] = backup;
    from[count] = hr__arena_format(arena, "%s.apply-record", real);
    to[count++] = hr__arena_format(arena, "%s.backup.record", real);
    from[count] = hr__arena_format(arena, "%s.apply-new", real);
    to[count++] = real;
  } else {
    from[count] = backup;
    to[count++] = real;
  }
  for (size_t i = 0; i < count; i++)
    if (!from[i] || !to[i]) return 0;
  return count;
}

static const char *journal_name(const char *real, hr_arena *arena) {
  return hr__arena_format(arena, "%s.apply-journal", real);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* The next text of a journal; NULL: it ends. */
static const char *text_next(const char *text, size_t bytes, size_t *at) {
  const char *begin = text + *at;
  const char *end = *at < bytes ? memchr(begin, 0, bytes - *at) : NULL;
  if (!end) return NULL;
  *at += (size_t)(end - begin) + 1;
  return begin;
}

static hr_status journal_parse(const char *name, const char *text, size_t bytes, hr_journal *out, hr_error *err) {
  size_t at = 0;
  const char *first = text_next(text, bytes, &at), *kind = text_next(text, bytes, &at);
  const char *id = text_next(text, bytes, &at);
  bool sound = first && strcmp(first, head) == 0 && id && strlen(id) == sizeof out->id - 1;
  bool revert = sound && strcmp(kind, kinds[HR_JOURNAL_REVERT]) == 0;
  sound = sound && (revert || strcmp(kind, kinds[HR_JOURNAL_REPLACE]) == 0);
  *out = (hr_journal){.kind = revert ? HR_JOURNAL_REVERT : HR_JOURNAL_REPLACE};
  if (sound) memcpy(out->id, id, sizeof out->id);
  for (const char *file; sound && (file = text_next(text, bytes, &at));) {
    sound = out->count < HR_TRANSACTION_FILES && file[0] == '/';
    if (sound) out->files[out->count++] = file;
  }
  if (sound && at == bytes && out->count > 0) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, name, "remove it; the file itself and its backup are whole",
                  "this is not a journal of headroom apply");
}

/* The journal beside `real`; *there = false when there is none. */
static hr_status journal_read(const char *real, hr_arena *arena, hr_journal *out, bool *there, hr_error *err) {
  const char *name = journal_name(real, arena);
  if (!name) return hr__nomem(err);
  *there = access(name, F_OK) == 0;
  if (!*there) return HR_OK;
  char *text;
  size_t bytes;
  HR_TRY(hr__file_read(name, JOURNAL_BYTES, arena, &text, &bytes, err));
  return journal_parse(name, text, bytes, out, err);
}

/* Whether `real` has its part in the transaction still before it. */
static hr_status takes_part(const hr_journal *journal, const char *real, hr_arena *arena, bool *part, hr_error *err) {
  hr_journal beside;
  HR_TRY(journal_read(real, arena, &beside, part, err));
  *part = *part && strcmp(beside.id, journal->id) == 0;
  return HR_OK;
}

bool hr__journal_stands(const char *real) {
  hr_arena arena = {0};
  const char *name = journal_name(real, &arena);
  bool stands = name && access(name, F_OK) == 0;
  hr__arena_fini(&arena);
  return stands;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* Removes the file `real` + `end`, if there is one. */
static hr_status beside_remove(const char *real, const char *end, hr_error *err) {
  hr_arena arena = {0};
  const char *name = hr__arena_format(&arena, "%s%s", real, end);
  hr_status status = HR_OK;
  if (!name)
    status = hr__nomem(err);
  else if (hr__file_calls.unlink(name) != 0 && errno != ENOENT)
    status = hr__fail_errno(err, name, "remove", errno);
  hr__arena_fini(&arena);
  return status;
}

static hr_status journal_remove(const char *real, hr_error *err) {
  return beside_remove(real, ".apply-journal", err);
}

/* As long as the first one stands the transaction is decided: it goes first to take that back, last when all is done.
 */
static hr_status journals_remove(const hr_journal *journal, bool take_back, hr_error *err) {
  if (take_back) HR_TRY(journal_remove(journal->files[0], err));
  for (size_t i = 1; i < journal->count; i++)
    HR_TRY(journal_remove(journal->files[i], err));
  return take_back ? HR_OK : journal_remove(journal->files[0], err);
}

static hr_status journals_write(const hr_journal *journal, hr_arena *arena, hr_error *err) {
  size_t bytes = sizeof head + strlen(kinds[journal->kind]) + 1 + sizeof journal->id;
  for (size_t i = 0; i < journal->count; i++)
    bytes += strlen(journal->files[i]) + 1;
  char *text = hr__arena_alloc(arena, bytes), *at = text;
  if (!text) return hr__nomem(err);
  at = stpcpy(at, head) + 1;
  at = stpcpy(at, kinds[journal->kind]) + 1;
  at = stpcpy(at, journal->id) + 1;
  for (size_t i = 0; i < journal->count; i++)
    at = stpcpy(at, journal->files[i]) + 1;
  for (size_t i = journal->count; i-- > 0;) {
    const char *name = journal_name(journal->files[i], arena);
    if (!name) return hr__nomem(err);
    HR_TRY(hr__file_replace(name, text, bytes, err));
  }
  return HR_OK;
}

hr_status hr__journal_write(const hr_journal *journal, bool *stands, hr_error *err) {
  hr_arena arena = {0};
  hr_status status = journals_write(journal, &arena, err);
  hr__arena_fini(&arena);
  *stands = status == HR_OK;
  if (status != HR_OK) {
    journals_remove(journal, true, NULL);
    *stands = hr__journal_stands(journal->files[0]);
  }
  return status;
}

/* --- doing -------------------------------------------------------------------------------------------------------- */

static void locks_drop(const int *fds, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (fds[i] >= 0) close(fds[i]);
}

/* Locks what is about to get the name of a locked file, or who comes then would find a file that nobody is at work on.
 * -1: it has its name already. */
static int heir_lock(const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (fd >= 0) flock(fd, LOCK_EX | LOCK_NB); /* nobody else knows it; some file systems have no locks */
  return fd;
}

static hr_status file_finish(hr_journal_kind kind, const char *real, int *lock, hr_arena *arena, hr_error *err) {
  const char *from[HR_JOURNAL_RENAMES], *to[HR_JOURNAL_RENAMES];
  size_t count = hr__journal_renames(kind, real, arena, from, to);
  const char *folder = hr__journal_folder(real, arena);
  if (count == 0 || !folder) return hr__nomem(err);
  *lock = heir_lock(from[count - 1]);
  for (size_t i = 0; i < count; i++) { /* the backup is safe before the file changes */
    int done = hr__file_calls.rename(from[i], to[i]) == 0 ? 0 : errno;
    if (done == ENOENT) continue; /* done before, or not part of it */
    if (done) return hr__fail_errno(err, to[i], "rename", done);
    HR_TRY(hr__file_sync_folder(folder, err));
  }
  return kind == HR_JOURNAL_REVERT ? beside_remove(real, ".backup.record", err) : HR_OK;
}

hr_status hr__journal_finish(const hr_journal *journal, hr_error *err) {
  hr_arena arena = {0};
  int locks[HR_TRANSACTION_FILES]; /* until the last trace is removed */
  size_t n_locks = 0;
  bool several = journal->count > 1;
  hr_status status = HR_OK;
  for (size_t i = 0; i < journal->count && status == HR_OK; i++) {
    bool part = true;
    locks[n_locks++] = -1;
    if (several) status = takes_part(journal, journal->files[i], &arena, &part, err);
    if (status == HR_OK && part) status = file_finish(journal->kind, journal->files[i], &locks[i], &arena, err);
  }
  hr__arena_fini(&arena);
  if (status == HR_OK && several) status = journals_remove(journal, false, err);
  locks_drop(locks, n_locks);
  return status;
}

/* What a transaction that was not decided left beside a file. */
static hr_status leftovers_remove(const char *real, hr_arena *arena, hr_error *err) {
  static const char *const ends[] = {".apply-new", ".apply-backup", ".apply-record", ".apply-journal.tmp",
                                     ".apply-journal"};
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    const char *name = hr__arena_format(arena, "%s%s", real, ends[i]);
    if (!name) return hr__nomem(err);
    if (access(name, F_OK) == 0) HR_TRY(beside_remove(real, ends[i], err));
  }
  const char *backup = hr__arena_format(arena, "%s.backup", real);
  const char *record = hr__arena_format(arena, "%s.backup.record", real);
  if (!backup || !record) return hr__nomem(err);
  bool alone = access(record, F_OK) == 0 && access(backup, F_OK) != 0 && errno == ENOENT; /* of a revert that ended */
  return alone ? beside_remove(real, ".backup.record", err) : HR_OK;
}

/* Locks the other files that have their part still before them, so that nobody else finishes or reads them meanwhile;
 * *fds (-1: none) keep the locks. A file that was removed needs none. */
static hr_status others_lock(const hr_journal *journal, const char *real, int fds[HR_TRANSACTION_FILES],
                             hr_arena *arena, hr_error *err) {
  for (size_t i = 0; i < journal->count; i++) {
    bool part;
    HR_TRY(takes_part(journal, journal->files[i], arena, &part, err));
    if (!part || strcmp(journal->files[i], real) == 0) continue;
    fds[i] = open(journal->files[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fds[i] < 0 && errno == ENOENT) continue;
    if (fds[i] < 0) return hr__fail_errno(err, journal->files[i], "open", errno);
    if (flock(fds[i], LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      return hr__fail(err, HR_FAILURE, journal->files[i], "try again when it is done",
                      "another process is at work on this file, which an earlier headroom apply was cut off with");
  }
  return HR_OK;
}

static hr_status finish_locked(const hr_journal *journal, const char *real, hr_arena *arena, hr_error *err) {
  int fds[HR_TRANSACTION_FILES];
  for (size_t i = 0; i < journal->count; i++)
    fds[i] = -1;
  hr_status status = others_lock(journal, real, fds, arena, err);
  if (status == HR_OK) status = hr__journal_finish(journal, err);
  locks_drop(fds, journal->count);
  return status;
}

hr_status hr__journal_recover(const char *real, bool *finished, hr_error *err) {
  hr_arena arena = {0};
  hr_journal *journal = hr__arena_alloc(&arena, sizeof *journal);
  bool there = false, decided = false;
  hr_status status = journal ? journal_read(real, &arena, journal, &there, err) : hr__nomem(err);
  if (status == HR_OK && there) status = takes_part(journal, journal->files[0], &arena, &decided, err);
  if (status == HR_OK && decided) {
    status = finish_locked(journal, real, &arena, err);
    *finished = status == HR_OK;
  } else if (status == HR_OK) {
    status = leftovers_remove(real, &arena, err);
  }
  hr__arena_fini(&arena);
  return status;
}
