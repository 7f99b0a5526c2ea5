/* Source sensors: fields against those that torch made, prompts, what is held out, buckets, memory, and settings. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/codec.h"
#include "data/keys.h"
#include "data/sensors.h"
#include "data/tokens.h"
#include "format/safetensors.h"
#include "part_sensors.h"
#include "support/faults.h"

static const char golden[] = HR_SOURCE_DIR "/test/data/sensors";

static void open_or_fail(sensors_data *o, const char *folder, const char *const *settings, bool eval) {
  hr_error err = {0};
  if (sensors_open(o, folder, settings, eval, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
}

static size_t expected_read(hr_safetensors *file, uint64_t question, const char *name, void *out, size_t room) {
  hr_error err = {0};
  char key[64];
  snprintf(key, sizeof key, "%d.%s", (int)question, name);
  const hr_safetensor *tensor = hr__safetensors_find(file, key);
  assert_non_null(tensor);
  size_t bytes = (size_t)(tensor->end - tensor->begin);
  assert_true(bytes <= room);
  assert_int_equal(hr__safetensors_read(file, tensor, 0, out, bytes, &err), HR_OK);
  return bytes;
}

static void same(hr_safetensors *file, uint64_t question, const char *name, const void *got, size_t bytes) {
  char expected[4096];
  assert_int_equal(expected_read(file, question, name, expected, sizeof expected), bytes);
  if (memcmp(expected, got, bytes) != 0) fail_msg("question %d: %s differs", (int)question, name);
}

/* Both were made in f64: they differ by the rounding to f32 at most. */
static void near(hr_safetensors *file, uint64_t question, const char *name, const float *got, size_t count) {
  float expected[2048];
  assert_int_equal(expected_read(file, question, name, expected, sizeof expected), count * sizeof *got);
  for (size_t i = 0; i < count; i++)
    if (!(fabsf(expected[i] - got[i]) <= 2e-7F * fmaxf(1, fabsf(expected[i]))))
      fail_msg("question %d: %s[%zu] is %.9g, not %.9g", (int)question, name, i, (double)got[i], (double)expected[i]);
}

static void test_fields(void **state) {
  (void)state;
  sensors_data o;
  hr_error err = {0};
  hr_safetensors *file;
  assert_int_equal(hr__safetensors_open(HR_SOURCE_DIR "/test/data/sensors/expected.safetensors", &file, &err), HR_OK);
  open_or_fail(&o, golden, NULL, false);
  assert_int_equal(hr__data_train_samples(o.data), 5);
  assert_true(hr__data_asks(o.data));
  bool seen[5] = {false};
  for (uint64_t sample = 0; sample < 6; sample += SENSORS_BATCH) {
    sensors_batch b;
    void *at[HR_FIELDS];
    memset(&b, 0xee, sizeof b);
    sensors_places(&b, at);
    hr_micro micro = hr__data_micro(o.data, sample, false);
    assert_int_equal(hr__data_fill(o.data, &micro, 0, SENSORS_BATCH, 0, at, &err), HR_OK);
    int64_t targets = 0;
    for (int row = 0; row < SENSORS_BATCH; row++) {
      uint64_t q = hr__data_entry(o.data, sample + (uint64_t)row);
      seen[q] = true;
      near(file, q, "patches", &b.patches[row][0][0][0], sizeof b.patches[row] / sizeof(float));
      near(file, q, "statistics", &b.statistics[row][0][0][0], sizeof b.statistics[row] / sizeof(float));
      same(file, q, "patch_counts", &b.patch_counts[row], sizeof b.patch_counts[row]);
      same(file, q, "patch_mask", b.patch_mask[row], sizeof b.patch_mask[row]);
      same(file, q, "patch_positions", b.patch_positions[row], sizeof b.patch_positions[row]);
      same(file, q, "patch_size", &b.patch_size[row], sizeof b.patch_size[row]);
      same(file, q, "tokens", b.tokens[row], sizeof b.tokens[row]);
      same(file, q, "targets", b.targets[row], sizeof b.targets[row]);
      same(file, q, "placement", b.placement[row], sizeof b.placement[row]);
      for (int t = 0; t < SENSORS_LENGTH; t++)
        targets += b.targets[row][t] >= 0;
    }
    assert_int_equal(micro.targets, targets);
  }
  for (int i = 0; i < 5; i++)
    assert_true(seen[i]);
  hr__safetensors_close(file);
  sensors_close(&o);
}

/* A prompt is the sample up to its answer, with the same tokens, places and patches. */
static void test_prompt(void **state) {
  (void)state;
  sensors_data o;
  hr_error err = {0};
  hr_safetensors *file;
  assert_int_equal(hr__safetensors_open(HR_SOURCE_DIR "/test/data/sensors/expected.safetensors", &file, &err), HR_OK);
  open_or_fail(&o, golden, NULL, false);
  for (uint64_t q = 0; q < 5; q++) {
    sensors_batch b;
    void *at[HR_FIELDS];
    int32_t prompt, tokens[SENSORS_LENGTH];
    memset(&b, 0xee, sizeof b);
    sensors_places(&b, at);
    hr_asked asked = asked_of(o.data, false, q, at);
    same(file, q, "prompt", &(int32_t){(int32_t)asked.positions}, sizeof prompt);
    expected_read(file, q, "tokens", tokens, sizeof tokens);
    assert_memory_equal(b.tokens[0], tokens, (size_t)asked.positions * sizeof *tokens);
    for (int64_t t = 0; t < SENSORS_LENGTH; t++) {
      assert_int_equal(b.targets[0][t], -1);
      if (t >= asked.positions) assert_int_equal(b.tokens[0][t], 0);
    }
    same(file, q, "placement", b.placement[0], sizeof b.placement[0]);
    near(file, q, "patches", &b.patches[0][0][0][0], sizeof b.patches[0] / sizeof(float));
    assert_int_equal(asked.patches, b.patch_counts[0]);
    assert_int_equal(asked.n_streams, 2);
    assert_string_equal(asked.streams[0].name, "arm");
    assert_int_equal(asked.streams[0].channels, 2);
    if (q == 1) {
      assert_string_equal(asked.type, "multi_activity_ordering");
      assert_string_equal(asked.question, "What came first?");
      assert_string_equal(asked.expected, "stir, chop");
      assert_string_equal(asked.subject, "S0");
    }
  }
  hr__safetensors_close(file);
  sensors_close(&o);
}

/* One stream alone, and the place of its channels. */
static void test_streams(void **state) {
  (void)state;
  sensors_data o;
  hr_error err = {0};
  static const char *const ear[] = {"data.sensors.streams=ear", NULL};
  assert_int_equal(sensors_open(&o, golden, ear, false, &err), HR_BAD_INPUT);
  assert_string_equal(err.message, "the data has 1 channels (ear 1), but the model takes 3");
  sensors_close(&o);
  static const char *const both[] = {"data.sensors.streams=[ear, arm]", NULL};
  open_or_fail(&o, golden, both, false);
  sensors_close(&o);
}

/* Subjects' recordings that questions join are held out together, and what is asked of them is nowhere in training. */
static void test_held_out(void **state) {
  (void)state;
  enum { SUBJECTS = 10, QUESTIONS = 3 };
  char manifest[8192], questions[16384];
  size_t m = 0, q = 0;
  m += (size_t)snprintf(manifest, sizeof manifest, "%.*s", (int)strcspn(folder_manifest, "\n") + 1, folder_manifest);
  for (int s = 0; s < SUBJECTS; s++) {
    for (int a = 0; a < QUESTIONS; a++)
      m += (size_t)snprintf(manifest + m, sizeof manifest - m, "S%d,a,%d,n,arm.csv,10,2,ear.csv,20,1\n", s, a);
    for (int a = 0; a < QUESTIONS; a++)
      q += (size_t)snprintf(questions + q, sizeof questions - q,
                            "{\"question_type\": \"multi_activity_ordering\", \"subject\": \"S%d\", \"split\": \"a\", "
                            "\"activity_indices\": [%d, %d], \"question\": \"q%d?\", \"answer\": \"S%d\"}\n",
                            s, a, (a + 1) % QUESTIONS, a, s);
  }
  folder_begin();
  folder_put("manifest.csv", manifest);
  folder_put("qa_pairs_templated.jsonl", questions);
  for (int by_question = 0; by_question < 2; by_question++) {
    sensors_data o;
    const char *const settings[] = {
        "data.eval_fraction=0.2", by_question ? "data.sensors.hold_out=questions" : "data.sensors.hold_out=recordings",
        NULL};
    open_or_fail(&o, folder_path(), settings, true);
    assert_int_equal(hr__data_eval_samples(o.data), 6);
    assert_int_equal(hr__data_train_samples(o.data), 24);
    bool trained[SUBJECTS] = {false}, both = false;
    for (int eval = 0; eval < 2; eval++)
      for (uint64_t i = 0; i < (eval ? 6 : 24); i++) {
        sensors_batch b;
        void *at[HR_FIELDS];
        sensors_places(&b, at);
        hr_asked asked = asked_of(o.data, eval, i, at);
        int subject = atoi(asked.expected + 1);
        assert_string_equal(asked.subject, asked.expected);
        if (eval)
          both = both || trained[subject];
        else
          trained[subject] = true;
      }
    assert_int_equal(both, by_question);
    sensors_close(&o);
  }
  hr_error err = {0};
  sensors_data o;
  folder_put("manifest.csv", folder_manifest);
  snprintf(questions, sizeof questions,
           "{\"question_type\": \"multi_activity_ordering\", \"subject\": \"S0\", \"split\": \"a\", "
           "\"activity_indices\": [0, 1], \"question\": \"q?\", \"answer\": \"a\"}\n");
  folder_put("qa_pairs_templated.jsonl", questions);
  assert_int_equal(sensors_open(&o, folder_path(), NULL, true, &err), HR_BAD_INPUT);
  assert_string_equal(err.message, "nothing can be held out: questions join all recordings");
  sensors_close(&o);
  folder_end();
}

/* With another folder to evaluate on, all of it is held out. */
static void test_own_eval(void **state) {
  (void)state;
  sensors_data o;
  char path[4200];
  folder_begin();
  snprintf(path, sizeof path, "data.eval_path=%s", folder_path());
  open_or_fail(&o, golden, (const char *const[]){path, NULL}, true);
  assert_int_equal(hr__data_train_samples(o.data), 5);
  assert_int_equal(hr__data_eval_samples(o.data), 4);
  sensors_batch b;
  void *at[HR_FIELDS];
  sensors_places(&b, at);
  assert_string_equal(asked_of(o.data, true, 3, at).expected, "wave");
  sensors_close(&o);
  folder_end();
}

/* Samples of each length go into their bucket, whose length placement goes by. */
static void test_buckets(void **state) {
  (void)state;
  sensors_data o;
  hr_error err = {0};
  const char *const settings[] = {"data.buckets=[124, 200]", NULL};
  static const int64_t buckets[] = {124, 200};
  assert_int_equal(sensors_recipe(&o, golden, settings, &err), HR_OK);
  hr_fields fields[2] = {sensors_fields(124), sensors_fields(200)};
  hr_data_shape shape = {
      .seed = 3, .batch = SENSORS_BATCH, .buckets = buckets, .fields = fields, .n_buckets = 2, .fillers = 1};
  assert_int_equal(hr__data_open(o.recipe, &shape, &o.data, &err), HR_OK);
  assert_int_equal(hr__data_train_samples(o.data), 5);
  int rows[2] = {0};
  for (uint64_t sample = 0; sample < hr__data_epoch_rows(o.data); sample += SENSORS_BATCH) {
    sensors_batch b;
    void *at[HR_FIELDS];
    sensors_places(&b, at);
    hr_micro micro = hr__data_micro(o.data, sample, false);
    rows[micro.bucket] += (int)micro.rows;
    assert_int_equal(hr__data_fill(o.data, &micro, 0, SENSORS_BATCH, 0, at, &err), HR_OK);
    const int32_t *placement = b.placement[0], *tokens = b.tokens[0];
    for (int64_t row = 0; row < micro.rows; row++, placement += micro.length, tokens += micro.length) {
      int64_t patches = 0;
      for (int64_t t = 0; t < micro.length; t++) {
        if (placement[t] != t) assert_int_equal(placement[t], micro.length + patches++);
        if (placement[t] != t) assert_int_equal(tokens[t], 0);
      }
      assert_int_equal(patches, b.patch_counts[row]);
    }
  }
  assert_int_equal(rows[0] + rows[1], 5);
  assert_true(rows[0] > 0 && rows[1] > 0);
  sensors_close(&o);
}

/* What the source says it holds is what is taken from the heap. */
static void test_bytes(void **state) {
  (void)state;
  sensors_data o;
  hr_error err = {0};
  assert_int_equal(sensors_recipe(&o, golden, NULL, &err), HR_OK);
  size_t before = hr_test_live_bytes();
  hr_fields fields = sensors_fields(SENSORS_LENGTH);
  int64_t bucket = SENSORS_LENGTH;
  hr_data_shape shape = {
      .seed = 3, .batch = SENSORS_BATCH, .buckets = &bucket, .fields = &fields, .n_buckets = 1, .fillers = 1};
  assert_int_equal(hr__data_open(o.recipe, &shape, &o.data, &err), HR_OK);
  size_t held = hr_test_live_bytes() - before, told = (size_t)hr__data_bytes(o.data).held;
  size_t rest = sizeof fields + 80 * 1024; /* of the data itself, and what arenas have taken ahead */
  if (!(held <= told + rest && told <= held)) fail_msg("%zu bytes are held, %zu told", held, told);
  size_t patches = 7 * SENSORS_CHANNELS * (SENSORS_POINTS * sizeof(float) + 6 * sizeof(double));
  assert_true(told >= patches);
  sensors_close(&o);
}

/* Patches that are enough for all; the error says how many the data has. */
static void test_all_patches(void **state) {
  (void)state;
  sensors_data o;
  hr_error err = {0};
  int64_t patches;
  static const char *const all[] = {"data.sensors.context_size=-1", NULL};
  assert_int_equal(sensors_recipe(&o, golden, all, &err), HR_OK);
  assert_int_equal(hr__sensors_patches(o.recipe, &patches, &err), HR_BAD_INPUT);
  assert_string_equal(err.remedy, "give data.sensors.max_patches: 6");
  sensors_close(&o);
  static const char *const given[] = {"data.sensors.context_size=-1", "data.sensors.max_patches=6", NULL};
  assert_int_equal(sensors_recipe(&o, golden, given, &err), HR_OK);
  assert_int_equal(hr__sensors_patches(o.recipe, &patches, &err), HR_OK);
  assert_int_equal(patches, 6);
  sensors_close(&o);
  static const char *const few[] = {"data.sensors.context_size=-1", "data.sensors.max_patches=5", NULL};
  assert_int_equal(sensors_open(&o, golden, few, false, &err), HR_BAD_INPUT);
  assert_string_equal(err.message, "it is about 6 patches, more than data.sensors.max_patches");
  sensors_close(&o);
  static const char *const none[] = {"data.sensors.context_size=0", NULL};
  assert_int_equal(sensors_recipe(&o, golden, none, &err), HR_OK);
  assert_int_equal(hr__sensors_patches(o.recipe, &patches, &err), HR_BAD_INPUT);
  sensors_close(&o);
}

/* Another byte in any of the files is other data. */
static void test_trace(void **state) {
  (void)state;
  static const char *const files[] = {"manifest.csv", "qa_pairs_templated.jsonl", "arm.csv", "ear.csv"};
  static const char *const texts[] = {folder_manifest, folder_questions, folder_arm, folder_ear};
  char hash[5][HR_XXH_HEX], text[4096];
  folder_begin();
  for (int i = 0; i < 5; i++) {
    sensors_data o;
    hr_trace trace;
    hr_error err = {0};
    if (i > 0) {
      snprintf(text, sizeof text, "%s\n", texts[i - 1]);
      folder_put(files[i - 1], text);
    }
    open_or_fail(&o, folder_path(), NULL, false);
    assert_int_equal(hr__data_trace(o.data, false, &trace, &err), HR_OK);
    memcpy(hash[i], trace.hash, HR_XXH_HEX);
    for (int k = 0; k < i; k++)
      assert_string_not_equal(hash[i], hash[k]);
    sensors_close(&o);
  }
  folder_end();
}

/* Whatever the number of threads, patches are the same, and of bad recordings the first one is told. */
static void test_threads(void **state) {
  (void)state;
  static const char folder[] = HR_SOURCE_DIR "/recipes/sensors";
  static const char *const workers[] = {"data.workers=0", "data.workers=1", "data.workers=4"};
  hr_trace trace[3];
  static sensors_batch all[3][16];
  for (int i = 0; i < 3; i++) {
    sensors_data o;
    hr_error err = {0};
    open_or_fail(&o, folder, (const char *const[]){workers[i], NULL}, false);
    assert_int_equal(hr__data_trace(o.data, false, &trace[i], &err), HR_OK);
    for (uint64_t q = 0; q < 16; q++) {
      void *at[HR_FIELDS];
      sensors_places(&all[i][q], at);
      asked_of(o.data, false, q * 60, at);
    }
    sensors_close(&o);
    assert_string_equal(trace[i].hash, trace[0].hash);
    assert_memory_equal(all[i], all[0], sizeof all[i]);
  }
  char manifest[8192];
  size_t m = strcspn(folder_manifest, "\n") + 1;
  snprintf(manifest, sizeof manifest, "%.*s", (int)m, folder_manifest);
  for (int i = 0; i < 40; i++)
    m += (size_t)snprintf(manifest + m, sizeof manifest - m, "S0,a,%d,n,%s,10,2,ear.csv,20,1\n", i,
                          i % 10 == 7 ? "bad.csv" : "arm.csv");
  folder_begin();
  folder_put("manifest.csv", manifest);
  folder_put("bad.csv", "time_s,x,y\n");
  char questions[16384];
  size_t q = 0;
  for (int i = 39; i >= 0; i--)
    q += (size_t)snprintf(questions + q, sizeof questions - q,
                          "{\"question_type\": \"simple_activity_recognition\", \"subject\": \"S0\", \"split\": \"a\", "
                          "\"activity_indices\": [%d], \"question\": \"q?\", \"answer\": \"a\"}\n",
                          i);
  folder_put("qa_pairs_templated.jsonl", questions);
  for (int i = 0; i < 3; i++) {
    sensors_data o;
    hr_error err = {0};
    assert_int_equal(sensors_open(&o, folder_path(), (const char *const[]){workers[i], NULL}, false, &err),
                     HR_BAD_INPUT);
    assert_string_equal(err.message, "the stream is empty");
    sensors_close(&o);
    open_or_fail(&o, folder_path(), (const char *const[]){workers[i], "data.bad_rows=0.1", NULL}, false);
    assert_int_equal(hr__data_train_samples(o.data), 36);
    assert_non_null(strstr(hr__data_remark(o.data, false), "4 of 40 recordings are bad"));
    sensors_close(&o);
  }
  folder_end();
}

/* The data that recipes have: words that its tokenizer knows, and answers that it gives back. */
static void test_shipped(void **state) {
  (void)state;
  sensors_data o;
  hr_error err = {0};
  hr_tokenizer *tokenizer;
  static const char folder[] = HR_SOURCE_DIR "/recipes/sensors";
  static const char *const settings[] = {"data.tokenizer=" HR_SOURCE_DIR "/recipes/sensors/tokenizer.json",
                                         "data.end_id=null", "data.sensors.patch_duration_s=2",
                                         "data.eval_fraction=0.2", NULL};
  open_or_fail(&o, folder, settings, true);
  assert_int_equal(hr__data_train_samples(o.data) + hr__data_eval_samples(o.data), 1024);
  assert_int_equal(hr__data_eval_samples(o.data), 192); /* 3 of 16 sessions */
  assert_int_equal(hr__tokenizer_open(HR_SOURCE_DIR "/recipes/sensors", &tokenizer, &err), HR_OK);
  int32_t unknown = hr__tokenizer_role(tokenizer, HR_TOKEN_UNKNOWN), end = hr__tokenizer_role(tokenizer, HR_TOKEN_END);
  int32_t sensor = hr__tokenizer_find(tokenizer, "[SENSOR]", 8);
  assert_true(unknown >= 0 && end >= 0 && sensor >= 0);
  int types = 0;
  char last[64] = "";
  for (uint64_t i = 0; i < 192; i++) {
    sensors_batch b, whole;
    void *at[HR_FIELDS], *whole_at[HR_FIELDS];
    sensors_places(&b, at);
    sensors_places(&whole, whole_at);
    hr_asked asked = asked_of(o.data, true, i, at);
    hr_micro micro = hr__data_micro(o.data, i, true);
    assert_int_equal(hr__data_fill(o.data, &micro, 0, 1, 0, whole_at, &err), HR_OK);
    types += strcmp(last, asked.type) != 0;
    snprintf(last, sizeof last, "%s", asked.type);
    hr_ids answer = {0};
    hr_string text = {0};
    for (int t = 0; t < SENSORS_LENGTH; t++) {
      assert_int_not_equal(whole.tokens[0][t], unknown);
      assert_int_equal(whole.tokens[0][t] == sensor, whole.placement[0][t] != t);
      if (whole.targets[0][t] >= 0) assert_int_equal(hr__ids_add(&answer, whole.targets[0][t], &err), HR_OK);
    }
    assert_int_equal(answer.items[answer.count - 1], end);
    assert_int_equal(hr__decode(tokenizer, answer.items, answer.count, true, &text, &err), HR_OK);
    assert_int_equal(text.count, strlen(asked.expected));
    assert_memory_equal(text.data, asked.expected, text.count);
    assert_int_equal(b.patch_counts[0], asked.patches);
    hr__ids_fini(&answer);
    hr__string_fini(&text);
  }
  assert_int_equal(types, 4 * 3);
  hr__tokenizer_close(tokenizer);
  sensors_close(&o);
}

/* The tokenizer of the part that answers, where data.tokenizer names none: plans count it as any other. */
static void test_tokenizer(void **state) {
  (void)state;
  static const hr_key part[] = {{.path = "model.parts.llm.path", .type = HR_KEY_PATH, .meaning = "-"}};
  static const char text[] = "model: { parts: { llm: { path: recipes/sensors } } }\n"
                             "data: { source: sensors, path: recipes/sensors, sequence_length: 200,\n"
                             "        sensors: { context_size: 5 } }\n";
  const hr_key_table tables[] = {hr_data_keys, hr_masking_keys, hr_sensors_keys, {part, 1}};
  hr_recipe *recipe;
  hr_error err = {0};
  assert_int_equal(hr__recipe_parse("r.yaml", HR_SOURCE_DIR, text, sizeof text - 1, NULL, 0, tables, 4, &recipe, &err),
                   HR_OK);
  assert_string_equal(hr__tokens_setting(recipe), "model.parts.llm.path");
  assert_false(hr__tokens_are_bytes(recipe));
  assert_true(hr__data_reads_tokenizer(recipe));
  assert_true(hr__codec_bytes(recipe).reading > 1000);
  hr_fields fields = sensors_fields(SENSORS_LENGTH);
  int64_t bucket = SENSORS_LENGTH;
  hr_data_shape shape = {
      .seed = 3, .batch = SENSORS_BATCH, .buckets = &bucket, .fields = &fields, .n_buckets = 1, .fillers = 1};
  hr_data *data;
  if (hr__data_open(recipe, &shape, &data, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  sensors_batch b;
  void *at[HR_FIELDS];
  sensors_places(&b, at);
  assert_true(asked_of(data, false, 0, at).positions < 60); /* words, not bytes */
  hr__data_close(data);
  hr__recipe_destroy(recipe);
}

static hr_status open_body(void *arg, hr_error *err) {
  (void)arg;
  sensors_data o;
  hr_status status = sensors_open(&o, golden, (const char *const[]){"data.eval_fraction=0.3", NULL}, true, err);
  sensors_close(&o);
  return status;
}

static void test_faults(void **state) {
  (void)state;
  assert_true(hr_test_each_fault(open_body, NULL) > 50);
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fields),   cmocka_unit_test(test_prompt),      cmocka_unit_test(test_streams),
      cmocka_unit_test(test_held_out), cmocka_unit_test(test_own_eval),    cmocka_unit_test(test_buckets),
      cmocka_unit_test(test_bytes),    cmocka_unit_test(test_all_patches), cmocka_unit_test(test_trace),
      cmocka_unit_test(test_shipped),  cmocka_unit_test(test_threads),     cmocka_unit_test(test_tokenizer),
      cmocka_unit_test(test_faults),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
