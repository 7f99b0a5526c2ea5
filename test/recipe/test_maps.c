/* Key maps: sound as data, found by name and by what a config holds, and those of the user's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "recipe/maps.h"

static hr_arena arena;

static int arena_free(void **state) {
  (void)state;
  hr__arena_fini(&arena);
  return 0;
}

static hr_config config_of(const char *name, const char *text) {
  hr_config config;
  hr_error err = {0};
  if (hr__config_parse(name, text, strlen(text), &arena, &config, &err) != HR_OK) fail_msg("%s: %s", name, err.message);
  return config;
}

/* Every spelling fits its buffer and stands once in its map; every word can be read back. */
static void data_is_sound(void **state) {
  (void)state;
  for (const hr_map *map = hr_maps; map->name; map++) {
    assert_ptr_equal(hr__map_named(map->name), map);
    assert_true(map->count > 0);
    for (size_t i = 0; i < map->count; i++) {
      const hr_map_key *key = &map->keys[i];
      char name[HR_MAP_PATH];
      assert_true(strchr(key->setting, '.') && *key->keys && !key->asked);
      for (const char *last = NULL; hr__map_spelling(key, &last, name);) {
        if (!*name || strlen(name) > HR_MAP_PATH - 2) fail_msg("%s: %s: '%s'", map->name, key->setting, name);
        size_t times = 0;
        for (size_t k = 0; k < map->count; k++) {
          char other[HR_MAP_PATH];
          for (const char *at = NULL; map->keys[k].use == key->use && hr__map_spelling(&map->keys[k], &at, other);)
            times += strcmp(name, other) == 0 && (key->use == HR_MAP_BOTH || &map->keys[k] == key);
        }
        if (times != 1) fail_msg("%s: %s stands %zu times", map->name, name, times);
      }
      const char *word, *same;
      assert_true(hr__map_word(key, "no-such-value", &arena, &word, &same) == !key->words);
    }
    for (size_t i = 0; i < map->n_traits; i++)
      assert_true(*map->traits[i].keys && *map->traits[i].words && *map->traits[i].text);
  }
}

static void by_name(void **state) {
  (void)state;
  static const char *const names[][2] = {{"hydra", "lightning"},
                                         {"hf", "huggingface"},
                                         {"ds", "deepspeed"},
                                         {"llamafactory", "llama-factory"},
                                         {"recipe", "headroom"},
                                         {"axolotl", "axolotl"},
                                         {"transformers", "huggingface"}};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    assert_string_equal(hr__map_named(names[i][0])->name, names[i][1]);
  assert_null(hr__map_named(""));
  assert_null(hr__map_named("light"));
}

static void words(void **state) {
  (void)state;
  const hr_map_key key = {.words = "a=x,y,z|ab=true|b-c=4"};
  static const struct {
    const char *value, *word, *same;
  } cases[] = {{"a", "x", "y,z"}, {"ab", "true", NULL}, {"b-c", "4", NULL}, {"b", NULL, NULL}, {"abc", NULL, NULL}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const char *word, *same;
    bool there = hr__map_word(&key, cases[i].value, &arena, &word, &same);
    assert_int_equal(there, cases[i].word != NULL);
    if (!there) continue;
    assert_string_equal(word, cases[i].word);
    assert_true(same ? cases[i].same && strcmp(same, cases[i].same) == 0 : !cases[i].same);
  }
}

static void guessed(void **state) {
  (void)state;
  static const struct {
    const char *text, *kind, *family;
  } cases[] = {
      {"trainer: {precision: 32}\n", "lightning", NULL},
      {"per_device_train_batch_size: 1\noutput_dir: x\n", "huggingface", NULL},
      {"per_device_train_batch_size: 1\nfinetuning_type: lora\ncutoff_len: 1\n", "llama-factory", NULL},
      {"per_device_train_batch_size: 1\nfinetuning_type: lora\ncutoff_len: 1\n", "llama-factory", "huggingface"},
      {"per_device_train_batch_size: 1\nfinetuning_type: lora\ncutoff_len: 1\n", NULL, "deepspeed"},
      {"micro_batch_size: 1\nbase_model: x\n", "axolotl", "huggingface"},
      {"batch_size: 1\nenable_activation_checkpointing: True\n", "torchtune", NULL},
      {"zero_optimization: {stage: 2}\n", "deepspeed", NULL},
      {"model: {family: llama}\ntraining: {batch_size: 1}\n", "headroom", NULL},
      {"something: else\n", NULL, NULL},
      {"", NULL, NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    hr_config config = config_of("t.yaml", cases[i].text);
    const hr_map *map = hr__map_guess(&config, cases[i].family ? hr__map_named(cases[i].family) : NULL);
    if (map ? !cases[i].kind || strcmp(map->name, cases[i].kind) != 0 : cases[i].kind != NULL)
      fail_msg("%s is taken for %s", cases[i].text, map ? map->name : "nothing");
  }
}

/* Hydra: the folder or a comment at the top is the section. */
static void packages(void **state) {
  (void)state;
  static const struct {
    const char *real, *text, *key, *path; /* path NULL: it is not there */
  } cases[] = {
      {"/x/conf/data_loader/a.yaml", "batch_size: 1\n", "data_loader.batch_size", "batch_size"},
      {"/x/conf/training/trainer/a.yaml", "precision: 1\n", "training.trainer.precision", "precision"},
      {"/x/conf/trainer/a.yaml", "precision: 1\n", "trainer.precision", "precision"},
      {"/x/conf/trainer/a.yaml", "precision: 1\n", "training.trainer.precision", NULL},
      {"/x/conf/other/a.yaml", "batch_size: 1\n", "data_loader.batch_size", NULL},
      {"/x/conf/other/a.yaml", "# @package data_loader\nbatch_size: 1\n", "data_loader.batch_size", "batch_size"},
      {"/x/conf/other/a.yaml", "\n#x\n#   @package   data_loader  \nbatch_size: 1\n", "data_loader.batch_size",
       "batch_size"},
      {"/x/conf/data_loader/a.yaml", "# @package _global_\nbatch_size: 1\n", "data_loader.batch_size", NULL},
      {"/x/conf/data_loader/a.yaml", "# @package _global_\ndata_loader: {batch_size: 1}\n", "data_loader.batch_size",
       "data_loader.batch_size"},
      {"/x/conf/other/a.yaml", "a: 1 # @package data_loader\nbatch_size: 1\n", "data_loader.batch_size", NULL},
      {"a.yaml", "batch_size: 1\n", "data_loader.batch_size", NULL},
  };
  const hr_map *map = hr__map_named("lightning");
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    hr_config config = config_of("a.yaml", cases[i].text);
    config.real = cases[i].real;
    char path[HR_MAP_PATH];
    bool there = hr__map_locate(map, &config, cases[i].key, path);
    if (there != (cases[i].path != NULL)) fail_msg("%s in %s: %d", cases[i].key, cases[i].real, there);
    if (there) assert_string_equal(path, cases[i].path);
  }
}

static const hr_key keys[] = {{.path = "training.batch_size"}, {.path = "model.precision"}};
static const hr_key_table table = {keys, sizeof keys / sizeof keys[0]};

static void own_map(void **state) {
  (void)state;
  static const char text[] = "map: lightning\n"
                             "keys:\n"
                             "  training.batch_size: [a.b, c]\n"
                             "  model.precision: {key: d, values: {32-true: float32}, absent: float32}\n"
                             "values: {n: 16, flag: true, word: x}\n";
  hr_map *map;
  hr_error err = {0};
  assert_int_equal(hr__map_parse("m.yaml", text, strlen(text), &table, 1, &arena, &map, &err), HR_OK);
  assert_true(map->folders && !map->lists);
  assert_string_equal(map->keys[0].keys, "a.b|c");
  assert_true(map->keys[0].asked);
  assert_string_equal(map->keys[1].words, "32-true=float32");
  assert_string_equal(map->keys[1].absent, "float32");
  assert_null(map->keys[2].setting);
  assert_int_equal(map->keys[2].value.kind, HR_LITERAL_NUMBER);
  assert_int_equal(map->keys[3].value.kind, HR_LITERAL_BOOL);
  assert_int_equal(map->keys[4].value.kind, HR_LITERAL_TEXT);
  /* what the file says replaces what the built-in one does; the rest of that is there */
  size_t batch = 0, accumulation = 0;
  for (size_t i = 0; i < map->count; i++) {
    const char *setting = map->keys[i].setting;
    batch += setting && strcmp(setting, "training.batch_size") == 0;
    accumulation += setting && strcmp(setting, "training.gradient_accumulation") == 0;
  }
  assert_int_equal(batch, 1);
  assert_int_equal(accumulation, 1);
}

/* A setting that no recipe has would never be written: it is an error, with what was meant. */
static void own_map_unknown(void **state) {
  (void)state;
  static const struct {
    const char *text, *place, *remedy;
  } cases[] = {{"training.batchsize: a\n", "m.yaml:1", "did you mean training.batch_size?"},
               {"map: lightning\nkeys:\n  batch_size: a\n", "m.yaml:3", "did you mean training.batch_size?"},
               {"model.precision: a\nx: b\n", "m.yaml:2", "env --keys"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    hr_map *map;
    hr_error err = {0};
    const char *text = cases[i].text;
    assert_int_equal(hr__map_parse("m.yaml", text, strlen(text), &table, 1, &arena, &map, &err), HR_BAD_INPUT);
    assert_non_null(strstr(err.message, "is not a key of a recipe"));
    assert_non_null(strstr(err.place, cases[i].place));
    assert_non_null(strstr(err.remedy, cases[i].remedy));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(own_map_unknown, arena_free), cmocka_unit_test_teardown(data_is_sound, arena_free),
      cmocka_unit_test_teardown(by_name, arena_free),         cmocka_unit_test_teardown(words, arena_free),
      cmocka_unit_test_teardown(guessed, arena_free),         cmocka_unit_test_teardown(packages, arena_free),
      cmocka_unit_test_teardown(own_map, arena_free),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
