/* Reader of one safetensors file: 8 bytes little-endian header length, JSON header, data.
 *
 * Every rule of the format is checked before anybody sees a tensor; after that, all offsets lie inside the file and all
 * sizes agree with shape and dtype. Fields of a tensor that the format does not know are ignored, as the reference
 * implementation does. The header is parsed by jansson.
 */
#include "format/safetensors.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/sort.h"
#include "format/doc.h"
#include "format/file.h"
#include "format/json.h"
#include "format/safetensors_file.h"

static const struct {
  const char *name;
  unsigned bits;
} dtypes[] = {{"F64", 64},        {"F32", 32},    {"F16", 16},    {"BF16", 16},   {"I64", 64},    {"I32", 32},
              {"I16", 16},        {"I8", 8},      {"U64", 64},    {"U32", 32},    {"U16", 16},    {"U8", 8},
              {"BOOL", 8},        {"C64", 64},    {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
              {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4}};
enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

static const char again[] = "fetch the file again or write it anew";
static const char convert[] = "only safetensors files are read; convert .bin, .pt, .ckpt or .gguf files first";

static size_t dtype_row(const char *name) {
  size_t row = 0;
  while (row < DTYPES && strcmp(dtypes[row].name, name) != 0)
    row++;
  return row;
}

const char *hr__safetensors_dtype(const char *name) {
  size_t row = dtype_row(name);
  return row < DTYPES ? dtypes[row].name : NULL;
}

bool hr__safetensors_bytes(const char *dtype, int rank, const int64_t *dim, uint64_t *bytes) {
  size_t row = dtype_row(dtype);
  if (row == DTYPES) return false;
  uint64_t bits = dtypes[row].bits;
  uint64_t elements = 1;
  for (int i = 0; i < rank; i++)
    if (dim[i] < 0 || __builtin_mul_overflow(elements, (uint64_t)dim[i], &elements)) return false;
  if (__builtin_mul_overflow(elements, bits, &bits) || bits % 8) return false;
  *bytes = bits / 8;
  return true;
}

static int name_order(const void *a, const void *b) {
  const hr_safetensors_entry *first = a, *second = b;
  return strcmp(first->tensor.name, second->tensor.name);
}

static int offset_order(const void *a, const void *b) {
  const hr_safetensor *first = &((const hr_safetensors_entry *)a)->tensor;
  const hr_safetensor *second = &((const hr_safetensors_entry *)b)->tensor;
  if (first->begin != second->begin) return first->begin < second->begin ? -1 : 1;
  return first->end < second->end ? -1 : first->end > second->end;
}

/* The entries as pointers in `compare` order, with scratch behind them; NULL when out of memory. */
static const void **entries_sorted(hr_safetensors *file, hr_arena *work, hr_compare compare) {
  const void **order = hr__arena_array(work, file->count, 2 * sizeof *order);
  if (!order) return NULL;
  for (size_t i = 0; i < file->count; i++)
    order[i] = &file->entries[i];
  hr__sort(order, file->count, order + file->count, compare);
  return order;
}

hr_status hr__safetensors_sort(hr_safetensors *file, const char *place, hr_error *err) {
  hr_arena work = {0};
  hr_status status = HR_OK;
  const void **order = entries_sorted(file, &work, name_order);
  hr_safetensors_entry *sorted = hr__arena_array(&file->arena, file->count, sizeof *sorted);
  if (!order || !sorted) status = hr__nomem(err);
  for (size_t i = 0; i < file->count && status == HR_OK; i++) {
    sorted[i] = *(const hr_safetensors_entry *)order[i];
    if (i && strcmp(sorted[i - 1].tensor.name, sorted[i].tensor.name) == 0)
      status = hr__fail(err, HR_BAD_INPUT, place, again, "tensor \"%.200s\" appears twice", sorted[i].tensor.name);
  }
  if (status == HR_OK) file->entries = sorted;
  hr__arena_fini(&work);
  return status;
}

/* No overlap, no hole, nothing behind the last tensor: otherwise a file can hide data or pose as two formats. */
static hr_status coverage_check(hr_safetensors *file, const char *name, uint64_t data_bytes, hr_error *err) {
  hr_arena work = {0};
  hr_status status = HR_OK;
  const void **order = entries_sorted(file, &work, offset_order);
  if (!order) status = hr__nomem(err);
  uint64_t covered = 0;
  for (size_t i = 0; i < file->count && status == HR_OK; i++) {
    const hr_safetensor *tensor = order[i];
    if (tensor->begin != covered)
      status = hr__fail(err, HR_BAD_INPUT, name, again, "tensor \"%.200s\" begins at data byte %llu, expected %llu: %s",
                        tensor->name, (unsigned long long)tensor->begin, (unsigned long long)covered,
                        tensor->begin < covered ? "tensors overlap" : "there is a hole before it");
    covered = tensor->end;
  }
  if (status == HR_OK && covered != data_bytes)
    status = hr__fail(err, HR_BAD_INPUT, name, again,
                      "the tensors end at data byte %llu, but the file holds %llu bytes of data",
                      (unsigned long long)covered, (unsigned long long)data_bytes);
  hr__arena_fini(&work);
  return status;
}

typedef struct context { /* what tensor_read needs for its messages */
  const char *name;
  uint64_t data_bytes;
  hr_error *err;
} context;

#define REFUSE(c, tensor, ...) hr__fail((c)->err, HR_BAD_INPUT, (c)->name, again, "tensor \"%.200s\": " __VA_ARGS__)

static bool integer_read(const json_t *value, int64_t *out) {
  if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
  *out = json_integer_value(value);
  return true;
}

static hr_status shape_read(const context *c, const char *name, const json_t *shape, hr_safetensor *out) {
  if (!json_is_array(shape)) return REFUSE(c, name, "\"shape\" is missing or not a list", name);
  size_t rank = json_array_size(shape);
  if (rank > HR_SAFETENSORS_RANK)
    return REFUSE(c, name, "%zu dimensions, at most %d are read", name, rank, HR_SAFETENSORS_RANK);
  out->rank = (int)rank;
  for (size_t i = 0; i < rank; i++)
    if (!integer_read(json_array_get(shape, i), &out->dim[i]))
      return REFUSE(c, name, "dimension %zu is not a whole number of at least 0", name, i);
  return HR_OK;
}

static hr_status offsets_read(const context *c, const char *name, const json_t *offsets, hr_safetensor *out) {
  int64_t begin, end;
  if (!json_is_array(offsets) || json_array_size(offsets) != 2 || !integer_read(json_array_get(offsets, 0), &begin) ||
      !integer_read(json_array_get(offsets, 1), &end))
    return REFUSE(c, name, "\"data_offsets\" must be two whole numbers of at least 0", name);
  if (end < begin)
    return REFUSE(c, name, "ends (%lld) before it begins (%lld)", name, (long long)end, (long long)begin);
  if ((uint64_t)end > c->data_bytes)
    return REFUSE(c, name, "ends at data byte %lld, but the file holds %llu bytes of data (truncated?)", name,
                  (long long)end, (unsigned long long)c->data_bytes);
  out->begin = (uint64_t)begin;
  out->end = (uint64_t)end;
  return HR_OK;
}

static hr_status tensor_read(const context *c, const char *name, const json_t *value, hr_arena *arena,
                             hr_safetensor *out) {
  if (strlen(name) > HR_SAFETENSORS_NAME)
    return hr__fail(c->err, HR_BAD_INPUT, c->name, NULL, "a tensor's name has %zu bytes, at most %d are read",
                    strlen(name), HR_SAFETENSORS_NAME);
  if (!json_is_object(value)) return REFUSE(c, name, "its entry is not an object", name);
  const char *dtype = json_string_value(json_object_get(value, "dtype"));
  if (!dtype) return REFUSE(c, name, "\"dtype\" is missing or not a string", name);
  out->dtype = hr__safetensors_dtype(dtype);
  if (!out->dtype) return REFUSE(c, name, "dtype \"%.40s\" is not known", name, dtype);
  HR_TRY(shape_read(c, name, json_object_get(value, "shape"), out));
  HR_TRY(offsets_read(c, name, json_object_get(value, "data_offsets"), out));
  uint64_t bytes;
  if (!hr__safetensors_bytes(out->dtype, out->rank, out->dim, &bytes))
    return REFUSE(c, name, "its shape is too large or does not fill whole bytes", name);
  if (bytes != out->end - out->begin)
    return REFUSE(c, name, "shape and dtype need %llu bytes, its offsets span %llu", name, (unsigned long long)bytes,
                  (unsigned long long)(out->end - out->begin));
  out->name = hr__arena_text(arena, name);
  return out->name ? HR_OK : hr__nomem(c->err);
}

static hr_status metadata_read(const context *c, json_t *value, hr_safetensors *file) {
  if (!json_is_object(value)) return hr__fail(c->err, HR_BAD_INPUT, c->name, again, "__metadata__ is not an object");
  if (json_object_size(value) > HR_SAFETENSORS_METADATA)
    return hr__fail(c->err, HR_BAD_INPUT, c->name, NULL, "__metadata__ has %zu entries, at most %d are read",
                    json_object_size(value), HR_SAFETENSORS_METADATA);
  file->metadata = hr__arena_array(&file->arena, json_object_size(value), 2 * sizeof *file->metadata);
  if (!file->metadata) return hr__nomem(c->err);
  for (void *at = json_object_iter(value); at; at = json_object_iter_next(value, at)) {
    const char *key = json_object_iter_key(at), *text = json_string_value(json_object_iter_value(at));
    if (!text) return hr__fail(c->err, HR_BAD_INPUT, c->name, again, "__metadata__ \"%.200s\" is not a string", key);
    const char **pair = file->metadata + 2 * file->metadata_count++;
    pair[0] = hr__arena_text(&file->arena, key);
    pair[1] = hr__arena_text(&file->arena, text);
    if (!pair[0] || !pair[1]) return hr__nomem(c->err);
  }
  return HR_OK;
}

static hr_status root_read(const context *c, json_t *root, hr_safetensors *file) {
  if (json_object_size(root) > HR_SAFETENSORS_COUNT + 1)
    return hr__fail(c->err, HR_BAD_INPUT, c->name, NULL, "%zu tensors, at most %d are read", json_object_size(root),
                    HR_SAFETENSORS_COUNT);
  file->entries = hr__arena_array(&file->arena, json_object_size(root), sizeof *file->entries);
  if (!file->entries) return hr__nomem(c->err);
  for (void *at = json_object_iter(root); at; at = json_object_iter_next(root, at)) {
    const char *key = json_object_iter_key(at);
    json_t *value = json_object_iter_value(at);
    if (strcmp(key, "__metadata__") == 0)
      HR_TRY(metadata_read(c, value, file));
    else
      HR_TRY(tensor_read(c, key, value, &file->arena, &file->entries[file->count++].tensor));
  }
  HR_TRY(coverage_check(file, c->name, c->data_bytes, c->err));
  return hr__safetensors_sort(file, c->name, c->err);
}

static hr_status fail_at(hr_error *err, const char *name, uint64_t byte, const char *remedy, const char *message) {
  char place[256];
  snprintf(place, sizeof place, "%.200s, byte %llu", name, (unsigned long long)byte);
  return hr__fail(err, HR_BAD_INPUT, place, remedy, "%s", message);
}

/* Length of the JSON header, checked against the file. `head` has 8 bytes. */
static hr_status length_read(const char *name, const unsigned char *head, uint64_t file_bytes, uint64_t *length,
                             hr_error *err) {
  if (file_bytes < 8)
    return hr__fail(err, HR_BAD_INPUT, name, again, "the file has %llu bytes: too short for a safetensors file",
                    (unsigned long long)file_bytes);
  uint64_t value = 0;
  for (int i = 7; i >= 0; i--)
    value = value << 8 | head[i];
  if (value > HR_SAFETENSORS_HEADER)
    return hr__fail(err, HR_BAD_INPUT, name, convert, "a header of %llu bytes is announced, at most %d are read",
                    (unsigned long long)value, HR_SAFETENSORS_HEADER);
  if (value > file_bytes - 8)
    return hr__fail(err, HR_BAD_INPUT, name, again,
                    "a header of %llu bytes is announced, but only %llu follow (truncated?)", (unsigned long long)value,
                    (unsigned long long)(file_bytes - 8));
  if (value < 2) return hr__fail(err, HR_BAD_INPUT, name, again, "the header is empty");
  *length = value;
  return HR_OK;
}

/* Fills `file` (whose single part is set up) from the JSON header. */
static hr_status header_read(const char *name, const char *json, size_t bytes, uint64_t data_bytes,
                             hr_safetensors *file, hr_error *err) {
  if (json[0] != '{') return fail_at(err, name, 8, convert, "the header does not begin with \"{\"");
  size_t bad = hr__utf8_check(json, bytes);
  if (bad < bytes) return fail_at(err, name, 8 + bad, again, "the header is not valid UTF-8");
  hr_arena work = {0};
  json_t *root = NULL;
  json_error_t fault;
  hr_status status = hr__json_load(json, bytes, &work, &root, &fault, err);
  if (status == HR_BAD_INPUT) {
    char message[JSON_ERROR_TEXT_LENGTH + 40];
    snprintf(message, sizeof message, "the header is not valid JSON: %s", fault.text);
    fail_at(err, name, 8 + (uint64_t)fault.position, again, message);
  }
  context c = {.name = name, .data_bytes = data_bytes, .err = err};
  if (status == HR_OK) status = root_read(&c, root, file);
  hr__arena_fini(&work);
  return status;
}

static hr_safetensors *file_create(const char *path) {
  hr_safetensors *file = hr__alloc_zero(1, sizeof *file);
  if (!file) return NULL;
  file->parts = hr__arena_array(&file->arena, 1, sizeof *file->parts);
  char *name = hr__arena_text(&file->arena, path);
  if (!file->parts || !name) {
    hr__arena_fini(&file->arena);
    hr__free(file);
    return NULL;
  }
  file->parts[0] = (hr_safetensors_part){.path = name, .fd = -1};
  file->part_count = 1;
  return file;
}

hr_status hr__safetensors_parse(const char *name, const void *head, size_t head_bytes, uint64_t file_bytes,
                                hr_safetensors **out, hr_error *err) {
  uint64_t length;
  if (head_bytes < 8 && file_bytes >= 8) return hr__fail(err, HR_BAD_INPUT, name, again, "the header is cut off");
  HR_TRY(length_read(name, head, file_bytes, &length, err));
  if (length > head_bytes - 8) return hr__fail(err, HR_BAD_INPUT, name, again, "the header is cut off");
  hr_safetensors *file = file_create(name);
  if (!file) return hr__nomem(err);
  file->parts[0].data_start = 8 + length;
  hr_status status = header_read(name, (const char *)head + 8, (size_t)length, file_bytes - 8 - length, file, err);
  if (status != HR_OK) {
    hr__safetensors_close(file);
    return status;
  }
  *out = file;
  return HR_OK;
}

/* Header bytes come into `work`, which the caller releases. */
static hr_status file_open(hr_safetensors *file, hr_arena *work, hr_error *err) {
  hr_safetensors_part *part = file->parts;
  uint64_t file_bytes, length;
  HR_TRY(hr__file_open(part->path, &part->fd, &file_bytes, err));
  unsigned char head[8] = {0};
  if (file_bytes >= 8) HR_TRY(hr__file_read_at(part->fd, part->path, 0, head, sizeof head, err));
  HR_TRY(length_read(part->path, head, file_bytes, &length, err));
  char *json = hr__arena_alloc(work, (size_t)length);
  if (!json) return hr__nomem(err);
  HR_TRY(hr__file_read_at(part->fd, part->path, 8, json, (size_t)length, err));
  part->data_start = 8 + length;
  return header_read(part->path, json, (size_t)length, file_bytes - 8 - length, file, err);
}

hr_status hr__safetensors_open_file(const char *path, hr_safetensors **out, hr_error *err) {
  hr_safetensors *file = file_create(path);
  if (!file) return hr__nomem(err);
  hr_arena work = {0};
  hr_status status = file_open(file, &work, err);
  hr__arena_fini(&work);
  if (status != HR_OK) {
    hr__safetensors_close(file);
    return status;
  }
  *out = file;
  return HR_OK;
}

hr_status hr__safetensors_open(const char *path, hr_safetensors **out, hr_error *err) {
  static const char ending[] = ".safetensors.index.json";
  size_t length = strlen(path);
  bool index = length >= sizeof ending - 1 && strcmp(path + length - (sizeof ending - 1), ending) == 0;
  return index ? hr__safetensors_open_index(path, out, err) : hr__safetensors_open_file(path, out, err);
}

void hr__safetensors_close(hr_safetensors *file) {
  if (!file) return;
  for (size_t i = 0; i < file->part_count; i++)
    if (file->parts[i].fd >= 0) close(file->parts[i].fd);
  hr__arena_fini(&file->arena);
  hr__free(file);
}

size_t hr__safetensors_count(const hr_safetensors *file) {
  return file->count;
}

const hr_safetensor *hr__safetensors_at(const hr_safetensors *file, size_t index) {
  return index < file->count ? &file->entries[index].tensor : NULL;
}

size_t hr__safetensors_index(const hr_safetensors *file, const hr_safetensor *tensor) {
  return (size_t)((const hr_safetensors_entry *)tensor - file->entries); /* whose first field it is */
}

const hr_safetensor *hr__safetensors_find(const hr_safetensors *file, const char *name) {
  size_t low = 0, high = file->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int order = strcmp(name, file->entries[middle].tensor.name);
    if (order == 0) return &file->entries[middle].tensor;
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return NULL;
}

const char *hr__safetensors_metadata(const hr_safetensors *file, const char *key) {
  for (size_t i = 0; i < file->metadata_count; i++)
    if (strcmp(file->metadata[2 * i], key) == 0) return file->metadata[2 * i + 1];
  return NULL;
}

hr_status hr__safetensors_read(hr_safetensors *file, const hr_safetensor *tensor, uint64_t offset, void *data,
                               size_t bytes, hr_error *err) {
  const hr_safetensors_entry *entry = (const hr_safetensors_entry *)tensor;
  const hr_safetensors_part *part = &file->parts[entry->part];
  uint64_t length = tensor->end - tensor->begin;
  if (offset > length || bytes > length - offset)
    return hr__fail(err, HR_USAGE, part->path, NULL, "tensor \"%.200s\": read beyond its end", tensor->name);
  if (part->fd < 0) return hr__fail(err, HR_USAGE, part->path, NULL, "only the header of this file is at hand");
  return hr__file_read_at(part->fd, part->path, part->data_start + tensor->begin + offset, data, bytes, err);
}
