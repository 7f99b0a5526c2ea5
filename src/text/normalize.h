/* Normalizers: text rewritten before it is cut, one kind after the other. */
#ifndef HR_TEXT_NORMALIZE_H
#define HR_TEXT_NORMALIZE_H

#include <stdbool.h>

#include "text/charsmap.h"
#include "text/grow.h"
#include "text/regex.h"

typedef struct hr_normalizer hr_normalizer;
struct hr_normalizer {
  /* Appends the rewritten text to `out`, which is empty. `room` is for regular expressions. */
  hr_status (*run)(const hr_normalizer *normalizer, hr_regex_room *room, const char *text, size_t bytes, hr_string *out,
                   hr_error *err);
  bool compose, compat;            /* NFC, NFKC; NFKC, NFKD */
  bool left, right;                /* Strip */
  bool clean, cjk, accents, lower; /* of BERT: clean text, spaces round ideographs, strip accents, lower case */
  const hr_regex *regex;           /* Replace: this, or */
  const char *pattern;             /* this text */
  size_t pattern_bytes;
  const char *content; /* Replace by, Prepend */
  size_t content_bytes;
  hr_charsmap charsmap;     /* Precompiled */
  struct hr_spm_rules *spm; /* of a sentencepiece model */
};

hr_status hr__normal_form_run(const hr_normalizer *n, hr_regex_room *room, const char *text, size_t bytes,
                              hr_string *out, hr_error *err);
hr_status hr__normal_lower_run(const hr_normalizer *n, hr_regex_room *room, const char *text, size_t bytes,
                               hr_string *out, hr_error *err);
hr_status hr__normal_accents_run(const hr_normalizer *n, hr_regex_room *room, const char *text, size_t bytes,
                                 hr_string *out, hr_error *err);
hr_status hr__normal_strip_run(const hr_normalizer *n, hr_regex_room *room, const char *text, size_t bytes,
                               hr_string *out, hr_error *err);
hr_status hr__normal_prepend_run(const hr_normalizer *n, hr_regex_room *room, const char *text, size_t bytes,
                                 hr_string *out, hr_error *err);
hr_status hr__normal_replace_run(const hr_normalizer *n, hr_regex_room *room, const char *text, size_t bytes,
                                 hr_string *out, hr_error *err);
hr_status hr__normal_basic_run(const hr_normalizer *n, hr_regex_room *room, const char *text, size_t bytes,
                               hr_string *out, hr_error *err);
hr_status hr__normal_precompiled_run(const hr_normalizer *n, hr_regex_room *room, const char *text, size_t bytes,
                                     hr_string *out, hr_error *err);

/* All of them in a row. *text and *bytes become the result, which lies in one of the two buffers, or stays where it was
 * when there is nothing to do. */
hr_status hr__normalize(const hr_normalizer *normalizers, size_t count, hr_regex_room *room, hr_string buffers[2],
                        const char **text, size_t *bytes, hr_error *err);

/* NFC, NFD, NFKC or NFKD, appended; characters that came after Unicode 9 stay as they are. */
hr_status hr__normal_form(const char *text, size_t bytes, bool compose, bool compat, hr_string *out, hr_error *err);

#endif
