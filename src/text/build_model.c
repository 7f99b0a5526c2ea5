/* Models that are made of nothing but pieces: WordPiece, Unigram. */
#include <stdio.h>

#include "text/build.h"
#include "text/unigram.h"
#include "text/wordpiece.h"

hr_status hr__build_wordpiece(hr_tokenizer *t, const char *prefix, size_t prefix_bytes, size_t most_chars,
                              int32_t unknown, hr_error *err) {
  hr_wordpiece *w = hr__build_relay(t, sizeof *w, hr__wordpiece_run);
  hr_trie_key *first = hr__arena_array(&t->arena, t->count + 1, sizeof *first),
              *further = hr__arena_array(&t->arena, t->count + 1, sizeof *further);
  if (!w || !first || !further) return hr__nomem(err);
  w->most_chars = most_chars;
  w->unknown = unknown;
  size_t firsts = 0, furthers = 0;
  for (size_t id = 0; id < t->count; id++) {
    const hr_piece *piece = &t->pieces[id];
    if (!piece->text || piece->bytes == 0) continue;
    first[firsts++] = (hr_trie_key){piece->text, piece->bytes, (int32_t)id};
    if (piece->bytes > prefix_bytes && memcmp(piece->text, prefix, prefix_bytes) == 0)
      further[furthers++] =
          (hr_trie_key){piece->text + prefix_bytes, piece->bytes - (uint32_t)prefix_bytes, (int32_t)id};
  }
  t->model = "WordPiece";
  HR_TRY(hr__trie_build(&w->first, first, firsts, &t->arena, err));
  return hr__trie_build(&w->further, further, furthers, &t->arena, err);
}

bool hr__build_fallback(const hr_tokenizer *t, int32_t out[256]) {
  bool all = true;
  for (unsigned b = 0; b < 256; b++) {
    char name[8];
    snprintf(name, sizeof name, "<0x%02X>", b);
    out[b] = hr__words_find(&t->ids, name, 6);
    all = all && out[b] >= 0;
  }
  return all;
}

hr_status hr__build_unigram(hr_tokenizer *t, const double *scores, size_t count, int32_t unknown, bool byte_fallback,
                            hr_error *err) {
  hr_unigram *u = hr__build_relay(t, sizeof *u, hr__unigram_run);
  hr_trie_key *keys = hr__arena_array(&t->arena, count + 1, sizeof *keys);
  if (!u || !keys) return hr__nomem(err);
  double least = 0;
  size_t kept = 0;
  for (size_t id = 0; id < count; id++) {
    if (id == 0 || scores[id] < least) least = scores[id];
    const hr_piece *piece = &t->pieces[id];
    if (piece->text && piece->bytes > 0) keys[kept++] = (hr_trie_key){piece->text, piece->bytes, (int32_t)id};
  }
  u->scores = scores;
  u->unknown = unknown;
  u->unknown_score = least - 10;
  u->byte_fallback = hr__build_fallback(t, u->fallback) && byte_fallback;
  t->model = "Unigram";
  return hr__trie_build(&u->trie, keys, kept, &t->arena, err);
}
