/* The file of tokens.h: written once from beginning to end, under another name until it is whole. */
#ifndef HR_DATA_TOKENS_FILE_H
#define HR_DATA_TOKENS_FILE_H

#include "data/tokens.h"

enum { HR_TOKENS_HEADER = 64 }; /* bytes before the first id */

typedef struct hr_tokens_writer hr_tokens_writer;

/* Begins a file, and makes its folder. */
hr_status hr__tokens_begin(const char *path, hr_tokens_writer **out, hr_error *err);
hr_status hr__tokens_put(hr_tokens_writer *writer, const int32_t *ids, size_t count, hr_error *err);
hr_status hr__tokens_end_document(hr_tokens_writer *writer, hr_error *err);
/* How many rows there were, and how many of them were left out since they are bad. */
void hr__tokens_rows(hr_tokens_writer *writer, uint64_t rows, uint64_t bad);
/* Ends it. `status`: whether everything went well so far; else what was written is removed. Returns it, or what went
 * wrong here. */
hr_status hr__tokens_finish(hr_tokens_writer *writer, hr_status status, hr_error *err);

/* Opens a whole file. *there: false where there is none, or none that can be used. *most: the largest id. */
hr_status hr__tokens_load(const char *path, hr_tokens *tokens, uint32_t *most, bool *there, hr_error *err);

#endif
