/* GGUF headers. What is accepted lies inside the file, in order, and is found again by its name; blocks of every type
 * become numbers without reading beyond them. */
#include <string.h>

#include "demand.h"
#include "format/gguf.h"
#include "format/gguf_blocks.h"

static void values_check(const hr_gguf *file) {
  for (size_t i = 0; i < hr__gguf_value_count(file); i++) {
    const hr_gguf_value *value = hr__gguf_value_at(file, i);
    DEMAND(hr__gguf_value(file, value->key) == value);
    for (size_t k = 0; k <= value->count; k++) {
      int64_t integer;
      double real;
      bool truth;
      hr_gguf_text text = {0};
      bool read = hr__gguf_real(value, k, &real);
      DEMAND(!hr__gguf_integer(value, k, &integer) || read);
      read |= hr__gguf_bool(value, k, &truth);
      read |= hr__gguf_string(value, k, &text);
      DEMAND(k < value->count ? read || value->item == HR_GGUF_U64 : !read);
      for (size_t at = 0; at < text.bytes; at++)
        (void)*(volatile const char *)&text.text[at];
    }
  }
}

static void tensors_check(const hr_gguf *file, size_t file_bytes) {
  for (size_t i = 0; i < hr__gguf_count(file); i++) {
    const hr_gguf_tensor *tensor = hr__gguf_at(file, i);
    const hr_gguf_type *type = hr__gguf_type(tensor->type);
    DEMAND(hr__gguf_find(file, tensor->name) == tensor && type);
    DEMAND(tensor->begin <= tensor->end && tensor->end <= file_bytes);
    DEMAND((tensor->end - tensor->begin) * type->elements == (uint64_t)tensor->elements * type->bytes);
  }
}

static void blocks_check(const uint8_t *data, size_t size) {
  for (uint32_t number = 0; number < 48; number++) {
    const hr_gguf_type *type = hr__gguf_type(number);
    if (!type || !type->to_f32 || size < type->bytes) continue;
    uint8_t *block = malloc(type->bytes); /* exactly as large, so that a sanitizer sees reads beyond it */
    float *out = malloc(type->elements * sizeof *out);
    DEMAND(block && out);
    memcpy(block, data, type->bytes);
    type->to_f32(block, out);
    free(block);
    free(out);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  hr_gguf *file = NULL;
  hr_error err = {0};
  hr_status status = hr__gguf_parse("input", data, size, size, &file, &err);
  bool failed = status == HR_BAD_INPUT || status == HR_UNSUPPORTED;
  DEMAND(status == HR_OK ? file != NULL : failed && err.message[0] && err.place[0] && !file);
  if (file) {
    values_check(file);
    tensors_check(file, size);
  }
  hr__gguf_close(file);
  blocks_check(data, size);
  return 0;
}
