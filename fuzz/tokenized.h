/* What targets for tokenizers demand of one that was opened. */
#ifndef HR_FUZZ_TOKENIZED_H
#define HR_FUZZ_TOKENIZED_H

#include <stddef.h>

#include "text/build.h"

/* Encodes and decodes `text` and some of its own, which has to work or to fail with a message. */
void tokenized_check(hr_tokenizer *tokenizer, const char *text, size_t bytes);

#endif
