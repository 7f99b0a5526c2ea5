/* A model of three parts: what is trained, packed and saved is settled part by part; stop and resume, recompute, split
 * heads and offload change no bit; recipes that do not fit together are refused with their places. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fit/knobs.h"
#include "format/safetensors.h"
#include "job/settings.h"
#include "part_session.h"
#include "part_trio.h"

#define LIST(...)                                                                                                      \
  (const char *const[]) {                                                                                              \
    __VA_ARGS__, NULL                                                                                                  \
  }

static bool begins(const char *name, const char *with) {
  return strncmp(name, with, strlen(with)) == 0;
}

/* Adapters of text, all of head and the whole's own table are trained; text is packed, and side is neither. */
static void test_what_is_trained(void **state) {
  (void)state;
  tiny t;
  hr_error err = {0};
  if (tiny_open(&t, LIST(TRIO), &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  int adapters = 0, head = 0, side = 0, own = 0;
  for (hr_id v = 0; v < t.graph->n_values; v++) {
    const hr_value *value = &t.graph->values[v];
    if (!hr__graph_is_tensor(t.graph, v) || t.graph->buffers[value->buffer].role != HR_ROLE_PARAMETER) continue;
    bool text = begins(value->name, "text."), adapter = text && strstr(value->name, ".lora_");
    assert_int_equal(value->trained, adapter || begins(value->name, "head.") || begins(value->name, "out."));
    assert_int_equal(value->keep_f32, adapter);
    adapters += adapter;
    head += begins(value->name, "head.");
    side += begins(value->name, "side.");
    own += begins(value->name, "out.");
  }
  assert_int_equal(adapters, 2 * 2 * 6); /* A and B, two layers, q, k, v and three called dense */
  assert_int_equal(head, 2);
  assert_int_equal(side, 2);
  assert_int_equal(own, 1);
  assert_int_equal(t.graph->n_packed, 2 * 6);
  for (size_t i = 0; i < t.graph->n_packed; i++)
    assert_true(begins(t.graph->packed[i].name, "text.bert.encoder.layer."));
  tiny_close(&t);
}

/* A part's own precision, patterns of `train`, and those of the whole model where a part says nothing. */
static void test_settings_of_parts(void **state) {
  (void)state;
  tiny t;
  hr_error err = {0};
  const char *const *overrides = LIST(TRIO, "model.precision=bf16-true", "model.parts.head.precision=32-true",
                                      "model.train=[out]", "model.parts.side.train=[up]");
  if (tiny_open(&t, overrides, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  static const struct {
    const char *name;
    hr_dtype dtype;
    bool trained;
  } expected[] = {{"out.weight", HR_BF16, true},
                  {"head.up.weight", HR_F32, false},
                  {"side.up.weight", HR_BF16, true},
                  {"side.down.weight", HR_BF16, false}};
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
    hr_id v = hr__graph_find_value(t.graph, expected[i].name);
    assert_int_not_equal(v, HR_NONE);
    assert_int_equal(t.graph->values[v].desc.dtype, expected[i].dtype);
    assert_int_equal(t.graph->values[v].trained, expected[i].trained);
  }
  tiny_close(&t);
}

/* The rank of a part's adapters may be left open like that of a model. */
static void test_open_rank(void **state) {
  (void)state;
  tiny t;
  hr_error err = {0};
  hr_arena arena;
  const hr_knob *knobs;
  size_t count;
  hr__arena_init(&arena);
  if (tiny_open(&t, LIST(TRIO), &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  assert_int_equal(hr__knobs_find(t.recipe, false, &arena, &knobs, &count, &err), HR_OK);
  assert_int_equal(count, 0);
  tiny_close(&t);
  static const char open[] = "model.parts.text.adapters.rank=auto";
  hr_recipe *recipe;
  const char *const *overrides = LIST(TRIO, open);
  if (hr__settings_parse("tiny.yaml", ".", tiny_text, strlen(tiny_text), overrides, 2, &recipe, &err) != HR_OK)
    fail_msg("%s: %s", err.place, err.message);
  assert_true(hr__knobs_any(recipe));
  assert_int_equal(hr__knobs_find(recipe, true, &arena, &knobs, &count, &err), HR_OK);
  size_t found = 0;
  for (size_t i = 0; i < count; i++) {
    if (strcmp(knobs[i].path, "model.parts.text.adapters.rank") != 0) continue;
    found++;
    assert_true(knobs[i].by_hand && knobs[i].quality && knobs[i].n_choices == 4);
    assert_string_equal(knobs[i].choices[3], "64");
    assert_int_equal(knobs[i].quality[3], 0);
  }
  assert_int_equal(found, 1);
  hr__recipe_destroy(recipe);
  hr__arena_fini(&arena);
}

static void test_resume(void **state) {
  (void)state;
  static const char *const variants[] = {"training.seed=7", "model.precision=bf16-mixed",
                                         "training.gradient_accumulation=2",
                                         "model.parts.text.train=[word_embeddings]"};
  for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
    const char *const *overrides = LIST(TRIO, variants[i]);
    hr_train_result whole = train_ok(overrides, (hr_train_options){0});
    const char *out = folder_make("parts-resume");
    train_ok(overrides, (hr_train_options){.out = out, .stop_at = 3});
    hr_train_result rest = train_ok(overrides, (hr_train_options){.out = out, .resume = true});
    assert_int_equal(rest.steps_here, 5);
    assert_string_equal(rest.weights_sha256, whole.weights_sha256);
    assert_true(rest.loss == whole.loss);
    folder_remove(out);
    free((void *)(uintptr_t)out);
  }
}

/* Recompute and offload change no bit. */
static void test_same_bits(void **state) {
  (void)state;
  static const char *const variants[] = {"memory.checkpoint=every-layer",
                                         "memory.checkpoint=selective",
                                         "memory.offload.parameters=host",
                                         "memory.offload.activations=host",
                                         "memory.offload.optimizer=disk",
                                         "memory.checkpoint={text: every-layer, head: selective}",
                                         "memory.offload.parameters={text: host, out: disk}",
                                         "memory.offload.activations={head: host}"};
  hr_train_result plain = train_ok(LIST(TRIO), (hr_train_options){0});
  for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
    hr_train_result other = train_ok(LIST(TRIO, variants[i]), (hr_train_options){0});
    assert_string_equal(other.weights_sha256, plain.weights_sha256);
    assert_true(other.loss == plain.loss);
  }
}

/* Of a part that is used twice each use drops other elements, the same ones recomputed, in slices and resumed. */
static void test_used_twice(void **state) {
  (void)state;
  static const char whole[] = "model.parts.text.config.hidden_dropout_prob=0",
                    inside[] = "model.parts.text.config.attention_probs_dropout_prob=0",
                    lora[] = "model.parts.text.adapters.dropout=0";
  hr_train_result equal = train_ok(LIST(TWINS, whole, inside, lora), (hr_train_options){0});
  hr_train_result attention = train_ok(LIST(TWINS, whole, lora), (hr_train_options){0});
  hr_train_result hidden = train_ok(LIST(TWINS, lora), (hr_train_options){0});
  hr_train_result both = train_ok(LIST(TWINS), (hr_train_options){0});
  assert_true(equal.loss > 5.5451f && equal.loss < 5.5452f); /* both uses are equal: all of 256 words are as likely */
  assert_true(attention.loss != equal.loss && hidden.loss != attention.loss && both.loss != hidden.loss);
  static const char *const variants[] = {"memory.checkpoint=every-layer", "memory.checkpoint=selective",
                                         "memory.offload.activations=host"};
  for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
    hr_train_result other = train_ok(LIST(TWINS, variants[i]), (hr_train_options){0});
    assert_string_equal(other.weights_sha256, both.weights_sha256);
    assert_true(other.loss == both.loss);
  }
  /* sums over slices are in another order, masks are the same */
  hr_train_result sliced = train_ok(LIST(TWINS, "memory.split={text: 2}"), (hr_train_options){0});
  assert_true(fabs((double)(sliced.loss - both.loss)) < 1e-4 * (double)both.loss);
  const char *out = folder_make("parts-twice");
  train_ok(LIST(TWINS), (hr_train_options){.out = out, .stop_at = 3});
  hr_train_result rest = train_ok(LIST(TWINS), (hr_train_options){.out = out, .resume = true});
  assert_string_equal(rest.weights_sha256, both.weights_sha256);
  folder_remove(out);
  free((void *)(uintptr_t)out);
}

static size_t home_count(const char *set, hr_tier tier, const char *part) {
  tiny t;
  hr_error err = {0};
  size_t count = 0;
  static const char wide[] = "model.parts.text.config.intermediate_size=8192";
  if (tiny_open(&t, LIST(TRIO, wide, set), &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  for (size_t i = 0; i < t.graph->n_buffers; i++)
    count +=
        t.graph->buffers[i].persistent && t.graph->buffers[i].home == tier && strstr(t.graph->buffers[i].name, part);
  tiny_close(&t);
  return count;
}

/* What a pattern names goes down, and only that; small buffers stay where they are. */
static void test_offload_by_part(void **state) {
  (void)state;
  size_t all = home_count("memory.offload.optimizer=host", HR_TIER_HOST, "text.");
  assert_true(all > 0);
  assert_int_equal(home_count("memory.offload.optimizer={text: host}", HR_TIER_HOST, "text."), all);
  assert_int_equal(home_count("memory.offload.optimizer={head: host}", HR_TIER_HOST, "text."), 0);
}

static void file_has(const char *out, const char *name, const char *const *tensors, size_t count) {
  char path[64];
  hr_safetensors *file;
  hr_error err = {0};
  snprintf(path, sizeof path, "generation-00000008/%s", name);
  if (hr__safetensors_open(path_join(out, path), &file, &err) != HR_OK) fail_msg("%s: %s", name, err.message);
  if (count > 0) assert_int_equal(hr__safetensors_count(file), count);
  for (size_t i = 0; tensors[i]; i++)
    if (!hr__safetensors_find(file, tensors[i])) fail_msg("%s has no %s", name, tensors[i]);
  hr__safetensors_close(file);
}

/* Files of each part in its folder, under its public names; what is frozen is in none. */
static void test_files(void **state) {
  (void)state;
  const char *out = folder_make("parts-files");
  train_ok(LIST(TRIO, "training.save_every=4"), (hr_train_options){.out = out});
  file_has(out, "model.safetensors", LIST("out.weight"), 1);
  file_has(out, "head/model.safetensors", LIST("up.weight", "down.weight"), 2);
  file_has(out, "text/adapter_model.safetensors",
           LIST("base_model.model.bert.encoder.layer.1.attention.self.query.lora_A.weight"), 24);
  assert_int_not_equal(access(path_join(out, "generation-00000008/side/model.safetensors"), F_OK), 0);
  assert_int_not_equal(access(path_join(out, "generation-00000008/text/model.safetensors"), F_OK), 0);
  size_t bytes;
  char *text = file_get(path_join(out, "generation-00000008/text/adapter_config.json"), &bytes);
  assert_non_null(text);
  assert_non_null(strstr(text, "\"query\""));
  assert_null(strstr(text, "text."));
  assert_non_null(strstr(text, "\"base_model_class\": \"BertForMaskedLM\""));
  assert_non_null(strstr(text, "\"parent_library\": \"transformers.models.bert.modeling_bert\""));
  free(text);
  assert_int_not_equal(access(path_join(out, "generation-00000008/text/config.json"), F_OK), 0); /* of a whole model */
  /* an old generation goes with its folders */
  train_ok(LIST(TRIO, "training.save_every=4", "training.steps=16"), (hr_train_options){.out = out, .resume = true});
  assert_int_not_equal(access(path_join(out, "generation-00000004"), F_OK), 0);
  /* another set of trained weights is another run */
  hr_error err = train_fails(LIST(TRIO, "model.parts.head.train=[up]", "training.steps=20"),
                             (hr_train_options){.out = out, .resume = true}, HR_USAGE);
  assert_non_null(strstr(err.message, "model.parts.head.train"));
  folder_remove(out);
  free((void *)(uintptr_t)out);
}

/* A part from a checkpoint of its own: the encoder of a BERT that was trained before, without its head. */
static void test_part_from_checkpoint(void **state) {
  (void)state;
  const char *base = folder_make("parts-base"), *out = folder_make("parts-tuned");
  static const char bert[] = "model={family: bert, config: {hidden_size: 16, intermediate_size: 64, "
                             "num_hidden_layers: 2, num_attention_heads: 2, vocab_size: 512, "
                             "max_position_embeddings: 64}}";
  train_ok(LIST(bert), (hr_train_options){.out = base});
  char set[4400];
  snprintf(set, sizeof set,
           "model={family: trio, parts: {text: {path: %s, adapters: {rank: 2}}, side: {train: none, config: {width: "
           "24}}}}",
           path_join(base, "generation-00000008"));
  hr_train_result whole = train_ok(LIST(set), (hr_train_options){0});
  train_ok(LIST(set), (hr_train_options){.out = out, .stop_at = 3});
  hr_train_result rest = train_ok(LIST(set), (hr_train_options){.out = out, .resume = true});
  assert_string_equal(rest.weights_sha256, whole.weights_sha256);
  folder_remove(out);
  folder_remove(base);
  free((void *)(uintptr_t)out);
  free((void *)(uintptr_t)base);
}

static const struct {
  const char *set[3];
  const char *message, *remedy;
} bad[] = {
    {{TRIO, "model.parts.vision.train=none"}, "unknown key \"vision\" in section model.parts", "head, side, text"},
    {{TRIO, "model.parts.head.depth=2"}, "unknown key \"depth\" in section model.parts.head", ""},
    {{TRIO, "model.parts.head.config.hidden_size=2"}, "family mlp have no model.parts.head.config.hidden_size", ""},
    {{TRIO, "model.parts.head.config.width=3"}, "model.parts.head.config.width is odd", "even"},
    {{TRIO, "model.parts.head.family=lama"}, "no model family \"lama\"", "mlp"},
    {{TRIO, "model.parts.head.family=trio"}, "cannot be parts", ""},
    {{TRIO, "model.parts.text.family=null"}, "model.parts.text.family is missing", "--set model.parts.text.family"},
    {{TRIO, "model.adapters.rank=4"}, "consist of parts", "model.parts.text.adapters"},
    {{TRIO, "model.parts.head.train=[middle]"}, "\"middle\" of model.parts.head.train matches no", "dump"},
    {{TRIO, "model.train=[head.up]", "model.parts.head.train=all"}, "\"head.up\" of model.train matches no", ""},
    {{TRIO, "model.parts.head.quantize.kind=nf4"}, "head.up.weight would be trained", "model.parts.head.adapters"},
    {{TRIO, "model.parts.text.adapters.targets=[up]"}, "\"up\" matches no linear module", "query"},
    {{TRIO, "model.parts.head.precision_overrides={query: 32-true}"}, "no module is left for the pattern", ""},
    {{TRIO, "memory.checkpoint={vision: none}"}, "the pattern \"vision\" fits no block", "dump"},
    {{TRIO, "memory.checkpoint={text: all}"}, "the word for \"text\" must be one of", "every-layer"},
    {{TRIO, "memory.checkpoint={text: auto}"}, "the word for \"text\" must be one of", ""},
    {{TRIO, "memory.offload.parameters={vision: host}"}, "the pattern \"vision\" fits no module", "dump"},
    {{TRIO, "memory.offload.optimizer={text: cloud}"}, "must be one of: device, host, disk", ""},
    {{"model={family: mlp}"}, "mlp is a family of parts", ""},
    {{"model.parts.text.family=bert"}, "family llama have no parts", ""},
    {{"model.train=none"}, "nothing is trained", ""},
    {{"model.train=[head]"}, "\"head\" of model.train matches no parameter", ""},
};

static void test_refused(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const char *const list[] = {bad[i].set[0], bad[i].set[1], bad[i].set[2], NULL};
    hr_error err = train_fails(list, (hr_train_options){0}, HR_BAD_INPUT);
    if (!strstr(err.message, bad[i].message) || !strstr(err.remedy, bad[i].remedy) || !*err.place)
      fail_msg("case %zu: %s: %s; %s", i, err.place, err.message, err.remedy);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_is_trained),
      cmocka_unit_test(test_settings_of_parts),
      cmocka_unit_test(test_open_rank),
      cmocka_unit_test(test_resume),
      cmocka_unit_test(test_same_bits),
      cmocka_unit_test(test_used_twice),
      cmocka_unit_test(test_offload_by_part),
      cmocka_unit_test(test_files),
      cmocka_unit_test(test_part_from_checkpoint),
      cmocka_unit_test(test_refused),
  };
  trio_register();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
