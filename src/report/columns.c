#include "report/columns.h"

#include <string.h>

#include "base/mem.h"
#include "format/base64.h"

void hr__column_add(hr_column *c, uint64_t number) {
  if (c->count == c->capacity && !c->failed) {
    size_t capacity = c->capacity > 0 ? 2 * c->capacity : 64;
    uint64_t *grown = hr__realloc(c->numbers, capacity * sizeof *grown);
    c->failed = grown == NULL;
    if (grown) {
      c->numbers = grown;
      c->capacity = capacity;
    }
  }
  if (!c->failed) c->numbers[c->count++] = number;
}

void hr__column_add_signed(hr_column *c, int64_t number) {
  uint64_t twice = (uint64_t)number << 1;
  hr__column_add(c, number < 0 ? ~twice : twice);
}

void hr__column_add_next(hr_column *c, uint64_t number) {
  hr__column_add_signed(c, (int64_t)(number - c->last));
  c->last = number;
}

/* --- packing ------------------------------------------------------------------------------------------------------ */

enum { SHORTEST = 4, TABLE_BITS = 14, NUMBER_BYTES = 10 };

typedef struct packing {
  const uint64_t *numbers;
  size_t count;
  uint32_t last_seen[1 << TABLE_BITS]; /* by hash of SHORTEST numbers: one behind where they were last; 0: nowhere */
  unsigned char *bytes;
  size_t used;
} packing;

static void number_put(packing *p, uint64_t number) {
  for (; number >= 128; number >>= 7)
    p->bytes[p->used++] = (unsigned char)(number | 128);
  p->bytes[p->used++] = (unsigned char)number;
}

static uint32_t *seen_at(packing *p, size_t at) {
  uint64_t hash = 0;
  for (size_t i = 0; i < SHORTEST; i++)
    hash = (hash ^ p->numbers[at + i]) * 0x9e3779b97f4a7c15u;
  return &p->last_seen[hash >> (64 - TABLE_BITS)];
}

/* How many numbers at `at` are those at `from`, which lies before it. */
static size_t repeats(const packing *p, size_t from, size_t at) {
  size_t length = 0;
  while (at + length < p->count && p->numbers[from + length] == p->numbers[at + length])
    length++;
  return length;
}

static void literals_put(packing *p, size_t from, size_t to) {
  number_put(p, to - from);
  for (size_t i = from; i < to; i++)
    number_put(p, p->numbers[i]);
}

static void column_pack(packing *p) {
  size_t begun = 0, at = 0;
  while (at + SHORTEST <= p->count) {
    uint32_t *seen = seen_at(p, at);
    size_t from = *seen, length = from > 0 ? repeats(p, from - 1, at) : 0;
    *seen = (uint32_t)at + 1;
    if (length < SHORTEST) {
      at++;
      continue;
    }
    literals_put(p, begun, at);
    number_put(p, length);
    number_put(p, at - (from - 1));
    for (size_t i = at + 1; i < at + length && i + SHORTEST <= p->count; i++)
      *seen_at(p, i) = (uint32_t)i + 1;
    begun = at += length;
  }
  if (begun < p->count) literals_put(p, begun, p->count);
}

json_t *hr__column_end(hr_column *c) {
  json_t *text = NULL;
  packing *p = hr__alloc_zero(1, sizeof *p);
  /* a piece of a copy is never longer than the numbers that it stands for, but for the count in front of it */
  size_t most = (c->count + c->count / SHORTEST + 2) * NUMBER_BYTES;
  unsigned char *bytes = c->failed || !p ? NULL : hr__alloc(most);
  char *digits = bytes ? hr__alloc(4 * (most / 3 + 1) + 1) : NULL;
  if (digits) {
    p->numbers = c->numbers;
    p->count = c->count;
    p->bytes = bytes;
    column_pack(p);
    text = json_stringn_nocheck(digits, hr__base64_write(bytes, p->used, digits));
  }
  hr__free(digits);
  hr__free(bytes);
  hr__free(p);
  hr__free(c->numbers);
  *c = (hr_column){0};
  return text;
}
