#include "text/unicode.h"

#include <pthread.h>
#include <utf8proc.h>

uint8_t hr__classes[HR_CLASS_TABLE];

static const struct {
  uint32_t first, last;
  hr_category category;
  bool is_new; /* else only its category is */
} newer[] = {
#define HR_NEWER(first, last, category)   {first, last, HR_##category, true},
#define HR_CHANGED(first, last, category) {first, last, HR_##category, false},
#include "text/unicode.def"
#undef HR_NEWER
#undef HR_CHANGED
};

static const struct {
  uint32_t first, last;
  int version;
} since[] = {
#define HR_SINCE(first, last, version) {first, last, version},
#include "text/unicode.def"
#undef HR_SINCE
};

static const uint32_t spaces[][2] = {{0x9, 0xd},       {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},
                                     {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f},
                                     {0x205f, 0x205f}, {0x3000, 0x3000}};

static uint8_t version_bits(int version) {
  return version >= 10 ? HR_CLASS_SINCE_9 | HR_CLASS_SINCE_10 : HR_CLASS_SINCE_9;
}

static void fill(void) {
  for (uint32_t c = 0; c < HR_CLASS_TABLE; c++)
    hr__classes[c] = (uint8_t)utf8proc_category((utf8proc_int32_t)c);
  for (size_t i = 0; i < sizeof since / sizeof *since; i++)
    for (uint32_t c = since[i].first; c <= since[i].last && c < HR_CLASS_TABLE; c++)
      hr__classes[c] |= version_bits(since[i].version);
  for (size_t i = 0; i < sizeof newer / sizeof *newer; i++)
    for (uint32_t c = newer[i].first; c <= newer[i].last; c++) {
      uint8_t kept = newer[i].is_new ? version_bits(16) : hr__classes[c] & (uint8_t)~HR_CLASS_CATEGORY;
      hr__classes[c] = (uint8_t)(newer[i].category | kept);
    }
  for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
    for (uint32_t c = spaces[i][0]; c <= spaces[i][1]; c++)
      hr__classes[c] |= HR_CLASS_SPACE;
}

void hr__unicode_init(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, fill);
}

uint8_t hr__class_beyond(uint32_t c) {
  return (uint8_t)utf8proc_category((utf8proc_int32_t)c);
}

/* Characters that had another category then, as far as one asks for it (marks, punctuation). */
static const struct {
  uint32_t c;
  hr_category category;
  int last; /* version that it had it in */
} formerly[] = {{0x166d, HR_PO, 9}, {0x1734, HR_MN, 9}, {0x1885, HR_LO, 8}, {0x1886, HR_LO, 8},
                {0x1cf2, HR_MC, 9}, {0x1cf3, HR_MC, 9}, {0xa9bd, HR_MC, 9}, {0x111c9, HR_PO, 9}};

bool hr__was(uint32_t c, uint32_t set, int version) {
  if (c < 0x80) return hr__is(c, set);
  if (hr__class(c) & (version == 8 ? HR_CLASS_SINCE_9 : HR_CLASS_SINCE_10)) return (set & HR_IN(HR_CN)) != 0;
  for (size_t i = 0; i < sizeof formerly / sizeof *formerly; i++)
    if (formerly[i].c == c && version <= formerly[i].last) return (set & HR_IN(formerly[i].category)) != 0;
  return hr__is(c, set);
}

bool hr__is_word(uint32_t c) {
  if (c < 0x80) return (c | 0x20) - 'a' < 26 || c - '0' < 10 || c == '_';
  if (hr__is(c, HR_LETTERS | HR_MARKS | HR_IN(HR_ND) | HR_IN(HR_NL) | HR_IN(HR_PC))) return true;
  bool joiner = c == 0x200c || c == 0x200d;
  bool circled = (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
                 (c >= 0x1f170 && c <= 0x1f189); /* symbols that are Alphabetic */
  return joiner || circled;
}

size_t hr__utf8_put(uint32_t c, char out[4]) {
  return (size_t)utf8proc_encode_char((utf8proc_int32_t)c, (utf8proc_uint8_t *)out);
}

uint32_t hr__utf8_before(const char *end, size_t *length) {
  const char *at = end - 1;
  while (((unsigned char)*at & 0xc0) == 0x80)
    at--;
  return hr__utf8_get(at, length);
}

int hr__lower(uint32_t c, uint32_t out[2]) {
  if (c < 0x80) {
    out[0] = c - 'A' < 26 ? c + 32 : c;
    return 1;
  }
  if (c == 0x130) { /* the only one that becomes two */
    out[0] = 'i';
    out[1] = 0x307;
    return 2;
  }
  /* Capitals of Unicode 16 and 17, by how far their small letters lie behind. */
  static const struct {
    uint32_t first, last;
    int32_t behind;
  } late[] = {{0x1c89, 0x1c89, 1},      {0xa7cb, 0xa7cb, 0x264 - 0xa7cb},
              {0xa7cc, 0xa7cc, 1},      {0xa7ce, 0xa7ce, 1},
              {0xa7d2, 0xa7d2, 1},      {0xa7d4, 0xa7d4, 1},
              {0xa7da, 0xa7da, 1},      {0xa7dc, 0xa7dc, 0x19b - 0xa7dc},
              {0x10d50, 0x10d65, 0x20}, {0x16ea0, 0x16eb8, 27}};
  out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
  for (size_t i = 0; i < sizeof late / sizeof *late; i++)
    if (c >= late[i].first && c <= late[i].last) out[0] = (uint32_t)((int32_t)c + late[i].behind);
  return 1;
}
