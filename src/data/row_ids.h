/* A row of training data as token ids. What a row is goes by its keys: one table, in row_ids.c. */
#ifndef HR_DATA_ROW_IDS_H
#define HR_DATA_ROW_IDS_H

#include "data/chat.h"

/* Set in an id: the token is no target. */
#define HR_NO_TARGET INT32_MIN

typedef struct hr_row_maker {
  const hr_tokenizer *tokenizer;
  hr_encoder *encoder;
  hr_chat *chat;
  bool all;        /* every token is a target, not only those of answers */
  hr_string piece; /* room: the text of one token */
} hr_row_maker;

/* Appends the end token of a document, unless it is there or the tokenizer has none. */
hr_status hr__end_add(const hr_tokenizer *tokenizer, hr_ids *ids, hr_error *err);

/* Appends the ids of a row. What is wrong with the row is HR_BAD_INPUT, without a place. */
hr_status hr__row_ids(hr_row_maker *maker, const hr_doc_node *fields, hr_arena *arena, hr_ids *ids, hr_error *err);

#endif
