/* Added tokens: texts that are found before anything else is done, the leftmost first and of those the longest. */
#ifndef HR_TEXT_ADDED_H
#define HR_TEXT_ADDED_H

#include <stdbool.h>

#include "text/trie.h"

typedef struct hr_added_token {
  const char *text;
  size_t bytes;
  int32_t id;
  bool single_word;             /* not beside a word character */
  bool left_space, right_space; /* takes the white space beside it */
  bool normalized;              /* looked for in normalized text, in its own normalized form */
  bool special;                 /* left out of decoded text where that is asked for */
} hr_added_token;

typedef struct hr_added {
  hr_trie trie; /* to numbers of tokens */
  const hr_added_token *tokens;
  size_t count;     /* in the trie; 0: nothing is looked for */
  bool begins[256]; /* bytes that any of them begins with */
  int only;         /* the one byte that all begin with; -1: there are several */
} hr_added;

typedef struct hr_added_match {
  size_t begin, end; /* with the space that it takes */
  const hr_added_token *token;
} hr_added_match;

/* `texts` are what is looked for, where that differs from the tokens' own (normalized ones); tokens with an empty text
 * are left out. All of it stays the caller's. */
hr_status hr__added_build(hr_added *added, const hr_added_token *tokens, hr_trie_key *texts, size_t count,
                          hr_arena *arena, hr_error *err);

/* The next match from *at on, which is moved behind it; `done`: the end of the match before, which space is not taken
 * from. False: there is none. */
bool hr__added_next(const hr_added *added, const char *text, size_t bytes, size_t *at, size_t done,
                    hr_added_match *match);

#endif
