/* What an open GGUF file holds: values, tensors, their data. */
#include <string.h>

#include "format/file.h"
#include "format/gguf_blocks.h"
#include "format/gguf_file.h"

uint32_t hr__gguf_version(const hr_gguf *file) {
  return file->version;
}
size_t hr__gguf_value_count(const hr_gguf *file) {
  return file->value_count;
}
const hr_gguf_value *hr__gguf_value_at(const hr_gguf *file, size_t index) {
  return index < file->value_count ? &file->values[index] : NULL;
}
size_t hr__gguf_count(const hr_gguf *file) {
  return file->count;
}
const hr_gguf_tensor *hr__gguf_at(const hr_gguf *file, size_t index) {
  return index < file->count ? &file->tensors[index] : NULL;
}

const hr_gguf_value *hr__gguf_value(const hr_gguf *file, const char *key) {
  size_t low = 0, high = file->value_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int order = strcmp(key, file->values[middle].key);
    if (order == 0) return &file->values[middle];
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return NULL;
}

const hr_gguf_tensor *hr__gguf_find(const hr_gguf *file, const char *wanted) {
  size_t low = 0, high = file->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int order = strcmp(wanted, file->tensors[middle].name);
    if (order == 0) return &file->tensors[middle];
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return NULL;
}

bool hr__gguf_integer(const hr_gguf_value *value, size_t index, int64_t *out) {
  if (!value || index >= value->count || value->texts) return false;
  size_t width = hr__gguf_widths[value->item];
  uint64_t bits = hr__gguf_number_at(value->at + index * width, width);
  switch (value->item) {
  case HR_GGUF_I8:
    *out = (int8_t)bits;
    return true;
  case HR_GGUF_I16:
    *out = (int16_t)bits;
    return true;
  case HR_GGUF_I32:
    *out = (int32_t)bits;
    return true;
  case HR_GGUF_I64:
    *out = (int64_t)bits;
    return true;
  case HR_GGUF_U8:
  case HR_GGUF_U16:
  case HR_GGUF_U32:
  case HR_GGUF_U64:
    *out = (int64_t)bits;
    return bits <= INT64_MAX;
  default:
    return false;
  }
}

bool hr__gguf_real(const hr_gguf_value *value, size_t index, double *out) {
  int64_t integer;
  if (hr__gguf_integer(value, index, &integer)) {
    *out = (double)integer;
    return true;
  }
  if (!value || index >= value->count || value->texts) return false;
  if (value->item == HR_GGUF_F32) {
    uint32_t bits = (uint32_t)hr__gguf_number_at(value->at + 4 * index, 4);
    float single;
    memcpy(&single, &bits, sizeof single);
    *out = (double)single;
    return true;
  }
  if (value->item != HR_GGUF_F64) return false;
  uint64_t bits = hr__gguf_number_at(value->at + 8 * index, 8);
  memcpy(out, &bits, sizeof *out);
  return true;
}

bool hr__gguf_bool(const hr_gguf_value *value, size_t index, bool *out) {
  if (!value || index >= value->count || value->item != HR_GGUF_BOOL) return false;
  *out = value->at[index] != 0;
  return true;
}

bool hr__gguf_string(const hr_gguf_value *value, size_t index, hr_gguf_text *out) {
  if (!value || index >= value->count || !value->texts) return false;
  *out = value->texts[index];
  return true;
}

hr_status hr__gguf_read(const hr_gguf *file, const hr_gguf_tensor *tensor, uint64_t offset, void *data, size_t bytes,
                        hr_error *err) {
  uint64_t length = tensor->end - tensor->begin;
  if (offset > length || bytes > length - offset)
    return hr__fail(err, HR_USAGE, file->path, NULL, "tensor \"%.200s\": read beyond its end", tensor->name);
  if (file->fd < 0) return hr__fail(err, HR_USAGE, file->path, NULL, "only the header of this file is at hand");
  return hr__file_read_at(file->fd, file->path, file->data_start + tensor->begin + offset, data, bytes, err);
}

hr_status hr__gguf_read_f32(const hr_gguf *file, const hr_gguf_tensor *tensor, int64_t first, int64_t count, float *out,
                            hr_error *err) {
  const hr_gguf_type *type = hr__gguf_type(tensor->type);
  if (!type->to_f32)
    return hr__fail(err, HR_UNSUPPORTED, file->path, "convert the model to another type, such as Q8_0 or BF16",
                    "tensor \"%.200s\" is of type %s, which is not read", tensor->name, type->name);
  if (first < 0 || count < 0 || first > tensor->elements || count > tensor->elements - first ||
      first % type->elements || count % type->elements)
    return hr__fail(err, HR_USAGE, file->path, NULL, "tensor \"%.200s\": elements that are no whole blocks of it",
                    tensor->name);
  unsigned char window[1 << 14];
  uint64_t block = (uint64_t)first / type->elements, end = block + (uint64_t)count / type->elements;
  while (block < end) {
    uint64_t blocks = sizeof window / type->bytes;
    if (blocks > end - block) blocks = end - block;
    HR_TRY(hr__gguf_read(file, tensor, block * type->bytes, window, (size_t)blocks * type->bytes, err));
    for (uint64_t i = 0; i < blocks; i++, out += type->elements)
      type->to_f32(window + i * type->bytes, out);
    block += blocks;
  }
  return HR_OK;
}
