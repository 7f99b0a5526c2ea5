/* Lists of settings on the command line: "a=1,b=[2,3]". See plan.h. */
#include <string.h>

#include "cli/plan.h"

const char *hr__part_next(hr_arena *arena, const char **text, bool *failed) {
  *failed = false;
  if (*text == NULL) return NULL;
  const char *end = *text;
  int depth = 0;
  char quote = '\0';
  for (; *end != '\0'; end++) {
    if (quote != '\0')
      quote = *end == quote ? '\0' : quote;
    else if (*end == '"' || *end == '\'')
      quote = *end;
    else if (*end == '[' || *end == '{')
      depth++;
    else if (*end == ']' || *end == '}')
      depth--;
    else if (*end == ',' && depth == 0)
      break;
  }
  const char *part = hr__arena_format(arena, "%.*s", (int)(end - *text), *text);
  *failed = part == NULL;
  *text = *end == ',' ? end + 1 : NULL;
  return part;
}
