/* Every op that has a CUDA kernel, over its own samples: the GPU's result against the CPU's, in every declared float
 * type, out of place and in every place the op allows, twice with the same bits. Skipped (77) without a GPU. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "graph/op.h"

enum { OPERANDS = HR_OP_OPERANDS, OUTPUTS = 4, ALIGNMENT = 256, NOT_ALIASED = -1 };

static void check(hr_status status, const hr_error *err) {
  if (status != HR_OK) fail_msg("%s: %s (%s)", err->place, err->message, err->remedy);
}

/* One op, one sample, one type: shapes, inputs, and where outputs lie. */
typedef struct trial {
  const hr_op *op;
  const hr_sample *sample;
  int n_in;
  hr_desc in[OPERANDS], out[OUTPUTS];
  int home[OUTPUTS]; /* input whose storage the output takes over, or NOT_ALIASED */
  void *input[OPERANDS];
} trial;

/* Scalars (a loss, a norm) keep their type; other floats are of the type under test. False: the op has no such form. */
static bool trial_shape(trial *t, hr_dtype dtype) {
  hr_error err;
  t->n_in = t->sample->n_in;
  for (int i = 0; i < t->n_in; i++) {
    t->in[i] = t->sample->in[i];
    if (t->in[i].dtype == HR_F32 && t->in[i].rank > 0 && hr_desc_count(&t->in[i]) > 1) t->in[i].dtype = dtype;
  }
  hr_op_view view = {.in = t->in, .n_in = t->n_in, .n_out = t->op->n_out, .args = t->sample->args};
  return t->op->shape(&view, t->out, &err) == HR_OK;
}

static void operand_fill(const trial *t, int i) {
  hr_random_key key = {.seed = 5, .stream = hr__random_stream(t->op->name)};
  int64_t count = hr_desc_count(&t->in[i]);
  for (int64_t e = 0; e < count; e++) {
    float value = hr__random_normal(key, (uint64_t)i, (uint64_t)e);
    /* Second moments and norms are not negative: no operand of an update but the parameter needs a sign. */
    if (t->op->effect && i > 1) value = fabsf(value);
    if (t->in[i].dtype == HR_F32) ((float *)t->input[i])[e] = value;
    if (t->in[i].dtype == HR_BF16) ((uint16_t *)t->input[i])[e] = hr__f32_to_bf16(value);
    if (t->in[i].dtype == HR_I32)
      ((int32_t *)t->input[i])[e] =
          (int32_t)hr__random_below(key, (uint64_t)i, (uint64_t)e, (uint64_t)t->sample->index_below);
  }
  if (t->in[i].dtype == HR_U8 && hr_desc_bytes(&t->in[i]) == sizeof(hr_control))
    *(hr_control *)t->input[i] = (hr_control){.seed = 9,
                                              .step = 3,
                                              .learning_rate = 1e-2f,
                                              .bias_correction1 = 0.271f,
                                              .bias_correction2 = 0.142625f,
                                              .loss_weight = 0.125f,
                                              .loss_scale = 2.0f};
}

/* Where everything lies in one block: inputs, outputs with storage of their own, workspace. */
typedef struct layout {
  size_t in[OPERANDS], out[OUTPUTS], workspace, workspace_bytes, bytes;
} layout;

static size_t take(size_t *used, size_t bytes) {
  size_t at = *used;
  *used = (at + bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  return at;
}

static layout trial_layout(const trial *t, const hr_facts *facts) {
  layout l = {0};
  for (int i = 0; i < t->n_in; i++)
    l.in[i] = take(&l.bytes, t->in[i].rank ? hr_desc_bytes(&t->in[i]) : 0);
  for (int j = 0; j < t->op->n_out; j++)
    l.out[j] = t->home[j] == NOT_ALIASED ? take(&l.bytes, hr_desc_bytes(&t->out[j])) : l.in[t->home[j]];
  hr_op_view view = {.in = t->in, .out = t->out, .n_in = t->n_in, .n_out = t->op->n_out, .args = t->sample->args};
  if (t->op->workspace) l.workspace_bytes = t->op->workspace(&view, facts->kind, facts->threads);
  l.workspace = take(&l.bytes, l.workspace_bytes);
  return l;
}

/* Runs the op on a device; results[j] receives output j as it is stored. */
static void trial_run(const trial *t, hr_device *device, void *const *results) {
  hr_error err;
  const hr_device_functions *f = device->functions;
  layout l = trial_layout(t, &device->facts);
  void *base;
  hr_tensor in[OPERANDS] = {0}, out[OUTPUTS] = {0};
  check(f->arena_create(device, HR_TIER_DEVICE, l.bytes, &base, &err), &err);
  for (int i = 0; i < t->n_in; i++) {
    if (t->in[i].rank == 0) continue;
    in[i] = (hr_tensor){.data = (char *)base + l.in[i], .desc = t->in[i]};
    check(f->copy(device, HR_COPY_TO_DEVICE, in[i].data, t->input[i], hr_desc_bytes(&t->in[i]), &err), &err);
  }
  for (int j = 0; j < t->op->n_out; j++)
    out[j] = (hr_tensor){.data = (char *)base + l.out[j], .desc = t->out[j]};

  hr_launch launch = {.kernel = f->kernel ? f->kernel(device, t->op->name) : &t->op->cpu};
  launch.call = (hr_call){.in = in,
                          .out = out,
                          .n_in = t->n_in,
                          .n_out = t->op->n_out,
                          .args = t->sample->args,
                          .workspace = l.workspace_bytes ? (char *)base + l.workspace : NULL,
                          .workspace_bytes = l.workspace_bytes,
                          .stream_key = hr__random_stream("a.module"),
                          .threads = device->facts.threads,
                          .device = device};
  if (launch.kernel->prepare) check(launch.kernel->prepare(&launch.call, &launch.call.prepared, &err), &err);
  assert_int_equal(f->launch(device, &launch), HR_OK);
  check(f->synchronize(device, &err), &err);
  if (launch.kernel->release && launch.call.prepared) launch.kernel->release(launch.call.prepared);
  for (int j = 0; j < t->op->n_out; j++)
    check(f->copy(device, HR_COPY_FROM_DEVICE, results[j], out[j].data, hr_desc_bytes(&t->out[j]), &err), &err);
  f->arena_destroy(device, HR_TIER_DEVICE, base, l.bytes);
}

static double element(const hr_desc *desc, const void *data, int64_t i) {
  return (double)(desc->dtype == HR_F32 ? ((const float *)data)[i] : hr__bf16_to_f32(((const uint16_t *)data)[i]));
}

static double difference(const hr_desc *desc, const void *got, const void *expected) {
  double squares = 0, size = 0;
  for (int64_t i = 0; i < hr_desc_count(desc); i++) {
    double e = element(desc, expected, i);
    squares += pow(element(desc, got, i) - e, 2);
    size += e * e;
  }
  return size > 0 ? sqrt(squares / size) : sqrt(squares);
}

static void outputs_alloc(const trial *t, void **results) {
  for (int j = 0; j < t->op->n_out; j++)
    assert_non_null(results[j] = calloc(1, hr_desc_bytes(&t->out[j])));
}

static void outputs_free(const trial *t, void **results) {
  for (int j = 0; j < t->op->n_out; j++)
    free(results[j]);
}

/* CPU out of place (but for what must be in place) against the GPU in the trial's places. */
static void trial_compare(trial *t, const trial *plain, hr_device *cpu, hr_device *gpu, double *worst) {
  void *expected[OUTPUTS], *got[OUTPUTS], *again[OUTPUTS];
  outputs_alloc(t, expected);
  outputs_alloc(t, got);
  outputs_alloc(t, again);
  trial_run(plain, cpu, expected);
  trial_run(t, gpu, got);
  trial_run(t, gpu, again);
  for (int j = 0; j < t->op->n_out; j++) {
    double error = difference(&t->out[j], got[j], expected[j]), limit = t->out[j].dtype == HR_F32 ? 1e-5 : 4e-3;
    /* A sum of bf16 products that is stored as f32 has seen the same roundings on both sides. */
    if (!(error <= limit))
      fail_msg("%s, sample %d, output %d (%s) differs by %.2e", t->op->name, (int)(t->sample - t->op->samples), j,
               hr_dtype_name(t->out[j].dtype), error);
    if (memcmp(got[j], again[j], hr_desc_bytes(&t->out[j])) != 0)
      fail_msg("%s, sample %d, output %d: two runs differ", t->op->name, (int)(t->sample - t->op->samples), j);
    *worst = fmax(*worst, error);
  }
  outputs_free(t, expected);
  outputs_free(t, got);
  outputs_free(t, again);
}

static int sample_check(trial *t, hr_device *cpu, hr_device *gpu, double *worst) {
  int runs = 0;
  for (int i = 0; i < t->n_in; i++) {
    t->input[i] = calloc(1, t->in[i].rank ? hr_desc_bytes(&t->in[i]) : 1);
    assert_non_null(t->input[i]);
    if (t->in[i].rank) operand_fill(t, i);
  }
  for (int j = 0; j < OUTPUTS; j++)
    t->home[j] = NOT_ALIASED;
  for (int a = 0; a < t->op->n_alias; a++)
    if (t->op->alias[a].kind == HR_ALIAS_MUST) t->home[t->op->alias[a].out] = t->op->alias[a].in;
  trial plain = *t;
  trial_compare(t, &plain, cpu, gpu, worst);
  runs++;
  for (int a = 0; a < t->op->n_alias; a++) {
    const hr_alias *alias = &t->op->alias[a];
    if (alias->kind == HR_ALIAS_MUST || alias->in >= t->n_in || t->in[alias->in].rank == 0 ||
        hr_desc_bytes(&t->in[alias->in]) != hr_desc_bytes(&t->out[alias->out]))
      continue;
    trial in_place = plain;
    in_place.home[alias->out] = alias->in;
    trial_compare(&in_place, &plain, cpu, gpu, worst);
    runs++;
  }
  for (int i = 0; i < t->n_in; i++)
    free(t->input[i]);
  return runs;
}

static hr_device *gpu; /* opened once by main */

static void test_ops(void **state) {
  (void)state;
  static const hr_dtype dtypes[] = {HR_F32, HR_BF16, HR_U8 /* of the control block alone */};
  hr_error err;
  hr_device *cpu;
  check(hr__cpu_open(&cpu, &err), &err);
  size_t ops = 0;
  for (size_t o = 0; o < hr_op_count; o++) {
    const hr_op *op = hr_ops[o];
    bool has_kernel = gpu->functions->kernel(gpu, op->name) != NULL;
    if (has_kernel != (op->dtypes[HR_CUDA] != 0))
      fail_msg("%s: the plug-in has %s kernel, the descriptor says otherwise", op->name, has_kernel ? "a" : "no");
    if (!has_kernel) continue;
    ops++;
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
      if (!(op->dtypes[HR_CUDA] & HR_DTYPE_BIT(dtypes[d]))) continue;
      double worst = 0;
      int runs = 0;
      for (int s = 0; s < op->n_samples; s++) {
        trial t = {.op = op, .sample = &op->samples[s]};
        if (trial_shape(&t, dtypes[d])) runs += sample_check(&t, cpu, gpu, &worst);
      }
      print_message("%-12s %-4s %2d runs, GPU within %.1e of the CPU\n", op->name, hr_dtype_name(dtypes[d]), runs,
                    worst);
      assert_true(runs > 0);
    }
  }
  print_message("%zu ops have a CUDA kernel\n", ops);
  assert_true(ops > 0);
  hr__device_close(cpu);
}

int main(void) {
  hr_error err;
  hr_status status = hr__cuda_open(&gpu, &err);
  if (status == HR_UNSUPPORTED) {
    print_message("skipped: %s\n", err.message);
    return 77;
  }
  if (status != HR_OK) {
    print_error("%s: %s\n", err.place, err.message);
    return 1;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_ops)};
  int failed = cmocka_run_group_tests_name("ops on CPU and GPU", tests, NULL, NULL);
  hr__device_close(gpu);
  return failed;
}
