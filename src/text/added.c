#include "text/added.h"

#include <string.h>

#include "text/unicode.h"

hr_status hr__added_build(hr_added *added, const hr_added_token *tokens, hr_trie_key *texts, size_t count,
                          hr_arena *arena, hr_error *err) {
  memset(added, 0, sizeof *added);
  size_t kept = 0;
  added->only = -1;
  for (size_t i = 0; i < count; i++) {
    if (texts[i].bytes == 0) continue;
    unsigned char first = (unsigned char)texts[i].text[0];
    added->only = kept == 0 || added->only == first ? first : -1;
    added->begins[first] = true;
    texts[kept++] = texts[i];
  }
  added->tokens = tokens;
  added->count = kept;
  return kept > 0 ? hr__trie_build(&added->trie, texts, kept, arena, err) : HR_OK;
}

/* A place where a token may begin, or `bytes`. */
static size_t candidate(const hr_added *added, const char *text, size_t bytes, size_t at) {
  if (added->only >= 0) {
    const char *found = at < bytes ? memchr(text + at, added->only, bytes - at) : NULL;
    return found ? (size_t)(found - text) : bytes;
  }
  while (at < bytes && !added->begins[(unsigned char)text[at]])
    at++;
  return at;
}

static bool stands_alone(const char *text, size_t bytes, size_t begin, size_t end) {
  size_t length;
  if (begin > 0 && hr__is_word(hr__utf8_before(text + begin, &length))) return false;
  return end == bytes || !hr__is_word(hr__utf8_get(text + end, &length));
}

bool hr__added_next(const hr_added *added, const char *text, size_t bytes, size_t *at, size_t done,
                    hr_added_match *match) {
  for (size_t begin = *at; added->count > 0 && (begin = candidate(added, text, bytes, begin)) < bytes;) {
    size_t length = 0, space;
    int32_t found = hr__trie_longest(&added->trie, text + begin, bytes - begin, &length);
    if (found < 0) {
      begin++;
      continue;
    }
    const hr_added_token *token = &added->tokens[found];
    size_t end = begin + length;
    *at = end;
    if (token->single_word && !stands_alone(text, bytes, begin, end)) {
      begin = end; /* its text is not free for a shorter one */
      continue;
    }
    while (token->left_space && begin > done && hr__is_space(hr__utf8_before(text + begin, &space)))
      begin -= space;
    while (token->right_space && end < bytes && hr__is_space(hr__utf8_get(text + end, &space)))
      end += space;
    *match = (hr_added_match){begin, end, token};
    return true;
  }
  return false;
}
