#include "text/unigram.h"

#include "text/unicode.h"

/* The best way to a place in the text: its sum, and the piece that ends there. */
typedef struct way {
  double sum;
  uint32_t begin; /* of that piece; NOWHERE: no way leads here */
  int32_t id;     /* -1: unknown */
} way;

enum { NOWHERE = UINT32_MAX };

/* Of equal ways the first stays. */
static void offer(const hr_unigram *u, way *to, double sum, size_t begin, int32_t id) {
  if (u->single) sum = (double)(float)sum;
  if (to->begin != NOWHERE && !(sum > to->sum)) return;
  *to = (way){sum, (uint32_t)begin, id};
}

/* All ways on from `at`. */
static void ways_extend(const hr_unigram *u, way *ways, hr_span span, size_t at) {
  double here = ways[at].sum;
  size_t first = hr__utf8_length((unsigned char)span.text[at]);
  bool covered = false; /* the character is a piece by itself */
  uint32_t node = 0;
  for (size_t i = at; i < span.bytes && (node = hr__trie_step(&u->trie, node, (unsigned char)span.text[i])) != 0; i++) {
    int32_t id = u->trie.nodes[node].value;
    if (id < 0) continue;
    offer(u, &ways[i + 1], here + u->scores[id], at, id);
    covered = covered || i + 1 == at + first;
  }
  if (!covered) offer(u, &ways[at + first], here + u->unknown_score, at, -1);
}

static hr_status unknown_add(const hr_unigram *u, hr_encoder *encoder, const char *text, size_t bytes, hr_error *err) {
  if (u->byte_fallback) {
    for (size_t i = 0; i < bytes; i++)
      HR_TRY(hr__ids_add(encoder->ids, u->fallback[(unsigned char)text[i]], err));
    return HR_OK;
  }
  if (u->unknown >= 0) return hr__ids_add(encoder->ids, u->unknown, err);
  return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "the tokenizer has no token for '%.*s' and none for unknown text",
                  (int)(bytes < 60 ? bytes : 60), text);
}

hr_status hr__unigram_run(const hr_relay *relay, hr_encoder *encoder, hr_span span, hr_error *err) {
  const hr_unigram *u = (const hr_unigram *)relay;
  if (span.bytes >= NOWHERE / 2) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "a text of more than 2 GiB");
  hr_string *table = &encoder->model[0], *found = &encoder->model[1];
  table->count = found->count = 0;
  HR_TRY(hr__string_room(table, (span.bytes + 1) * sizeof(way), err));
  way *ways = (way *)(void *)table->data;
  for (size_t i = 0; i <= span.bytes; i++)
    ways[i] = (way){0, NOWHERE, -1};
  ways[0].begin = 0;
  for (size_t at = 0; at < span.bytes; at += hr__utf8_length((unsigned char)span.text[at]))
    ways_extend(u, ways, span, at);

  /* Back from the end: where pieces end, in reverse order; neighbours that are unknown are one. */
  HR_TRY(hr__string_room(found, (span.bytes + 1) * sizeof(uint32_t), err));
  uint32_t *ends = (uint32_t *)(void *)found->data;
  size_t count = 0;
  for (size_t at = span.bytes; at > 0; at = ways[at].begin) {
    bool joins = count > 0 && ways[at].id < 0 && ways[ends[count - 1]].id < 0;
    if (joins)
      ways[ends[count - 1]].begin = ways[at].begin;
    else
      ends[count++] = (uint32_t)at;
  }
  for (size_t i = count; i-- > 0;) {
    const way *w = &ways[ends[i]];
    if (w->id >= 0)
      HR_TRY(hr__ids_add(encoder->ids, w->id, err));
    else
      HR_TRY(unknown_add(u, encoder, span.text + w->begin, ends[i] - w->begin, err));
  }
  return HR_OK;
}
