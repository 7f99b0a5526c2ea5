/* State of a model: running statistics of batch norms that are made of plain parts. Against a reference in f64, through
 * recomputing, micro-batches, evaluation, and files; what the plan counts of them; and what split makes of such a
 * block. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "grad/grad.h"
#include "op/ema.h"
#include "op/linear.h"
#include "op/mse.h"
#include "op/pointwise.h"
#include "part_tiny.h"
#include "pass/pass.h"
#include "pass/update.h"
#include "train/tensors.h"

enum { B = 12, D = 5, LAYERS = 2, PARAMETERS = 3 * LAYERS };

static const float eps = 1e-3f, momentum = 0.25f;

static void must(hr_status status, const hr_error *err) {
  if (status != HR_OK) fail_msg("%s: %s: %s", hr_status_name(status), err->place, err->message);
}

/* --- the model ---------------------------------------------------------------------------------------------------- */

static hr_id named(hr_builder *b, int layer, const char *what, bool state, hr_desc desc, hr_init init) {
  char name[48];
  snprintf(name, sizeof name, "layer.%d.%s", layer, what);
  hr__module(b, "%s", name);
  return state ? hr__state(b, name, desc, init) : hr__parameter(b, name, desc, init);
}

/* y = gamma (x - mean) / sqrt(variance + eps), by the batch where the program trains, else by what is known of all. */
static hr_id batch_norm(hr_builder *b, int layer, hr_id x) {
  hr_desc row = hr__desc2(HR_F32, 1, D);
  hr_id gamma = named(b, layer, "gamma", false, hr__desc1(HR_F32, D), (hr_init){.rule = HR_INIT_ONE});
  hr_id known_mean = named(b, layer, "running_mean", true, row, (hr_init){.rule = HR_INIT_ZERO});
  hr_id known_variance = named(b, layer, "running_var", true, row, (hr_init){.rule = HR_INIT_ONE});
  hr_id mean = known_mean, variance = known_variance;
  hr__module(b, "layer.%d.norm", layer);
  if (hr__program_kind_trains(b->graph->programs[b->program].key.kind)) {
    mean = hr__reduce(b, HR_REDUCE_MEAN, x, 1u << 0);
    hr_id apart = hr__binary(b, HR_FORMULA_sub, x, mean);
    variance = hr__reduce(b, HR_REDUCE_MEAN, hr__binary(b, HR_FORMULA_mul, apart, apart), 1u << 0);
    hr__state_follow(b, known_mean, mean, 1 - momentum);
    hr_id unbiased = hr__unary(b, HR_FORMULA_affine, variance, (float)B / (B - 1), 0.0f);
    hr__state_follow(b, known_variance, unbiased, 1 - momentum);
  }
  hr_id deviation = hr__unary(b, HR_FORMULA_sqrt, hr__unary(b, HR_FORMULA_affine, variance, 1.0f, eps), 0, 0);
  hr_id y = hr__binary(b, HR_FORMULA_div, hr__binary(b, HR_FORMULA_sub, x, mean), deviation);
  return hr__binary(b, HR_FORMULA_mul, y, gamma);
}

static void forward(hr_builder *b) {
  hr_id x = hr__input(b, "x", hr__desc2(HR_F32, B, D)), target = hr__input(b, "t", hr__desc2(HR_F32, B, D));
  for (int layer = 0; layer < LAYERS; layer++) {
    hr__block_begin(b, "layer.%d", layer);
    hr_init normal = {.rule = HR_INIT_NORMAL, .a = 0.5f};
    hr_id w = named(b, layer, "weight", false, hr__desc2(HR_F32, D, D), normal);
    hr_id more = hr__unary(b, HR_FORMULA_tanh, batch_norm(b, layer, hr__linear(b, x, w, HR_NONE)), 0, 0);
    hr_id out = named(b, layer, "out.weight", false, hr__desc2(HR_F32, D, D), normal);
    x = hr__binary(b, HR_FORMULA_add, x, hr__linear(b, more, out, HR_NONE));
    hr__block_end(b);
  }
  hr__program_set_output(b, "loss", hr__mse(b, x, target));
}

typedef struct job {
  hr_graph *graph;
  hr_plan *plan;
  hr_device *device;
  hr_rates rates;
  hr_run *run;
  hr_tensors tensors;
} job;

static void job_open(job *j, hr_keep keep) {
  static const struct {
    hr_program_kind kind;
    hr_grad_mode mode;
  } programs[] = {{HR_PROGRAM_MICRO_FIRST, HR_GRAD_WRITE}, {HR_PROGRAM_MICRO_NEXT, HR_GRAD_ACCUMULATE}};
  hr_error err = {0};
  hr_builder b;
  *j = (job){0};
  must(hr__graph_create(&j->graph, &err), &err);
  hr__builder_init(&b, j->graph, HR_F32);
  for (int p = 0; p < 2; p++) {
    hr__program_begin(&b, programs[p].kind);
    forward(&b);
    must(hr__builder_status(&b, &err), &err);
    hr_loss loss = {.value = hr__program_output(j->graph, b.program, "loss"), .weight = 1.0f};
    must(hr__grad(&b, &loss, 1, programs[p].mode, &err), &err);
  }
  hr__program_begin(&b, HR_PROGRAM_EVAL);
  forward(&b);
  must(hr__pass_state(&b, NULL, NULL, &err), &err);
  hr__program_begin(&b, HR_PROGRAM_UPDATE);
  must(hr__update_emit(&b, &(hr_update_settings){.optimizer = HR_OPTIMIZER_SGD, .momentum = 0.5f}, &err), &err);
  must(hr__pass_prune(&b, NULL, NULL, &err), &err);
  const hr_keep keeps[LAYERS] = {keep, keep};
  must(hr__pass_checkpoint(&b, NULL, &(hr_choices){.keep = keeps, .n_keep = LAYERS}, &err), &err);
  must(hr__graph_verify(j->graph, &err), &err);
  must(hr__cpu_open(&j->device, &err), &err);
  hr__rates_default(&j->device->facts, &j->rates);
  must(hr__plan_build(j->graph, &j->device->facts, &j->rates, &(hr_plan_options){.accumulation = 2}, &j->plan, &err),
       &err);
  must(hr__run_create(j->plan, j->device, &(hr_run_options){.check_numerics = true}, &j->run, &err), &err);
  must(hr__run_init_values(j->run, 7, &err), &err);
  must(hr__tensors_create(j->run, NULL, &j->tensors, &err), &err);
}

static void job_close(job *j) {
  hr__tensors_destroy(&j->tensors);
  hr__run_destroy(j->run);
  hr__plan_destroy(j->plan);
  hr__rates_fini(&j->rates);
  hr__device_close(j->device);
  hr__graph_destroy(j->graph);
}

static void batch_make(int number, float *x, float *t) {
  for (int i = 0; i < B * D; i++) {
    x[i] = 0.125f * (float)((i * 29 + number * 17 + i / 3) % 31 - 13);
    t[i] = 0.0625f * (float)((i * 13 + number * 7) % 23 - 11);
  }
}

static float program_run(job *j, hr_program_kind kind, int number) {
  hr_error err = {0};
  hr_id program = hr__graph_find_kind(j->graph, kind);
  float x[B * D], t[B * D], loss = 0;
  hr_control control = {.seed = 1,
                        .step = 1,
                        .learning_rate = 0.05f,
                        .bias_correction1 = 1,
                        .bias_correction2 = 1,
                        .loss_weight = 1,
                        .loss_scale = 1};
  must(hr__run_write(j->run, hr__graph_find_value(j->graph, "control"), 0, &control, sizeof control, &err), &err);
  if (kind != HR_PROGRAM_UPDATE) {
    batch_make(number, x, t);
    must(hr__run_write(j->run, hr__program_input(j->graph, program, "x"), 0, x, sizeof x, &err), &err);
    must(hr__run_write(j->run, hr__program_input(j->graph, program, "t"), 0, t, sizeof t, &err), &err);
  }
  must(hr__run_program(j->run, program, &err), &err);
  if (kind != HR_PROGRAM_UPDATE)
    must(hr__run_read(j->run, hr__program_output(j->graph, program, "loss"), 0, &loss, sizeof loss, &err), &err);
  return loss;
}

/* One step of two micro-batches; the sum of their losses. */
static float step_run(job *j, int number) {
  float loss = program_run(j, HR_PROGRAM_MICRO_FIRST, 2 * number);
  loss += program_run(j, HR_PROGRAM_MICRO_NEXT, 2 * number + 1);
  program_run(j, HR_PROGRAM_UPDATE, 0);
  return loss;
}

static size_t value_read(job *j, const char *name, void *to, size_t most) {
  hr_error err = {0};
  hr_id v = hr__graph_find_value(j->graph, name);
  assert_true(v != HR_NONE);
  size_t bytes = hr_desc_bytes(&j->graph->values[v].desc);
  assert_true(bytes <= most);
  must(hr__run_read(j->run, v, 0, to, bytes, &err), &err);
  return bytes;
}

/* All that outlives a run. */
static void all_equal(job *a, job *b) {
  float x[D * D], y[D * D];
  size_t states = 0;
  for (hr_id v = 0; v < a->graph->n_values; v++) {
    if (!hr__graph_is_tensor(a->graph, v) || a->graph->buffers[a->graph->values[v].buffer].role == HR_ROLE_INPUT)
      continue;
    const char *name = a->graph->values[v].name;
    size_t bytes = value_read(a, name, x, sizeof x);
    value_read(b, name, y, sizeof y);
    if (memcmp(x, y, bytes) != 0) fail_msg("%s differs", name);
    states += a->graph->buffers[a->graph->values[v].buffer].role == HR_ROLE_STATE;
  }
  assert_int_equal(states, 2 * LAYERS);
}

/* --- the reference ------------------------------------------------------------------------------------------------ */

typedef struct reference {
  double weight[LAYERS][D * D], gamma[LAYERS][D], out[LAYERS][D * D];
  double mean[LAYERS][D], variance[LAYERS][D]; /* running */
} reference;

static void product(const double *x, const double *w, double *y) {
  for (int r = 0; r < B; r++)
    for (int o = 0; o < D; o++) {
      y[r * D + o] = 0;
      for (int i = 0; i < D; i++)
        y[r * D + o] += x[r * D + i] * w[o * D + i];
    }
}

/* The loss of a batch; with `follow` running statistics take it in, with `known` it is normalised by them. */
static double reference_loss(reference *r, int number, bool follow, bool known) {
  float x32[B * D], t[B * D];
  double x[B * D], h[B * D], y[B * D], loss = 0;
  batch_make(number, x32, t);
  for (int i = 0; i < B * D; i++)
    x[i] = (double)x32[i];
  for (int layer = 0; layer < LAYERS; layer++) {
    product(x, r->weight[layer], h);
    for (int c = 0; c < D; c++) {
      double mean = 0, square = 0;
      for (int k = 0; k < B; k++)
        mean += h[k * D + c] / B;
      for (int k = 0; k < B; k++)
        square += (h[k * D + c] - mean) * (h[k * D + c] - mean) / B;
      if (follow) {
        r->mean[layer][c] += (double)momentum * (mean - r->mean[layer][c]);
        r->variance[layer][c] += (double)momentum * (square * B / (B - 1) - r->variance[layer][c]);
      }
      double m = known ? r->mean[layer][c] : mean, v = known ? r->variance[layer][c] : square;
      for (int k = 0; k < B; k++)
        h[k * D + c] = tanh(r->gamma[layer][c] * (h[k * D + c] - m) / sqrt(v + (double)eps));
    }
    product(h, r->out[layer], y);
    for (int i = 0; i < B * D; i++)
      x[i] += y[i];
  }
  for (int i = 0; i < B * D; i++)
    loss += (x[i] - (double)t[i]) * (x[i] - (double)t[i]) / (B * D);
  return loss;
}

static double *reference_part(reference *r, int layer, const char *what, int *count) {
  *count = strcmp(what, "weight") == 0 || strcmp(what, "out.weight") == 0 ? D * D : D;
  if (strcmp(what, "weight") == 0) return r->weight[layer];
  if (strcmp(what, "out.weight") == 0) return r->out[layer];
  if (strcmp(what, "gamma") == 0) return r->gamma[layer];
  return strcmp(what, "running_mean") == 0 ? r->mean[layer] : r->variance[layer];
}

static const char *const parts[] = {"weight", "out.weight", "gamma", "running_mean", "running_var"};

static void reference_take(reference *r, job *j) {
  char name[48];
  float values[D * D];
  for (int layer = 0; layer < LAYERS; layer++)
    for (int p = 0; p < 5; p++) {
      int count;
      double *to = reference_part(r, layer, parts[p], &count);
      snprintf(name, sizeof name, "layer.%d.%s", layer, parts[p]);
      value_read(j, name, values, sizeof values);
      for (int i = 0; i < count; i++)
        to[i] = (double)values[i];
    }
}

static void close_to(const char *what, double got, double want, double tolerance) {
  if (!(fabs(got - want) <= tolerance)) fail_msg("%s is %.9g, expected %.9g", what, got, want);
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

static void test_against_the_reference(void **state) {
  (void)state;
  job j;
  reference r;
  job_open(&j, HR_KEEP_ALL);
  reference_take(&r, &j);
  double loss = (double)program_run(&j, HR_PROGRAM_MICRO_FIRST, 3);
  for (int layer = 0; layer < LAYERS; layer++) /* gradients, by differences */
    for (int p = 0; p < 3; p++) {
      char name[48];
      float gradient[D * D];
      int count;
      double *at = reference_part(&r, layer, parts[p], &count), h = 1e-5;
      snprintf(name, sizeof name, "grad.layer.%d.%s", layer, parts[p]);
      value_read(&j, name, gradient, sizeof gradient);
      for (int i = 0; i < count; i++) {
        double was = at[i], above, below;
        at[i] = was + h;
        above = reference_loss(&r, 3, false, false);
        at[i] = was - h;
        below = reference_loss(&r, 3, false, false);
        at[i] = was;
        close_to(name, (double)gradient[i], (above - below) / (2 * h), 1e-5);
      }
    }
  close_to("loss", loss, reference_loss(&r, 3, true, false), 1e-5);
  program_run(&j, HR_PROGRAM_MICRO_NEXT, 5); /* statistics follow once per micro-batch */
  reference_loss(&r, 5, true, false);
  reference got;
  for (int round = 0; round < 2; round++) { /* and stay as they are in evaluation, which goes by them */
    reference_take(&got, &j);
    for (int layer = 0; layer < LAYERS; layer++)
      for (int c = 0; c < D; c++) {
        close_to("running mean", got.mean[layer][c], r.mean[layer][c], 1e-6);
        close_to("running variance", got.variance[layer][c], r.variance[layer][c], 1e-5);
      }
    close_to("loss of evaluation", (double)program_run(&j, HR_PROGRAM_EVAL, 8), reference_loss(&r, 8, false, true),
             1e-5);
  }
  job_close(&j);
}

static void test_recomputing_changes_no_bit(void **state) {
  (void)state;
  job kept, again;
  job_open(&kept, HR_KEEP_ALL);
  static const hr_keep ways[] = {HR_KEEP_SELECTIVE, HR_KEEP_INPUT};
  for (int step = 0; step < 3; step++)
    step_run(&kept, step);
  for (int w = 0; w < 2; w++) {
    job_open(&again, ways[w]);
    size_t writers = 0, clones = 0;
    for (size_t n = 0; n < again.graph->n_nodes; n++) {
      writers += again.graph->nodes[n].op == &hr_op_ema;
      clones += again.graph->nodes[n].phase == HR_BACKWARD && again.graph->nodes[n].op == &hr_op_reduce;
    }
    assert_int_equal(writers, 2 * 2 * LAYERS); /* two programs */
    assert_true(clones > 0);
    for (int step = 0; step < 3; step++)
      step_run(&again, step);
    all_equal(&kept, &again);
    job_close(&again);
  }
  job_close(&kept);
}

static void test_resumed_bit_by_bit(void **state) {
  (void)state;
  char folder[] = "/tmp/hr_state_XXXXXX", path[2][64], hex[HR_SHA256_HEX];
  assert_non_null(mkdtemp(folder));
  snprintf(path[0], sizeof path[0], "%s/model.safetensors", folder);
  snprintf(path[1], sizeof path[1], "%s/optimizer.safetensors", folder);
  hr_error err = {0};
  uint64_t bytes;
  job one, two;
  job_open(&one, HR_KEEP_ALL);
  assert_int_equal(one.tensors.n_parameters, PARAMETERS + 2 * LAYERS); /* the model's state is with its parameters */
  for (int step = 0; step < 2; step++)
    step_run(&one, step);
  bool unread;
  hr_tensor_file parameters = {.count = one.tensors.n_parameters, .names = {.prefix = ""}};
  hr_tensor_file moments = {.count = one.tensors.n_state, .names = {.prefix = ""}};
  parameters.values = one.tensors.parameters;
  moments.values = one.tensors.state;
  must(hr__tensors_write(&one.tensors, &parameters, path[0], hex, &bytes, &unread, &err), &err);
  must(hr__tensors_write(&one.tensors, &moments, path[1], hex, &bytes, &unread, &err), &err);
  job_open(&two, HR_KEEP_INPUT);
  parameters.values = two.tensors.parameters;
  moments.values = two.tensors.state;
  must(hr__tensors_read(&two.tensors, &parameters, path[0], &err), &err);
  must(hr__tensors_read(&two.tensors, &moments, path[1], &err), &err);
  for (int step = 2; step < 4; step++) {
    float a = step_run(&one, step), b = step_run(&two, step);
    assert_memory_equal(&a, &b, sizeof a);
  }
  all_equal(&one, &two);
  job_close(&one);
  job_close(&two);
  unlink(path[0]);
  unlink(path[1]);
  rmdir(folder);
}

/* A category of its own, as many bytes as there are, in the arena that the run takes. */
static void test_the_plan_counts_it(void **state) {
  (void)state;
  job j;
  job_open(&j, HR_KEEP_ALL);
  const hr_tier_plan *device = &j.plan->tiers[HR_TIER_DEVICE];
  uint64_t slots = 0, bytes = 0;
  for (size_t s = 0; s < j.plan->n_slots; s++)
    if (j.plan->slots[s].category == HR_CAT_STATE) slots += j.plan->slots[s].bytes;
  for (size_t b = 0; b < j.graph->n_buffers; b++)
    if (j.graph->buffers[b].role == HR_ROLE_STATE) bytes += j.graph->buffers[b].bytes;
  assert_int_equal(bytes, 2 * LAYERS * D * sizeof(float));
  assert_true(slots >= bytes && device->categories[HR_CAT_STATE] == slots);
  assert_int_equal(hr__run_arena_bytes(j.run, HR_TIER_DEVICE), device->arena_bytes);
  job_close(&j);
}

/* A norm over the batch couples it: such a block is not split, by name or by choice. */
static void test_such_a_block_is_not_split(void **state) {
  (void)state;
  static const char text[] = "model:\n  family: llama\n"
                             "  config: { hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2,\n"
                             "            num_key_value_heads: 2, intermediate_size: 16, vocab_size: 8 }\n"
                             "data: { sequence_length: 8 }\nmemory: { split: { layer: 2 } }\n";
  hr_key_table tables[HR_COMPILE_TABLES];
  hr_error err = {0};
  hr_recipe *recipe;
  hr_graph *graph;
  hr_builder b;
  hr__compile_tables(tables);
  must(hr__recipe_parse("test.yaml", ".", text, sizeof text - 1, NULL, 0, tables, HR_COMPILE_TABLES, &recipe, &err),
       &err);
  must(hr__graph_create(&graph, &err), &err);
  hr__builder_init(&b, graph, HR_F32);
  hr__program_begin(&b, HR_PROGRAM_STEP);
  forward(&b);
  must(hr__builder_status(&b, &err), &err);
  assert_int_equal(hr__pass_split(&b, recipe, NULL, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "layer.0 cannot be split: reduce in layer.0.norm couples the batch"));
  assert_int_equal(hr__pass_split(&b, recipe, &(hr_choices){.slices = 2}, &err), HR_BAD_INPUT);
  hr__graph_destroy(graph);
  hr__recipe_destroy(recipe);
}

/* Averages of weights lie where the optimizer's state does, and come out the same. */
static void test_averages_offloaded(void **state) {
  (void)state;
  static const char *const places[] = {"memory.offload.optimizer=device", "memory.offload.optimizer=host",
                                       "memory.offload.optimizer=disk"};
  char *first = NULL;
  size_t first_bytes = 0;
  for (int i = 0; i < 3; i++) {
    const char *const sets[] = {"training.ema=0.9", "model.config.vocab_size=2048", "training.save_every=8", places[i],
                                NULL};
    tiny t;
    hr_error err = {0};
    int below = 0;
    if (tiny_open(&t, sets, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
    for (size_t b = 0; b < t.graph->n_buffers; b++)
      below += t.graph->buffers[b].role == HR_ROLE_AVERAGE && (int)t.graph->buffers[b].home == i;
    assert_true(i == 0 ? below > 2 : below == 2); /* the two tables; small ones stay */
    tiny_close(&t);
    const char *out = folder_make("averages-offloaded");
    train_ok(sets, (hr_train_options){.out = out});
    size_t bytes;
    char *averages = file_get(path_join(out, "generation-00000008/training/ema.safetensors"), &bytes);
    assert_non_null(averages);
    if (first) {
      assert_int_equal(bytes, first_bytes);
      assert_memory_equal(averages, first, bytes);
      free(averages);
    } else {
      first = averages;
      first_bytes = bytes;
    }
    folder_remove(out);
    free((void *)(uintptr_t)out);
  }
  free(first);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_averages_offloaded),         cmocka_unit_test(test_against_the_reference),
      cmocka_unit_test(test_recomputing_changes_no_bit), cmocka_unit_test(test_resumed_bit_by_bit),
      cmocka_unit_test(test_the_plan_counts_it),         cmocka_unit_test(test_such_a_block_is_not_split),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
