/* Several files of the user's replaced at once, with backups, and put back.
 *
 * Of one file: its new text is written aside and renamed over it, so that at any moment it is the old or the new one.
 * Of several: the new texts and a journal beside each file are written first; the journal of the first file, written
 * last, decides. A process that ends before leaves all files old, and the next transaction on any of them clears away
 * what it left; one that ends behind it is finished by the next transaction on any of them, which renames what is still
 * aside. The lock on a file goes over to what gets its name, until the last trace of the transaction is removed. Mode
 * and owner are those of the file before; symbolic links are followed, and stay.
 *
 * FILE.backup is the file before, and FILE.backup.record proves it (format/record.h): a backup without that proof is
 * somebody else's and is neither replaced nor put back. Transactions in a row, with nothing else written to the file
 * between, keep the first one's backup.
 */
#ifndef HR_FORMAT_TRANSACTION_H
#define HR_FORMAT_TRANSACTION_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/status.h"

enum { HR_TRANSACTION_FILES = 256 };

typedef struct hr_transaction_file {
  const char *path; /* as it was named */
  const char *real; /* without symbolic links; the names of backup and journal begin with it */
  const char *text; /* as read */
  size_t bytes;
  const char *now; /* what it shall hold; NULL: it stays */
  size_t now_bytes;
  struct stat facts; /* when it was read */
  int fd;            /* keeps the lock */
  bool first;        /* of a commit: there was no backup before */
  bool bare;         /* looked for, and it has no backup: nothing was written into it */
} hr_transaction_file;

typedef struct hr_transaction {
  hr_arena arena;
  hr_transaction_file files[HR_TRANSACTION_FILES];
  size_t count;
  bool finished; /* an earlier one that was cut off behind its decision has been finished */
} hr_transaction;

/* Locks and reads the files. With `look` nothing is cleared away or finished: a transaction that was cut off is then an
 * error. Files named twice, and files that another process works on, are errors; several may look at once. */
hr_status hr__transaction_open(const char *const *paths, size_t count, bool look, hr_transaction **out, hr_error *err);

/* Makes `now` the text of every file that has one. A file that changed since it was read is an error, and so is a
 * backup that no transaction made. Any error before the decision leaves all files as they were. */
hr_status hr__transaction_commit(hr_transaction *transaction, hr_error *err);

/* The error that `commit` would end with because of a backup, without writing anything. */
hr_status hr__transaction_check(hr_transaction *transaction, hr_error *err);

/* FILE.backup, read into the transaction's arena; one that no transaction made is HR_BAD_INPUT. Without any the file is
 * `bare`, and there is no text. *edited: somebody else has written the file since. */
hr_status hr__transaction_backup(hr_transaction *transaction, size_t file, const char **text, size_t *bytes,
                                 bool *edited, hr_error *err);
/* HR_BAD_INPUT where all files are bare. */
hr_status hr__transaction_bare(const hr_transaction *transaction, hr_error *err);
/* Renames every backup over its file, and leaves bare ones as they are beside others; one that was edited since is an
 * error unless `force`. */
hr_status hr__transaction_revert(hr_transaction *transaction, bool force, hr_error *err);

void hr__transaction_close(hr_transaction *transaction);

#endif
