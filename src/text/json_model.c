/* "model" of tokenizer.json: the vocabulary, and what turns words into ids. */
#include <math.h>
#include <stdio.h>

#include "text/alphabet.h"
#include "text/bpe.h"
#include "text/json_items.h"
#include "text/unigram.h"
#include "text/wordpiece.h"

/* A vocabulary that is a map of pieces to ids. */
static hr_status map_read(hr_tokenizer *t, const hr_item *vocab, size_t added, hr_error *err) {
  HR_TRY(hr__item_object(vocab, err));
  int64_t most = -1;
  for (void *at = json_object_iter(vocab->value); at; at = json_object_iter_next(vocab->value, at)) {
    json_t *id = json_object_iter_value(at);
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= HR_MAX_IDS)
      return hr__item_fail(vocab, err, NULL, "the id of token '%.60s' is no whole number from 0 to %d",
                           json_object_iter_key(at), HR_MAX_IDS - 1);
    if (json_integer_value(id) > most) most = json_integer_value(id);
  }
  HR_TRY(hr__build_room(t, (size_t)(most + 1) + added, json_object_size(vocab->value) + added, err));
  for (void *at = json_object_iter(vocab->value); at; at = json_object_iter_next(vocab->value, at)) {
    const char *piece = json_object_iter_key(at);
    hr_status status = hr__build_piece(t, json_integer_value(json_object_iter_value(at)), piece, strlen(piece), err);
    HR_TRY(hr__item_placed(vocab, status, err));
  }
  return HR_OK;
}

/* One that is a list of pieces with scores. */
static hr_status list_read(hr_tokenizer *t, const hr_item *vocab, size_t added, hr_error *err) {
  size_t count = hr__item_count(vocab);
  HR_TRY(hr__build_room(t, count + added, count + added, err));
  for (size_t i = 0; i < count; i++) {
    hr_item pair = hr__item_at(vocab, i), piece = hr__item_at(&pair, 0);
    const char *text = NULL;
    size_t bytes = 0;
    if (hr__item_count(&pair) != 2) return hr__item_fail(&pair, err, NULL, "a token is [piece, score]");
    HR_TRY(hr__item_text(&piece, false, &text, &bytes, err));
    HR_TRY(hr__item_placed(&pair, hr__build_piece(t, (int64_t)i, text, bytes, err), err));
  }
  return HR_OK;
}

hr_status hr__json_vocabulary(hr_tokenizer *t, const hr_item *model, size_t added, hr_error *err) {
  HR_TRY(hr__item_object(model, err));
  hr_item vocab = hr__item_get(model, "vocab");
  return json_is_array(vocab.value) ? list_read(t, &vocab, added, err) : map_read(t, &vocab, added, err);
}

/* The id of a token that is named; -1 where none is. */
static hr_status named_read(const hr_tokenizer *t, const hr_item *model, const char *key, int32_t *id, hr_error *err) {
  hr_item name = hr__item_get(model, key);
  const char *text = NULL;
  size_t bytes = 0;
  HR_TRY(hr__item_text(&name, true, &text, &bytes, err));
  *id = text ? hr__words_find(&t->ids, text, bytes) : -1;
  if (text && *id < 0) return hr__item_fail(&name, err, NULL, "'%.60s' is not in the vocabulary", text);
  return HR_OK;
}

/* The words of a BPE model are its pieces, as raw bytes where they are written in the alphabet. */
static hr_status words_read(hr_tokenizer *t, hr_bpe *bpe, hr_error *err) {
  HR_TRY(hr__words_init(&bpe->words, t->count, &t->arena, err));
  hr_string raw = {0};
  for (size_t id = 0; id < t->count; id++) {
    const hr_piece *piece = &t->pieces[id];
    if (!piece->text) continue;
    const char *text = piece->text;
    size_t bytes = piece->bytes;
    if (t->alphabet) {
      bool whole = false;
      raw.count = 0;
      hr_status status = hr__alphabet_bytes(text, bytes, &raw, &whole, err);
      text = status == HR_OK && whole ? hr__build_copy(t, raw.data, raw.count) : NULL;
      bytes = raw.count;
      if (status != HR_OK || (whole && !text)) {
        hr__string_fini(&raw);
        return status != HR_OK ? status : hr__nomem(err);
      }
    }
    if (text) hr__words_add(&bpe->words, text, bytes, (int32_t)id);
  }
  hr__string_fini(&raw);
  return HR_OK;
}

/* Both sides of a merge: "a b" or ["a", "b"]. */
static hr_status sides_read(const hr_item *merge, const char *side[2], size_t bytes[2], hr_error *err) {
  if (hr__item_count(merge) == 2) {
    for (size_t i = 0; i < 2; i++) {
      hr_item one = hr__item_at(merge, i);
      HR_TRY(hr__item_text(&one, false, &side[i], &bytes[i], err));
    }
    return HR_OK;
  }
  const char *text = NULL;
  size_t length = 0;
  HR_TRY(hr__item_text(merge, false, &text, &length, err));
  const char *space = memchr(text, ' ', length);
  if (!space) return hr__item_fail(merge, err, NULL, "a merge is two tokens with a space between");
  side[0] = text;
  bytes[0] = (size_t)(space - text);
  side[1] = space + 1;
  bytes[1] = length - bytes[0] - 1;
  return HR_OK;
}

static hr_status merges_read(hr_tokenizer *t, hr_bpe *bpe, const hr_item *merges, hr_error *err) {
  HR_TRY(hr__item_list(merges, err));
  size_t count = hr__item_count(merges);
  HR_TRY(hr__pairs_init(&bpe->pairs, count, &t->arena, err));
  hr_string joined = {0};
  hr_status status = HR_OK;
  for (size_t i = 0; i < count && status == HR_OK; i++) {
    hr_item merge = hr__item_at(merges, i);
    const char *side[2] = {"", ""};
    size_t bytes[2] = {0, 0};
    status = sides_read(&merge, side, bytes, err);
    if (status != HR_OK) break;
    size_t skipped = bytes[1] >= bpe->prefix_bytes ? bpe->prefix_bytes : 0;
    joined.count = 0;
    status = hr__string_add(&joined, side[0], bytes[0], err);
    if (status == HR_OK) status = hr__string_add(&joined, side[1] + skipped, bytes[1] - skipped, err);
    if (status != HR_OK) break;
    int32_t left = hr__words_find(&t->ids, side[0], bytes[0]), right = hr__words_find(&t->ids, side[1], bytes[1]),
            result = hr__words_find(&t->ids, joined.data, joined.count);
    if (left < 0 || right < 0 || result < 0)
      status =
          hr__item_fail(&merge, err, NULL, "the merge of '%.40s' and '%.40s' is of a token that the vocabulary lacks",
                        side[0], side[1]);
    else
      hr__pairs_add(&bpe->pairs, left, right, (int32_t)i, result);
  }
  hr__string_fini(&joined);
  return status;
}

static hr_status bpe_read(hr_tokenizer *t, const hr_item *model, hr_error *err) {
  hr_bpe *bpe = hr__build_relay(t, sizeof *bpe, hr__bpe_run);
  if (!bpe) return hr__nomem(err);
  hr_item merges = hr__item_get(model, "merges"), dropout = hr__item_get(model, "dropout"),
          prefix = hr__item_get(model, "continuing_subword_prefix"), suffix = hr__item_get(model, "end_of_word_suffix"),
          fallback = hr__item_get(model, "byte_fallback"), fuse = hr__item_get(model, "fuse_unk"),
          ignore = hr__item_get(model, "ignore_merges");
  if (dropout.value && json_number_value(dropout.value) != 0)
    return hr__item_fail(&dropout, err, "set it to null", "dropout of merges is not supported");
  bpe->byte_level = t->alphabet;
  bpe->prefix = bpe->suffix = "";
  t->cached = true;
  HR_TRY(hr__item_copy(t, &prefix, true, &bpe->prefix, &bpe->prefix_bytes, err));
  HR_TRY(hr__item_copy(t, &suffix, true, &bpe->suffix, &bpe->suffix_bytes, err));
  if (bpe->prefix_bytes > 32 || bpe->suffix_bytes > 32)
    return hr__item_fail(model, err, NULL, "a prefix or suffix of more than 32 bytes");
  HR_TRY(hr__item_bool(&fallback, true, &bpe->byte_fallback, err));
  HR_TRY(hr__item_bool(&fuse, true, &bpe->fuse_unknown, err));
  HR_TRY(hr__item_bool(&ignore, true, &bpe->whole_words, err));
  HR_TRY(named_read(t, model, "unk_token", &bpe->unknown, err));
  HR_TRY(words_read(t, bpe, err));
  HR_TRY(merges_read(t, bpe, &merges, err));
  hr__bpe_symbols(bpe);
  hr__build_fallback(t, bpe->fallback);
  hr__bpe_word_sign(bpe, "\xe2\x96\x81", 3);
  t->model = t->alphabet ? "byte-level BPE" : bpe->byte_fallback ? "BPE with byte fallback" : "BPE";
  return HR_OK;
}

static hr_status wordpiece_read(hr_tokenizer *t, const hr_item *model, hr_error *err) {
  const char *prefix = "##";
  size_t prefix_bytes = 2;
  int64_t most = 100;
  int32_t unknown;
  hr_item sign = hr__item_get(model, "continuing_subword_prefix"),
          chars = hr__item_get(model, "max_input_chars_per_word");
  HR_TRY(hr__item_copy(t, &sign, true, &prefix, &prefix_bytes, err));
  HR_TRY(hr__item_int(&chars, true, 0, INT32_MAX, &most, err));
  HR_TRY(named_read(t, model, "unk_token", &unknown, err));
  if (unknown < 0) return hr__item_fail(model, err, NULL, "'unk_token' is missing");
  return hr__build_wordpiece(t, prefix, prefix_bytes, (size_t)most, unknown, err);
}

static hr_status wordlevel_read(hr_tokenizer *t, const hr_item *model, hr_error *err) {
  hr_wordlevel *w = hr__build_relay(t, sizeof *w, hr__wordlevel_run);
  if (!w) return hr__nomem(err);
  HR_TRY(hr__words_init(&w->words, t->count, &t->arena, err)); /* without added tokens, which come later */
  for (size_t id = 0; id < t->count; id++)
    if (t->pieces[id].text) hr__words_add(&w->words, t->pieces[id].text, t->pieces[id].bytes, (int32_t)id);
  t->model = "WordLevel";
  return named_read(t, model, "unk_token", &w->unknown, err);
}

static hr_status unigram_read(hr_tokenizer *t, const hr_item *model, hr_error *err) {
  hr_item vocab = hr__item_get(model, "vocab"), unk = hr__item_get(model, "unk_id"),
          fallback = hr__item_get(model, "byte_fallback");
  HR_TRY(hr__item_list(&vocab, err));
  size_t count = hr__item_count(&vocab);
  double *scores = hr__arena_array(&t->arena, count + 1, sizeof *scores);
  if (!scores) return hr__nomem(err);
  for (size_t i = 0; i < count; i++) {
    hr_item pair = hr__item_at(&vocab, i), score = hr__item_at(&pair, 1);
    if (!json_is_number(score.value)) return hr__item_fail(&score, err, NULL, "a score is a number");
    scores[i] = json_number_value(score.value);
  }
  int64_t unknown = -1;
  bool bytes = false;
  if (count == 0) return hr__item_fail(&vocab, err, NULL, "the vocabulary is empty");
  HR_TRY(hr__item_int(&unk, true, 0, (int64_t)count - 1, &unknown, err));
  HR_TRY(hr__item_bool(&fallback, true, &bytes, err));
  return hr__build_unigram(t, scores, count, (int32_t)unknown, bytes, err);
}

static const hr_item_kind kinds[] = {
    {"BPE", bpe_read}, {"WordPiece", wordpiece_read}, {"WordLevel", wordlevel_read}, {"Unigram", unigram_read}};

hr_status hr__json_model(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  hr_item type = hr__item_get(item, "type");
  if (!type.value) { /* files of old libraries: the keys tell */
    hr_item merges = hr__item_get(item, "merges"), vocab = hr__item_get(item, "vocab"),
            chars = hr__item_get(item, "max_input_chars_per_word");
    if (merges.value) return bpe_read(t, item, err);
    if (json_is_array(vocab.value)) return unigram_read(t, item, err);
    return chars.value ? wordpiece_read(t, item, err) : wordlevel_read(t, item, err);
  }
  return hr__item_dispatch(t, item, kinds, sizeof kinds / sizeof *kinds, "model", err);
}
