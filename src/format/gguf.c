/* The header of a GGUF file: magic, version, counts; keys with values; tensors; then, aligned, the data. */
#include "format/gguf_file.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/sort.h"
#include "format/doc.h"
#include "format/file.h"
#include "format/gguf_blocks.h"

enum {
  MAX_TENSORS = 1 << 17,
  MAX_VALUES = 1 << 16,
  MAX_KEY = 65535, /* bytes, as the format says */
  MAX_NAME = 1024,
  MAX_ITEMS = 1 << 24,    /* of one array */
  MAX_HEADER = 256 << 20, /* bytes; the largest vocabularies take some 20 MiB */
  WINDOW = 1 << 16,       /* bytes of a header that are at hand at a time */
  LONG_LIST = 4096,       /* items; vocabularies have more, settings of layers fewer */
  MAX_ALIGNMENT = 1 << 20
};

static const char again[] = "fetch the file again or convert the model anew";

/* Reads a header through a window. What `take` gives holds until the next one. */
typedef struct reader {
  hr_gguf *file;
  const unsigned char *bytes; /* at hand: `count` of them, those of the file from `base` on */
  size_t count, at;
  uint64_t base, file_bytes;
  unsigned char *window; /* of a file; NULL: all is in memory */
  size_t room;           /* of the window */
  hr_arena *work;
  bool lean; /* long lists are passed over */
  hr_error *err;
} reader;

#define REFUSE(r, ...) hr__fail((r)->err, HR_BAD_INPUT, (r)->file->path, again, __VA_ARGS__)

static uint64_t place(const reader *r) {
  return r->base + r->at;
}

/* Moves the window to where the reader is; it has `bytes` then, or what the file still has. */
static hr_status window_move(reader *r, size_t bytes) {
  uint64_t left = r->file_bytes > place(r) ? r->file_bytes - place(r) : 0;
  if (bytes > r->room && bytes <= left) {
    r->window = hr__arena_room(r->work, bytes, 1);
    if (!r->window) return hr__nomem(r->err);
    r->room = bytes;
  }
  r->base = place(r);
  r->at = 0;
  r->count = left < r->room ? (size_t)left : r->room;
  r->bytes = r->window;
  return hr__file_read_at(r->file->fd, r->file->path, r->base, r->window, r->count, r->err);
}

static hr_status take(reader *r, size_t bytes, const unsigned char **out) {
  if (bytes > r->count - r->at && r->window) HR_TRY(window_move(r, bytes));
  if (bytes > r->count - r->at)
    return REFUSE(r, "the header ends at byte %llu, in the middle of something",
                  (unsigned long long)(r->base + r->count));
  *out = r->bytes + r->at;
  r->at += bytes;
  return HR_OK;
}

uint64_t hr__gguf_number_at(const unsigned char *at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = bytes; i > 0; i--)
    value = value << 8 | at[i - 1];
  return value;
}

static hr_status number(reader *r, size_t bytes, uint64_t *out) {
  const unsigned char *at = NULL;
  HR_TRY(take(r, bytes, &at));
  *out = hr__gguf_number_at(at, bytes);
  return HR_OK;
}

/* Passes over bytes that nobody asks for. */
static hr_status skip(reader *r, uint64_t bytes) {
  uint64_t there = r->count - r->at, end = place(r) + bytes;
  if (bytes > there && (!r->window || bytes > r->file_bytes || end > r->file_bytes))
    return REFUSE(r, "the header ends at byte %llu, in the middle of something",
                  (unsigned long long)(r->window ? r->file_bytes : r->base + r->count));
  if (bytes <= there) {
    r->at += (size_t)bytes;
    return HR_OK;
  }
  r->base = end;
  r->at = r->count = 0;
  return HR_OK;
}

static hr_status text_bytes(reader *r, size_t *out) {
  uint64_t bytes;
  HR_TRY(number(r, 8, &bytes));
  if (bytes > MAX_HEADER)
    return REFUSE(r, "byte %llu: a text of %llu bytes", (unsigned long long)place(r), (unsigned long long)bytes);
  *out = (size_t)bytes;
  return HR_OK;
}

static hr_status text(reader *r, hr_gguf_text *out) {
  const unsigned char *at = NULL;
  HR_TRY(text_bytes(r, &out->bytes));
  HR_TRY(take(r, out->bytes, &at));
  out->text = (const char *)at;
  return HR_OK;
}

/* What stays when the window goes on. NULL: out of memory. */
static void *keep(reader *r, const void *bytes, size_t count) {
  void *copy = hr__arena_room(&r->file->arena, count ? count : 1, 1);
  if (copy && count) memcpy(copy, bytes, count);
  return copy;
}

/* A name: UTF-8 without NUL, as a C string. */
static hr_status name(reader *r, size_t most, const char *what, const char **out) {
  hr_gguf_text raw = {0};
  unsigned long long begin = place(r);
  HR_TRY(text(r, &raw));
  if (!raw.bytes || raw.bytes > most)
    return REFUSE(r, "byte %llu: %s of %zu bytes; 1 to %zu are allowed", begin, what, raw.bytes, most);
  if (hr__utf8_check(raw.text, raw.bytes) != raw.bytes || memchr(raw.text, 0, raw.bytes))
    return REFUSE(r, "byte %llu: %s is not UTF-8 text", begin, what);
  char *copy = hr__arena_alloc(&r->file->arena, raw.bytes + 1);
  if (!copy) return hr__nomem(r->err);
  memcpy(copy, raw.text, raw.bytes);
  *out = copy;
  return HR_OK;
}

const size_t hr__gguf_widths[] = {
    [HR_GGUF_U8] = 1,  [HR_GGUF_I8] = 1,  [HR_GGUF_U16] = 2,  [HR_GGUF_I16] = 2,    [HR_GGUF_U32] = 4,
    [HR_GGUF_I32] = 4, [HR_GGUF_F32] = 4, [HR_GGUF_BOOL] = 1, [HR_GGUF_STRING] = 0, [HR_GGUF_ARRAY] = 0,
    [HR_GGUF_U64] = 8, [HR_GGUF_I64] = 8, [HR_GGUF_F64] = 8};

static hr_status kind(reader *r, const char *key, hr_gguf_kind *out) {
  uint64_t value;
  HR_TRY(number(r, 4, &value));
  if (value > HR_GGUF_F64)
    return REFUSE(r, "\"%.200s\" is of type %llu, which is unknown", key, (unsigned long long)value);
  *out = (hr_gguf_kind)value;
  return HR_OK;
}

static hr_status texts(reader *r, hr_gguf_value *value) {
  /* Each takes 8 bytes at least, so that a count that is too large ends before memory is taken for it. */
  uint64_t end = r->window ? r->file_bytes : r->count;
  if (value->count > (end > place(r) ? end - place(r) : 0) / 8)
    return REFUSE(r, "\"%.200s\": the header ends before its %zu texts do", value->key, value->count);
  hr_gguf_text *all = hr__arena_array(&r->file->arena, value->count, sizeof *all);
  if (!all) return hr__nomem(r->err);
  for (size_t i = 0; i < value->count; i++) {
    HR_TRY(text(r, &all[i]));
    all[i].text = keep(r, all[i].text, all[i].bytes);
    if (!all[i].text) return hr__nomem(r->err);
  }
  value->texts = all;
  return HR_OK;
}

/* A list that is too long for those who want settings and tensors only: it has no items. */
static hr_status list_skip(reader *r, hr_gguf_value *value) {
  for (size_t i = 0; value->item == HR_GGUF_STRING && i < value->count; i++) {
    size_t bytes = 0;
    HR_TRY(text_bytes(r, &bytes));
    HR_TRY(skip(r, bytes));
  }
  HR_TRY(skip(r, (uint64_t)value->count * hr__gguf_widths[value->item]));
  value->count = 0;
  return HR_OK;
}

static hr_status value_read(reader *r, hr_gguf_value *out) {
  HR_TRY(name(r, MAX_KEY, "a key", &out->key));
  HR_TRY(kind(r, out->key, &out->kind));
  out->item = out->kind;
  out->count = 1;
  if (out->kind == HR_GGUF_ARRAY) {
    uint64_t count;
    HR_TRY(kind(r, out->key, &out->item));
    HR_TRY(number(r, 8, &count));
    if (out->item == HR_GGUF_ARRAY) return REFUSE(r, "\"%.200s\" is an array of arrays", out->key);
    if (count > MAX_ITEMS) return REFUSE(r, "\"%.200s\" has %llu items", out->key, (unsigned long long)count);
    out->count = (size_t)count;
  }
  if (r->lean && out->count > LONG_LIST) return list_skip(r, out);
  if (out->item == HR_GGUF_STRING) return texts(r, out);
  size_t bytes = out->count * hr__gguf_widths[out->item];
  HR_TRY(take(r, bytes, &out->at));
  out->at = keep(r, out->at, bytes);
  if (!out->at) return hr__nomem(r->err);
  for (size_t i = 0; out->item == HR_GGUF_BOOL && i < out->count; i++)
    if (out->at[i] > 1) return REFUSE(r, "\"%.200s\" is neither true nor false", out->key);
  return HR_OK;
}

static hr_status tensor_read(reader *r, hr_gguf_tensor *out) {
  uint64_t value, bytes;
  HR_TRY(name(r, MAX_NAME, "the name of a tensor", &out->name));
  HR_TRY(number(r, 4, &value));
  if (value > HR_GGUF_RANK) return REFUSE(r, "tensor \"%.200s\" has %llu dims", out->name, (unsigned long long)value);
  out->rank = (int)value;
  out->elements = 1;
  for (int i = out->rank - 1; i >= 0; i--) { /* fastest first in the file */
    HR_TRY(number(r, 8, &value));
    out->dim[i] = (int64_t)value;
    if (value > INT64_MAX || !hr__mul_i64(out->elements, out->dim[i], &out->elements))
      return REFUSE(r, "tensor \"%.200s\" has more elements than can be counted", out->name);
  }
  HR_TRY(number(r, 4, &value));
  const hr_gguf_type *type = hr__gguf_type((uint32_t)value);
  if (!type)
    return hr__fail(r->err, HR_UNSUPPORTED, r->file->path, "convert the model to another type, such as Q8_0 or BF16",
                    "tensor \"%.200s\" is of type %llu, which is unknown", out->name, (unsigned long long)value);
  out->type = type->number;
  int64_t row = out->rank ? out->dim[out->rank - 1] : 1;
  if (row % type->elements)
    return REFUSE(r, "tensor \"%.200s\": rows of %lld elements do not fill blocks of %u (%s)", out->name,
                  (long long)row, type->elements, type->name);
  HR_TRY(number(r, 8, &out->begin));
  if (__builtin_mul_overflow((uint64_t)out->elements / type->elements, type->bytes, &bytes) ||
      __builtin_add_overflow(out->begin, bytes, &out->end))
    return REFUSE(r, "tensor \"%.200s\" has more bytes than can be counted", out->name);
  return HR_OK;
}

static int value_order(const void *a, const void *b) {
  return strcmp(((const hr_gguf_value *)a)->key, ((const hr_gguf_value *)b)->key);
}
static int name_order(const void *a, const void *b) {
  return strcmp(((const hr_gguf_tensor *)a)->name, ((const hr_gguf_tensor *)b)->name);
}
static int place_order(const void *a, const void *b) {
  const hr_gguf_tensor *first = a, *second = b;
  if (first->begin != second->begin) return first->begin < second->begin ? -1 : 1;
  return first->end < second->end ? -1 : first->end > second->end;
}

/* Pointers to items in order; scratch lies behind them. NULL: out of memory. */
static const void **ordered(hr_arena *work, const void *items, size_t count, size_t size, hr_compare compare) {
  const void **order = hr__arena_array(work, count, 2 * sizeof *order);
  if (!order) return NULL;
  for (size_t i = 0; i < count; i++)
    order[i] = (const char *)items + i * size;
  hr__sort(order, count, order + count, compare);
  return order;
}

/* Sorts values and tensors; each may be there once. */
static hr_status sort_all(reader *r, hr_arena *work) {
  hr_gguf *file = r->file;
  const void **values = ordered(work, file->values, file->value_count, sizeof *file->values, value_order);
  const void **tensors = ordered(work, file->tensors, file->count, sizeof *file->tensors, name_order);
  hr_gguf_value *by_key = hr__arena_array(&file->arena, file->value_count, sizeof *by_key);
  hr_gguf_tensor *by_name = hr__arena_array(&file->arena, file->count, sizeof *by_name);
  if (!values || !tensors || !by_key || !by_name) return hr__nomem(r->err);
  for (size_t i = 0; i < file->value_count; i++) {
    by_key[i] = *(const hr_gguf_value *)values[i];
    if (i && strcmp(by_key[i - 1].key, by_key[i].key) == 0)
      return REFUSE(r, "key \"%.200s\" is there twice", by_key[i].key);
  }
  for (size_t i = 0; i < file->count; i++) {
    by_name[i] = *(const hr_gguf_tensor *)tensors[i];
    if (i && strcmp(by_name[i - 1].name, by_name[i].name) == 0)
      return REFUSE(r, "tensor \"%.200s\" is there twice", by_name[i].name);
  }
  file->values = by_key;
  file->tensors = by_name;
  return HR_OK;
}

static hr_status alignment_find(reader *r, uint64_t *out) {
  const hr_gguf_value *value = hr__gguf_value(r->file, "general.alignment");
  int64_t given = 32;
  if (value && (!hr__gguf_integer(value, 0, &given) || given < 1 || given > MAX_ALIGNMENT || (given & (given - 1))))
    return REFUSE(r, "general.alignment is not a power of two up to %d", MAX_ALIGNMENT);
  *out = (uint64_t)given;
  return HR_OK;
}

/* Tensors are aligned, lie inside the file and do not overlap. */
static hr_status places_check(reader *r, uint64_t file_bytes, hr_arena *work) {
  hr_gguf *file = r->file;
  uint64_t alignment = 0;
  HR_TRY(alignment_find(r, &alignment));
  file->data_start = (place(r) + alignment - 1) / alignment * alignment;
  uint64_t data_bytes = file_bytes > file->data_start ? file_bytes - file->data_start : 0, covered = 0;
  const void **order = ordered(work, file->tensors, file->count, sizeof *file->tensors, place_order);
  if (!order) return hr__nomem(r->err);
  for (size_t i = 0; i < file->count; i++) {
    const hr_gguf_tensor *tensor = order[i];
    if (tensor->begin % alignment)
      return REFUSE(r, "tensor \"%.200s\" begins at data byte %llu, which is no multiple of %llu", tensor->name,
                    (unsigned long long)tensor->begin, (unsigned long long)alignment);
    if (tensor->end > data_bytes)
      return REFUSE(r, "tensor \"%.200s\" ends at data byte %llu, but the file has %llu: it is cut off", tensor->name,
                    (unsigned long long)tensor->end, (unsigned long long)data_bytes);
    if (tensor->begin < covered) return REFUSE(r, "tensor \"%.200s\" overlaps another one", tensor->name);
    covered = tensor->end;
  }
  return HR_OK;
}

static hr_status header_begin(reader *r) {
  const unsigned char *magic = NULL;
  uint64_t version, tensors, values;
  bool any = (r->window ? r->file_bytes : r->count) >= 4;
  if (any) HR_TRY(take(r, 4, &magic));
  if (!any || memcmp(magic, "GGUF", 4) != 0) return REFUSE(r, "not a GGUF file: it does not begin with \"GGUF\"");
  HR_TRY(number(r, 4, &version));
  if (version && (version & 0xffff) == 0)
    return hr__fail(r->err, HR_UNSUPPORTED, r->file->path, "convert the model on a little-endian machine",
                    "a big-endian GGUF file");
  if (version < 2 || version > 3)
    return hr__fail(r->err, HR_UNSUPPORTED, r->file->path, again, "GGUF version %llu; 2 and 3 are read",
                    (unsigned long long)version);
  r->file->version = (uint32_t)version;
  HR_TRY(number(r, 8, &tensors));
  HR_TRY(number(r, 8, &values));
  if (tensors > MAX_TENSORS || values > MAX_VALUES)
    return REFUSE(r, "%llu tensors and %llu keys: more than %d and %d", (unsigned long long)tensors,
                  (unsigned long long)values, MAX_TENSORS, MAX_VALUES);
  r->file->count = (size_t)tensors;
  r->file->value_count = (size_t)values;
  return HR_OK;
}

static hr_status header_read(reader *r) {
  hr_gguf *file = r->file;
  HR_TRY(header_begin(r));
  file->values = hr__arena_array(&file->arena, file->value_count, sizeof *file->values);
  file->tensors = hr__arena_array(&file->arena, file->count, sizeof *file->tensors);
  if (!file->values || !file->tensors) return hr__nomem(r->err);
  for (size_t i = 0; i < file->value_count; i++)
    HR_TRY(value_read(r, &file->values[i]));
  for (size_t i = 0; i < file->count; i++)
    HR_TRY(tensor_read(r, &file->tensors[i]));
  HR_TRY(sort_all(r, r->work));
  return places_check(r, r->file_bytes, r->work);
}

static hr_gguf *file_create(const char *path) {
  hr_gguf *file = hr__alloc_zero(1, sizeof *file);
  if (!file) return NULL;
  file->fd = -1;
  file->path = hr__arena_text(&file->arena, path);
  if (file->path) return file;
  hr__gguf_close(file);
  return NULL;
}

/* Reads the header of a new file; `r` says where its bytes come from. */
static hr_status parse(reader *r, hr_gguf *file, hr_gguf **out) {
  hr_arena work = {0};
  r->file = file;
  r->work = &work;
  hr_status status = HR_OK;
  if (!r->bytes) {
    r->room = WINDOW;
    r->window = hr__arena_room(&work, r->room, 1);
    if (!r->window) status = hr__nomem(r->err);
  }
  if (status == HR_OK) status = header_read(r);
  hr__arena_fini(&work);
  if (status == HR_OK)
    *out = file;
  else
    hr__gguf_close(file);
  return status;
}

hr_status hr__gguf_parse(const char *path, const void *head, size_t head_bytes, uint64_t file_bytes, hr_gguf **out,
                         hr_error *err) {
  hr_gguf *file = file_create(path);
  if (!file) return hr__nomem(err);
  reader r = {.bytes = head ? head : (const void *)"", .count = head_bytes, .file_bytes = file_bytes, .err = err};
  return parse(&r, file, out);
}

bool hr__gguf_is_name(const char *path) {
  size_t length = strlen(path);
  return length > 5 && strcmp(path + length - 5, ".gguf") == 0;
}

static hr_status any_open(const char *path, bool lean, hr_gguf **out, hr_error *err) {
  int fd;
  uint64_t bytes;
  HR_TRY(hr__file_open(path, &fd, &bytes, err));
  hr_gguf *file = file_create(path);
  if (!file) {
    close(fd);
    return hr__nomem(err);
  }
  file->fd = fd;
  reader r = {.file_bytes = bytes, .lean = lean, .err = err};
  return parse(&r, file, out);
}

hr_status hr__gguf_open(const char *path, hr_gguf **out, hr_error *err) {
  return any_open(path, false, out, err);
}

hr_status hr__gguf_open_lean(const char *path, hr_gguf **out, hr_error *err) {
  return any_open(path, true, out, err);
}

uint64_t hr__gguf_head_bytes(const hr_gguf *file) {
  return file->data_start;
}

void hr__gguf_close(hr_gguf *file) {
  if (!file) return;
  if (file->fd >= 0) close(file->fd);
  hr__arena_fini(&file->arena);
  hr__free(file);
}
