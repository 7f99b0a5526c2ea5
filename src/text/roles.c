/* Roles of tokens, from the files beside a vocabulary: tokenizer_config.json, special_tokens_map.json for what that
 * does not say; generation_config.json for further ids that end a text. */
#include <stdio.h>
#include <sys/stat.h>

#include "text/json_items.h"
#include "text/kinds.h"

/* A token is a text, or an object with its content. A token that the vocabulary lacks has no role. */
static void role_read(hr_tokenizer *t, const hr_item *root, hr_token_role role) {
  hr_item token = hr__item_get(root, hr__token_role_name(role)), content = hr__item_get(&token, "content");
  json_t *text = json_is_string(token.value) ? token.value : content.value;
  int32_t id = json_is_string(text) ? hr__words_find(&t->ids, json_string_value(text), json_string_length(text)) : -1;
  if (id >= 0) t->roles[role] = id;
}

static hr_status end_add(hr_tokenizer *t, int64_t id, hr_error *err) {
  if (id < 0 || (size_t)id >= t->count || !t->pieces[id].text) return HR_OK;
  for (size_t i = 0; i < t->ends.count; i++)
    if (t->ends.items[i] == id) return HR_OK;
  return hr__ids_add(&t->ends, (int32_t)id, err);
}

static hr_status ends_read(hr_tokenizer *t, const hr_item *root, hr_error *err) {
  hr_item end = hr__item_get(root, "eos_token_id");
  if (json_is_integer(end.value)) return end_add(t, json_integer_value(end.value), err);
  for (size_t i = 0; i < hr__item_count(&end); i++) {
    hr_item one = hr__item_at(&end, i);
    if (json_is_integer(one.value)) HR_TRY(end_add(t, json_integer_value(one.value), err));
  }
  return HR_OK;
}

static hr_status roles_read(hr_tokenizer *t, const hr_item *root, hr_error *err) {
  (void)err;
  for (int role = 0; role < HR_TOKEN_ROLES; role++)
    role_read(t, root, (hr_token_role)role);
  return HR_OK;
}

/* A file beside the vocabulary, if it is there. */
static hr_status beside(hr_tokenizer *t, const char *path, const char *name,
                        hr_status (*read)(hr_tokenizer *, const hr_item *, hr_error *), hr_error *err) {
  const char *slash = strrchr(path, '/');
  char place[4096];
  struct stat facts;
  int folder = slash ? (int)(slash - path) + 1 : 0;
  if (snprintf(place, sizeof place, "%.*s%s", folder, path, name) >= (int)sizeof place) return HR_OK;
  if (stat(place, &facts) != 0) return HR_OK;
  return hr__item_load(t, place, read, err);
}

hr_status hr__load_roles(hr_tokenizer *t, const char *path, hr_error *err) {
  HR_TRY(beside(t, path, "special_tokens_map.json", roles_read, err));
  HR_TRY(beside(t, path, "tokenizer_config.json", roles_read, err)); /* it has the last word */
  if (t->roles[HR_TOKEN_END] >= 0) HR_TRY(end_add(t, t->roles[HR_TOKEN_END], err));
  return beside(t, path, "generation_config.json", ends_read, err);
}
