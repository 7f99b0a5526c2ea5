/* The journal of a transaction over several files: see format/transaction.h. */
#ifndef HR_FORMAT_JOURNAL_H
#define HR_FORMAT_JOURNAL_H

#include "base/hash.h"
#include "format/transaction.h"

typedef enum hr_journal_kind { HR_JOURNAL_REPLACE, HR_JOURNAL_REVERT } hr_journal_kind;

typedef struct hr_journal {
  hr_journal_kind kind;
  char id[HR_SHA256_HEX];                  /* of all that the transaction does */
  const char *files[HR_TRANSACTION_FILES]; /* without symbolic links; the first one's journal decides */
  size_t count;
} hr_journal;

/* Writes the journal of each file, that of the first last. On failure they are removed again; where even that fails
 * (*stands), what is aside must stay for the next transaction to finish. */
hr_status hr__journal_write(const hr_journal *journal, bool *stands, hr_error *err);

/* Does the renames of the journal that are not done yet; then removes the journals. */
hr_status hr__journal_finish(const hr_journal *journal, hr_error *err);

/* Whether a journal stands beside `real`. */
bool hr__journal_stands(const char *real);

/* What an ended process left beside `real`, which the caller has locked, is finished (*finished = true) or cleared
 * away. Another process at work on a file that is to be finished is an error. */
hr_status hr__journal_recover(const char *real, bool *finished, hr_error *err);

/* The file's renames, in order: from[i] over to[i]; names in `arena`. Returns their number, 0: out of memory. */
enum { HR_JOURNAL_RENAMES = 3 };
size_t hr__journal_renames(hr_journal_kind kind, const char *real, hr_arena *arena, const char *from[],
                           const char *to[]);
const char *hr__journal_folder(const char *real, hr_arena *arena); /* NULL: out of memory */

#endif
