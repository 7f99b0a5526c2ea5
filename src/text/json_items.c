#include "text/json_items.h"

#include <stdio.h>

hr_status hr__item_dispatch(hr_tokenizer *t, const hr_item *item, const hr_item_kind *kinds, size_t count,
                            const char *what, hr_error *err) {
  HR_TRY(hr__item_object(item, err));
  const char *type = NULL;
  hr_item name = hr__item_get(item, "type");
  HR_TRY(hr__item_text(&name, false, &type, NULL, err));
  for (size_t i = 0; i < count; i++)
    if (strcmp(kinds[i].type, type) == 0) return kinds[i].read(t, item, err);
  return hr__item_fail(&name, err, "this item of tokenizers is not supported yet: convert the data to ids elsewhere",
                       "unknown %s '%.80s'", what, type);
}

hr_status hr__item_each(hr_tokenizer *t, const hr_item *item, const char *key,
                        hr_status (*read)(hr_tokenizer *, const hr_item *, hr_error *), hr_error *err) {
  hr_item list = hr__item_get(item, key);
  HR_TRY(hr__item_list(&list, err));
  for (size_t i = 0; i < hr__item_count(&list); i++) {
    hr_item one = hr__item_at(&list, i);
    HR_TRY(read(t, &one, err));
  }
  return HR_OK;
}

hr_status hr__item_placed(const hr_item *item, hr_status status, hr_error *err) {
  if (status != HR_BAD_INPUT || !err || err->place[0]) return status;
  char message[sizeof err->message];
  snprintf(message, sizeof message, "%s", err->message);
  return hr__item_fail(item, err, NULL, "%s", message);
}

hr_status hr__item_copy(hr_tokenizer *t, const hr_item *item, bool optional, const char **text, size_t *bytes,
                        hr_error *err) {
  const char *found = NULL;
  size_t length = 0;
  HR_TRY(hr__item_text(item, optional, &found, &length, err));
  if (!found) return HR_OK;
  if (length > 1024) return hr__item_fail(item, err, NULL, "a text of more than 1024 bytes is no part of a tokenizer");
  *bytes = length;
  *text = hr__build_copy(t, found, length);
  return *text ? HR_OK : hr__nomem(err);
}

hr_status hr__item_pattern(hr_tokenizer *t, const hr_item *pattern, const char **text, size_t *bytes,
                           const hr_regex **regex, hr_error *err) {
  HR_TRY(hr__item_object(pattern, err));
  hr_item plain = hr__item_get(pattern, "String"), expression = hr__item_get(pattern, "Regex");
  if (plain.value) return hr__item_copy(t, &plain, false, text, bytes, err);
  if (!expression.value) return hr__item_fail(pattern, err, NULL, "a pattern is {\"String\": ...} or {\"Regex\": ...}");
  const char *found = NULL;
  size_t length = 0;
  HR_TRY(hr__item_text(&expression, false, &found, &length, err));
  return hr__item_placed(&expression, hr__build_regex(t, found, length, HR_DIALECT_ONIGURUMA, regex, err), err);
}

hr_status hr__item_load(hr_tokenizer *t, const char *path,
                        hr_status (*read)(hr_tokenizer *, const hr_item *, hr_error *), hr_error *err) {
  hr_arena work = {0}; /* jansson's tree */
  hr_item_file file;
  hr_status status = hr__item_open(path, &work, &file, err);
  if (status == HR_OK) {
    hr_item root = hr__item_root(&file);
    status = read(t, &root, err);
  }
  hr__arena_fini(&work);
  return status;
}
