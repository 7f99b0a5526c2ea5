#include "report/names.h"

#include <ctype.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"
#include "format/json.h"

enum { DIGITS = 9, HOLE = 1, FIRST_SLOTS = 256 };

void hr__names_init(hr_names *names) {
  *names = (hr_names){0};
  hr__arena_init(&names->arena);
}

void hr__names_fini(hr_names *names) {
  hr__arena_fini(&names->arena);
  *names = (hr_names){0};
}

static uint32_t *slot_of(const hr_names *names, const char *pattern) {
  size_t at = (size_t)hr__xxh128(pattern, strlen(pattern)).low & (names->slots - 1);
  while (names->table[at] != UINT32_MAX && strcmp(names->patterns[names->table[at]], pattern) != 0)
    at = (at + 1) & (names->slots - 1);
  return &names->table[at];
}

static hr_status table_grow(hr_names *names, hr_error *err) {
  if (2 * (names->count + 1) <= names->slots) return HR_OK;
  names->slots = names->slots > 0 ? 2 * names->slots : FIRST_SLOTS;
  names->table = hr__arena_room(&names->arena, names->slots, sizeof *names->table);
  if (!names->table) {
    names->slots = 0;
    return hr__nomem(err);
  }
  memset(names->table, 0xff, names->slots * sizeof *names->table);
  for (size_t i = 0; i < names->count; i++)
    *slot_of(names, names->patterns[i]) = (uint32_t)i;
  return HR_OK;
}

static hr_status pattern_find(hr_names *names, const char *pattern, uint32_t *out, hr_error *err) {
  HR_TRY(table_grow(names, err));
  uint32_t *slot = slot_of(names, pattern);
  if (*slot == UINT32_MAX) {
    if (hr__arena_grow(&names->arena, (void **)&names->patterns, &names->capacity, names->count,
                       sizeof *names->patterns) != 0)
      return hr__nomem(err);
    char *copy = hr__arena_text(&names->arena, pattern);
    if (!copy) return hr__nomem(err);
    names->patterns[names->count] = copy;
    *slot = (uint32_t)names->count++;
  }
  *out = *slot;
  return HR_OK;
}

/* Digits that a number gives again as they are: without zeros in front, and not too many. 0: none begin here. */
static size_t number_at(const char *text) {
  size_t length = 0;
  while (isdigit((unsigned char)text[length]))
    length++;
  return length > DIGITS || (length > 1 && *text == '0') ? 0 : length;
}

hr_status hr__names_add(hr_names *names, const char *name, hr_name_column *column, hr_error *err) {
  size_t room = 4 * strlen(name) + 1; /* every byte may become \xNN */
  char *plain = hr__alloc(2 * room), *pattern = plain ? plain + room : NULL;
  if (!plain) return hr__nomem(err);
  hr__text_escape(name, strlen(name), plain, room);
  int64_t numbers[HR_NAME_HOLES];
  size_t count = 0, length = 0;
  for (const char *at = plain; *at;) {
    size_t digits = count < HR_NAME_HOLES ? number_at(at) : 0;
    if (digits > 0) {
      pattern[length++] = HOLE;
      for (numbers[count] = 0; digits > 0; digits--)
        numbers[count] = 10 * numbers[count] + (*at++ - '0');
      count++;
    } else {
      do
        pattern[length++] = *at++;
      while (isdigit((unsigned char)at[-1]) && isdigit((unsigned char)*at)); /* all of a number that stays text */
    }
  }
  pattern[length] = '\0';
  uint32_t id = 0;
  hr_status status = pattern_find(names, pattern, &id, err);
  hr__column_add(&column->pattern, id);
  for (size_t i = 0; i < count; i++) {
    hr__column_add_signed(&column->number, numbers[i] - column->before[i]);
    column->before[i] = numbers[i];
  }
  hr__free(plain);
  return status;
}

json_t *hr__name_column_end(hr_name_column *column) {
  return json_pack("[o, o]", hr__column_end(&column->pattern), hr__column_end(&column->number));
}

static json_t *pattern_json(const char *pattern) {
  json_t *pieces = json_array();
  int failed = pieces == NULL;
  for (const char *piece = pattern; !failed; piece += strcspn(piece, "\1") + 1) {
    size_t length = strcspn(piece, "\1");
    failed = json_array_append_new(pieces, json_stringn(piece, length));
    if (piece[length] == '\0') break;
  }
  if (!failed) return pieces;
  json_decref(pieces);
  return NULL;
}

json_t *hr__names_json(const hr_names *names) {
  json_t *list = json_array();
  int failed = list == NULL;
  for (size_t i = 0; i < names->count && !failed; i++)
    failed = json_array_append_new(list, pattern_json(names->patterns[i]));
  if (!failed) return list;
  json_decref(list);
  return NULL;
}
