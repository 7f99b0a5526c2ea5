/* Two arrays that grow: bytes of text, and token ids. Both keep their memory for the next text. */
#ifndef HR_TEXT_GROW_H
#define HR_TEXT_GROW_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"

typedef struct hr_string {
  char *data;
  size_t count, capacity;
} hr_string;

typedef struct hr_ids {
  int32_t *items;
  size_t count, capacity;
} hr_ids;

hr_status hr__string_room(hr_string *bytes, size_t more, hr_error *err); /* for `more` bytes behind what is there */
hr_status hr__ids_room(hr_ids *ids, size_t more, hr_error *err);
void hr__string_fini(hr_string *bytes);
void hr__ids_fini(hr_ids *ids);

static inline hr_status hr__string_add(hr_string *bytes, const char *data, size_t count, hr_error *err) {
  if (bytes->capacity - bytes->count < count) HR_TRY(hr__string_room(bytes, count, err));
  if (count > 0) memcpy(bytes->data + bytes->count, data, count);
  bytes->count += count;
  return HR_OK;
}
hr_status hr__string_add_char(hr_string *bytes, uint32_t c, hr_error *err); /* as UTF-8 */

/* Rules of a file may make text longer, but not without end: HR_BAD_INPUT where `from` bytes became too many. */
hr_status hr__string_bounded(const hr_string *string, size_t from, hr_error *err);

static inline hr_status hr__ids_add(hr_ids *ids, int32_t id, hr_error *err) {
  if (ids->capacity == ids->count) HR_TRY(hr__ids_room(ids, 1, err));
  ids->items[ids->count++] = id;
  return HR_OK;
}

#endif
