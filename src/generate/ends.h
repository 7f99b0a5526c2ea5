/* Tokens that end a text. */
#ifndef HR_GENERATE_ENDS_H
#define HR_GENERATE_ENDS_H

#include "data/codec.h"

/* Appends those of the tokenizer, and what eos_token_id says, a number or a list, in generation_config.json and
 * config.json of the model's folder. */
hr_status hr__ends_find(const hr_codec *codec, const char *folder, hr_ids *out, hr_error *err);

#endif
