/* Merges out of scores: see gguf_vocabulary.h. */
#include "base/sort.h"
#include "text/gguf_vocabulary.h"
#include "text/words.h"

enum { LONGEST = 1024 }; /* bytes of a piece: every cut of it is tried */

typedef struct cut {
  float score; /* of the whole */
  int32_t left, right;
} cut;

typedef struct cuts {
  cut *items;
  size_t count, capacity;
} cuts;

/* What a piece may be made of: bytes of unknown characters are no parts. */
static bool is_part(const hr_gguf_vocabulary *v, size_t id) {
  hr_gguf_token_type type = hr__gguf_token_type(v, id);
  return (type == HR_GGUF_TOKEN_NORMAL || type == HR_GGUF_TOKEN_USER) && hr__gguf_token(v, id).bytes > 0;
}

static hr_status cut_add(cuts *all, cut one, hr_error *err) {
  if (all->count == all->capacity) {
    size_t capacity = all->capacity ? 2 * all->capacity : 4096;
    cut *items = hr__realloc(all->items, capacity * sizeof *items);
    if (!items) return hr__nomem(err);
    all->items = items;
    all->capacity = capacity;
  }
  all->items[all->count++] = one;
  return HR_OK;
}

/* Of one piece they go by the ids of both parts. */
static void cuts_order(cut *items, size_t count) {
  for (size_t i = 1; i < count; i++)
    for (size_t k = i; k > 0; k--) {
      bool later = items[k - 1].left > items[k].left ||
                   (items[k - 1].left == items[k].left && items[k - 1].right > items[k].right);
      if (!later) break;
      cut swap = items[k];
      items[k] = items[k - 1];
      items[k - 1] = swap;
    }
}

static hr_status piece_cut(const hr_gguf_vocabulary *v, const hr_words *words, const char *name, size_t id, cuts *all,
                           hr_error *err) {
  hr_gguf_text text = hr__gguf_token(v, id);
  size_t first = all->count;
  double score = 0;
  if (text.bytes > LONGEST)
    return hr__fail(err, HR_BAD_INPUT, name, NULL, "a token of the GGUF file has %zu bytes, at most %d are read",
                    text.bytes, LONGEST);
  hr__gguf_real(v->scores, id, &score);
  for (size_t at = 1; at < text.bytes; at++) {
    if (((unsigned char)text.text[at] & 0xc0) == 0x80) continue; /* inside of a character */
    int32_t left = hr__words_find(words, text.text, at);
    int32_t right = left < 0 ? -1 : hr__words_find(words, text.text + at, text.bytes - at);
    if (right >= 0) HR_TRY(cut_add(all, (cut){(float)score, left, right}, err));
  }
  if (all->count > first) cuts_order(all->items + first, all->count - first);
  return HR_OK;
}

static int by_score(const void *a, const void *b) {
  float x = ((const cut *)a)->score, y = ((const cut *)b)->score;
  return x > y ? -1 : x < y;
}

static hr_status cuts_write(const hr_gguf_vocabulary *v, const cuts *all, hr_string *out, hr_error *err) {
  const void **order = hr__alloc_zero(2 * all->count + 1, sizeof *order);
  hr_status status = order ? HR_OK : hr__nomem(err);
  for (size_t i = 0; order && i < all->count; i++)
    order[i] = &all->items[i];
  if (order) hr__sort(order, all->count, order + all->count, by_score);
  for (size_t i = 0; i < all->count && status == HR_OK; i++) {
    const cut *c = order[i];
    hr_gguf_text left = hr__gguf_token(v, (size_t)c->left), right = hr__gguf_token(v, (size_t)c->right);
    status = hr__json_put(out, i ? ",\n[" : "\n[", err);
    if (status == HR_OK) status = hr__json_quote(out, left.text, left.bytes, err);
    if (status == HR_OK) status = hr__json_put(out, ",", err);
    if (status == HR_OK) status = hr__json_quote(out, right.text, right.bytes, err);
    if (status == HR_OK) status = hr__json_put(out, "]", err);
  }
  hr__free(order);
  return status;
}

hr_status hr__gguf_merges(const hr_gguf_vocabulary *v, const char *name, hr_string *out, hr_error *err) {
  hr_arena arena = {0};
  hr_words words;
  cuts all = {0};
  hr_status status = hr__words_init(&words, v->count + 1, &arena, err);
  for (size_t id = 0; id < v->count && status == HR_OK; id++)
    if (is_part(v, id)) hr__words_add(&words, hr__gguf_token(v, id).text, hr__gguf_token(v, id).bytes, (int32_t)id);
  for (size_t id = 0; id < v->count && status == HR_OK; id++)
    if (is_part(v, id)) status = piece_cut(v, &words, name, id, &all, err);
  if (status == HR_OK) status = cuts_write(v, &all, out, err);
  hr__free(all.items);
  hr__arena_fini(&arena);
  return status;
}
