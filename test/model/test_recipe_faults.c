/* Memory that runs out at any request while a recipe is read, its graph built or its weights opened: HR_NOMEM, no leak.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "format/safetensors.h"
#include "model/part_build.h"
#include "model/weights.h"
#include "support/faults.h"

static char folder[64], recipe_path[128];

static hr_status built_give_back(hr_built *built, hr_status status, hr_error *err) {
  *err = built->err;
  hr__built_free(built);
  return status;
}

/* A recipe file with overrides, its config.json, the settings as JSON and the config.json of a run. */
static hr_status recipe_body(void *arg, hr_error *err) {
  static const char *const sets[] = {"model.config.rope_scaling.factor=8", "model.config.head_dim=null",
                                     "model.precision=bf16-true"};
  (void)arg;
  hr_built built = {0};
  hr_status status = hr__built_recipe(&built, recipe_path, NULL, sets, 3);
  if (status == HR_OK) {
    json_t *settings = hr__recipe_json(built.recipe), *config = built.part.model->config_json(&built.part);
    if (!settings || !config) status = hr__nomem(&built.err);
    json_decref(settings);
    json_decref(config);
  }
  return built_give_back(&built, status, err);
}

static hr_status folder_body(void *arg, hr_error *err) {
  (void)arg;
  hr_built built = {0};
  return built_give_back(&built, hr__built_recipe(&built, folder, NULL, NULL, 0), err);
}

static hr_status graph_body(void *arg, hr_error *err) {
  (void)arg;
  hr_built built = {0};
  hr_status status = hr__built_recipe(&built, recipe_path, NULL, NULL, 0);
  if (status == HR_OK) status = hr__built_graph(&built, 2, 8);
  return built_give_back(&built, status, err);
}

static hr_status weights_body(void *arg, hr_error *err) {
  hr_weights *weights = NULL;
  const hr_built *built = arg;
  float data[4];
  HR_TRY(hr__weights_open(folder, built->graph, &built->part, &weights, err));
  hr_id id = hr__graph_find_value(built->graph, "model.norm.weight");
  hr_status status = hr__weights_read(weights, id, 0, 4, data, err);
  hr__weights_close(weights);
  return status;
}

static void faults(hr_test_body body, void *arg) {
  size_t own = hr_test_each_fault(body, arg), library = hr_test_each_library_fault(body, arg);
  print_message("%zu + %zu faults\n", own, library);
  assert_true(own > 0);
}

static void recipe_faults(void **state) {
  (void)state;
  faults(recipe_body, NULL);
  faults(folder_body, NULL);
}

static void graph_faults(void **state) {
  (void)state;
  faults(graph_body, NULL);
}

/* All parameters of the graph as zeros in BF16. */
static hr_status zeros_write(const hr_graph *g, hr_error *err) {
  static const unsigned char zeros[4096];
  hr_safetensor tensors[64];
  size_t count = 0;
  for (size_t i = 0; i < g->n_values; i++) {
    const hr_value *v = &g->values[i];
    if (!hr__graph_is_tensor(g, (hr_id)i) || g->buffers[v->buffer].role != HR_ROLE_PARAMETER) continue;
    hr_safetensor *t = &tensors[count++];
    *t = (hr_safetensor){.name = v->name, .dtype = "BF16", .rank = v->desc.rank};
    memcpy(t->dim, v->desc.dim, (size_t)v->desc.rank * sizeof *t->dim);
  }
  char path[128], hex[HR_SHA256_HEX];
  uint64_t bytes;
  snprintf(path, sizeof path, "%s/model.safetensors", folder);
  hr_safetensors_writer *writer;
  HR_TRY(hr__safetensors_writer_open(path, tensors, count, NULL, &writer, err));
  hr_status status = HR_OK;
  for (size_t i = 0; i < count && status == HR_OK; i++) {
    size_t elements = (size_t)(tensors[i].dim[0] * (tensors[i].rank == 2 ? tensors[i].dim[1] : 1));
    status = hr__safetensors_writer_put(writer, zeros, elements * 2, err);
  }
  if (status == HR_OK) status = hr__safetensors_writer_finish(writer, hex, &bytes, err);
  hr__safetensors_writer_destroy(writer);
  return status;
}

static void weights_faults(void **state) {
  (void)state;
  hr_built built = {0};
  assert_int_equal(hr__built_recipe(&built, recipe_path, NULL, NULL, 0), HR_OK);
  assert_int_equal(hr__built_graph(&built, 2, 8), HR_OK);
  assert_int_equal(zeros_write(built.graph, &built.err), HR_OK);
  faults(weights_body, &built);
  hr__built_free(&built);
}

static int folder_setup(void **state) {
  (void)state;
  hr__folder_make(folder);
  hr__folder_put(folder, "config.json",
                 "{\"model_type\": \"llama\", \"hidden_size\": 32, \"num_attention_heads\": 4, \"vocab_size\": 40,"
                 " \"intermediate_size\": 48, \"num_hidden_layers\": 3, \"rope_scaling\": {\"rope_type\": \"llama3\","
                 " \"factor\": 4, \"low_freq_factor\": 1, \"high_freq_factor\": 4,"
                 " \"original_max_position_embeddings\": 64}, \"architectures\": [\"LlamaForCausalLM\"]}");
  hr__folder_put(folder, "r.yaml", "model:\n  path: .\n  config: { num_key_value_heads: 2, vocab_size: 50 }\n");
  snprintf(recipe_path, sizeof recipe_path, "%s/r.yaml", folder);
  return *folder ? 0 : -1;
}

static int folder_teardown(void **state) {
  (void)state;
  hr__folder_remove(folder);
  return 0;
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {cmocka_unit_test(recipe_faults), cmocka_unit_test(graph_faults),
                                     cmocka_unit_test(weights_faults)};
  return cmocka_run_group_tests(tests, folder_setup, folder_teardown);
}
