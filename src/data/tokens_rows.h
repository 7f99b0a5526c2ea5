/* Rows of files into a file of tokens (tokens_file.h), and what becomes of bad ones. */
#ifndef HR_DATA_TOKENS_ROWS_H
#define HR_DATA_TOKENS_ROWS_H

#include "data/bad_rows.h"
#include "data/row_batch.h"
#include "data/tokens_file.h"

/* Writes every row of the files as a document, made by several threads. Bad rows are left out, and the first of them
 * told in `shown`; too many are HR_BAD_INPUT at the place of the first. *taken: bytes on the heap meanwhile. */
hr_status hr__rows_tokens(const hr_data_files *files, const hr_row_way *way, int threads, double allowed,
                          hr_progress_of_files *progress, hr_tokens_writer *writer, char *shown, size_t shown_bytes,
                          uint64_t *taken, hr_error *err);

#endif
