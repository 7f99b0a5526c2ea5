#include "text/build.h"

#include <stdio.h>

#include "text/split.h"
#include "text/unicode.h"

hr_status hr__build_create(const char *file, hr_tokenizer **out, hr_error *err) {
  hr__unicode_init();
  hr_tokenizer *t = hr__alloc_zero(1, sizeof *t);
  if (!t) return hr__nomem(err);
  for (int role = 0; role < HR_TOKEN_ROLES; role++)
    t->roles[role] = -1;
  t->model = "";
  t->file = hr__arena_text(&t->arena, file);
  if (!t->file) {
    hr__tokenizer_close(t);
    return hr__nomem(err);
  }
  *out = t;
  return HR_OK;
}

hr_status hr__build_room(hr_tokenizer *t, size_t ids, size_t pieces, hr_error *err) {
  if (ids > HR_MAX_IDS) return hr__fail(err, HR_BAD_INPUT, t->file, NULL, "more than %d tokens", HR_MAX_IDS);
  t->pieces = hr__arena_array(&t->arena, ids + 1, sizeof *t->pieces);
  t->capacity = ids;
  if (!t->pieces) return hr__nomem(err);
  return hr__words_init(&t->ids, pieces + 1, &t->arena, err);
}

const char *hr__build_copy(hr_tokenizer *t, const char *text, size_t bytes) {
  char *copy = hr__arena_room(&t->arena, bytes + 1, 1);
  if (!copy) return NULL;
  if (bytes > 0) memcpy(copy, text, bytes);
  copy[bytes] = 0;
  return copy;
}

hr_status hr__build_piece(hr_tokenizer *t, int64_t id, const char *text, size_t bytes, hr_error *err) {
  if (id < 0 || (size_t)id >= t->capacity)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "id %lld is out of range", (long long)id);
  if (bytes > UINT32_MAX) return hr__nomem(err);
  if (t->pieces[id].text)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "id %lld is given twice, to '%.60s' and '%.60s'", (long long)id,
                    t->pieces[id].text, text);
  const char *copy = hr__build_copy(t, text, bytes);
  if (!copy) return hr__nomem(err);
  t->pieces[id] = (hr_piece){.text = copy, .bytes = (uint32_t)bytes};
  hr__words_add(&t->ids, copy, bytes, (int32_t)id);
  if ((size_t)id >= t->count) t->count = (size_t)id + 1;
  return HR_OK;
}

hr_status hr__build_token(hr_tokenizer *t, hr_added_token token, int32_t *id, hr_error *err) {
  int32_t found = hr__words_find(&t->ids, token.text, token.bytes);
  if (found < 0) {
    found = (int32_t)t->count;
    HR_TRY(hr__build_piece(t, found, token.text, token.bytes, err));
  }
  token.text = t->pieces[found].text;
  token.id = found;
  if (hr__arena_grow(&t->arena, (void **)&t->tokens, &t->token_capacity, t->token_count, sizeof token) != 0)
    return hr__nomem(err);
  t->tokens[t->token_count++] = token;
  if (token.special) t->pieces[found].special = true;
  *id = found;
  return HR_OK;
}

void *hr__build_relay(hr_tokenizer *t, size_t bytes,
                      hr_status (*run)(const hr_relay *, hr_encoder *, hr_span, hr_error *)) {
  hr_relay *relay = t->relay_count < HR_RELAYS ? hr__arena_alloc(&t->arena, bytes) : NULL;
  if (!relay) return NULL;
  relay->run = run;
  relay->slot = t->slot_count < HR_RELAY_SLOTS ? t->slot_count++ : HR_RELAY_SLOTS - 1;
  if (t->relay_count > 0) t->relays[t->relay_count - 1]->next = relay;
  t->relays[t->relay_count++] = relay;
  return relay;
}

hr_status hr__build_regex(hr_tokenizer *t, const char *pattern, size_t bytes, hr_dialect dialect, const hr_regex **out,
                          hr_error *err) {
  if (t->regex_count == HR_REGEXES)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "more than %d regular expressions", HR_REGEXES);
  HR_TRY(hr__regex_create(pattern, bytes, dialect, &t->regexes[t->regex_count], err));
  *out = t->regexes[t->regex_count++];
  return HR_OK;
}

hr_normalizer *hr__build_normalizer(hr_tokenizer *t, hr_error *err) {
  if (t->normalizer_count == HR_NORMALIZERS) {
    hr__fail(err, HR_BAD_INPUT, t->file, NULL, "more than %d normalizers", HR_NORMALIZERS);
    return NULL;
  }
  return &t->normalizers[t->normalizer_count++];
}

hr_decoder *hr__build_decoder(hr_tokenizer *t, hr_error *err) {
  if (t->decoder_count == HR_DECODERS) {
    hr__fail(err, HR_BAD_INPUT, t->file, NULL, "more than %d decoders", HR_DECODERS);
    return NULL;
  }
  return &t->decoders[t->decoder_count++];
}

hr_status hr__build_split(hr_tokenizer *t, const char *pattern, size_t bytes, hr_dialect dialect, hr_error *err) {
  hr_split *split = hr__build_relay(t, sizeof *split, hr__split_run);
  if (!split) return hr__nomem(err);
  split->way = HR_SPLIT_ISOLATED;
  const hr_known_pattern *known = hr__known_find(pattern, bytes);
  if (known) {
    split->known = known->next;
    return HR_OK;
  }
  return hr__build_regex(t, pattern, bytes, dialect, &split->regex, err);
}

/* The tokens that are looked for in raw or in normalized text. */
static hr_status found_build(hr_tokenizer *t, bool normalized, hr_regex_room *room, hr_added *out, hr_error *err) {
  hr_trie_key *keys = hr__arena_array(&t->arena, t->token_count + 1, sizeof *keys);
  if (!keys) return hr__nomem(err);
  size_t count = 0;
  hr_string buffers[2] = {{0}, {0}};
  hr_status status = HR_OK;
  for (size_t i = 0; i < t->token_count && status == HR_OK; i++) {
    const hr_added_token *token = &t->tokens[i];
    if (token->normalized != normalized) continue;
    const char *text = token->text;
    size_t bytes = token->bytes;
    if (normalized) status = hr__normalize(t->normalizers, t->normalizer_count, room, buffers, &text, &bytes, err);
    const char *kept = status == HR_OK ? hr__build_copy(t, text, bytes) : NULL;
    if (status == HR_OK && !kept) status = hr__nomem(err);
    if (kept && normalized && bytes > 0) { /* what it is decoded to */
      t->pieces[token->id].text = kept;
      t->pieces[token->id].bytes = (uint32_t)bytes;
    }
    keys[count++] = (hr_trie_key){.text = kept, .bytes = (uint32_t)bytes, .value = (int32_t)i};
  }
  hr__string_fini(&buffers[0]);
  hr__string_fini(&buffers[1]);
  return status == HR_OK ? hr__added_build(out, t->tokens, keys, count, &t->arena, err) : status;
}

hr_status hr__build_finish(hr_tokenizer *t, hr_error *err) {
  if (t->relay_count == HR_RELAYS || t->slot_count >= HR_RELAY_SLOTS)
    return hr__fail(err, HR_BAD_INPUT, t->file, NULL, "more than %d pre-tokenizers", HR_RELAY_SLOTS - 1);
  hr_regex_room *room = NULL;
  HR_TRY(hr__regex_room_create(&room, err));
  hr_status status = found_build(t, false, room, &t->found_raw, err);
  if (status == HR_OK) status = found_build(t, true, room, &t->found_normal, err);
  hr__regex_room_destroy(room);
  return status;
}
