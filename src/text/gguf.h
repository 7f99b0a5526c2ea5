/* The tokenizer inside of a GGUF file, in the words of model folders: as the text of a tokenizer.json, which is then
 * read like any other, and of the files beside it. So what a run from GGUF trains on is what its checkpoints carry.
 *
 * Two kinds are known: byte-level BPE ("gpt2"), by the name of its pre-tokenizer, and sentencepiece BPE ("llama"),
 * whose merges follow from the scores of its pieces. Any other, and any other pre-tokenizer, is refused by name.
 */
#ifndef HR_TEXT_GGUF_H
#define HR_TEXT_GGUF_H

#include "format/gguf.h"
#include "text/tokenizer.h"

/* tokenizer.json; `name` is the file's, for places. */
hr_status hr__gguf_tokenizer_json(const hr_gguf *file, const char *name, hr_string *out, hr_error *err);
/* tokenizer_config.json: tokens with a role, and whether they are put round a text. */
hr_status hr__gguf_tokenizer_config(const hr_gguf *file, const char *name, hr_string *out, hr_error *err);
/* generation_config.json: ids that begin and end a text. */
hr_status hr__gguf_generation_config(const hr_gguf *file, hr_string *out, hr_error *err);
/* The chat template; false: there is none. It is not NUL-terminated. */
bool hr__gguf_chat_template(const hr_gguf *file, hr_gguf_text *out);

/* The id of a role; -1: the file does not say. */
int64_t hr__gguf_role(const hr_gguf *file, hr_token_role role);

#endif
