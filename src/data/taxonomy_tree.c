/* Trees of a taxonomy. See taxonomy.h. */
#include <string.h>

#include "base/sort.h"
#include "data/row_text.h"
#include "data/taxonomy.h"

/* Order of two texts of given lengths, as bytes. */
static int text_compare(const char *a, size_t a_bytes, const char *b, size_t b_bytes) {
  int order = memcmp(a, b, a_bytes < b_bytes ? a_bytes : b_bytes);
  return order != 0 ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

static int code_compare(const void *a, const void *b) {
  const hr_code *x = a, *y = b;
  return text_compare(x->text, strlen(x->text), y->text, strlen(y->text));
}

int32_t hr__taxonomy_find(const hr_taxonomy *t, const char *code, size_t bytes) {
  size_t low = 0, high = t->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const char *text = t->codes[t->order[middle]].text;
    int order = text_compare(text, strlen(text), code, bytes);
    if (order == 0) return t->order[middle];
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return -1;
}

static hr_status code_fail(const hr_taxonomy *t, const hr_code *code, const char *remedy, hr_error *err,
                           const char *message) {
  char place[HR_ROW_PLACE];
  size_t file = 0;
  for (size_t i = 0; i < t->files.count; i++) /* lines are those of the file that a code comes from */
    if (code - t->codes >= (ptrdiff_t)t->first_code[i]) file = i;
  return hr__fail(err, HR_BAD_INPUT, hr__row_place(t->files.list[file].path, code->line, place), remedy, "code %s %s",
                  code->text, message);
}

static hr_status order_make(hr_taxonomy *t, hr_error *err) {
  const void **items = hr__arena_array(&t->arena, 2 * t->count + 1, sizeof *items);
  int32_t *order = hr__arena_array(&t->arena, t->count + 1, sizeof *order);
  if (!items || !order) return hr__nomem(err);
  for (size_t i = 0; i < t->count; i++)
    items[i] = &t->codes[i];
  hr__sort(items, t->count, items + t->count, code_compare);
  for (size_t i = 0; i < t->count; i++)
    order[i] = (int32_t)((const hr_code *)items[i] - t->codes);
  t->order = order;
  for (size_t i = 1; i < t->count; i++)
    if (code_compare(items[i - 1], items[i]) == 0)
      return code_fail(t, items[i], "leave one of them out", err, "is there twice");
  return HR_OK;
}

hr_status hr__taxonomy_link(hr_taxonomy *t, bool orphans, hr_error *err) {
  HR_TRY(order_make(t, err));
  int32_t shortest = INT32_MAX;
  for (size_t i = 0; i < t->count; i++)
    if (t->codes[i].level < shortest) shortest = t->codes[i].level;
  for (size_t i = 0; i < t->count; i++) {
    hr_code *code = &t->codes[t->order[i]]; /* parents come before their children */
    code->parent = -1;
    for (size_t bytes = strlen(code->text) - 1; bytes > 0 && code->parent < 0; bytes--)
      code->parent = hr__taxonomy_find(t, code->text, bytes);
    if (code->parent < 0 && code->level > shortest && !orphans)
      return code_fail(t, code, "add the code that it belongs to, which it begins with", err,
                       "has no parent: none of the codes is a beginning of it");
    hr_code *parent = code->parent < 0 ? NULL : &t->codes[code->parent];
    code->root = parent ? parent->root : t->order[i];
    code->depth = parent ? parent->depth + 1 : 0;
    if (parent) parent->children++;
  }
  return HR_OK;
}

/* Steps up from each to their common ancestor; false: they have none. */
static bool apart(const hr_taxonomy *t, size_t from, size_t to, int *up, int *down) {
  const hr_code *a = &t->codes[from], *b = &t->codes[to];
  *up = *down = 0;
  if (a->root != b->root) return false;
  while (a != b) {
    bool climb = a->depth >= b->depth, other = b->depth >= a->depth;
    if (climb) a = &t->codes[a->parent], ++*up;
    if (other) b = &t->codes[b->parent], ++*down;
  }
  return true;
}

static bool excludes(const hr_taxonomy *t, size_t from, size_t to) {
  for (size_t i = t->excluded_begins[from]; i < t->excluded_begins[from + 1]; i++)
    if (t->excluded.items[i] == (int32_t)to) return true;
  return false;
}

hr_relation hr__taxonomy_relation(const hr_taxonomy *t, size_t from, size_t to) {
  enum { NEAR = 5, FARTHEST_NAMED = 14 };
  static const int8_t named[NEAR][NEAR] = {/* [the smaller number of steps][the larger one] */
                                           {0, 1, 3, 4, 6},
                                           {0, 2, 5, 8, 9},
                                           {0, 0, 7, 10, 12},
                                           {0, 0, 0, 11, 13},
                                           {0, 0, 0, 0, 14}};
  int up, down;
  if (excludes(t, from, to)) return (hr_relation){0, 0};
  if (!apart(t, from, to, &up, &down)) return (hr_relation){HR_RELATION_OTHER, HR_RELATION_OTHER};
  int less = up < down ? up : down, more = up < down ? down : up;
  int relation = more < NEAR ? named[less][more] : FARTHEST_NAMED + less + more;
  if (relation >= HR_RELATION_OTHER) relation = HR_RELATION_OTHER - 1;
  return (hr_relation){relation, less + more - (less == 0 && more > 0 ? 0.5 : 0)};
}

int hr__taxonomy_steps(const hr_taxonomy *t, size_t from, size_t to) {
  int up, down;
  if (apart(t, from, to, &up, &down)) return up + down;
  return t->codes[from].depth + t->codes[to].depth + 2;
}
