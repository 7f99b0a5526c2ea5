/* Reading a taxonomy: rows of codes and texts, and the tokens of the texts. See taxonomy.h.
 *
 * A row has `code`, a text for each channel (`title` must not be empty; others may be absent), and, where it excludes
 * others, `excluded_codes`: a list, or a text with blanks, commas or semicolons between them. Other columns are left.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "data/codec.h"
#include "data/row_text.h"
#include "data/taxonomy.h"
#include "data/tokens.h"

/* A file on its way into codes. */
typedef struct reading {
  hr_taxonomy *t;
  hr_codec codec;
  const char **excluded; /* of each code: as it is written; NULL: none */
  size_t capacity;
} reading;

/* A text of a row; absent and null are empty. */
static hr_status text_of(const hr_row_at *at, const char *column, const char **out, hr_error *err) {
  const hr_doc_node *node = hr__doc_get(at->row->fields, column);
  *out = "";
  if (!node || hr__doc_is_null(node)) return HR_OK;
  if (node->kind != HR_DOC_SCALAR) return hr__row_fail(at, "write it as a text", err, "%s is not a text", column);
  *out = node->text;
  return HR_OK;
}

/* Codes as they are written, with blanks between them, in the arena of the taxonomy; NULL: none. */
static hr_status excluded_of(const reading *r, const hr_row_at *at, const char **out, hr_error *err) {
  static const char column[] = "excluded_codes";
  const hr_doc_node *node = hr__doc_get(at->row->fields, column);
  *out = NULL;
  if (!node || hr__doc_is_null(node)) return HR_OK;
  const char *text = node->kind == HR_DOC_SCALAR ? hr__arena_text(&r->t->arena, node->text) : "";
  if (node->kind == HR_DOC_MAP)
    return hr__row_fail(at, "write codes as a list, or as a text", err, "%s is not a list", column);
  for (const hr_doc_node *one = node->child; one && text; one = one->next) {
    if (one->kind != HR_DOC_SCALAR)
      return hr__row_fail(at, "write codes as a list, or as a text", err, "%s has more than codes in it", column);
    text = hr__arena_format(&r->t->arena, "%s %s", text, one->text);
  }
  *out = text;
  return text ? HR_OK : hr__nomem(err);
}

static hr_status code_of(const reading *r, const hr_row_at *at, const char **out, hr_error *err) {
  HR_TRY(text_of(at, "code", out, err));
  size_t bytes = strlen(*out);
  if (bytes == 0) return hr__row_fail(at, "every row has a code", err, "%s is missing", "code");
  if (bytes > HR_CODE_TEXT) return hr__row_fail(at, "use shorter codes", err, "code %.80s is too long", *out);
  if ((*out)[strcspn(*out, " \t\r\n,;")])
    return hr__row_fail(at, "take blanks, commas and semicolons out of it", err, "\"%.80s\" is not a code", *out);
  *out = hr__arena_text(&r->t->arena, *out);
  return *out ? HR_OK : hr__nomem(err);
}

/* Characters of a text, which is UTF-8. */
static int32_t characters(const char *text) {
  int32_t count = 0;
  for (; *text; text++)
    count += ((unsigned char)*text & 0xc0) != 0x80;
  return count;
}

static hr_status texts_encode(const reading *r, const hr_row_at *at, hr_error *err) {
  hr_taxonomy *t = r->t;
  for (int c = 0; c < t->channels; c++) {
    const char *text;
    HR_TRY(text_of(at, t->channel[c], &text, err));
    if (c == 0 && !*text) return hr__row_fail(at, "give every code one", err, "%s is missing", t->channel[c]);
    t->begins[t->count * (size_t)t->channels + (size_t)c] = t->ids.count;
    if (r->codec.encoder)
      HR_TRY(hr__encode(r->codec.encoder, text, strlen(text), true, &t->ids, err));
    else
      HR_TRY(hr__codec_encode(&r->codec, text, strlen(text), true, &t->ids, err));
  }
  return HR_OK;
}

/* Room for one more code, and for the end behind it. */
static hr_status room_make(reading *r, hr_error *err) {
  hr_taxonomy *t = r->t;
  if (t->count < t->capacity) return HR_OK;
  size_t more = t->capacity ? 2 * t->capacity : 256;
  hr_code *codes = hr__realloc(t->codes, more * sizeof *codes);
  if (codes) t->codes = codes;
  size_t *begins = hr__realloc(t->begins, (more * (size_t)t->channels + 1) * sizeof *begins);
  if (begins) t->begins = begins;
  const char **excluded = hr__realloc(r->excluded, more * sizeof *excluded);
  if (excluded) r->excluded = excluded;
  if (!codes || !begins || !excluded) return hr__nomem(err);
  t->capacity = more;
  return HR_OK;
}

static hr_status row_read(void *user, const hr_row_at *at, hr_error *err) {
  reading *r = user;
  hr_taxonomy *t = r->t;
  if (!at->row->fields) return hr__row_refuse(at->row, err);
  HR_TRY(room_make(r, err));
  if (t->count == INT32_MAX) return hr__row_fail(at, "use fewer", err, "there are more than %s codes", "2147483647");
  hr_code code = {.line = at->row->place.line};
  HR_TRY(code_of(r, at, &code.text, err));
  code.level = characters(code.text);
  HR_TRY(excluded_of(r, at, &r->excluded[t->count], err));
  HR_TRY(texts_encode(r, at, err));
  t->codes[t->count++] = code;
  t->begins[t->count * (size_t)t->channels] = t->ids.count;
  return HR_OK;
}

static int number_compare(const void *a, const void *b) {
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

/* Codes that are named as excluded, by their numbers. Those that there are not are counted: taxonomies refer to others
 * of their kind. */
static hr_status excluded_find(reading *r, hr_error *err) {
  static const char between[] = " \t,;";
  hr_taxonomy *t = r->t;
  t->excluded_begins = hr__alloc_zero(t->count + 1, sizeof *t->excluded_begins);
  if (!t->excluded_begins) return hr__nomem(err);
  for (size_t i = 0; i < t->count; i++) {
    size_t begin = t->excluded_begins[i] = t->excluded.count;
    for (const char *at = r->excluded[i] ? r->excluded[i] : ""; *(at += strspn(at, between));) {
      size_t bytes = strcspn(at, between);
      int32_t code = hr__taxonomy_find(t, at, bytes);
      if (code >= 0)
        HR_TRY(hr__ids_add(&t->excluded, code, err));
      else
        t->n_unknown++;
      at += bytes;
    }
    if (t->excluded.count > begin)
      qsort(t->excluded.items + begin, t->excluded.count - begin, sizeof *t->excluded.items, number_compare);
  }
  t->excluded_begins[t->count] = t->excluded.count;
  return HR_OK;
}

static hr_status ids_check(const hr_taxonomy *t, const hr_source_request *request, hr_error *err) {
  int field = hr__field_for(request->fields, HR_FOR_TOKENS);
  int64_t bound = request->fields->list[field].bound;
  for (size_t i = 0; i < t->ids.count; i++)
    if (t->ids.items[i] >= bound)
      return hr__recipe_fail(request->recipe, "data.tokenizer", "give the tokenizer that the model was made with", err,
                             "the texts have token %" PRId32 ", but the model's vocabulary has only %" PRId64,
                             t->ids.items[i], bound);
  return HR_OK;
}

static hr_status files_read(reading *r, const hr_source_request *request, hr_error *err) {
  hr_taxonomy *t = r->t;
  HR_TRY(hr__data_files_find(request->recipe, request->key, HR_ROWS_ENDINGS, &t->files, err));
  HR_TRY(hr__data_files_open(&t->files, err));
  size_t *first = hr__arena_array(&t->arena, t->files.count + 1, sizeof *first);
  if (!first) return hr__nomem(err);
  t->first_code = first;
  HR_TRY(hr__codec_open(request->recipe, &r->codec, err));
  for (size_t i = 0; i < t->files.count; i++) {
    t->files.list[i].read_whole = true;
    first[i] = t->count;
    HR_TRY(hr__rows_each(t->files.list[i].path, row_read, r, err));
  }
  if (t->count == 0)
    return hr__recipe_fail(request->recipe, request->key, "give a file with a row for each code", err,
                           "there are no codes in it");
  HR_TRY(hr__taxonomy_link(t, hr__recipe_bool(request->recipe, "data.taxonomy.codes_only"), err));
  HR_TRY(excluded_find(r, err));
  return ids_check(t, request, err);
}

hr_status hr__taxonomy_open(const hr_source_request *request, hr_taxonomy *out, hr_error *err) {
  *out = (hr_taxonomy){0};
  hr__arena_init(&out->arena);
  for (int i = 0; i < request->fields->count && out->channels < HR_CHANNELS; i++)
    if (request->fields->list[i].purpose == HR_FOR_TOKENS)
      out->channel[out->channels++] = request->fields->list[i].name;
  reading r = {.t = out};
  hr_status status = files_read(&r, request, err);
  hr__codec_close(&r.codec);
  hr__free(r.excluded);
  return status;
}

void hr__taxonomy_close(hr_taxonomy *t) {
  hr__data_files_close(&t->files);
  hr__ids_fini(&t->ids);
  hr__ids_fini(&t->excluded);
  hr__free(t->codes);
  hr__free(t->begins);
  hr__free(t->excluded_begins);
  hr__arena_fini(&t->arena);
}
