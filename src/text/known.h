/* Splitters by hand for the patterns that most tokenizers have: several times as fast as a regular expression.
 *
 * Each of these patterns matches at every place, so that a splitter only says where the match ends that begins at `at`.
 * test/text/test_known.c compares them with PCRE2.
 */
#ifndef HR_TEXT_KNOWN_H
#define HR_TEXT_KNOWN_H

#include <stddef.h>

/* `at` < `end`; the text is well-formed UTF-8. */
typedef const char *(*hr_known)(const char *at, const char *end);

typedef struct hr_known_pattern {
  const char *name;
  const char *pattern; /* as files write it */
  hr_known next;
} hr_known_pattern;

extern const hr_known_pattern hr__known_patterns[];
extern const size_t hr__known_count;

/* NULL: none is known for the pattern. */
const hr_known_pattern *hr__known_find(const char *pattern, size_t bytes);
const hr_known_pattern *hr__known_named(const char *name);

#endif
