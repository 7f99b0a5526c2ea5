#include "text/grow.h"

#include "base/checked.h"
#include "text/unicode.h"

/* At least `more` behind `count`, doubling. */
static hr_status room(void **items, size_t *capacity, size_t count, size_t more, size_t size, hr_error *err) {
  size_t wanted, bytes;
  if (!hr__add_size(count, more, &wanted)) return hr__nomem(err);
  if (wanted <= *capacity) return HR_OK;
  if (wanted < 2 * *capacity) wanted = 2 * *capacity;
  if (wanted < 64) wanted = 64;
  if (!hr__mul_size(wanted, size, &bytes)) return hr__nomem(err);
  void *grown = hr__realloc(*items, bytes);
  if (!grown) return hr__nomem(err);
  *items = grown;
  *capacity = wanted;
  return HR_OK;
}

hr_status hr__string_room(hr_string *bytes, size_t more, hr_error *err) {
  return room((void **)&bytes->data, &bytes->capacity, bytes->count, more, 1, err);
}

hr_status hr__ids_room(hr_ids *ids, size_t more, hr_error *err) {
  return room((void **)&ids->items, &ids->capacity, ids->count, more, sizeof *ids->items, err);
}

void hr__string_fini(hr_string *bytes) {
  hr__free(bytes->data);
  *bytes = (hr_string){0};
}

void hr__ids_fini(hr_ids *ids) {
  hr__free(ids->items);
  *ids = (hr_ids){0};
}

hr_status hr__string_add_char(hr_string *bytes, uint32_t c, hr_error *err) {
  char text[4];
  return hr__string_add(bytes, text, hr__utf8_put(c, text), err);
}

hr_status hr__string_bounded(const hr_string *string, size_t from, hr_error *err) {
  enum { TIMES = 64, ALWAYS = 16384 }; /* the longest honest rewrite is of 3 bytes to 33 */
  if (string->count / TIMES <= from + ALWAYS / TIMES) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, NULL, "use another tokenizer: this one's rules are broken",
                  "the tokenizer's rules make %zu bytes of text more than %d times as long", from, TIMES);
}
