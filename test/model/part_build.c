#include "model/part_build.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const hr_key data_keys[] = {
    {.path = "data.sequence_length", .type = HR_KEY_INT, .min = 1, .max = 1 << 24, .fallback = "16"},
};

hr_status hr__built_recipe(hr_built *built, const char *path, const char *text, const char *const *overrides,
                           size_t n_overrides) {
  hr_key_table tables[] = {hr_model_keys, {data_keys, sizeof data_keys / sizeof *data_keys}};
  if (text) {
    HR_TRY(
        hr__recipe_parse(path, "", text, strlen(text), overrides, n_overrides, tables, 2, &built->recipe, &built->err));
  } else {
    HR_TRY(hr__recipe_load(path, overrides, n_overrides, tables, 2, &built->recipe, &built->err));
  }
  built->part = hr__model_whole(built->recipe);
  built->model = built->part.model;
  return hr__model_check(built->recipe, &built->err);
}

hr_status hr__built_graph(hr_built *built, int64_t batch, int64_t length) {
  hr_builder b;
  HR_TRY(hr__graph_create(&built->graph, &built->err));
  hr__builder_init(&b, built->graph, HR_F32);
  hr__program_begin(&b, HR_PROGRAM_STEP);
  hr_model_batch input = {.batch = batch, .length = length, .lengths = HR_NONE, .starts = HR_NONE};
  input.tokens = hr__input(&b, "tokens", hr__desc2(HR_I32, batch, length));
  input.targets = hr__input(&b, "targets", hr__desc2(HR_I32, batch, length));
  hr_id loss = built->part.model->forward(&b, &built->part, &input);
  HR_TRY(hr__builder_status(&b, &built->err));
  hr__program_set_output(&b, "loss", loss);
  return hr__graph_verify(built->graph, &built->err);
}

void hr__built_free(hr_built *built) {
  if (built->graph) hr__graph_destroy(built->graph);
  hr__recipe_destroy(built->recipe);
  *built = (hr_built){0};
}

void hr__folder_make(char path[64]) {
  snprintf(path, 64, "/tmp/headroom_model_XXXXXX");
  if (!mkdtemp(path)) *path = '\0';
}

void hr__folder_put(const char *folder, const char *name, const char *text) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  if (!file) return;
  fputs(text, file);
  fclose(file);
}

void hr__folder_remove(const char *folder) {
  DIR *dir = opendir(folder);
  if (!dir) return;
  for (struct dirent *entry; (entry = readdir(dir));) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (entry->d_name[0] != '.' && unlink(path) != 0) rmdir(path);
  }
  closedir(dir);
  rmdir(folder);
}
