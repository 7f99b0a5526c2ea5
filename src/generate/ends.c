/* See ends.h. */
#include "generate/ends.h"

#include <unistd.h>

#include "format/item.h"

static hr_status end_add(hr_ids *ids, int64_t id, hr_error *err) {
  for (size_t i = 0; i < ids->count; i++)
    if (ids->items[i] == id) return HR_OK;
  return id >= 0 && id <= INT32_MAX ? hr__ids_add(ids, (int32_t)id, err) : HR_OK;
}

static hr_status file_ends(const char *folder, const char *name, hr_arena *arena, hr_ids *out, hr_error *err) {
  hr_item_file file;
  const char *path = hr__arena_format(arena, "%s/%s", folder, name);
  if (!path) return hr__nomem(err);
  if (access(path, F_OK) != 0) return HR_OK;
  HR_TRY(hr__item_open(path, arena, &file, err));
  hr_item root = hr__item_root(&file), end = hr__item_get(&root, "eos_token_id");
  if (json_is_integer(end.value)) HR_TRY(end_add(out, json_integer_value(end.value), err));
  for (size_t i = 0; i < hr__item_count(&end); i++) {
    hr_item one = hr__item_at(&end, i);
    if (json_is_integer(one.value)) HR_TRY(end_add(out, json_integer_value(one.value), err));
  }
  return HR_OK;
}

hr_status hr__ends_find(const hr_codec *codec, const char *folder, hr_ids *out, hr_error *err) {
  static const char *const files[] = {"generation_config.json", "config.json"};
  size_t count = 0;
  const int32_t *known = codec->tokenizer ? hr__tokenizer_ends(codec->tokenizer, &count) : NULL;
  for (size_t i = 0; i < count; i++)
    HR_TRY(end_add(out, known[i], err));
  hr_arena arena;
  hr__arena_init(&arena);
  hr_status status = HR_OK;
  for (size_t i = 0; i < sizeof files / sizeof *files && folder && status == HR_OK; i++)
    status = file_ends(folder, files[i], &arena, out, err);
  hr__arena_fini(&arena);
  return status;
}
