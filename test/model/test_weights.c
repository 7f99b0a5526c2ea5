/* Weights of a checkpoint folder against the parameters of a graph. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "format/safetensors.h"
#include "model/part_build.h"
#include "model/weights.h"

enum { LARGE = 300001 }; /* elements: more than one window of any type, and odd */

typedef struct fixture {
  hr_graph *graph;
  hr_weights *weights;
  const hr_model *model; /* NULL: llama */
  hr_error err;
  char folder[64];
  hr_id a, b, large;
} fixture;

/* The parameters a [2, 3], b [4] and large [LARGE] of a graph. */
static void graph_make(fixture *f, hr_dtype dtype) {
  hr_builder b;
  if (f->graph) hr__graph_destroy(f->graph);
  f->graph = NULL;
  assert_int_equal(hr__graph_create(&f->graph, &f->err), HR_OK);
  hr__builder_init(&b, f->graph, dtype);
  f->a = hr__parameter(&b, "a", hr__desc2(dtype, 2, 3), (hr_init){0});
  hr__persistent(&b, "a.moment", HR_ROLE_OPTIMIZER, hr__desc2(dtype, 2, 3), (hr_init){0});
  f->b = hr__parameter(&b, "b", hr__desc1(dtype, 4), (hr_init){0});
  f->large = hr__parameter(&b, "large", hr__desc1(dtype, LARGE), (hr_init){0});
  assert_int_equal(hr__builder_status(&b, &f->err), HR_OK);
}

static int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  *state = f;
  if (!f) return -1;
  hr__folder_make(f->folder);
  graph_make(f, HR_F32);
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  hr__weights_close(f->weights);
  if (f->graph) hr__graph_destroy(f->graph);
  hr__folder_remove(f->folder);
  free(f);
  return 0;
}

/* Element i of every tensor; exact in all three types. */
static float value_at(int64_t i) {
  return (float)(i % 251 - 125) * 0.5f;
}

static size_t element_put(const char *dtype, int64_t i, unsigned char *to) {
  float value = value_at(i);
  uint16_t half = strcmp(dtype, "F16") == 0 ? hr__f32_to_f16(value) : hr__f32_to_bf16(value);
  if (strcmp(dtype, "F32") == 0) {
    memcpy(to, &value, 4);
    return 4;
  }
  if (strcmp(dtype, "I64") == 0) {
    memset(to, 0, 8);
    return 8;
  }
  memcpy(to, &half, 2);
  return 2;
}

typedef struct spec {
  const char *name, *dtype;
  int rank;
  int64_t dim[2];
} spec;

static void file_write(const char *folder, const char *name, const spec *specs, size_t count) {
  char path[128];
  hr_safetensor tensors[8];
  hr_error err = {0};
  snprintf(path, sizeof path, "%s/%s", folder, name);
  for (size_t i = 0; i < count; i++) {
    tensors[i] = (hr_safetensor){.name = specs[i].name, .dtype = specs[i].dtype, .rank = specs[i].rank};
    memcpy(tensors[i].dim, specs[i].dim, sizeof specs[i].dim);
  }
  hr_safetensors_writer *writer;
  if (hr__safetensors_writer_open(path, tensors, count, NULL, &writer, &err) != HR_OK) fail_msg("%s", err.message);
  for (size_t i = 0; i < count; i++) {
    int64_t elements = specs[i].dim[0] * (specs[i].rank == 2 ? specs[i].dim[1] : 1);
    unsigned char *data = malloc((size_t)elements * 8);
    assert_non_null(data);
    size_t bytes = 0;
    for (int64_t k = 0; k < elements; k++)
      bytes += element_put(specs[i].dtype, k, data + bytes);
    hr_status status = hr__safetensors_writer_put(writer, data, bytes, &err);
    free(data);
    if (status != HR_OK) fail_msg("%s", err.message);
  }
  char hex[HR_SHA256_HEX];
  uint64_t bytes;
  if (hr__safetensors_writer_finish(writer, hex, &bytes, &err) != HR_OK) fail_msg("%s", err.message);
  hr__safetensors_writer_destroy(writer);
}

static hr_status open_folder(fixture *f) {
  const hr_model_part part = {
      .name = "", .model = f->model ? f->model : &hr_model_llama, .scope = {.section = "model"}};
  hr__weights_close(f->weights);
  f->weights = NULL;
  return hr__weights_open(f->folder, f->graph, &part, &f->weights, &f->err);
}

static void read_check(fixture *f, hr_id id, int64_t first, int64_t count) {
  hr_dtype dtype = f->graph->values[id].desc.dtype;
  size_t bytes = (size_t)count * hr_dtype_bytes(dtype);
  unsigned char *data = malloc(bytes + 1);
  assert_non_null(data);
  data[bytes] = 0xa5;
  hr_status status = hr__weights_read(f->weights, id, first, count, data, &f->err);
  int64_t wrong = 0;
  for (int64_t i = 0; i < count; i++) {
    float value;
    uint16_t half;
    memcpy(&half, data + 2 * i, 2);
    value = dtype == HR_F16 ? hr__f16_to_f32(half) : hr__bf16_to_f32(half);
    if (dtype == HR_F32) memcpy(&value, data + 4 * i, 4);
    wrong += value != value_at(first + i);
  }
  unsigned char guard = data[bytes];
  free(data);
  assert_int_equal(status, HR_OK);
  assert_int_equal(wrong, 0);
  assert_int_equal(guard, 0xa5);
}

static void every_type(void **state) {
  fixture *f = *state;
  static const char *const stored[] = {"F32", "BF16", "F16"};
  static const hr_dtype wanted[] = {HR_F32, HR_BF16, HR_F16};
  hr_pool *pool;
  assert_int_equal(hr__pool_create(3, &pool, &f->err), HR_OK);
  for (int i = 0; i < 9; i++) {
    const char *dtype = stored[i % 3];
    hr__weights_close(f->weights); /* before the graph it is open for */
    f->weights = NULL;
    graph_make(f, wanted[i / 3]);
    spec specs[] = {{"a", dtype, 2, {2, 3}}, {"b", "F32", 1, {4}}, {"large", dtype, 1, {LARGE}}};
    file_write(f->folder, "model.safetensors", specs, 3);
    if (open_folder(f) != HR_OK) fail_msg("%s: %s", f->err.place, f->err.message);
    for (int shared = 0; shared < 2; shared++) {
      hr__weights_share(f->weights, shared ? pool : NULL);
      read_check(f, f->a, 0, 6);
      read_check(f, f->a, 2, 3);
      read_check(f, f->b, 0, 4);
      read_check(f, f->large, 0, LARGE);
      read_check(f, f->large, 65535, 70001);
      read_check(f, f->large, LARGE, 0);
    }
  }
  hr__pool_destroy(pool);
}

static void rounding(void **state) {
  fixture *f = *state;
  graph_make(f, HR_BF16);
  spec specs[] = {{"a", "F32", 2, {2, 3}}, {"b", "F32", 1, {4}}, {"large", "BF16", 1, {LARGE}}};
  file_write(f->folder, "model.safetensors", specs, 3);
  /* b becomes halfway cases, which go to even: the data of the file ends with `large`, before it lies b */
  float values[4] = {1.00390625f, 1.01171875f, 3.0e38f, -1.0f};
  char path[128];
  snprintf(path, sizeof path, "%s/model.safetensors", f->folder);
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  fseek(file, -(long)(LARGE * 2 + 16), SEEK_END);
  fwrite(values, 1, sizeof values, file);
  fclose(file);
  uint16_t out[4];
  assert_int_equal(open_folder(f), HR_OK);
  assert_int_equal(hr__weights_read(f->weights, f->b, 0, 4, out, &f->err), HR_OK);
  assert_int_equal(out[0], 0x3f80);
  assert_int_equal(out[1], 0x3f82);
  assert_int_equal(out[2], hr__f32_to_bf16(3.0e38f));
  assert_int_equal(out[3], 0xbf80);
}

/* Norms under the names of older checkpoints of BERT, and what such files hold beside the model. */
static void old_names(void **state) {
  fixture *f = *state;
  hr_builder b;
  hr__graph_destroy(f->graph);
  f->graph = NULL;
  assert_int_equal(hr__graph_create(&f->graph, &f->err), HR_OK);
  hr__builder_init(&b, f->graph, HR_F32);
  f->model = &hr_model_bert;
  f->a = hr__parameter(&b, "bert.x.LayerNorm.weight", hr__desc2(HR_F32, 2, 3), (hr_init){0});
  f->b = hr__parameter(&b, "bert.x.LayerNorm.bias", hr__desc1(HR_F32, 4), (hr_init){0});
  spec specs[] = {{"bert.x.LayerNorm.gamma", "F32", 2, {2, 3}},
                  {"bert.x.LayerNorm.beta", "F32", 1, {4}},
                  {"bert.pooler.dense.weight", "F32", 1, {4}},
                  {"bert.embeddings.position_ids", "I64", 1, {5}},
                  {"cls.seq_relationship.bias", "F32", 1, {2}}};
  file_write(f->folder, "model.safetensors", specs, 5);
  if (open_folder(f) != HR_OK) fail_msg("%s: %s", f->err.place, f->err.message);
  read_check(f, f->a, 0, 6);
  read_check(f, f->b, 0, 4);
  specs[1].name = "bert.x.LayerNorm.betta";
  file_write(f->folder, "model.safetensors", specs, 5);
  assert_int_equal(open_folder(f), HR_BAD_INPUT);
  assert_non_null(strstr(f->err.message, "bert.x.LayerNorm.bias"));
}

static void shards(void **state) {
  fixture *f = *state;
  spec first[] = {{"a", "F32", 2, {2, 3}}, {"large", "F16", 1, {LARGE}}}, second[] = {{"b", "BF16", 1, {4}}};
  file_write(f->folder, "model-00001-of-00002.safetensors", first, 2);
  file_write(f->folder, "model-00002-of-00002.safetensors", second, 1);
  hr__folder_put(
      f->folder, "model.safetensors.index.json",
      "{\"metadata\": {\"total_size\": 600034}, \"weight_map\": {\"a\": \"model-00001-of-00002.safetensors\","
      " \"large\": \"model-00001-of-00002.safetensors\", \"b\": \"model-00002-of-00002.safetensors\"}}");
  if (open_folder(f) != HR_OK) fail_msg("%s: %s", f->err.place, f->err.message);
  read_check(f, f->a, 0, 6);
  read_check(f, f->b, 1, 2);
  read_check(f, f->large, 0, LARGE);
}

#define A                                                                                                              \
  {                                                                                                                    \
    "a", "F32", 2, {                                                                                                   \
      2, 3                                                                                                             \
    }                                                                                                                  \
  }
#define B                                                                                                              \
  {                                                                                                                    \
    "b", "F32", 1, {                                                                                                   \
      4                                                                                                                \
    }                                                                                                                  \
  }
#define L                                                                                                              \
  {                                                                                                                    \
    "large", "BF16", 1, {                                                                                              \
      LARGE                                                                                                            \
    }                                                                                                                  \
  }

static void ignored(void **state) {
  fixture *f = *state;
  spec specs[] = {
      A, B, L, {"lm_head.weight", "F32", 1, {5}}, {"model.layers.0.self_attn.rotary_emb.inv_freq", "F32", 1, {3}}};
  file_write(f->folder, "model.safetensors", specs, 5);
  if (open_folder(f) != HR_OK) fail_msg("%s: %s", f->err.place, f->err.message);
  read_check(f, f->b, 0, 4);
}

static void mismatches(void **state) {
  static const struct {
    spec specs[6];
    size_t count;
    const char *message, *remedy;
  } cases[] = {
      {{A, L}, 2, "1 of the model's tensors is not in the checkpoint: b", "complete checkpoint"},
      {{{"z", "F32", 1, {1}}}, 1, "3 of the model's tensors are not in the checkpoint: a, b, large", ""},
      {{A, B, L, {"extra", "F32", 1, {1}}},
       4,
       "1 of the checkpoint's tensors is not in the model: extra",
       "model.config"},
      {{A, B, L, {"w", "F32", 1, {1}}, {"x", "F32", 1, {1}}},
       5,
       "2 of the checkpoint's tensors are not in the model: w, x",
       ""},
      {{A, B, L, {"a.moment", "F32", 2, {2, 3}}}, 4, "not in the model: a.moment", ""},
      {{{"a", "F32", 2, {3, 2}}, B, L}, 3, "tensor a has the shape [3, 2], but the model has [2, 3]", "config.json"},
      {{{"a", "F32", 1, {6}}, B, L}, 3, "tensor a has the shape [6], but the model has [2, 3]", ""},
      {{A, {"b", "I64", 1, {4}}, L}, 3, "tensor b is stored as I64", "F32, BF16 or F16"},
  };
  fixture *f = *state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    file_write(f->folder, "model.safetensors", cases[i].specs, cases[i].count);
    hr_status status = open_folder(f);
    if (status != HR_BAD_INPUT || strcmp(f->err.place, f->folder) != 0 || !strstr(f->err.message, cases[i].message) ||
        !strstr(f->err.remedy, cases[i].remedy)) {
      fail_msg("case %zu: %d %s: %s (%s)", i, (int)status, f->err.place, f->err.message, f->err.remedy);
    }
    assert_null(f->weights);
  }
}

static void untied_without_head(void **state) {
  fixture *f = *state;
  hr_builder b;
  hr__builder_init(&b, f->graph, HR_F32);
  hr__parameter(&b, "lm_head.weight", hr__desc1(HR_F32, 5), (hr_init){0});
  spec specs[] = {A, B, L};
  file_write(f->folder, "model.safetensors", specs, 3);
  assert_int_equal(open_folder(f), HR_BAD_INPUT);
  assert_non_null(strstr(f->err.remedy, "tie_word_embeddings=true"));
}

static void no_file(void **state) {
  fixture *f = *state;
  assert_int_equal(open_folder(f), HR_BAD_INPUT);
  assert_non_null(strstr(f->err.message, "neither model.safetensors nor"));
  hr__folder_put(f->folder, "model.safetensors", "short");
  assert_int_equal(open_folder(f), HR_BAD_INPUT);
}

/* A file cut while it is open is reported by the read. */
static void truncated_later(void **state) {
  fixture *f = *state;
  spec specs[] = {A, B, L};
  char path[128];
  file_write(f->folder, "model.safetensors", specs, 3);
  assert_int_equal(open_folder(f), HR_OK);
  snprintf(path, sizeof path, "%s/model.safetensors", f->folder);
  assert_int_equal(truncate(path, 1000), 0);
  float *data = malloc(LARGE * sizeof *data);
  assert_non_null(data);
  hr_pool *pool;
  assert_int_equal(hr__pool_create(3, &pool, &f->err), HR_OK);
  hr_status alone = hr__weights_read(f->weights, f->large, 0, LARGE, data, &f->err);
  hr__weights_share(f->weights, pool);
  f->err = (hr_error){0};
  hr_status shared = hr__weights_read(f->weights, f->large, 0, LARGE, data, &f->err);
  hr__pool_destroy(pool);
  free(data);
  assert_int_equal(alone, HR_BAD_INPUT);
  assert_int_equal(shared, HR_BAD_INPUT);
  assert_non_null(strstr(f->err.message, "the file ends at byte"));
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(every_type),          CASE(rounding), CASE(shards),
      CASE(old_names),           CASE(ignored),  CASE(mismatches),
      CASE(untied_without_head), CASE(no_file),  CASE(truncated_later),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
