/* Triplets of a taxonomy that were made elsewhere: which negatives go with an anchor and a positive, and how near they
 * are. See taxonomy.h.
 *
 * A row has anchor_code, positive_code, negative_code, relation_margin and distance_margin, both above 0, and may have
 * excluded. Rows that data.taxonomy does not allow, or that would bring a code into training that is held out, are
 * left.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "data/row_text.h"
#include "data/taxonomy.h"

typedef struct reading {
  const hr_taxonomy *t;
  const hr_taxonomy_rules *rules;
  hr_triplets *out;
  size_t capacity;
} reading;

static hr_status row_fail(const hr_row_at *at, hr_error *err, const char *message, const char *what) {
  return hr__row_fail(at, "mend the row, or leave it out", err, message, what);
}

static hr_status code_of(const reading *r, const hr_row_at *at, const char *column, int32_t *out, hr_error *err) {
  const hr_doc_node *node = hr__doc_get(at->row->fields, column);
  if (!node || node->kind != HR_DOC_SCALAR || !*node->text) return row_fail(at, err, "%s is missing", column);
  *out = hr__taxonomy_find(r->t, node->text, strlen(node->text));
  return *out >= 0 ? HR_OK : row_fail(at, err, "the taxonomy has no code %.80s", node->text);
}

static hr_status margin_of(const hr_row_at *at, const char *column, double *out, hr_error *err) {
  const hr_doc_node *node = hr__doc_get(at->row->fields, column);
  if (!node || node->kind != HR_DOC_SCALAR || !*node->text) return row_fail(at, err, "%s is missing", column);
  return hr__row_number(node, out) && *out > 0 && *out < 1e9 ? HR_OK
                                                             : row_fail(at, err, "%s is not a number above 0", column);
}

/* Absent and empty are false. */
static hr_status truth_of(const hr_row_at *at, const char *column, bool *out, hr_error *err) {
  const hr_doc_node *node = hr__doc_get(at->row->fields, column);
  const char *text = !node || hr__doc_is_null(node) ? "" : node->kind == HR_DOC_SCALAR ? node->text : "?";
  *out = strcasecmp(text, "true") == 0 || strcmp(text, "1") == 0;
  if (*out || !*text || strcasecmp(text, "false") == 0 || strcmp(text, "0") == 0) return HR_OK;
  return row_fail(at, err, "%s is neither true nor false", column);
}

/* An anchor, its positive and its negative are three codes. */
static hr_status roles_check(const reading *r, const hr_row_at *at, const hr_triplet *one, hr_error *err) {
  const hr_code *codes = r->t->codes;
  if (one->anchor == one->positive) return row_fail(at, err, "%s is anchor and positive", codes[one->anchor].text);
  if (one->anchor == one->negative) return row_fail(at, err, "%s is anchor and negative", codes[one->anchor].text);
  if (one->positive == one->negative)
    return row_fail(at, err, "%s is positive and negative", codes[one->positive].text);
  return HR_OK;
}

static hr_status row_read(void *user, const hr_row_at *at, hr_error *err) {
  reading *r = user;
  if (!at->row->fields) return hr__row_refuse(at->row, err);
  hr_triplet one;
  double relation, distance;
  HR_TRY(code_of(r, at, "anchor_code", &one.anchor, err));
  HR_TRY(code_of(r, at, "positive_code", &one.positive, err));
  HR_TRY(code_of(r, at, "negative_code", &one.negative, err));
  HR_TRY(margin_of(at, "relation_margin", &relation, err));
  HR_TRY(margin_of(at, "distance_margin", &distance, err));
  bool excluded;
  HR_TRY(truth_of(at, "excluded", &excluded, err));
  HR_TRY(roles_check(r, at, &one, err));
  one.weight = hr__taxonomy_weight(relation, distance, excluded);
  if (!hr__taxonomy_allows(r->t, r->rules, &one, relation, distance)) return HR_OK;
  hr_triplets *out = r->out;
  if (out->count == r->capacity) {
    size_t more = r->capacity ? 2 * r->capacity : 1024;
    hr_triplet *list = hr__realloc(out->list, more * sizeof *list);
    if (!list) return hr__nomem(err);
    out->list = list;
    r->capacity = more;
  }
  out->list[out->count++] = one;
  return HR_OK;
}

static int triplet_compare(const void *a, const void *b) {
  const hr_triplet *x = a, *y = b;
  if (x->anchor != y->anchor) return x->anchor < y->anchor ? -1 : 1;
  if (x->positive != y->positive) return x->positive < y->positive ? -1 : 1;
  return (x->negative > y->negative) - (x->negative < y->negative);
}

/* Groups of one anchor and one positive, and where those of an anchor begin. */
static hr_status groups_make(hr_triplets *out, size_t codes, hr_error *err) {
  if (out->count > 0) qsort(out->list, out->count, sizeof *out->list, triplet_compare);
  out->groups = hr__alloc_zero(out->count + 1, sizeof *out->groups);
  out->begins = hr__alloc_zero(codes + 1, sizeof *out->begins);
  if (!out->groups || !out->begins) return hr__nomem(err);
  for (size_t i = 0; i < out->count; i++) {
    const hr_triplet *one = &out->list[i];
    if (i > 0 && one[-1].anchor == one->anchor && one[-1].positive == one->positive) continue;
    out->groups[out->n_groups++] = i;
    out->begins[one->anchor + 1]++;
  }
  out->groups[out->n_groups] = out->count;
  for (size_t c = 0; c < codes; c++)
    out->begins[c + 1] += out->begins[c];
  return HR_OK;
}

hr_status hr__triplets_open(const hr_taxonomy *t, const hr_taxonomy_rules *rules, const char *path, hr_triplets *out,
                            hr_error *err) {
  reading r = {.t = t, .rules = rules, .out = out};
  HR_TRY(hr__rows_each(path, row_read, &r, err));
  return groups_make(out, t->count, err);
}

void hr__triplets_close(hr_triplets *triplets) {
  hr__free(triplets->list);
  hr__free(triplets->groups);
  hr__free(triplets->begins);
}
