#include "text/known.h"

#include <stdbool.h>
#include <string.h>

#include "text/unicode.h"

#define INLINE static inline __attribute__((always_inline))

#define CONTRACTION "'s|'t|'re|'ve|'m|'ll|'d"
#define TAIL        "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER       "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER       "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define BEFORE      "[^\\r\\n\\p{L}\\p{N}]?"

/* A character: its code point, its class, where it ends. */
typedef struct sign {
  uint32_t c, set; /* set: the one category that it is in, as a bit */
  bool space;
  const char *end;
} sign;

INLINE sign sign_at(const char *at) {
  size_t length;
  uint32_t c = hr__utf8_get(at, &length);
  uint8_t class = hr__class(c);
  return (sign){c, HR_IN(class & HR_CLASS_CATEGORY), (class & HR_CLASS_SPACE) != 0, at + length};
}

INLINE bool line_end(uint32_t c) {
  return c == '\r' || c == '\n';
}

/* Behind the characters of `set` that begin at `at`. */
INLINE const char *run(const char *at, const char *end, uint32_t set) {
  while (at < end) {
    sign s = sign_at(at);
    if (!(s.set & set)) break;
    at = s.end;
  }
  return at;
}

/* Behind the characters that are neither space nor of `set`. */
INLINE const char *run_other(const char *at, const char *end, uint32_t set) {
  while (at < end) {
    sign s = sign_at(at);
    if (s.space || (s.set & set)) break;
    at = s.end;
  }
  return at;
}

/* \s+(?!\S)|\s+ at a space, whose run ends at `stop`: all at the end of the text, else all but the last one. */
INLINE const char *spaces(const char *at, const char *stop, const char *end) {
  if (stop == end) return stop;
  size_t length;
  hr__utf8_before(stop, &length);
  return stop - length > at ? stop - length : stop;
}

INLINE const char *space_run(const char *at, const char *end, const char **behind_line) {
  *behind_line = NULL;
  while (at < end) {
    sign s = sign_at(at);
    if (!s.space) break;
    at = s.end;
    if (line_end(s.c)) *behind_line = at;
  }
  return at;
}

/* 's 't 're 've 'm 'll 'd behind the apostrophe at `at`; NULL: none. Without regard to case the long s is one too. */
INLINE const char *contraction(const char *at, const char *end, bool any_case) {
  if (end - at < 2 || *at != '\'') return NULL;
  char first = at[1], second = end - at > 2 ? at[2] : 0;
  if (any_case) {
    if ((unsigned char)first == 0xc5 && (unsigned char)second == 0xbf) return at + 3;
    first = (char)(first | 0x20);
    second = (char)(second | 0x20);
  }
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  bool two = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l');
  return two ? at + 3 : NULL;
}

static const char *gpt2_next(const char *at, const char *end) {
  const char *stop = contraction(at, end, false);
  if (stop) return stop;
  sign s = sign_at(at);
  if (s.c == ' ' && s.end < end) {
    sign behind = sign_at(s.end);
    if (!behind.space) s = behind;
  }
  if (s.set & HR_LETTERS) return run(s.end, end, HR_LETTERS);
  if (s.set & HR_NUMBERS) return run(s.end, end, HR_NUMBERS);
  if (!s.space) return run_other(s.end, end, HR_LETTERS | HR_NUMBERS);
  const char *line;
  return spaces(at, space_run(at, end, &line), end);
}

/* What the families behind GPT-2 differ in. */
typedef struct habits {
  int digits;       /* of a group of them, at most */
  bool marks;       /* belong to letters */
  bool end_space;   /* all space at the end of the text is one piece, lines or not */
  bool contraction; /* with a case-blind one behind (cased) a word */
  bool slash;       /* signs take slashes with them as well as line ends */
} habits;

INLINE const char *digits(sign s, const char *end, int most) {
  const char *at = s.end;
  for (int count = 1; count < most && at < end; count++) {
    sign next = sign_at(at);
    if (!(next.set & HR_NUMBERS)) break;
    at = next.end;
  }
  return at;
}

/* " ?[^\s\p{L}\p{N}]+[\r\n]*" and the alternatives of spaces, for `s` at `at`. */
INLINE const char *signs_or_space(const char *at, sign s, const char *end, habits h) {
  uint32_t words = HR_LETTERS | HR_NUMBERS | (h.marks ? HR_MARKS : 0);
  if (s.c == ' ' && s.end < end) {
    sign behind = sign_at(s.end);
    if (!behind.space && !(behind.set & words)) s = behind;
  }
  if (!s.space) {
    const char *stop = run_other(s.end, end, words);
    while (stop < end && (line_end((unsigned char)*stop) || (h.slash && *stop == '/')))
      stop++;
    return stop;
  }
  const char *line, *stop = space_run(at, end, &line);
  if (h.end_space && stop == end) return stop;
  return line ? line : spaces(at, stop, end);
}

/* The pattern of Llama-3 and its relatives. */
INLINE const char *plain_next(const char *at, const char *end, habits h) {
  const char *stop = contraction(at, end, true);
  if (stop) return stop;
  uint32_t letters = HR_LETTERS | (h.marks ? HR_MARKS : 0);
  sign s = sign_at(at);
  if (s.set & letters) return run(s.end, end, letters);
  if (s.set & HR_NUMBERS) return digits(s, end, h.digits);
  if (!line_end(s.c) && s.end < end && (sign_at(s.end).set & letters)) return run(s.end, end, letters);
  return signs_or_space(at, s, end, h);
}

#define UPPERS (HR_IN(HR_LU) | HR_IN(HR_LT) | HR_IN(HR_LM) | HR_IN(HR_LO) | HR_MARKS)
#define LOWERS (HR_IN(HR_LL) | HR_IN(HR_LM) | HR_IN(HR_LO) | HR_MARKS)

/* U*W+ at `at`, with U = UPPERS and W = LOWERS: they share characters, so that the greedy U* may have to give some
 * back. NULL: no match; *upper is then where U+ ends (`at`: none). */
INLINE const char *lower_word(const char *at, const char *end, const char **upper) {
  const char *stop = at, *shared = NULL;
  while (stop < end) {
    sign s = sign_at(stop);
    if (!(s.set & UPPERS)) break;
    stop = s.end;
    if (s.set & LOWERS) shared = s.end;
  }
  *upper = stop;
  const char *word = run(stop, end, LOWERS);
  return word > stop ? word : shared;
}

/* The pattern of o200k and its relatives, which cuts words where capitals begin. */
INLINE const char *cased_next(const char *at, const char *end, habits h) {
  sign s = sign_at(at);
  bool before = !line_end(s.c) && !(s.set & (HR_LETTERS | HR_NUMBERS)) && s.end < end;
  bool word = (s.set & (HR_LETTERS | HR_MARKS)) != 0;
  const char *stop = NULL, *upper_before = s.end, *upper = at;
  if (before && (sign_at(s.end).set & (HR_LETTERS | HR_MARKS))) stop = lower_word(s.end, end, &upper_before);
  if (!stop && word) stop = lower_word(at, end, &upper);
  if (!stop && upper_before > s.end) stop = upper_before;
  if (!stop && upper > at) stop = upper;
  if (stop) {
    const char *behind = h.contraction ? contraction(stop, end, true) : NULL;
    return behind ? behind : stop;
  }
  if (s.set & HR_NUMBERS) return digits(s, end, h.digits);
  return signs_or_space(at, s, end, h);
}

static const char *llama3_next(const char *at, const char *end) {
  return plain_next(at, end, (habits){.digits = 3});
}
static const char *qwen_next(const char *at, const char *end) {
  return plain_next(at, end, (habits){.digits = 1});
}
static const char *qwen35_next(const char *at, const char *end) {
  return plain_next(at, end, (habits){.digits = 1, .marks = true});
}
static const char *cl100k_next(const char *at, const char *end) {
  return plain_next(at, end, (habits){.digits = 3, .end_space = true});
}
static const char *o200k_next(const char *at, const char *end) {
  return cased_next(at, end, (habits){.digits = 3, .contraction = true, .slash = true});
}
static const char *tekken_next(const char *at, const char *end) {
  return cased_next(at, end, (habits){.digits = 1, .slash = true});
}

const hr_known_pattern hr__known_patterns[] = {
    {"gpt2", CONTRACTION "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", gpt2_next},
    {"llama3", "(?i:" CONTRACTION ")|" BEFORE "\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TAIL, llama3_next},
    {"qwen", "(?i:" CONTRACTION ")|" BEFORE "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TAIL, qwen_next},
    {"qwen35", "(?i:" CONTRACTION ")|" BEFORE "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" TAIL,
     qwen35_next},
    {"cl100k",
     "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|"
     "\\s*[\\r\\n]|\\s+(?!\\S)|\\s",
     cl100k_next},
    {"o200k",
     BEFORE UPPER "*" LOWER "+(?i:" CONTRACTION ")?|" BEFORE UPPER "+" LOWER "*(?i:" CONTRACTION
                  ")?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" TAIL,
     o200k_next},
    {"tekken", BEFORE UPPER "*" LOWER "+|" BEFORE UPPER "+" LOWER "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" TAIL,
     tekken_next},
};
const size_t hr__known_count = sizeof hr__known_patterns / sizeof *hr__known_patterns;

const hr_known_pattern *hr__known_find(const char *pattern, size_t bytes) {
  for (size_t i = 0; i < hr__known_count; i++)
    if (strlen(hr__known_patterns[i].pattern) == bytes && memcmp(hr__known_patterns[i].pattern, pattern, bytes) == 0)
      return &hr__known_patterns[i];
  return NULL;
}

const hr_known_pattern *hr__known_named(const char *name) {
  for (size_t i = 0; i < hr__known_count; i++)
    if (strcmp(hr__known_patterns[i].name, name) == 0) return &hr__known_patterns[i];
  return NULL;
}
