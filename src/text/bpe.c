#include "text/bpe.h"

#include "text/merge.h"
#include "text/unicode.h"

/* A word that was met, and its ids: one line of the processor's cache. */
enum { CACHE_KEY = 30, CACHE_IDS = 8, CACHE_LINES = 1 << 15 };
struct hr_cache_line {
  uint8_t bytes, count; /* bytes 0: free */
  char key[CACHE_KEY];
  int32_t ids[CACHE_IDS];
};
_Static_assert(sizeof(hr_cache_line) == 64, "a line of the cache");

hr_cache_line *hr__cache_create(void) {
  return hr__alloc_zero(CACHE_LINES, sizeof(hr_cache_line));
}

void hr__cache_destroy(hr_cache_line *cache) {
  hr__free(cache);
}

/* Symbols of a word while they are found. */
typedef struct symbols {
  const hr_bpe *bpe;
  int32_t *ids; /* behind those of the encoder: room for every byte of the word and one more */
  size_t count;
  bool pending; /* an unknown token that is written when the next known symbol comes */
} symbols;

static void symbol_add(symbols *s, int32_t id) {
  s->ids[s->count++] = id;
}

static void symbol_known(symbols *s, int32_t id) {
  if (s->pending) symbol_add(s, s->bpe->unknown);
  s->pending = false;
  symbol_add(s, id);
}

static void symbol_unknown(symbols *s, const char *at, size_t length) {
  const hr_bpe *bpe = s->bpe;
  bool all = bpe->byte_fallback;
  for (size_t i = 0; i < length && all; i++)
    all = bpe->fallback[(unsigned char)at[i]] >= 0;
  if (all) {
    for (size_t i = 0; i < length; i++)
      symbol_add(s, bpe->fallback[(unsigned char)at[i]]);
    return;
  }
  if (bpe->unknown < 0) return;
  if (s->pending && !bpe->fuse_unknown) symbol_add(s, bpe->unknown);
  s->pending = true;
}

/* A symbol with what the model writes before or behind it. */
static int32_t affixed_find(const hr_bpe *bpe, const char *at, size_t length, bool first, bool last) {
  char text[4 + 64];
  size_t bytes = 0;
  if (!first) {
    memcpy(text, bpe->prefix, bpe->prefix_bytes);
    bytes = bpe->prefix_bytes;
  }
  memcpy(text + bytes, at, length);
  bytes += length;
  if (last) {
    memcpy(text + bytes, bpe->suffix, bpe->suffix_bytes);
    bytes += bpe->suffix_bytes;
  }
  return hr__words_find(&bpe->words, text, bytes);
}

static void symbols_find(symbols *s, const char *text, size_t bytes) {
  const hr_bpe *bpe = s->bpe;
  bool affixes = bpe->prefix_bytes + bpe->suffix_bytes > 0;
  for (size_t i = 0, length; i < bytes; i += length) {
    length = bpe->byte_level ? 1 : hr__utf8_length((unsigned char)text[i]);
    int32_t id = affixes       ? affixed_find(bpe, text + i, length, i == 0, i + length == bytes)
                 : length == 1 ? bpe->symbols[(unsigned char)text[i]]
                               : hr__words_find(&bpe->words, text + i, length);
    if (id >= 0)
      symbol_known(s, id);
    else
      symbol_unknown(s, text + i, length);
  }
  if (s->pending) symbol_add(s, bpe->unknown);
}

/* A word that is not in the cache. */
static hr_status word_encode(const hr_bpe *bpe, hr_encoder *encoder, const char *text, size_t bytes, hr_error *err) {
  hr_ids *out = encoder->ids;
  if (bpe->whole_words) {
    int32_t id = hr__words_find(&bpe->words, text, bytes);
    if (id >= 0) return hr__ids_add(out, id, err);
  }
  if (out->capacity - out->count <= bytes) HR_TRY(hr__ids_room(out, bytes + 1, err));
  symbols s = {.bpe = bpe, .ids = out->items + out->count};
  symbols_find(&s, text, bytes);
  HR_TRY(hr__merge(&bpe->pairs, s.ids, &s.count, &encoder->model[0], err));
  out->count += s.count;
  return HR_OK;
}

static inline bool key_is(const hr_cache_line *line, const char *text, size_t bytes) {
  if (line->bytes != bytes) return false;
  uint64_t a, b;
  if (bytes >= 8) {
    for (size_t i = 0; i + 8 < bytes; i += 8) {
      memcpy(&a, line->key + i, 8);
      memcpy(&b, text + i, 8);
      if (a != b) return false;
    }
    memcpy(&a, line->key + bytes - 8, 8);
    memcpy(&b, text + bytes - 8, 8);
    return a == b;
  }
  if (bytes >= 4) {
    uint32_t c, d, e, f;
    memcpy(&c, line->key, 4);
    memcpy(&d, text, 4);
    memcpy(&e, line->key + bytes - 4, 4);
    memcpy(&f, text + bytes - 4, 4);
    return c == d && e == f;
  }
  return line->key[0] == text[0] && line->key[bytes / 2] == text[bytes / 2] && line->key[bytes - 1] == text[bytes - 1];
}

static hr_status word_run(const hr_bpe *bpe, hr_encoder *encoder, const char *text, size_t bytes, hr_error *err) {
  if (bytes > CACHE_KEY) return word_encode(bpe, encoder, text, bytes, err);
  hr_cache_line *line = &encoder->cache[hr__word_hash(text, bytes) & (CACHE_LINES - 1)];
  hr_ids *out = encoder->ids;
  if (key_is(line, text, bytes)) {
    if (out->capacity - out->count < CACHE_IDS) HR_TRY(hr__ids_room(out, CACHE_IDS, err));
    memcpy(out->items + out->count, line->ids, sizeof line->ids); /* all of them: no branch on how many there are */
    out->count += line->count;
    return HR_OK;
  }
  size_t began = out->count;
  HR_TRY(word_encode(bpe, encoder, text, bytes, err));
  size_t count = out->count - began;
  if (count > CACHE_IDS) return HR_OK;
  line->bytes = (uint8_t)bytes;
  line->count = (uint8_t)count;
  memcpy(line->key, text, bytes);
  if (count > 0) memcpy(line->ids, out->items + began, count * sizeof *line->ids);
  return HR_OK;
}

hr_status hr__bpe_run(const hr_relay *relay, hr_encoder *encoder, hr_span span, hr_error *err) {
  const hr_bpe *bpe = (const hr_bpe *)relay;
  if (!bpe->word_sign) return word_run(bpe, encoder, span.text, span.bytes, err);
  const char *text = span.text, *end = span.text + span.bytes, *sign = bpe->word_sign;
  size_t length = bpe->word_sign_bytes;
  while (text < end) { /* signs, then what is none, up to the next sign */
    const char *at = text;
    while ((size_t)(end - at) >= length && memcmp(at, sign, length) == 0)
      at += length;
    const char *next = at < end ? memmem(at, (size_t)(end - at), sign, length) : NULL;
    if (!next) next = end;
    HR_TRY(word_run(bpe, encoder, text, (size_t)(next - text), err));
    text = next;
  }
  return HR_OK;
}

void hr__bpe_symbols(hr_bpe *bpe) {
  for (int b = 0; b < 256; b++) {
    char byte = (char)b;
    bpe->symbols[b] = bpe->byte_level || b < 0x80 ? hr__words_find(&bpe->words, &byte, 1) : -1;
    bpe->fallback[b] = -1;
  }
}

void hr__bpe_word_sign(hr_bpe *bpe, const char *sign, size_t bytes) {
  if (bpe->byte_level || bpe->prefix_bytes + bpe->suffix_bytes > 0 || bpe->whole_words) return;
  if (hr__words_find(&bpe->words, sign, bytes) < 0) return;
  for (size_t i = 0; i <= bpe->words.mask; i++) {
    const hr_word *word = &bpe->words.slots[i];
    if (!word->text) continue;
    const char *at = word->text, *end = word->text + word->bytes;
    while ((size_t)(end - at) >= bytes && memcmp(at, sign, bytes) == 0)
      at += bytes;
    if (at < end && memmem(at, (size_t)(end - at), sign, bytes)) return; /* it goes on across a sign */
  }
  bpe->word_sign = sign;
  bpe->word_sign_bytes = bytes;
}
