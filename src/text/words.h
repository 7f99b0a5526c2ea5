/* A map from byte strings to ids, filled once and then only read. The strings are the caller's. */
#ifndef HR_TEXT_WORDS_H
#define HR_TEXT_WORDS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"

typedef struct hr_word {
  const char *text; /* NULL: the slot is free */
  uint32_t bytes;
  int32_t id;
} hr_word;

typedef struct hr_words {
  hr_word *slots;
  size_t mask; /* number of slots - 1 */
  size_t count;
} hr_words;

/* Room for `most` words in `arena`. */
hr_status hr__words_init(hr_words *words, size_t most, hr_arena *arena, hr_error *err);
/* A word that is there already keeps its id; returns the id that it has. */
int32_t hr__words_add(hr_words *words, const char *text, size_t bytes, int32_t id);

/* 64 mixed bits of a string; reads only its bytes. */
static inline uint64_t hr__word_hash(const char *text, size_t bytes) {
  const uint64_t m = UINT64_C(0x9e3779b97f4a7c15);
  uint64_t h = bytes * m, a = 0, b = 0;
  while (bytes > 16) {
    memcpy(&a, text, 8);
    memcpy(&b, text + 8, 8);
    h = (h ^ a) * m;
    h = ((h ^ h >> 32) ^ b) * m;
    text += 16;
    bytes -= 16;
  }
  a = b = 0;
  if (bytes >= 8) {
    memcpy(&a, text, 8);
    memcpy(&b, text + bytes - 8, 8);
  } else if (bytes >= 4) {
    uint32_t low, high;
    memcpy(&low, text, 4);
    memcpy(&high, text + bytes - 4, 4);
    a = low;
    b = high;
  } else if (bytes > 0) {
    a = (uint64_t)(unsigned char)text[0] << 16 | (uint64_t)(unsigned char)text[bytes / 2] << 8 |
        (unsigned char)text[bytes - 1];
  }
  h = (h ^ a) * m;
  h = ((h ^ h >> 32) ^ b) * m;
  return h ^ h >> 29;
}

/* -1: it is not there. */
static inline int32_t hr__words_find(const hr_words *words, const char *text, size_t bytes) {
  if (!words->slots) return -1;
  for (size_t i = hr__word_hash(text, bytes) & words->mask;; i = (i + 1) & words->mask) {
    const hr_word *word = &words->slots[i];
    if (!word->text) return -1;
    if (word->bytes == bytes && memcmp(word->text, text, bytes) == 0) return word->id;
  }
}

#endif
