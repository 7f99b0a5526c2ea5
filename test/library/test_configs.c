/* Configs of include/headroom.h: what `headroom apply` does, through the public header alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "headroom.h"

#define DEMO HR_SOURCE_DIR "/recipes/demo.yaml"

static const char lightning[] = "trainer:\n  accumulate_grad_batches: 7  # steps\n  precision: ${precision}\n"
                                "data:\n  batch_size: 45   # per GPU\n";
static const char axolotl[] = "base_model: a/b\nsequence_len: 48\nmicro_batch_size: 2\ngradient_accumulation_steps: 6\n"
                              "bf16: true\nlora_r: 4\nadapter: lora\n";
static const char model[] = "{\"model_type\": \"llama\", \"hidden_size\": 32, \"intermediate_size\": 64, "
                            "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
                            "\"vocab_size\": 320, \"max_position_embeddings\": 128}";

enum { PATH = 512, NAMES = 8 };

static char folder[PATH - 64]; /* of the test that runs */

typedef struct fixture {
  char paths[NAMES][PATH];
  int n_paths;
  const char *listed[NAMES];
  hr_configs configs;
  hr_error *error;
  hr_job *job;
} fixture;

static void put(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

static void holds(const char *path, const char *wanted) {
  char text[4096];
  FILE *file = fopen(path, "r");
  if (!file) fail_msg("%s is not there", path);
  size_t bytes = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[bytes] = '\0';
  assert_string_equal(text, wanted);
}

static bool there(const char *path, const char *end) {
  char name[PATH + 32];
  struct stat facts;
  snprintf(name, sizeof name, "%s%s", path, end);
  return stat(name, &facts) == 0;
}

/* A file in the folder. */
static const char *file_add(fixture *f, const char *name, const char *text) {
  assert_true(f->n_paths < NAMES);
  char *path = f->paths[f->n_paths++];
  assert_true((size_t)snprintf(path, PATH, "%s/%s", folder, name) < PATH);
  put(path, text);
  return path;
}

/* One that is the next of the configs. */
static const char *config_add(fixture *f, const char *name, const char *text) {
  return f->listed[f->configs.count++] = file_add(f, name, text);
}

static int setup(void **state) {
  fixture *f = test_calloc(1, sizeof *f);
  static const char *const overrides[] = {"training.batch_size=4", "training.gradient_accumulation=2",
                                          "memory.device=cpu"};
  snprintf(folder, sizeof folder, "%s/configs-XXXXXX", HR_BINARY_DIR);
  assert_non_null(mkdtemp(folder));
  f->configs = (hr_configs){.size = sizeof f->configs, .paths = f->listed};
  f->error = hr_error_create();
  assert_int_equal(hr_job_create(DEMO, overrides, 3, &f->job, f->error), HR_RESULT_OK);
  *state = f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  char command[PATH + 16];
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  int failed = system(command);
  hr_job_destroy(f->job);
  hr_error_destroy(f->error);
  test_free(f);
  return failed;
}

static void must(const fixture *f, hr_result result) {
  if (result != HR_RESULT_OK) fail_msg("%s: %s", hr_error_place(f->error), hr_error_message(f->error));
}

static void refused(const fixture *f, hr_result result, hr_result wanted, const char *said) {
  if (result != wanted || !strstr(hr_error_message(f->error), said))
    fail_msg("%d instead of %d, '%s' instead of '%s'", result, wanted, hr_error_message(f->error), said);
}

static void test_apply_and_revert(void **state) {
  fixture *f = *state;
  const char *path = config_add(f, "config.yaml", lightning);
  char *json, *before, *diff, *back;

  f->configs.dry_run = true;
  must(f, hr_job_apply(f->job, &f->configs, &json, &before, f->error));
  assert_non_null(strstr(before, "-  batch_size: 45   # per GPU\n+  batch_size: 4   # per GPU\n"));
  assert_non_null(strstr(before, "-  accumulate_grad_batches: 7  # steps\n+  accumulate_grad_batches: 2  # steps\n"));
  assert_non_null(strstr(json, "\"dry_run\": true"));
  assert_non_null(strstr(json, "\"diff\": "));
  holds(path, lightning);
  assert_false(there(path, ".backup"));
  hr_text_destroy(json);

  f->configs.dry_run = false;
  must(f, hr_job_apply(f->job, &f->configs, &json, &diff, f->error));
  assert_string_equal(diff, before);
  assert_non_null(strstr(json, "\"dry_run\": false"));
  assert_non_null(strstr(json, "\"changed\": true"));
  assert_non_null(strstr(json, "${precision}")); /* left alone, and told */
  holds(path, "trainer:\n  accumulate_grad_batches: 2  # steps\n  precision: ${precision}\n"
              "data:\n  batch_size: 4   # per GPU\n");
  assert_true(there(path, ".backup"));
  hr_text_destroy(before);
  hr_text_destroy(diff);
  hr_text_destroy(json);

  must(f, hr_job_apply(f->job, &f->configs, NULL, &diff, f->error));
  assert_string_equal(diff, ""); /* all is there already */
  hr_text_destroy(diff);

  f->configs.dry_run = true;
  must(f, hr_configs_revert(&f->configs, NULL, &back, f->error));
  assert_non_null(strstr(back, "-  batch_size: 4   # per GPU\n+  batch_size: 45   # per GPU\n"));
  assert_true(there(path, ".backup"));
  hr_text_destroy(back);
  f->configs.dry_run = false;
  must(f, hr_configs_revert(&f->configs, &json, NULL, f->error));
  assert_non_null(strstr(json, "\"reverted\""));
  assert_non_null(strstr(json, "config.yaml"));
  hr_text_destroy(json);
  holds(path, lightning);
  assert_false(there(path, ".backup"));
  json = diff = f->paths[0];
  assert_int_equal(hr_configs_revert(&f->configs, &json, &diff, f->error), HR_RESULT_BAD_INPUT);
  assert_true(json == NULL && diff == NULL);
}

/* Keys that are not there, in a config whose kind only its owner knows. */
static void test_own_map(void **state) {
  fixture *f = *state;
  char *json;
  f->configs.map = file_add(f, "map.yaml", "keys:\n  training.batch_size: loader.rows\n");
  const char *path = config_add(f, "mine.yaml", "loader:\n  seed: 1\n");
  must(f, hr_job_apply(f->job, &f->configs, &json, NULL, f->error));
  assert_non_null(strstr(json, "is not there"));
  hr_text_destroy(json);
  holds(path, "loader:\n  seed: 1\n");
  f->configs.insert = true;
  must(f, hr_job_apply(f->job, &f->configs, NULL, NULL, f->error));
  holds(path, "loader:\n  seed: 1\n  rows: 4\n");
}

/* A folder is planned as its config says, but for what overrides give. */
static void test_plan_of_a_config(void **state) {
  fixture *f = *state;
  static const char *const overrides[] = {"memory.device=cpu", "model.adapters.kind=lora",
                                          "model.adapters.targets=all-linear"};
  const char *path = config_add(f, "job.yml", axolotl);
  char *json, *diff;
  file_add(f, "config.json", model);
  for (int more = 0; more < 2; more++) {
    const char *given[4] = {overrides[0], overrides[1], overrides[2], "data.sequence_length=64"};
    hr_job *job = NULL;
    must(f, hr_job_create_for_configs(folder, given, more ? 4 : 3, &f->configs, false, &job, f->error));
    must(f, hr_job_plan_json(job, &json, f->error));
    assert_non_null(strstr(json, more ? "\"sequence_length\": 64" : "\"sequence_length\": 48"));
    assert_non_null(strstr(json, "\"batch_size\": 2"));
    assert_non_null(strstr(json, "\"gradient_accumulation\": 6"));
    assert_non_null(strstr(json, "\"precision\": \"bf16-mixed\""));
    assert_non_null(strstr(json, "\"rank\": 4"));
    hr_text_destroy(json);
    f->configs.dry_run = true;
    must(f, hr_job_apply(job, &f->configs, NULL, &diff, f->error));
    if (more)
      assert_non_null(strstr(diff, "-sequence_len: 48\n+sequence_len: 64\n"));
    else
      assert_string_equal(diff, ""); /* nothing but what it says itself */
    hr_text_destroy(diff);
    hr_job_destroy(job);
  }
  hr_job *job = NULL;
  f->configs.dry_run = false;
  must(f, hr_job_create_for_configs(folder, overrides, 3, &f->configs, true, &job, f->error));
  must(f, hr_job_plan_json(job, &json, f->error));
  assert_non_null(strstr(json, "\"effective_batch\": 12")); /* how it is cut was open */
  hr_text_destroy(json);
  must(f, hr_job_apply(job, &f->configs, NULL, NULL, f->error));
  assert_true(there(path, ""));
  hr_job_destroy(job);
}

static void test_errors(void **state) {
  fixture *f = *state;
  hr_configs *c = &f->configs;
  char *diff;
  refused(f, hr_job_apply(f->job, c, NULL, NULL, f->error), HR_RESULT_USAGE, "no config is named");
  refused(f, hr_configs_revert(c, NULL, NULL, f->error), HR_RESULT_USAGE, "no config is named");
  const char *path = config_add(f, "config.yaml", lightning);
  c->size = 8;
  refused(f, hr_job_apply(f->job, c, NULL, NULL, f->error), HR_RESULT_USAGE, "another version");
  c->size = sizeof *c;
  c->map = "nonsense";
  refused(f, hr_job_apply(f->job, c, NULL, &diff, f->error), HR_RESULT_USAGE, "neither a built-in map");
  assert_string_equal(hr_error_place(f->error), "map");
  assert_non_null(strstr(hr_error_remedy(f->error), "lightning"));
  assert_null(diff);
  hr_job *job = NULL;
  refused(f, hr_job_create_for_configs(DEMO, NULL, 0, c, false, &job, f->error), HR_RESULT_USAGE,
          "neither a built-in map");
  assert_null(job);
  c->map = NULL;

  /* of several files none is written where one cannot be */
  config_add(f, "broken.yaml", "trainer: [1, 2\n");
  assert_int_equal(hr_job_apply(f->job, c, NULL, NULL, f->error), HR_RESULT_BAD_INPUT);
  assert_non_null(strstr(hr_error_place(f->error), "broken.yaml:"));
  holds(path, lightning);
  assert_false(there(path, ".backup"));
  c->count = 1;
  f->listed[c->count++] = f->listed[0];
  refused(f, hr_job_apply(f->job, c, NULL, NULL, f->error), HR_RESULT_USAGE, "same file");
  f->listed[1] = "no/such/file.yaml";
  assert_int_equal(hr_job_apply(f->job, c, NULL, NULL, f->error), HR_RESULT_BAD_INPUT);
  holds(path, lightning);
}

/* A backup that is somebody else's: an error of a call that writes, part of the answer of one that does not. */
static void test_backup_in_the_way(void **state) {
  fixture *f = *state;
  const char *path = config_add(f, "config.yaml", lightning);
  char backup[PATH + 16], *json;
  snprintf(backup, sizeof backup, "%s.backup", path);
  put(backup, "mine\n");
  assert_int_equal(hr_job_apply(f->job, &f->configs, NULL, NULL, f->error), HR_RESULT_BAD_INPUT);
  assert_int_equal(hr_configs_revert(&f->configs, NULL, NULL, f->error), HR_RESULT_BAD_INPUT);
  f->configs.dry_run = true;
  must(f, hr_job_apply(f->job, &f->configs, &json, NULL, f->error));
  assert_non_null(strstr(json, "\"refusal\": "));
  hr_text_destroy(json);
  holds(path, lightning);
  holds(backup, "mine\n");
}

static void test_over_budget(void **state) {
  fixture *f = *state;
  static const char *const small[] = {"memory.budget=1MiB", "memory.device=cpu"};
  const char *path = config_add(f, "config.yaml", lightning);
  hr_job *job = NULL;
  must(f, hr_job_create_for_configs(DEMO, small, 2, &f->configs, false, &job, f->error));
  assert_false(hr_job_fits(job));
  refused(f, hr_job_apply(job, &f->configs, NULL, NULL, f->error), HR_RESULT_NO_FIT, "more than the budget");
  holds(path, lightning);
  hr_job_destroy(job);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_apply_and_revert, setup, teardown),
      cmocka_unit_test_setup_teardown(test_own_map, setup, teardown),
      cmocka_unit_test_setup_teardown(test_plan_of_a_config, setup, teardown),
      cmocka_unit_test_setup_teardown(test_errors, setup, teardown),
      cmocka_unit_test_setup_teardown(test_backup_in_the_way, setup, teardown),
      cmocka_unit_test_setup_teardown(test_over_budget, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
