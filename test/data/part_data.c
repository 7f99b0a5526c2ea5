/* See part_data.h. */
#include "part_data.h"

#include <fcntl.h>
#include <stdio.h>
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
  const hr_key_table tables[] = {hr_data_keys, hr_masking_keys, {family, 1}};
  if (hr__recipe_parse("r.yaml", ".", text, strlen(text), overrides, count, tables, 3, &recipe, &err) != HR_OK)
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
