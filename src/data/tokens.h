/* Tokens of a text: made once by a tokenizer, kept in a file of the cache folder, and read there at any place by
 * several threads at once.
 *
 * The file is named after a hash of the text, the tokenizer and how documents are cut: another of any of them is
 * another file, and one that is there is right. It holds a header, the ids (u32; bit 31: the token is no target), and
 * where each document begins (u64, one more than there are documents), all little-endian.
 *
 * A document has what the tokenizer puts before a text and behind it, and ends with the end token where there is one.
 */
#ifndef HR_DATA_TOKENS_H
#define HR_DATA_TOKENS_H

#include "data/documents.h"
#include "data/source.h"
#include "data/trace.h"
#include "text/tokenizer.h"

typedef enum hr_documents {
  HR_DOCUMENT_WHOLE, /* the text is one */
  HR_DOCUMENT_LINES, /* every line that is not empty is one */
  HR_DOCUMENT_ROWS   /* every row of JSON lines, a JSON list or CSV is one (row_ids.h) */
} hr_documents;

typedef struct hr_tokens {
  hr_data_file file; /* with the tokens */
  hr_arena arena;    /* of its path */
  hr_trace trace;    /* of text and tokenizer */
  uint64_t count;    /* tokens */
  uint64_t documents;
  uint64_t rows, bad;     /* of documents that are rows: all of them, and those that were left out since they are bad */
  char shown[384];        /* the first bad ones with their places; empty where tokens were made before */
  const uint64_t *begins; /* on the heap; documents + 1 */
  uint64_t taken;         /* while tokens were made: text, tokenizer and ids on the heap; 0: they were made before */
} hr_tokens;

static inline hr_document_list hr__tokens_documents(const hr_tokens *tokens) {
  return (hr_document_list){tokens->begins, tokens->documents};
}

/* The token that ends a document: data.end_id, else that of the recipe's tokenizer where there is one; -1: not known.
 */
hr_status hr__tokens_end(const hr_recipe *recipe, int32_t *out, hr_error *err);

/* The setting that names a tokenizer: data.tokenizer; where it names nothing the model's folder (model.path), or that
 * of the part that reads the source's tokens; NULL: none, and bytes are tokens. */
const char *hr__tokens_setting(const hr_recipe *recipe);
bool hr__tokens_are_bytes(const hr_recipe *recipe);
/* The tokenizer, where they are not. */
hr_status hr__tokens_tokenizer(const hr_recipe *recipe, hr_tokenizer **out, hr_error *err);

/* Memory that threads of data.workers take while they make rows into tokens, or read recordings, but for the first,
 * which every run with a tokenizer has: 2 MiB for the encoder's words, a stack and buffers, as measured with 16 of
 * them. */
enum { HR_TOKENS_THREAD_BYTES = 9 << 18 };
uint64_t hr__tokens_threads_bytes(const hr_recipe *recipe);

/* The tokens of data.path. HR_BAD_INPUT where the model's vocabulary has not all of them. */
hr_status hr__tokens_open(const hr_source_request *request, hr_documents documents, hr_tokens *out, hr_error *err);
void hr__tokens_close(hr_tokens *tokens);

/* Where documents begin: in memory while they are open, and once more while the list grows, beside the longest row or
 * piece of a text and what becomes of it. */
static inline hr_data_bytes hr__tokens_bytes(const hr_tokens *tokens) {
  uint64_t bytes = (tokens->documents + 1) * sizeof *tokens->begins;
  return (hr_data_bytes){.held = bytes, .making = bytes + tokens->taken};
}

/* Writes `count` tokens from `at` on, and behind each its target: the next one, or -1 where that is none. The last
 * target of a document's end is the caller's. at + count < tokens->count. */
hr_status hr__tokens_read(const hr_tokens *tokens, uint64_t at, int64_t count, int32_t *ids, int32_t *targets,
                          hr_error *err);

#endif
