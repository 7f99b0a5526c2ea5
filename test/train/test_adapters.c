/* Runs with adapters: only these are trained and saved, stop and resume change no bit, and packed weights are those of
 * the plain model. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "job/settings.h"
#include "op/lora_up.h"
#include "op/nf4.h"
#include "part_session.h"
#include "plan/report.h"
#include "train/adapter.h"

#define LIST(...)                                                                                                      \
  (const char *const[]) {                                                                                              \
    __VA_ARGS__, NULL                                                                                                  \
  }
#define LORA  "model.adapters={rank: 4, alpha: 8, targets: all-linear}"
#define DROPS "model.adapters={rank: 4, alpha: 8, targets: all-linear, dropout: 0.25}"
#define NF4   "model.quantize.kind=nf4"

static void resume_everywhere(const char *const *overrides) {
  hr_train_result whole = train_ok(overrides, (hr_train_options){0});
  for (int64_t stop = 1; stop < 8; stop += 3) {
    const char *out = folder_make("adapter-resume");
    train_ok(overrides, (hr_train_options){.out = out, .stop_at = stop});
    hr_train_result rest = train_ok(overrides, (hr_train_options){.out = out, .resume = true});
    assert_int_equal(rest.steps_here, 8 - stop);
    assert_string_equal(rest.weights_sha256, whole.weights_sha256);
    assert_true(rest.loss == whole.loss);
    folder_remove(out);
    free((void *)(uintptr_t)out);
  }
}

static void test_resume(void **state) {
  (void)state;
  resume_everywhere(LIST(LORA));
}

static void test_resume_dropout_accumulated(void **state) {
  (void)state;
  resume_everywhere(LIST(DROPS, "training.batch_size=1", "training.gradient_accumulation=2", "training.eval_every=3"));
}

static void test_resume_packed(void **state) {
  (void)state;
  resume_everywhere(LIST(LORA, NF4));
}

/* The base comes again from model.path; without it, or with another one, there is no going on. */
static void test_resume_needs_the_base(void **state) {
  (void)state;
  const char *base = folder_make("adapter-base"), *out = folder_make("adapter-tuned");
  train_ok(NULL, (hr_train_options){.out = base});
  char set[4200], file[4200];
  snprintf(set, sizeof set, "model.path=%s", path_join(base, "generation-00000008"));
  snprintf(file, sizeof file, "%s", path_join(base, "generation-00000008/model.safetensors"));
  for (int packed = 0; packed < 2; packed++) {
    const char *const *overrides = packed ? LIST(LORA, set, NF4) : LIST(LORA, set);
    hr_train_result whole = train_ok(overrides, (hr_train_options){0});
    train_ok(overrides, (hr_train_options){.out = out, .stop_at = 3});
    hr_train_result rest = train_ok(overrides, (hr_train_options){.out = out, .resume = true});
    assert_string_equal(rest.weights_sha256, whole.weights_sha256);
    folder_remove(out);
  }
  const char *other = folder_make("adapter-other");
  train_ok(LIST("training.seed=8"), (hr_train_options){.out = other});
  char set_other[4200];
  snprintf(set_other, sizeof set_other, "model.path=%s", path_join(other, "generation-00000008"));
  for (int packed = 0; packed < 2; packed++) {
    const char *quantize = packed ? NF4 : "model.quantize=null";
    train_ok(LIST(LORA, set, quantize), (hr_train_options){.out = out, .stop_at = 3});
    hr_error err =
        train_fails(LIST(LORA, set_other, quantize), (hr_train_options){.out = out, .resume = true}, HR_USAGE);
    assert_non_null(strstr(err.message, "other frozen weights"));
    train_fails(LIST(LORA, "model.path=null", quantize), (hr_train_options){.out = out, .resume = true}, HR_USAGE);
    train_ok(LIST(LORA, set, quantize, "memory.offload.parameters=host"),
             (hr_train_options){.out = out, .resume = true});
    folder_remove(out);
    train_ok(LIST(LORA, quantize), (hr_train_options){.out = out, .stop_at = 3}); /* and the other way round */
    train_fails(LIST(LORA, set, quantize), (hr_train_options){.out = out, .resume = true}, HR_USAGE);
    folder_remove(out);
  }
  folder_remove(other);
  free((void *)(uintptr_t)other);
  train_ok(LIST(LORA, set), (hr_train_options){.out = out, .stop_at = 3});
  assert_int_equal(unlink(file), 0);
  train_fails(LIST(LORA, set), (hr_train_options){.out = out, .resume = true}, HR_BAD_INPUT);
  folder_remove(out);
  folder_remove(base);
  free((void *)(uintptr_t)base);
  free((void *)(uintptr_t)out);
}

/* adapter_model.safetensors and adapter_config.json as their readers expect them, in place of the model. */
static void test_saved_files(void **state) {
  (void)state;
  const char *out = folder_make("adapter-files");
  train_ok(LIST(LORA), (hr_train_options){.out = out});
  assert_int_not_equal(access(path_join(out, "generation-00000008/model.safetensors"), F_OK), 0);
  hr_safetensors *file;
  hr_error err;
  assert_int_equal(hr__safetensors_open(path_join(out, "generation-00000008/adapter_model.safetensors"), &file, &err),
                   HR_OK);
  assert_int_equal(hr__safetensors_count(file), 2 * 7);
  const hr_safetensor *a = hr__safetensors_find(file, "base_model.model.model.layers.0.mlp.down_proj.lora_A.weight");
  assert_non_null(a);
  assert_string_equal(a->dtype, "F32");
  assert_true(a->rank == 2 && a->dim[0] == 4 && a->dim[1] == 32);
  assert_non_null(hr__safetensors_find(file, "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight"));
  hr__safetensors_close(file);
  size_t bytes;
  char *text = file_get(path_join(out, "generation-00000008/adapter_config.json"), &bytes);
  static const char *const parts[] = {"\"peft_type\": \"LORA\"",
                                      "\"task_type\": \"CAUSAL_LM\"",
                                      "\"r\": 4,",
                                      "\"lora_alpha\": 8,",
                                      "\"lora_dropout\": 0.0,",
                                      "\"use_rslora\": false",
                                      "\"inference_mode\": true",
                                      "\"gate_proj\"",
                                      "\"rank_pattern\": {}"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (!text || !strstr(text, parts[i])) fail_msg("adapter_config.json has no %s", parts[i]);
  free(text);
  folder_remove(out);
  free((void *)(uintptr_t)out);
}

/* Last names stand for modules only where all of that name have an adapter. */
static void test_targets_in_the_config(void **state) {
  (void)state;
  tiny t;
  hr_error err = {0};
  const char *text;
  size_t bytes;
  hr_arena arena = {0};
  const char *const *overrides =
      LIST("model.config.num_hidden_layers=2", "model.adapters.targets=[layers.1.self_attn.q_proj, up_proj]");
  assert_int_equal(tiny_open(&t, overrides, &err), HR_OK);
  hr_model_parts parts;
  hr__parts_read(t.recipe, &parts);
  assert_int_equal(hr__adapter_config(&parts, 0, t.graph, &arena, &text, &bytes, &err), HR_OK);
  assert_non_null(strstr(text, "\"model.layers.1.self_attn.q_proj\""));
  assert_non_null(strstr(text, "\"up_proj\""));
  assert_null(strstr(text, "\"q_proj\""));
  hr__arena_fini(&arena);
  tiny_close(&t);
}

/* A run goes on as what it was begun. */
static void test_adapters_come_and_go(void **state) {
  (void)state;
  const char *out = folder_make("adapter-kind");
  train_ok(NULL, (hr_train_options){.out = out, .stop_at = 3});
  hr_error err = train_fails(LIST("model.adapters={}"), (hr_train_options){.out = out, .resume = true}, HR_USAGE);
  assert_non_null(strstr(err.message, "without adapters"));
  train_fails(LIST(LORA), (hr_train_options){.out = out, .resume = true}, HR_USAGE);
  folder_remove(out);
  train_ok(LIST("model.adapters={}"), (hr_train_options){.out = out, .stop_at = 3});
  err = train_fails(NULL, (hr_train_options){.out = out, .resume = true}, HR_USAGE);
  assert_non_null(strstr(err.message, "with adapters"));
  folder_remove(out);
  free((void *)(uintptr_t)out);
}

static float *value_get(desk *d, const char *name, size_t *count) {
  const hr_graph *g = d->tiny.graph;
  hr_id value = hr__graph_find_value(g, name);
  if (value == HR_NONE) fail_msg("no %s", name);
  *count = (size_t)hr_desc_count(&g->values[value].desc);
  float *data = malloc(*count * sizeof *data);
  hr_error err;
  assert_int_equal(hr__run_read(d->session.run, value, 0, data, *count * sizeof *data, &err), HR_OK);
  return data;
}

/* Training moves the adapters and nothing else; before it they change nothing. */
static void test_only_adapters_move(void **state) {
  (void)state;
  desk d;
  size_t n, n_b;
  desk_open(&d, "unused", LIST(LORA));
  float *base = value_get(&d, "model.layers.0.mlp.up_proj.weight", &n);
  float *b = value_get(&d, "model.layers.0.mlp.up_proj.lora_B.weight", &n_b);
  for (size_t i = 0; i < n_b; i++)
    assert_true(b[i] == 0.0f);
  size_t n_a;
  float *a = value_get(&d, "model.layers.0.mlp.up_proj.lora_A.weight", &n_a);
  double sum = 0, squares = 0, bound = 0.25; /* 1 / sqrt(16) */
  for (size_t i = 0; i < n_a; i++) {
    assert_true(fabs((double)a[i]) <= bound);
    sum += (double)a[i];
    squares += (double)a[i] * (double)a[i];
  }
  assert_true(fabs(sum / (double)n_a) < 0.1 && fabs(sqrt(squares / (double)n_a) - bound / sqrt(3.0)) < 0.05);
  desk_steps(&d, 1, 3);
  float *base_after = value_get(&d, "model.layers.0.mlp.up_proj.weight", &n);
  float *b_after = value_get(&d, "model.layers.0.mlp.up_proj.lora_B.weight", &n_b);
  assert_memory_equal(base, base_after, n * sizeof *base);
  assert_memory_not_equal(b, b_after, n_b * sizeof *b);
  desk_close(&d);
  free(base);
  free(base_after);
  free(a);
  free(b);
  free(b_after);
}

/* Packed from the seed: the codes of what the plain model would have. The weight is large enough for several windows,
 * so that pieces and nested blocks meet at all their borders. */
static void test_packed_from_the_seed(void **state) {
  (void)state;
  const char *const size = "model.config.intermediate_size=20000";
  desk plain, packed;
  size_t n;
  hr_error err;
  desk_open(&plain, "unused", LIST(LORA, size));
  desk_open(&packed, "unused", LIST(LORA, size, NF4));
  static const char name[] = "model.layers.0.mlp.up_proj.weight";
  float *w = value_get(&plain, name, &n);
  assert_int_equal(n, 320000);
  const hr_graph *g = packed.tiny.graph;
  const hr_packed *p = NULL;
  for (size_t i = 0; i < g->n_packed; i++)
    if (strcmp(g->packed[i].name, name) == 0) p = &g->packed[i];
  assert_non_null(p);
  size_t blocks = n / 64;
  float *scales = malloc(blocks * sizeof *scales), offset, outer[32];
  uint8_t *codes = malloc(n / 2), *got = malloc(n / 2);
  hr__nf4_scales(w, (int64_t)n, scales);
  hr__nf4_codes(w, (int64_t)n, scales, codes);
  assert_int_equal(hr__run_read(packed.session.run, p->codes, 0, got, n / 2, &err), HR_OK);
  assert_memory_equal(got, codes, n / 2);
  double total = 0, error = 0, squares = 0;
  for (size_t i = 0; i < blocks; i++)
    total += (double)scales[i];
  assert_int_equal(hr__run_read(packed.session.run, p->nested_offset, 0, &offset, sizeof offset, &err), HR_OK);
  assert_true(offset == (float)(total / (double)blocks));
  size_t n_outer = (blocks + 255) / 256;
  assert_int_equal(hr__run_read(packed.session.run, p->nested_absmax, 0, outer, n_outer * 4, &err), HR_OK);
  assert_int_equal(hr__run_read(packed.session.run, p->absmax, 0, got, blocks, &err), HR_OK);
  for (size_t first = 0; first < blocks; first += 256) {
    uint8_t small[256];
    float largest;
    size_t count = blocks - first < 256 ? blocks - first : 256;
    hr__nf4_nest(scales + first, (int64_t)count, offset, small, &largest);
    assert_true(largest == outer[first / 256]);
    assert_memory_equal(got + first, small, count);
  }
  /* A code is at most half the widest gap away: (1 - 0.696) / 2 of the scale. */
  for (size_t i = 0; i < n; i++) {
    unsigned pair = codes[i / 2];
    double back = (double)hr_nf4_levels[i % 2 ? pair & 15u : pair >> 4] * (double)scales[i / 64];
    assert_true(fabs(back - (double)w[i]) <= 0.152 * (double)scales[i / 64]);
    error += (back - (double)w[i]) * (back - (double)w[i]);
    squares += (double)w[i] * (double)w[i];
  }
  assert_true(sqrt(error / squares) < 0.1);
  free(w);
  free(scales);
  free(codes);
  free(got);
  desk_close(&plain);
  desk_close(&packed);
}

/* Base and adapter are summed in one place of the plan. */
static void test_sum_in_place(void **state) {
  (void)state;
  tiny t;
  hr_error err = {0};
  size_t sums = 0;
  assert_int_equal(tiny_open(&t, LIST(LORA), &err), HR_OK);
  for (size_t n = 0; n < t.graph->n_nodes; n++) {
    const hr_node *node = &t.graph->nodes[n];
    if (node->op != &hr_op_lora_up) continue;
    hr_id base = t.graph->values[node->in[2]].buffer, sum = t.graph->values[node->out[0]].buffer;
    assert_int_equal(t.plan->slot_of_buffer[base], t.plan->slot_of_buffer[sum]);
    sums++;
  }
  assert_int_equal(sums, 4); /* q, k and v; o; gate and up; down */
  tiny_close(&t);
}

/* Evaluation does not drop: at the first weights it is that of the plain model. */
static void test_evaluation_does_not_drop(void **state) {
  (void)state;
  const char *const *eval = LIST("training.eval_every=1"), *const *drops = LIST("training.eval_every=1", DROPS);
  hr_train_result plain = train_ok(eval, (hr_train_options){.stop_at = 1});
  hr_train_result dropped = train_ok(drops, (hr_train_options){.stop_at = 1});
  assert_true(plain.eval_loss == dropped.eval_loss);
}

static void test_llama_1b(void **state) {
  (void)state;
  hr_recipe *recipe;
  hr_graph *graph;
  hr_error err = {0};
  uint64_t parameters, trainable, matrices = 0;
  for (int packed = 0; packed < 2; packed++) {
    const char *const *overrides =
        LIST("model.precision=32-true", "model.adapters={rank: 8, targets: all-linear}", NF4);
    hr_status status =
        hr__settings_load(HR_SOURCE_DIR "/recipes/llama-3.2-1b.yaml", overrides, packed ? 3 : 2, &recipe, &err);
    if (status == HR_OK) status = hr__compile(recipe, NULL, "quantize", &graph, &err);
    if (status != HR_OK) fail_msg("%s: %s", err.place, err.message);
    hr__report_parameters(graph, &parameters, &trainable);
    matrices = 0;
    for (size_t v = 0; v < graph->n_values; v++)
      matrices += graph->values[v].keep_f32 && hr__graph_is_tensor(graph, (hr_id)v);
    assert_int_equal(matrices, 2 * 112);
    assert_int_equal(trainable, 5636096);
    assert_int_equal(parameters, 1235814400 + 5636096);
    hr__graph_destroy(graph);
    hr__recipe_destroy(recipe);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_resume),
      cmocka_unit_test(test_resume_dropout_accumulated),
      cmocka_unit_test(test_resume_packed),
      cmocka_unit_test(test_resume_needs_the_base),
      cmocka_unit_test(test_saved_files),
      cmocka_unit_test(test_targets_in_the_config),
      cmocka_unit_test(test_adapters_come_and_go),
      cmocka_unit_test(test_only_adapters_move),
      cmocka_unit_test(test_packed_from_the_seed),
      cmocka_unit_test(test_sum_in_place),
      cmocka_unit_test(test_evaluation_does_not_drop),
      cmocka_unit_test(test_llama_1b),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
