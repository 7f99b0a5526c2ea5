/* Stacked parameters are a matter of the graph alone: a model that holds them (q, k and v in one, gate and up in
 * another) and one that holds every tensor by itself begin with the same bits, learn the same, and write the same
 * files. A group of the optimizer that fits all parameters and changes nothing keeps tensors single. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "part_session.h"

#define LIST(...)                                                                                                      \
  (const char *const[]) {                                                                                              \
    __VA_ARGS__, NULL                                                                                                  \
  }
#define SINGLE "training.optimizer.groups=[{match: \"*\", lr: 1e-2}]"
#define BIASED "model.config.attention_bias=true", "model.config.mlp_bias=true"
#define LORA   "model.adapters={rank: 4, alpha: 8, targets: [q_proj, v_proj, gate_proj, down_proj]}"

static size_t stacked_count(const hr_graph *g) {
  size_t count = 0;
  for (size_t v = 0; v < g->n_values; v++)
    count += g->values[v].members > 0 && g->buffers[g->values[v].buffer].role == HR_ROLE_PARAMETER;
  return count;
}

/* Tensors of `a` against those of the same name in `b`; largest difference relative to the largest element. */
static double tensors_distance(desk *a, desk *b) {
  const hr_graph *g = a->tiny.graph, *other = b->tiny.graph;
  double worst = 0;
  size_t count[2] = {0, 0};
  for (hr_id v = 0; v < other->n_values; v++)
    count[1] += hr__graph_is_tensor(other, v);
  for (hr_id v = 0; v < g->n_values; v++) {
    if (!hr__graph_is_tensor(g, v)) continue;
    count[0]++;
    hr_id twin = hr__graph_find_value(other, g->values[v].name);
    if (twin == HR_NONE || !hr__graph_is_tensor(other, twin)) fail_msg("no %s", g->values[v].name);
    assert_true(hr_desc_same_shape(&g->values[v].desc, &other->values[twin].desc));
    assert_int_equal(g->values[v].desc.dtype, other->values[twin].desc.dtype);
    if (g->values[v].desc.dtype != HR_F32) continue;
    size_t n = (size_t)hr_desc_count(&g->values[v].desc);
    float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
    hr_error err;
    assert_int_equal(hr__run_read(a->session.run, v, 0, x, n * sizeof *x, &err), HR_OK);
    assert_int_equal(hr__run_read(b->session.run, twin, 0, y, n * sizeof *y, &err), HR_OK);
    double largest = 1e-30, off = 0;
    for (size_t i = 0; i < n; i++) {
      largest = fmax(largest, fabs((double)x[i]));
      off = fmax(off, fabs((double)x[i] - (double)y[i]));
    }
    worst = fmax(worst, off / largest);
    free(x);
    free(y);
  }
  assert_int_equal(count[0], count[1]);
  return worst;
}

/* Whether a saved tensor file of both is the same byte for byte. */
static bool files_same(const char *a, const char *b, const char *name) {
  char path[64];
  size_t bytes[2];
  snprintf(path, sizeof path, "generation-00000001/%s", name);
  char *x = file_get(path_join(a, path), &bytes[0]), *y = file_get(path_join(b, path), &bytes[1]);
  assert_non_null(x);
  assert_non_null(y);
  bool same = bytes[0] == bytes[1] && memcmp(x, y, bytes[0]) == 0;
  free(x);
  free(y);
  return same;
}

/* `weights`: the file that has what is trained. */
static void compare(const char *const *stacked, const char *const *single, size_t expected, const char *weights) {
  const char *out[2] = {folder_make("stacked"), folder_make("single")};
  assert_int_equal(mkdir(out[0], 0755) | mkdir(out[1], 0755), 0);
  desk a, b;
  hr_error err;
  char hex[2][HR_SHA256_HEX];
  desk_open(&a, out[0], stacked);
  desk_open(&b, out[1], single);
  assert_int_equal(stacked_count(a.tiny.graph), expected);
  assert_int_equal(stacked_count(b.tiny.graph), 0);
  assert_true(tensors_distance(&a, &b) == 0);
  desk_sha256(&a, hex[0]);
  desk_sha256(&b, hex[1]);
  assert_string_equal(hex[0], hex[1]);
  assert_int_equal(desk_save(&a, 1, &err), HR_OK);
  assert_int_equal(desk_save(&b, 1, &err), HR_OK);
  assert_true(files_same(out[0], out[1], weights));
  assert_true(files_same(out[0], out[1], "training/optimizer.safetensors"));
  desk_steps(&a, 1, 3);
  desk_steps(&b, 1, 3);
  double distance = tensors_distance(&a, &b);
  assert_true(distance > 0 && distance < 1e-3); /* three steps of AdamW, which divides by small moments */
  desk_close(&a);
  desk_close(&b);
  for (int i = 0; i < 2; i++) {
    folder_remove(out[i]);
    free((void *)(uintptr_t)out[i]);
  }
}

static void test_model(void **state) {
  (void)state;
  compare(NULL, LIST(SINGLE), 2, "model.safetensors");
}

static void test_biases(void **state) {
  (void)state;
  compare(LIST(BIASED), LIST(BIASED, SINGLE), 4, "model.safetensors");
}

/* Adapters of some of the members: A and B of q and v; gate alone has nothing to be stacked with. */
static void test_adapters(void **state) {
  (void)state;
  compare(LIST(LORA), LIST(LORA, SINGLE), 2 + 2, "adapter_model.safetensors");
}

/* A checkpoint of single tensors is loaded by a stacked model, and the other way round, with the same frozen bits. */
static void test_checkpoints_are_alike(void **state) {
  (void)state;
  const char *out = folder_make("stacked-path");
  train_ok(LIST(SINGLE), (hr_train_options){.out = out});
  char set[4200];
  snprintf(set, sizeof set, "model.path=%s", path_join(out, "generation-00000008"));
  desk a, b;
  desk_open(&a, "unused", LIST(set, "model.precision=bf16-mixed", LORA));
  desk_open(&b, "unused", LIST(set, "model.precision=bf16-mixed", LORA, SINGLE));
  assert_true(stacked_count(a.tiny.graph) > 0 && stacked_count(b.tiny.graph) == 0);
  assert_true(a.session.base[0] != '\0');
  assert_string_equal(a.session.base, b.session.base); /* the hash of what was loaded into frozen weights */
  desk_close(&a);
  desk_close(&b);
  folder_remove(out);
  free((void *)(uintptr_t)out);
}

/* Messages speak of the tensors by their own names. */
static void test_messages_name_members(void **state) {
  (void)state;
  const char *out = folder_make("stacked-path");
  train_ok(NULL, (hr_train_options){.out = out, .stop_at = 1});
  char set[4200];
  snprintf(set, sizeof set, "model.path=%s", path_join(out, "generation-00000001"));
  hr_error err = train_fails(LIST(set, "model.config.num_key_value_heads=2"), (hr_train_options){0}, HR_BAD_INPUT);
  if (!strstr(err.message, "self_attn.k_proj.weight")) fail_msg("%s", err.message);
  err = train_fails(LIST("model.adapters={rank: 12, targets: [k_proj]}"), (hr_train_options){0}, HR_BAD_INPUT);
  if (!strstr(err.message, "model.layers.0.self_attn.k_proj has (8 x 16)")) fail_msg("%s", err.message);
  err = train_fails(LIST("model.adapters={targets: [kv_proj]}"), (hr_train_options){0}, HR_BAD_INPUT);
  if (!strstr(err.remedy, "q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj")) fail_msg("%s", err.remedy);
  folder_remove(out);
  free((void *)(uintptr_t)out);
}

/* What could treat members differently keeps them single. */
static void test_when_single(void **state) {
  (void)state;
  static const char *const settings[] = {"model.precision_overrides={lm_head: 32-true}",
                                         "training.optimizer.groups=[{match: \"*norm*\", lr: 1e-3}]",
                                         "training.optimizer.kind=sgd", "training.optimizer.kind=adamw8bit"};
  static const size_t expected[] = {0, 0, 2, 2}; /* 8-bit states begin at larger tensors */
  for (int i = 0; i < 4; i++) {
    tiny t;
    hr_error err = {0};
    if (tiny_open(&t, LIST(settings[i]), &err) != HR_OK) fail_msg("%s", err.message);
    assert_int_equal(stacked_count(t.graph), expected[i]);
    tiny_close(&t);
  }
  tiny t;
  hr_error err = {0};
  if (tiny_open(&t, LIST(LORA, "model.quantize.kind=nf4"), &err) != HR_OK) fail_msg("%s", err.message);
  assert_int_equal(stacked_count(t.graph), 0);
  tiny_close(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_model),
      cmocka_unit_test(test_biases),
      cmocka_unit_test(test_adapters),
      cmocka_unit_test(test_checkpoints_are_alike),
      cmocka_unit_test(test_messages_name_members),
      cmocka_unit_test(test_when_single),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
