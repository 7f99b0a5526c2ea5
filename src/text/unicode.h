/* Characters: UTF-8 in and out, and what Unicode says about a code point.
 *
 * Categories are those of Unicode 16: utf8proc's, completed by unicode.def. They lie in one flat table that is filled
 * once for the process, a byte for each code point of the planes in use.
 */
#ifndef HR_TEXT_UNICODE_H
#define HR_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In utf8proc's order, so that its answers are taken as they are. */
typedef enum hr_category {
  HR_CN,
  HR_LU,
  HR_LL,
  HR_LT,
  HR_LM,
  HR_LO,
  HR_MN,
  HR_MC,
  HR_ME,
  HR_ND,
  HR_NL,
  HR_NO,
  HR_PC,
  HR_PD,
  HR_PS,
  HR_PE,
  HR_PI,
  HR_PF,
  HR_PO,
  HR_SM,
  HR_SC,
  HR_SK,
  HR_SO,
  HR_ZS,
  HR_ZL,
  HR_ZP,
  HR_CC,
  HR_CF,
  HR_CS,
  HR_CO,
  HR_CATEGORIES
} hr_category;

/* Sets of categories. */
#define HR_IN(category) (UINT32_C(1) << (category))
#define HR_LETTERS      (HR_IN(HR_LU) | HR_IN(HR_LL) | HR_IN(HR_LT) | HR_IN(HR_LM) | HR_IN(HR_LO))
#define HR_MARKS        (HR_IN(HR_MN) | HR_IN(HR_MC) | HR_IN(HR_ME))
#define HR_NUMBERS      (HR_IN(HR_ND) | HR_IN(HR_NL) | HR_IN(HR_NO))
#define HR_PUNCTUATION                                                                                                 \
  (HR_IN(HR_PC) | HR_IN(HR_PD) | HR_IN(HR_PS) | HR_IN(HR_PE) | HR_IN(HR_PI) | HR_IN(HR_PF) | HR_IN(HR_PO))
#define HR_SYMBOLS (HR_IN(HR_SM) | HR_IN(HR_SC) | HR_IN(HR_SK) | HR_IN(HR_SO))

enum {
  HR_CLASS_CATEGORY = 31,
  HR_CLASS_SINCE_9 = 32,   /* assigned in Unicode 9 or later */
  HR_CLASS_SINCE_10 = 64,  /* in Unicode 10 or later */
  HR_CLASS_SPACE = 128,    /* White_Space */
  HR_CLASS_TABLE = 0x40000 /* code points from here on are computed */
};

extern uint8_t hr__classes[HR_CLASS_TABLE]; /* valid after hr__unicode_init */
void hr__unicode_init(void);                /* once for the process; cheap to repeat, thread-safe */
uint8_t hr__class_beyond(uint32_t c);

static inline uint8_t hr__class(uint32_t c) {
  return c < HR_CLASS_TABLE ? hr__classes[c] : hr__class_beyond(c);
}
static inline bool hr__is(uint32_t c, uint32_t set) {
  return (set >> (hr__class(c) & HR_CLASS_CATEGORY) & 1) != 0;
}
static inline bool hr__is_space(uint32_t c) {
  return (hr__class(c) & HR_CLASS_SPACE) != 0;
}
/* The same by the tables of Unicode 8 or 9, which some parts of tokenizers have. */
bool hr__was(uint32_t c, uint32_t set, int version);
/* \w as Rust's regular expressions have it: Alphabetic, marks, decimal digits, connectors, joiners. */
bool hr__is_word(uint32_t c);

/* The code point at `at` in well-formed UTF-8, and how many bytes it has. */
static inline uint32_t hr__utf8_get(const char *at, size_t *length) {
  const unsigned char *b = (const unsigned char *)at;
  if (b[0] < 0x80) {
    *length = 1;
    return b[0];
  }
  if (b[0] < 0xe0) {
    *length = 2;
    return (uint32_t)(b[0] & 0x1f) << 6 | (b[1] & 0x3f);
  }
  if (b[0] < 0xf0) {
    *length = 3;
    return (uint32_t)(b[0] & 0x0f) << 12 | (uint32_t)(b[1] & 0x3f) << 6 | (b[2] & 0x3f);
  }
  *length = 4;
  return (uint32_t)(b[0] & 0x07) << 18 | (uint32_t)(b[1] & 0x3f) << 12 | (uint32_t)(b[2] & 0x3f) << 6 | (b[3] & 0x3f);
}
/* Bytes of the character that begins with `lead`. */
static inline size_t hr__utf8_length(unsigned char lead) {
  return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}
size_t hr__utf8_put(uint32_t c, char out[4]);
/* Of the last character before `end`, which is not the beginning of the text. */
uint32_t hr__utf8_before(const char *end, size_t *length);

/* Lower case of one character, by the full mapping without regard to its neighbours. Returns how many (1 or 2). */
int hr__lower(uint32_t c, uint32_t out[2]);

#endif
