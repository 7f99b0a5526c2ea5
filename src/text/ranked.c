#include "text/ranked.h"

#include <stdio.h>

/* Every way to cut a token into two others is a merge that gives it. */
static hr_status cuts_note(const hr_words *words, const hr_piece *piece, int32_t id, int32_t rank, hr_string *pairs,
                           hr_error *err) {
  for (size_t cut = 1; cut < piece->bytes; cut++) {
    int32_t left = hr__words_find(words, piece->text, cut);
    int32_t right = left >= 0 ? hr__words_find(words, piece->text + cut, piece->bytes - cut) : -1;
    hr_pair pair = {left, right, rank, id};
    if (right >= 0) HR_TRY(hr__string_add(pairs, (const char *)&pair, sizeof pair, err));
  }
  return HR_OK;
}

static hr_status pairs_find(hr_tokenizer *t, hr_bpe *bpe, const int32_t *ranks, hr_string *noted, hr_error *err) {
  for (size_t i = 0; i <= bpe->words.mask; i++) {
    const hr_word *word = &bpe->words.slots[i];
    if (!word->text) continue;
    if (word->bytes > HR_RANKED_BYTES)
      return hr__fail(err, HR_BAD_INPUT, t->file, NULL, "token %d has more than %d bytes", (int)word->id,
                      HR_RANKED_BYTES);
    HR_TRY(cuts_note(&bpe->words, &t->pieces[word->id], word->id, ranks ? ranks[word->id] : word->id, noted, err));
  }
  size_t count = noted->count / sizeof(hr_pair);
  HR_TRY(hr__pairs_init(&bpe->pairs, count, &t->arena, err));
  const hr_pair *pairs = (const hr_pair *)(const void *)noted->data;
  for (size_t i = 0; i < count; i++)
    hr__pairs_add(&bpe->pairs, pairs[i].left, pairs[i].right, pairs[i].rank, pairs[i].joined);
  return HR_OK;
}

hr_status hr__build_pairs(hr_tokenizer *t, hr_bpe *bpe, const int32_t *ranks, hr_error *err) {
  hr_string noted = {0};
  hr_status status = pairs_find(t, bpe, ranks, &noted, err);
  hr__string_fini(&noted);
  return status;
}

hr_status hr__build_ranked(hr_tokenizer *t, size_t first, hr_error *err) {
  hr_bpe *bpe = hr__build_relay(t, sizeof *bpe, hr__bpe_run);
  hr_decoder *decoder = hr__build_decoder(t, err);
  if (!bpe || !decoder) return hr__nomem(err);
  decoder->run = hr__decode_raw_run;
  bpe->byte_level = bpe->whole_words = true;
  bpe->prefix = bpe->suffix = "";
  bpe->unknown = -1;
  t->cached = true;
  t->model = "byte-level BPE";
  HR_TRY(hr__words_init(&bpe->words, t->count, &t->arena, err));
  for (size_t id = first; id < t->count; id++) {
    const hr_piece *piece = &t->pieces[id];
    if (piece->text) hr__words_add(&bpe->words, piece->text, piece->bytes, (int32_t)id);
  }
  hr__bpe_symbols(bpe);
  return hr__build_pairs(t, bpe, NULL, err);
}

hr_status hr__build_special(hr_tokenizer *t, int32_t id, hr_error *err) {
  const hr_piece *piece = &t->pieces[id];
  hr_added_token token = {.text = piece->text, .bytes = piece->bytes, .special = true};
  int32_t same;
  return hr__build_token(t, token, &same, err);
}

hr_status hr__build_specials(hr_tokenizer *t, const hr_special_run *runs, size_t count, int32_t *id, hr_error *err) {
  for (size_t r = 0; r < count; r++) {
    const char *number = strstr(runs[r].name, "%d");
    int first = number ? runs[r].from : 0, last = number ? runs[r].from + runs[r].count : 1;
    for (int n = first; n < last; n++) {
      char name[96];
      if (number)
        snprintf(name, sizeof name, "%.*s%d%s", (int)(number - runs[r].name), runs[r].name, n, number + 2);
      else
        snprintf(name, sizeof name, "%s", runs[r].name);
      HR_TRY(hr__build_piece(t, *id, name, strlen(name), err));
      HR_TRY(hr__build_special(t, (*id)++, err));
    }
  }
  return HR_OK;
}
