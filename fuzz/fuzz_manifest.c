/* Checkpoint manifests: what is accepted has exactly the bytes that writing it again gives. So that the fuzzer gets
 * past the hash, a second try puts the right one in. */
#include <stdlib.h>
#include <string.h>

#include "train/identity.h"
#include "train/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DEMAND(condition)                                                                                              \
  do {                                                                                                                 \
    if (!(condition)) abort();                                                                                         \
  } while (0)

static void accepted(const hr_manifest *m, const char *text, size_t bytes, hr_arena *arena) {
  hr_error err = {0};
  char *again, hash[HR_XXH_HEX];
  size_t again_bytes;
  DEMAND(hr__manifest_text(m, arena, &again, &again_bytes, &err) == HR_OK);
  DEMAND(again_bytes == bytes && memcmp(again, text, bytes) == 0);
  DEMAND(m->step >= 0 && m->seed >= 0 && m->n_settings <= HR_MANIFEST_MAX_SETTINGS);
  DEMAND(m->n_files > 0 && m->n_files <= HR_MANIFEST_FILES);
  for (size_t f = 0; f < m->n_files; f++)
    DEMAND(strlen(m->files[f].hash) == HR_XXH_HEX - 1 && m->files[f].name[0] != '/' && !strstr(m->files[f].name, ".."));
  DEMAND(hr__settings_hash(m->settings, m->n_settings, hash, &err) == HR_OK);
  DEMAND(hr__identity_check(m, m->settings, m->n_settings, NULL, &err) == HR_OK);
}

/* Replaces the value of "hash" at the end by the hash of the text with an empty one. */
static char *hash_repair(const char *text, size_t bytes, hr_arena *arena) {
  static const char tail[] = "\"\n}\n", head[] = " \"hash\": \"";
  size_t after = sizeof tail - 1 + HR_XXH_HEX - 1, before = sizeof head - 1;
  if (bytes < after + before || memcmp(text + bytes - after - before, head, before) != 0) return NULL;
  size_t keep = bytes - after;
  char *copy = hr__arena_alloc(arena, bytes + 1), hash[HR_XXH_HEX];
  DEMAND(copy);
  memcpy(copy, text, keep);
  memcpy(copy + keep, tail, sizeof tail - 1);
  hr__xxh128_hex(copy, keep + sizeof tail - 1, hash);
  memcpy(copy + keep, hash, HR_XXH_HEX - 1);
  memcpy(copy + keep + HR_XXH_HEX - 1, tail, sizeof tail - 1);
  return copy;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  hr_arena arena = {0};
  hr_error err = {0};
  hr_manifest m;
  const char *text = (const char *)data, *repaired = hash_repair(text, size, &arena);
  if (hr__manifest_parse("manifest", text, size, &arena, &m, &err) == HR_OK) accepted(&m, text, size, &arena);
  if (repaired && hr__manifest_parse("manifest", repaired, size, &arena, &m, &err) == HR_OK)
    accepted(&m, repaired, size, &arena);
  hr__arena_fini(&arena);
  return 0;
}
