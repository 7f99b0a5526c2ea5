/* Readers of tokenizer.json, one for each of its sections. Each knows the types that its section may have, as rows of a
 * table; a type that is in none is refused by name, with its line. */
#ifndef HR_TEXT_JSON_ITEMS_H
#define HR_TEXT_JSON_ITEMS_H

#include "format/item.h"
#include "text/build.h"

typedef struct hr_item_kind {
  const char *type;
  hr_status (*read)(hr_tokenizer *t, const hr_item *item, hr_error *err);
} hr_item_kind;

/* Reads a item by its "type". `what` names the section in the message about a type that is not known. */
hr_status hr__item_dispatch(hr_tokenizer *t, const hr_item *item, const hr_item_kind *kinds, size_t count,
                            const char *what, hr_error *err);
/* Reads each item of a list `key` in order. */
hr_status hr__item_each(hr_tokenizer *t, const hr_item *item, const char *key,
                        hr_status (*read)(hr_tokenizer *, const hr_item *, hr_error *), hr_error *err);
/* {"String": ...} or {"Regex": ...}: `text` or `regex`. */
hr_status hr__item_pattern(hr_tokenizer *t, const hr_item *pattern, const char **text, size_t *bytes,
                           const hr_regex **regex, hr_error *err);
/* A text of at most 1024 bytes, copied into the tokenizer. Absent where `optional`: *text stays. */
hr_status hr__item_copy(hr_tokenizer *t, const hr_item *item, bool optional, const char **text, size_t *bytes,
                        hr_error *err);
/* Puts the item's place to an error that has none. */
hr_status hr__item_placed(const hr_item *item, hr_status status, hr_error *err);

/* Opens a JSON file and reads its root. */
hr_status hr__item_load(hr_tokenizer *t, const char *path,
                        hr_status (*read)(hr_tokenizer *, const hr_item *, hr_error *), hr_error *err);

hr_status hr__json_normalizer(hr_tokenizer *t, const hr_item *item, hr_error *err);
hr_status hr__json_relay(hr_tokenizer *t, const hr_item *item, hr_error *err); /* a pre-tokenizer */
hr_status hr__json_model(hr_tokenizer *t, const hr_item *item, hr_error *err); /* behind added tokens */
hr_status hr__json_decoder(hr_tokenizer *t, const hr_item *item, hr_error *err);
hr_status hr__json_post_processor(hr_tokenizer *t, const hr_item *item, hr_error *err);

/* One of "added_tokens": an object with content and habits. */
hr_status hr__json_added_token(hr_tokenizer *t, const hr_item *item, hr_error *err);

/* Only the pieces of the model's vocabulary: added tokens come behind them. */
hr_status hr__json_vocabulary(hr_tokenizer *t, const hr_item *model, size_t added, hr_error *err);

#endif
