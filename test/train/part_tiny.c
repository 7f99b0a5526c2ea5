/* See part_tiny.h. */
#include "part_tiny.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "job/settings.h"

const char tiny_text[] = "model:\n"
                         "  family: llama\n"
                         "  config: { hidden_size: 16, intermediate_size: 32, num_hidden_layers: 1, "
                         "num_attention_heads: 2, num_key_value_heads: 1, vocab_size: 256, "
                         "max_position_embeddings: 64 }\n"
                         "data: { source: synthetic, sequence_length: 16 }\n"
                         "training:\n"
                         "  batch_size: 2\n"
                         "  steps: 8\n"
                         "  optimizer: { kind: adamw, lr: 1e-2 }\n"
                         "  schedule: { kind: cosine, warmup_steps: 2 }\n"
                         "  clip_norm: 1.0\n"
                         "  seed: 7\n"
                         "memory: { device: cpu }\n";

hr_status tiny_open(tiny *t, const char *const *overrides, hr_error *err) {
  *t = (tiny){0};
  size_t n = 0;
  while (overrides && overrides[n])
    n++;
  hr_status status = hr__settings_parse("tiny.yaml", ".", tiny_text, strlen(tiny_text), overrides, n, &t->recipe, err);
  hr_training_shape shape = {0};
  if (status == HR_OK) status = hr__training_shape(t->recipe, &shape, err);
  if (status == HR_OK) status = hr__compile(t->recipe, NULL, NULL, &t->graph, err);
  if (status == HR_OK) status = hr__cpu_open(&t->device, err);
  if (status == HR_OK) {
    hr__rates_default(&t->device->facts, &t->rates);
    hr_plan_options options = {.accumulation = (int)shape.accumulation};
    status = hr__plan_build(t->graph, &t->device->facts, &t->rates, &options, &t->plan, err);
  }
  if (status != HR_OK) tiny_close(t);
  return status;
}

void tiny_close(tiny *t) {
  hr__plan_destroy(t->plan);
  if (t->device) hr__device_close(t->device);
  hr__rates_fini(&t->rates);
  hr__graph_destroy(t->graph);
  hr__recipe_destroy(t->recipe);
  *t = (tiny){0};
}

hr_status tiny_train(const char *const *overrides, hr_train_options options, hr_train_result *result, hr_error *err) {
  tiny t;
  HR_TRY(tiny_open(&t, overrides, err));
  options.recipe = t.recipe;
  options.plan = t.plan;
  options.device = t.device;
  hr_status status = hr__train(&options, result, err);
  tiny_close(&t);
  return status;
}

char *path_join(const char *folder, const char *name) {
  static char paths[8][4096];
  static int next;
  char *path = paths[next++ % 8];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

const char *folder_make(const char *name) {
  char *path = path_join(HR_BINARY_DIR, "");
  size_t used = strlen(path);
  snprintf(path + used, 4096 - used, "train-%s-%ld", name, (long)getpid());
  folder_remove(path);
  return strdup(path);
}

void folder_remove(const char *path) {
  DIR *folder = opendir(path);
  if (!folder) return;
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    char below[4096];
    snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
    struct stat facts;
    if (lstat(below, &facts) == 0 && S_ISDIR(facts.st_mode))
      folder_remove(below);
    else
      unlink(below);
  }
  closedir(folder);
  rmdir(path);
}

void file_put(const char *path, const void *data, size_t bytes) {
  unlink(path); /* writing over a file makes some file systems wait for the disk */
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) abort();
}

char *file_get(const char *path, size_t *bytes) {
  FILE *file = fopen(path, "rb");
  if (!file) return NULL;
  size_t capacity = 1 << 16, used = 0;
  char *data = malloc(capacity + 1);
  for (size_t n; data && (n = fread(data + used, 1, capacity - used, file)) > 0;) {
    used += n;
    if (used == capacity) data = realloc(data, (capacity *= 2) + 1);
  }
  fclose(file);
  if (!data) abort();
  data[used] = 0;
  *bytes = used;
  return data;
}

hr_train_result train_ok(const char *const *overrides, hr_train_options options) {
  hr_train_result result;
  hr_error err = {0};
  hr_status status = tiny_train(overrides, options, &result, &err);
  if (status != HR_OK) fail_msg("%s: %s: %s", hr_status_name(status), err.place, err.message);
  return result;
}

hr_error train_fails(const char *const *overrides, hr_train_options options, hr_status expected) {
  hr_train_result result;
  hr_error err = {0};
  hr_status status = tiny_train(overrides, options, &result, &err);
  if (status != expected)
    fail_msg("%s instead of %s: %s", hr_status_name(status), hr_status_name(expected), err.message);
  return err;
}
