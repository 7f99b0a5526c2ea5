/* See part_data.h. */
#include "part_data.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const hr_key family[] = {{.path = "model.family", .type = HR_KEY_TEXT, .fallback = "none", .meaning = "-"}};

void file_put(const char *path, const void *bytes, size_t count) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, bytes, count), count);
  close(fd);
}

hr_recipe *recipe_parse(const char *text, const char *const *overrides, size_t count) {
  hr_recipe *recipe = NULL;
  hr_error err = {0};
  const hr_key_table tables[] = {hr_data_keys, hr_masking_keys, hr_scenes_keys, {family, 1}};
  if (hr__recipe_parse("r.yaml", ".", text, strlen(text), overrides, count, tables, 4, &recipe, &err) != HR_OK)
    fail_msg("%s: %s", err.place, err.message);
  return recipe;
}

void recipe_make(fixture *f, const char *source) {
  char path[4200], from[64];
  snprintf(f->path, sizeof f->path, "%s/data-%ld.txt", HR_BINARY_DIR, (long)getpid());
  snprintf(path, sizeof path, "data.path=%s", f->path);
  snprintf(from, sizeof from, "data.source=%s", source);
  f->recipe = recipe_parse("data: { sequence_length: 16 }\n", (const char *const[]){path, from}, 2);
}

void token_fields(hr_fields *out, int64_t batch, const int64_t *buckets, int n_buckets, int64_t vocabulary,
                  bool lengths) {
  for (int b = 0; b < n_buckets; b++) {
    hr_desc desc = {HR_I32, 2, {batch, buckets[b]}};
    out[b] = (hr_fields){.count = 0};
    hr__field_add(&out[b], (hr_field){.name = "tokens", .purpose = HR_FOR_TOKENS, .desc = desc, .bound = vocabulary});
    hr__field_add(&out[b], (hr_field){.name = "targets", .purpose = HR_FOR_TARGETS, .desc = desc});
    if (!lengths) continue;
    hr__field_add(&out[b], (hr_field){.name = "lengths", .purpose = HR_FOR_LENGTHS, .desc = {HR_I32, 1, {batch}}});
  }
}

hr_status fixture_try(fixture *f, const char *source, const void *text, size_t bytes, int64_t batch,
                      const int64_t *buckets, int n_buckets, bool eval, hr_error *err) {
  hr_fields fields[8];
  *f = (fixture){0};
  recipe_make(f, source);
  if (text) file_put(f->path, text, bytes);
  token_fields(fields, batch, buckets, n_buckets, VOCABULARY, false);
  hr_data_shape shape = {.seed = 3,
                         .eval = eval,
                         .batch = batch,
                         .buckets = buckets,
                         .fields = fields,
                         .n_buckets = n_buckets,
                         .fillers = 1};
  return hr__data_open(f->recipe, &shape, &f->data, err);
}

hr_status request_open(fixture *f, const data_request *r, hr_error *err) {
  enum { MOST = 8 };
  char path[4200], text[64];
  const char *set[MOST + 1] = {path};
  size_t count = 1;
  *f = (fixture){0};
  snprintf(f->path, sizeof f->path, "%s/%ld-%s", HR_BINARY_DIR, (long)getpid(), r->file);
  file_put(f->path, r->text, r->bytes);
  snprintf(path, sizeof path, "data.path=%s", f->path);
  for (size_t i = 0; r->settings[i]; i++) {
    assert_true(count < MOST);
    set[count++] = r->settings[i];
  }
  int length = snprintf(text, sizeof text, "data: { sequence_length: %d }\n", (int)r->length);
  const hr_key_table tables[] = {hr_data_keys, hr_masking_keys};
  HR_TRY(hr__recipe_parse("r.yaml", ".", text, (size_t)length, set, count, tables, 2, &f->recipe, err));
  hr_fields fields[1];
  token_fields(fields, r->batch, &r->length, 1, r->vocabulary, false);
  hr_data_shape shape = {.seed = 3,
                         .batch = r->batch,
                         .buckets = &r->length,
                         .fields = fields,
                         .n_buckets = 1,
                         .fillers = 1,
                         .watch = r->watch};
  return hr__data_open(f->recipe, &shape, &f->data, err);
}

void fixture_close(fixture *f) {
  hr__data_close(f->data);
  hr__recipe_destroy(f->recipe);
  unlink(f->path);
}

hr_status fill(const hr_data *data, const hr_micro *micro, int32_t *tokens, int32_t *targets, int32_t *lengths,
               hr_error *err) {
  int64_t batch = hr__data_fields(data, micro->bucket)->list[0].desc.dim[0];
  return hr__data_fill(data, micro, 0, batch, 0, (void *const[HR_FIELDS]){tokens, targets, lengths}, err);
}

static char cache[4096];

void cache_begin(const char *name) {
  snprintf(cache, sizeof cache, "%s/%s-cache-%ld", HR_BINARY_DIR, name, (long)getpid());
  setenv("XDG_CACHE_HOME", cache, 1);
}

int cache_files(char path[4500]) {
  char folder[4200];
  int count = 0;
  snprintf(folder, sizeof folder, "%s/headroom", cache);
  DIR *dir = opendir(folder);
  for (const struct dirent *entry; dir && (entry = readdir(dir));) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, 4500, "%s/%s", folder, entry->d_name);
    count++;
  }
  if (dir) closedir(dir);
  return count;
}

void cache_clear(void) {
  char path[4500];
  while (cache_files(path) > 0)
    unlink(path);
}

void cache_end(void) {
  char folder[4200];
  cache_clear();
  snprintf(folder, sizeof folder, "%s/headroom", cache);
  rmdir(folder);
  rmdir(cache);
}
