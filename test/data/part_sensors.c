/* See part_sensors.h. */
#include "part_sensors.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/keys.h"

hr_fields sensors_fields(int64_t length) {
  enum { B = SENSORS_BATCH, P = SENSORS_PATCHES, D = SENSORS_CHANNELS };
  hr_fields out = {.count = 0};
  const hr_field all[] = {
      {.name = "patches", .purpose = HR_FOR_VALUES, .desc = {HR_F32, 4, {B, P, D, SENSORS_POINTS}}},
      {.name = "statistics", .purpose = HR_FOR_VALUES, .desc = {HR_F32, 4, {B, P, D, 6}}},
      {.name = "patch_counts", .purpose = HR_FOR_VALUES, .desc = {HR_I32, 1, {B}}},
      {.name = "patch_mask", .purpose = HR_FOR_VALUES, .desc = {HR_U8, 2, {B, P}}},
      {.name = "patch_positions", .purpose = HR_FOR_VALUES, .desc = {HR_I32, 2, {B, P}}},
      {.name = "patch_size", .purpose = HR_FOR_VALUES, .desc = {HR_I32, 1, {B}}},
      {.name = "tokens", .purpose = HR_FOR_TOKENS, .desc = {HR_I32, 2, {B, length}}, .bound = 256},
      {.name = "targets", .purpose = HR_FOR_TARGETS, .desc = {HR_I32, 2, {B, length}}},
      {.name = "placement", .purpose = HR_FOR_VALUES, .desc = {HR_I32, 2, {B, length}}},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    hr__field_add(&out, all[i]);
  return out;
}

void sensors_places(sensors_batch *b, void *at[HR_FIELDS]) {
  void *const all[] = {b->patches,    b->statistics, b->patch_counts, b->patch_mask, b->patch_positions,
                       b->patch_size, b->tokens,     b->targets,      b->placement};
  memcpy(at, all, sizeof all);
}

hr_status sensors_recipe(sensors_data *o, const char *folder, const char *const *settings, hr_error *err) {
  static const char text[] = "data: { source: sensors, tokenizer: bytes, end_id: 0, sequence_length: 200,\n"
                             "        sensors: { patch_duration_s: 0.5, context_size: 5 } }\n";
  const hr_key_table tables[] = {hr_data_keys, hr_masking_keys, hr_sensors_keys};
  char path[4200];
  const char *set[9] = {path};
  size_t count = 1;
  *o = (sensors_data){0};
  snprintf(path, sizeof path, "data.path=%s", folder);
  for (; settings && settings[count - 1]; count++) {
    assert_true(count < 9);
    set[count] = settings[count - 1];
  }
  return hr__recipe_parse("r.yaml", ".", text, sizeof text - 1, set, count, tables, 3, &o->recipe, err);
}

hr_status sensors_open(sensors_data *o, const char *folder, const char *const *settings, bool eval, hr_error *err) {
  HR_TRY(sensors_recipe(o, folder, settings, err));
  hr_fields fields = sensors_fields(SENSORS_LENGTH);
  int64_t bucket = SENSORS_LENGTH;
  hr_data_shape shape = {.seed = 3,
                         .eval = eval,
                         .batch = SENSORS_BATCH,
                         .buckets = &bucket,
                         .fields = &fields,
                         .n_buckets = 1,
                         .fillers = 1};
  return hr__data_open(o->recipe, &shape, &o->data, err);
}

hr_asked asked_of(const hr_data *data, bool eval, uint64_t number, void *const at[HR_FIELDS]) {
  hr_asked asked;
  hr_error err = {0};
  assert_int_equal(hr__data_ask(data, eval, number, at, &asked, &err), HR_OK);
  return asked;
}

void sensors_close(sensors_data *o) {
  hr__data_close(o->data);
  hr__recipe_destroy(o->recipe);
}

const char folder_manifest[] =
    "subject,split,activity_index,activity_name,arm_csv,arm_rate_hz,arm_channels,ear_csv,ear_rate_hz,ear_channels\n"
    "S0,a,0,stir,arm.csv,10,2,ear.csv,20,1\n"
    "S0,a,1,chop,arm.csv,10,2,ear.csv,20,1\n"
    "S1,a,0,stir,arm.csv,10,2,ear.csv,20,1\n"
    "S1,a,1,wave,arm.csv,10,2,ear.csv,20,1\n";

#define ASK(subject, index, name)                                                                                      \
  "{\"question_type\": \"simple_activity_recognition\", \"subject\": \"" subject                                       \
  "\", \"split\": \"a\", \"activity_indices\": [" index "], \"activity_names\": [\"" name                              \
  "\"], \"question\": \"What is it?\", \"answer\": \"" name "\"}\n"
const char folder_questions[] =
    ASK("S0", "0", "stir") ASK("S0", "1", "chop") ASK("S1", "0", "stir") ASK("S1", "1", "wave");

const char folder_arm[] = "time_s,x,y\n0,1,2\n0.1,2,3\n0.2,3,4\n0.3,4,5\n0.4,5,6\n0.5,6,7\n0.6,7,8\n";
const char folder_ear[] = "time_s,v\n0,1\n0.05,2\n0.1,1\n0.15,2\n0.2,1\n0.25,2\n0.3,1\n0.35,2\n0.4,1\n0.45,2\n0.5,1\n";

static char folder[4096];

const char *folder_path(void) {
  return folder;
}

void folder_put_bytes(const char *file, const void *bytes, size_t count) {
  char path[4200];
  snprintf(path, sizeof path, "%s/%s", folder, file);
  file_put(path, bytes, count);
}

void folder_put(const char *file, const char *text) {
  folder_put_bytes(file, text, strlen(text));
}

void folder_remove(const char *file) {
  char path[4200];
  snprintf(path, sizeof path, "%s/%s", folder, file);
  assert_int_equal(unlink(path), 0);
}

void folder_begin(void) {
  snprintf(folder, sizeof folder, "%s/sensors-%ld", HR_BINARY_DIR, (long)getpid());
  mkdir(folder, 0700);
  folder_put("manifest.csv", folder_manifest);
  folder_put("qa_pairs_templated.jsonl", folder_questions);
  folder_put("arm.csv", folder_arm);
  folder_put("ear.csv", folder_ear);
}

void folder_end(void) {
  DIR *dir = opendir(folder);
  for (const struct dirent *entry; dir && (entry = readdir(dir));)
    if (entry->d_name[0] != '.') folder_remove(entry->d_name);
  if (dir) closedir(dir);
  assert_int_equal(rmdir(folder), 0);
}
