/* See techniques.h. */
#include "recipe/techniques.h"

#include <stdio.h>
#include <string.h>

#define HR_TECHNIQUE(key, without, name, which, ...)                                                                   \
  {.path = (key), .plain = (without), .label = (name), .flags = (which), __VA_ARGS__},
#define HR_TECHNIQUE_SECTION(key, name, which, ...)                                                                    \
  {.path = (key), .plain = "null", .label = (name), .flags = (which) | HR_TECHNIQUE_IS_SECTION, __VA_ARGS__},
const hr_technique_key hr_technique_keys[HR_TECHNIQUE_KEYS] = {
#include "recipe/techniques.def"
};

const hr_technique_key *hr__technique_find(const char *path) {
  for (int i = 0; i < HR_TECHNIQUE_KEYS; i++)
    if (strcmp(hr_technique_keys[i].path, path) == 0) return &hr_technique_keys[i];
  return NULL;
}

bool hr__technique_next(const char **list, char out[HR_TECHNIQUE_WORD]) {
  if (!*list || !**list) return false;
  size_t length = strcspn(*list, "|");
  snprintf(out, HR_TECHNIQUE_WORD, "%.*s", (int)length, *list);
  *list += length + ((*list)[length] == '|');
  return true;
}
