#include "text/tokenizer.h"

#include <stdio.h>

#include "text/alphabet.h"
#include "text/bpe.h"
#include "text/build.h"

void hr__tokenizer_close(hr_tokenizer *t) {
  if (!t) return;
  for (size_t i = 0; i < t->regex_count; i++)
    hr__regex_destroy(t->regexes[i]);
  hr__ids_fini(&t->before);
  hr__ids_fini(&t->behind);
  hr__ids_fini(&t->ends);
  hr__arena_fini(&t->arena);
  hr__free(t);
}

size_t hr__tokenizer_count(const hr_tokenizer *t) {
  return t->count;
}

const char *hr__tokenizer_file(const hr_tokenizer *t) {
  return t->file;
}

const char *hr__tokenizer_model(const hr_tokenizer *t) {
  return t->model;
}

const char *hr__tokenizer_remark(const hr_tokenizer *t) {
  return t->remark;
}

const char *hr__tokenizer_piece(const hr_tokenizer *t, int64_t id, size_t *bytes) {
  if (id < 0 || (size_t)id >= t->count || !t->pieces[id].text) return NULL;
  *bytes = t->pieces[id].bytes;
  return t->pieces[id].text;
}

int32_t hr__tokenizer_find(const hr_tokenizer *t, const char *piece, size_t bytes) {
  return hr__words_find(&t->ids, piece, bytes);
}

bool hr__tokenizer_is_special(const hr_tokenizer *t, int64_t id) {
  return id >= 0 && (size_t)id < t->count && t->pieces[id].special;
}

hr_status hr__tokenizer_text(const hr_tokenizer *t, int64_t id, hr_string *out, hr_error *err) {
  size_t bytes = 0;
  const char *piece = hr__tokenizer_piece(t, id, &bytes);
  if (!piece) return HR_OK;
  bool whole = false;
  if (t->alphabet) HR_TRY(hr__alphabet_bytes(piece, bytes, out, &whole, err));
  return whole ? HR_OK : hr__string_add(out, piece, bytes, err);
}

const char *hr__token_role_name(hr_token_role role) {
  static const char *const names[HR_TOKEN_ROLES] = {
      [HR_TOKEN_BEGIN] = "bos_token",    [HR_TOKEN_END] = "eos_token",   [HR_TOKEN_UNKNOWN] = "unk_token",
      [HR_TOKEN_PAD] = "pad_token",      [HR_TOKEN_MASK] = "mask_token", [HR_TOKEN_CLASS] = "cls_token",
      [HR_TOKEN_SEPARATOR] = "sep_token"};
  return names[role];
}

int32_t hr__tokenizer_role(const hr_tokenizer *t, hr_token_role role) {
  return t->roles[role];
}

const int32_t *hr__tokenizer_ends(const hr_tokenizer *t, size_t *count) {
  *count = t->ends.count;
  return t->ends.items;
}

hr_status hr__encoder_create(const hr_tokenizer *t, hr_encoder **out, hr_error *err) {
  hr_encoder *encoder = hr__alloc_zero(1, sizeof *encoder);
  if (!encoder) return hr__nomem(err);
  encoder->tokenizer = t;
  hr_status status = t->regex_count > 0 ? hr__regex_room_create(&encoder->room, err) : HR_OK;
  if (status == HR_OK && t->cached && !(encoder->cache = hr__cache_create())) status = hr__nomem(err);
  if (status == HR_OK)
    *out = encoder;
  else
    hr__encoder_destroy(encoder);
  return status;
}

uint64_t hr__encoder_bytes(const hr_encoder *encoder) {
  uint64_t bytes = encoder->normal[0].capacity + encoder->normal[1].capacity;
  for (size_t i = 0; i < HR_RELAY_SLOTS; i++)
    bytes += encoder->slots[i].capacity;
  for (size_t i = 0; i < HR_MODEL_BUFFERS; i++)
    bytes += encoder->model[i].capacity;
  return bytes;
}

void hr__encoder_destroy(hr_encoder *encoder) {
  if (!encoder) return;
  for (size_t i = 0; i < HR_RELAY_SLOTS; i++)
    hr__string_fini(&encoder->slots[i]);
  for (size_t i = 0; i < HR_MODEL_BUFFERS; i++)
    hr__string_fini(&encoder->model[i]);
  hr__string_fini(&encoder->normal[0]);
  hr__string_fini(&encoder->normal[1]);
  hr__regex_room_destroy(encoder->room);
  hr__cache_destroy(encoder->cache);
  hr__free(encoder);
}
