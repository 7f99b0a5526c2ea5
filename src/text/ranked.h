/* Vocabularies of byte strings with ranks and without merges (tiktoken, tekken): two symbols join when what they make
 * is a token, in the order of ranks. They become a BPE model with all the merges that this means. */
#ifndef HR_TEXT_RANKED_H
#define HR_TEXT_RANKED_H

#include "text/bpe.h"
#include "text/build.h"

enum { HR_RANKED_BYTES = 1024 }; /* of one token, at most: all ways to cut it are tried */

/* The merges of a model whose words are there; `ranks` by id (NULL: ids are ranks). */
hr_status hr__build_pairs(hr_tokenizer *t, hr_bpe *bpe, const int32_t *ranks, hr_error *err);

/* The model behind the pre-tokenizers that are there. Tokens are the pieces of ids [first, t->count), whose ranks rise
 * with them. */
hr_status hr__build_ranked(hr_tokenizer *t, size_t first, hr_error *err);

/* Special tokens in a row: `name`, or where it has a %d, `count` of them with numbers from `from` on. */
typedef struct hr_special_run {
  const char *name;
  int from, count;
} hr_special_run;
/* Their pieces get the ids from *id on, which is moved behind them. */
hr_status hr__build_specials(hr_tokenizer *t, const hr_special_run *runs, size_t count, int32_t *id, hr_error *err);
/* An added token that is special and looked for in raw text. Its piece has to be there. */
hr_status hr__build_special(hr_tokenizer *t, int32_t id, hr_error *err);

#endif
