/* The vocabulary of a GGUF file, and JSON as text: see gguf_vocabulary.h. */
#include "text/gguf_vocabulary.h"

#include <inttypes.h>
#include <stdio.h>

#include "format/doc.h"

/* --- JSON as text ------------------------------------------------------------------------------------------------- */

hr_status hr__json_put(hr_string *out, const char *text, hr_error *err) {
  return hr__string_add(out, text, strlen(text), err);
}

hr_status hr__json_quote(hr_string *out, const char *text, size_t bytes, hr_error *err) {
  HR_TRY(hr__json_put(out, "\"", err));
  for (size_t i = 0; i < bytes; i++) {
    char escaped[8];
    unsigned char c = (unsigned char)text[i];
    if (c >= 0x20 && c != '"' && c != '\\') {
      HR_TRY(hr__string_add(out, text + i, 1, err));
      continue;
    }
    snprintf(escaped, sizeof escaped, "\\u%04x", c);
    HR_TRY(hr__json_put(out, escaped, err));
  }
  return hr__json_put(out, "\"", err);
}

hr_status hr__json_put_number(hr_string *out, int64_t number, hr_error *err) {
  char text[32];
  snprintf(text, sizeof text, "%" PRId64, number);
  return hr__json_put(out, text, err);
}

/* --- what the file has -------------------------------------------------------------------------------------------- */

bool hr__gguf_text_of(const hr_gguf *file, const char *key, hr_gguf_text *out) {
  return hr__gguf_string(hr__gguf_value(file, key), 0, out);
}

bool hr__gguf_text_is(hr_gguf_text text, const char *word) {
  return strlen(word) == text.bytes && memcmp(text.text, word, text.bytes) == 0;
}

bool hr__gguf_chat_template(const hr_gguf *file, hr_gguf_text *out) {
  return hr__gguf_text_of(file, "tokenizer.chat_template", out);
}

int64_t hr__gguf_role(const hr_gguf *file, hr_token_role role) {
  static const char *const keys[HR_TOKEN_ROLES] = {
      [HR_TOKEN_BEGIN] = HR_GGUF_TOKENIZER "bos_token_id",
      [HR_TOKEN_END] = HR_GGUF_TOKENIZER "eos_token_id",
      [HR_TOKEN_UNKNOWN] = HR_GGUF_TOKENIZER "unknown_token_id",
      [HR_TOKEN_PAD] = HR_GGUF_TOKENIZER "padding_token_id",
      [HR_TOKEN_MASK] = HR_GGUF_TOKENIZER "mask_token_id",
      [HR_TOKEN_CLASS] = HR_GGUF_TOKENIZER "cls_token_id",
      [HR_TOKEN_SEPARATOR] = HR_GGUF_TOKENIZER "seperator_token_id"}; /* so spelt */
  int64_t id;
  return hr__gguf_integer(hr__gguf_value(file, keys[role]), 0, &id) && id >= 0 ? id : -1;
}

bool hr__gguf_flag_of(const hr_gguf *file, const char *key, bool fallback) {
  bool flag;
  return hr__gguf_bool(hr__gguf_value(file, key), 0, &flag) ? flag : fallback;
}

hr_gguf_text hr__gguf_token(const hr_gguf_vocabulary *v, size_t id) {
  return v->tokens->texts[id];
}

hr_gguf_token_type hr__gguf_token_type(const hr_gguf_vocabulary *v, size_t id) {
  int64_t type = HR_GGUF_TOKEN_NORMAL;
  hr__gguf_integer(v->types, id, &type);
  return (hr_gguf_token_type)type;
}

hr_status hr__gguf_damaged(const char *name, const char *what, hr_error *err) {
  return hr__fail(err, HR_BAD_INPUT, name, "give data.tokenizer: a model's folder or tokenizer.json",
                  "the tokenizer of this GGUF file is damaged: %s", what);
}

hr_status hr__gguf_vocabulary(const hr_gguf *file, const char *name, hr_gguf_vocabulary *v, hr_error *err) {
  *v = (hr_gguf_vocabulary){
      hr__gguf_value(file, HR_GGUF_TOKENIZER "tokens"), hr__gguf_value(file, HR_GGUF_TOKENIZER "token_type"),
      hr__gguf_value(file, HR_GGUF_TOKENIZER "scores"), hr__gguf_value(file, HR_GGUF_TOKENIZER "merges"), 0};
  if (!v->tokens || !v->tokens->texts || v->tokens->kind != HR_GGUF_ARRAY)
    return hr__fail(err, HR_BAD_INPUT, name, "give data.tokenizer: a model's folder or tokenizer.json",
                    "there is no tokenizer in this GGUF file");
  v->count = v->tokens->count;
  int64_t type;
  double score;
  if ((v->types && v->types->count != v->count) || (v->scores && v->scores->count != v->count))
    return hr__gguf_damaged(name, "types or scores are not as many as tokens", err);
  for (size_t id = 0; id < v->count; id++) {
    hr_gguf_text text = hr__gguf_token(v, id);
    if (hr__utf8_check(text.text, text.bytes) != text.bytes) return hr__gguf_damaged(name, "a token is not UTF-8", err);
    if (v->types && (!hr__gguf_integer(v->types, id, &type) || type < 0 || type > HR_GGUF_TOKEN_BYTE))
      return hr__gguf_damaged(name, "a token is of no known type", err);
    if (v->scores && (!hr__gguf_real(v->scores, id, &score) || !(score > -1e30 && score < 1e30)))
      return hr__gguf_damaged(name, "a score is not finite", err);
  }
  for (size_t i = 0; v->merges && i < v->merges->count; i++) {
    hr_gguf_text text = {0};
    if (!hr__gguf_string(v->merges, i, &text) || hr__utf8_check(text.text, text.bytes) != text.bytes)
      return hr__gguf_damaged(name, "a merge is no text", err);
  }
  return HR_OK;
}
