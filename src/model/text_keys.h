/* Settings under config that all text models have: sizes, layers, vocabulary. */
#ifndef HR_MODEL_TEXT_KEYS_H
#define HR_MODEL_TEXT_KEYS_H

#include "recipe/scope.h"

enum { HR_LAYERS_MAX = 1024, HR_HEADS_MAX = 1 << 16, HR_WIDTH_MAX = 1 << 24, HR_POSITIONS_MAX = 1 << 30 };

extern const hr_key_table hr_text_keys;

/* The token of padding; -1: there is none. */
int64_t hr__padding_token(const hr_scope *scope);
/* HR_BAD_INPUT where the vocabulary has no such token. */
hr_status hr__padding_check(const hr_scope *scope, hr_error *err);

#endif
