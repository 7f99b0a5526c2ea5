/* Cases: drawing operands, running kernels between guards, comparing. */
#include "part_case.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "dev/cpu/gemm_set.h"
#include "dev/cpu/onednn.h"

enum { GUARD_BYTES = 64, ALIGNMENT = 64, POOL_THREADS = 3 };
static const unsigned char GUARD = 0xa5;

static hr_device device;
static hr_pool *pool;

int device_setup(void **state) {
  hr_error err;
  (void)state;
  if (hr__pool_create(POOL_THREADS, &pool, &err) != HR_OK) return -1;
  device = (hr_device){.facts = {.kind = HR_CPU, .alignment = ALIGNMENT, .threads = POOL_THREADS}, .pool = pool};
  return 0;
}

int device_teardown(void **state) {
  (void)state;
  hr__pool_destroy(pool);
  return 0;
}

hr_device *device_get(void) {
  return &device;
}

double element_read(hr_dtype dtype, const void *data, int64_t i) {
  switch (dtype) {
  case HR_F32:
    return (double)((const float *)data)[i];
  case HR_BF16:
    return (double)hr__bf16_to_f32(((const uint16_t *)data)[i]);
  case HR_F64:
    return ((const double *)data)[i];
  case HR_F16:
    return (double)hr__f16_to_f32(((const uint16_t *)data)[i]);
  case HR_I32:
    return (double)((const int32_t *)data)[i];
  default:
    return (double)((const unsigned char *)data)[i];
  }
}

void element_write(hr_dtype dtype, void *data, int64_t i, double value) {
  switch (dtype) {
  case HR_F32:
    ((float *)data)[i] = (float)value;
    break;
  case HR_BF16:
    ((uint16_t *)data)[i] = hr__f32_to_bf16((float)value);
    break;
  case HR_F64:
    ((double *)data)[i] = value;
    break;
  case HR_F16:
    ((uint16_t *)data)[i] = hr__f32_to_f16((float)value);
    break;
  case HR_I32:
    ((int32_t *)data)[i] = (int32_t)value;
    break;
  default:
    ((unsigned char *)data)[i] = (unsigned char)value;
  }
}

/* Sums of four uniform numbers: near enough to normal, and quick. */
void draw(const char *name, uint64_t which, double *to, int64_t count) {
  hr_random_key key = {.seed = 20, .stream = hr__random_stream(name)};
  for (int64_t i = 0; i < count; i++) {
    hr_random_block block = hr__random_at(key, which, (uint64_t)i);
    double sum = (double)block.word[0] + (double)block.word[1] - (double)block.word[2] - (double)block.word[3];
    to[i] = sum * 0x1p-32 * 1.7320508075688772;
  }
}

void case_control(hr_control *control) {
  *control = (hr_control){.seed = 11,
                          .step = 7,
                          .sample = 40,
                          .learning_rate = 0.01f,
                          .bias_correction1 = 0.52f,
                          .bias_correction2 = 0.30f,
                          .loss_weight = 0.125f,
                          .loss_scale = 4.0f,
                          .valid_rows = 1u << 20};
}

void case_fail(const op_case *c, const char *format, ...) {
  char text[512], types[128] = "";
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  for (int i = 0; i < c->sample->n_in; i++) {
    strcat(types, " ");
    strcat(types, c->in[i].rank ? hr_dtype_name(c->in[i].dtype) : "-");
  }
  fail_msg("%s, sample %d,%s: %s", c->op->name, c->sample_number, types, text);
  __builtin_unreachable();
}

hr_op_view case_view(const op_case *c) {
  return (hr_op_view){.in = c->in, .out = c->out, .n_in = c->sample->n_in, .n_out = c->n_out, .args = c->sample->args};
}

bool case_has(const op_case *c, hr_dtype dtype) {
  bool has = false;
  for (int i = 0; i < c->sample->n_in; i++)
    has |= c->in[i].rank && c->in[i].dtype == dtype;
  for (int j = 0; j < c->n_out; j++)
    has |= c->out[j].dtype == dtype;
  return has;
}

bool case_is_narrow(const op_case *c) {
  return case_has(c, HR_BF16) || case_has(c, HR_F16);
}

static void *case_alloc(op_case *c, size_t bytes) {
  void *memory = hr__arena_alloc(&c->arena, bytes ? bytes : 1);
  if (!memory) fail_msg("out of memory");
  return memory;
}

static bool operand_is_float(const hr_desc *desc) {
  return desc->rank > 0 && (desc->dtype == HR_F32 || desc->dtype == HR_BF16 || desc->dtype == HR_F16);
}

bool operand_is_control(const hr_desc *desc) {
  return desc->dtype == HR_U8 && desc->rank == 1 && desc->dim[0] == (int64_t)sizeof(hr_control);
}

/* Numbers that ascend along the last axis and are at most their own place in it: about five begin anew in a row. */
static void row_ascend(const op_case *c, int i) {
  int64_t columns = hr_desc_columns(&c->in[i]), start = 0;
  for (int64_t e = 0; e < hr_desc_count(&c->in[i]); e++) {
    if (e % columns == 0 || c->value[i][e] < 5) start = e % columns;
    c->value[i][e] = (double)start;
  }
}

/* Draws one operand: floats about normal, integers uniform below the sample's bound, bytes any; or the control block.
 */
static void operand_draw(op_case *c, int i) {
  const hr_desc *desc = &c->in[i];
  hr_random_key key = {.seed = 21, .stream = hr__random_stream(c->op->name)};
  uint64_t which = (uint64_t)(c->sample_number * HR_OP_OPERANDS + i);
  int64_t count = hr_desc_count(desc);
  if (operand_is_float(desc) || desc->dtype == HR_F64) draw(c->op->name, which, c->value[i], count);
  for (int64_t e = 0; desc->dtype == HR_I32 && e < count; e++)
    c->value[i][e] = (double)hr__random_below(key, which, (uint64_t)e, (uint64_t)c->sample->index_below);
  if (desc->dtype == HR_I32 && c->sample->index_ascends) row_ascend(c, i);
  for (int64_t e = 0; desc->dtype == HR_U8 && e < count; e++)
    c->value[i][e] = operand_is_control(desc) ? (double)((const unsigned char *)&c->control)[e]
                                              : (double)hr__random_below(key, which, (uint64_t)e, 256);
}

bool case_create_as(op_case *c, const hr_op *op, const hr_sample *sample, int number, uint32_t narrow, hr_dtype dtype) {
  hr_error err;
  *c = (op_case){.op = op,
                 .reference = reference_find(op->name),
                 .sample = sample,
                 .sample_number = number,
                 .n_out = hr__op_results(op, sample->args)};
  case_control(&c->control);
  for (int i = 0; i < c->sample->n_in; i++) {
    c->in[i] = c->sample->in[i];
    if (narrow & (1u << i)) c->in[i].dtype = dtype;
  }
  hr_op_view view = case_view(c);
  if (op->shape(&view, c->out, &err) != HR_OK) return false;
  if (view.n_in > 0 && !(op->dtypes[HR_CPU] & HR_DTYPE_BIT(c->in[op->typed_by].dtype))) return false;
  for (int i = 0; i < c->sample->n_in; i++) {
    if (c->in[i].rank == 0) continue;
    c->value[i] = case_alloc(c, (size_t)hr_desc_count(&c->in[i]) * sizeof(double));
    operand_draw(c, i);
  }
  if (c->reference && c->reference->fill) c->reference->fill(c->value, c->in, c->sample->args);
  /* What can be stored is what counts. */
  for (int i = 0; i < c->sample->n_in; i++) {
    double cell;
    int64_t count = c->value[i] ? hr_desc_count(&c->in[i]) : 0;
    for (int64_t e = 0; e < count; e++) {
      element_write(c->in[i].dtype, &cell, 0, c->value[i][e]);
      c->value[i][e] = element_read(c->in[i].dtype, &cell, 0);
    }
  }
  return true;
}

bool case_create(op_case *c, const hr_op *op, int sample, uint32_t bf16) {
  return case_create_as(c, op, &op->samples[sample], sample, bf16, HR_BF16);
}

void case_destroy(op_case *c) {
  hr__arena_fini(&c->arena);
}

/* All subsets of the float operands in one 16-bit type; the empty one (as the sample is, mostly all f32) with bf16. */
static void sample_visit_as(const hr_op *op, const hr_sample *sample, int number, hr_dtype dtype,
                            void (*visit)(op_case *c)) {
  uint32_t floats = 0, narrow = 0;
  for (int i = 0; i < sample->n_in; i++)
    if (operand_is_float(&sample->in[i])) floats |= 1u << i;
  do {
    op_case c;
    if ((narrow != 0 || dtype == HR_BF16) && case_create_as(&c, op, sample, number, narrow, dtype)) {
      visit(&c);
      case_destroy(&c);
    } else if (narrow == 0 && dtype == HR_BF16) {
      fail_msg("%s refuses its sample %d", op->name, number);
    }
    narrow = (narrow - floats) & floats;
  } while (narrow != 0);
}

void sample_visit(const hr_op *op, const hr_sample *sample, int number, void (*visit)(op_case *c)) {
  sample_visit_as(op, sample, number, HR_BF16, visit);
  sample_visit_as(op, sample, number, HR_F16, visit);
}

void cases_visit(void (*visit)(op_case *c)) {
  for (size_t o = 0; o < hr_op_count; o++)
    for (int s = 0; s < hr_ops[o]->n_samples; s++)
      sample_visit(hr_ops[o], &hr_ops[o]->samples[s], s, visit);
}

/* ---- running ---- */

static void *guarded_alloc(op_case *c, size_t bytes, unsigned char fill) {
  unsigned char *memory = case_alloc(c, bytes + 2 * GUARD_BYTES + ALIGNMENT);
  unsigned char *data = memory + GUARD_BYTES;
  data += (ALIGNMENT - (uintptr_t)data % ALIGNMENT) % ALIGNMENT;
  memset(data - GUARD_BYTES, GUARD, GUARD_BYTES);
  memset(data, fill, bytes);
  memset(data + bytes, GUARD, GUARD_BYTES);
  return data;
}

static void guards_check(const op_case *c, const char *what, int number, const void *data, size_t bytes) {
  const unsigned char *begin = data;
  for (int i = 0; i < GUARD_BYTES; i++)
    if (begin[i - GUARD_BYTES] != GUARD || begin[bytes + (size_t)i] != GUARD)
      case_fail(c, "wrote outside of %s %d", what, number);
}

hr_tensor tensor_make(const hr_desc *desc, void *data) {
  hr_tensor tensor = {.data = data, .desc = *desc};
  int64_t step = 1;
  for (int i = desc->rank - 1; i >= 0; i--) {
    tensor.stride[i] = step;
    step *= desc->dim[i];
  }
  return tensor;
}

static void inputs_make(op_case *c, uint32_t absent, hr_tensor *in) {
  for (int i = 0; i < c->sample->n_in; i++) {
    in[i] = (hr_tensor){0};
    if (c->in[i].rank == 0 || (absent & (1u << i))) continue;
    int64_t count = hr_desc_count(&c->in[i]);
    void *data = guarded_alloc(c, hr_desc_bytes(&c->in[i]), 0);
    for (int64_t e = 0; e < count; e++)
      element_write(c->in[i].dtype, data, e, c->value[i][e]);
    in[i] = tensor_make(&c->in[i], data);
  }
}

/* Outputs with storage of their own, or that of an input where the options say so. Returns inputs taken over. */
static uint32_t outputs_make(op_case *c, run_options options, const hr_tensor *in, hr_tensor *out) {
  uint32_t taken = 0;
  for (int j = 0; j < c->n_out; j++) {
    void *data = NULL;
    for (int a = 0; a < c->op->n_alias; a++) {
      const hr_alias *alias = &c->op->alias[a];
      if (alias->out != j || alias->in >= c->sample->n_in || !(options.in_place & (1u << a)) || !in[alias->in].data)
        continue;
      if (c->op->takes && !c->op->takes(c->sample->args, alias->in, j)) continue;
      if (hr_desc_count(&c->out[j]) == 0) continue; /* a result that is not wanted */
      if (hr_desc_bytes(&c->in[alias->in]) != hr_desc_bytes(&c->out[j])) {
        if (alias->kind == HR_ALIAS_MAY) continue; /* a conversion: the plan does not take it */
        case_fail(c, "alias %d differs in size", a);
      }
      data = in[alias->in].data;
      taken |= 1u << alias->in;
    }
    if (!data) data = guarded_alloc(c, hr_desc_bytes(&c->out[j]), 0xff);
    out[j] = tensor_make(&c->out[j], data);
  }
  return taken;
}

static bool same(double a, double b) {
  return a == b || (isnan(a) && isnan(b));
}

static void inputs_check(const op_case *c, const hr_tensor *in, uint32_t taken) {
  for (int i = 0; i < c->sample->n_in; i++) {
    if (!in[i].data) continue;
    int64_t count = taken & (1u << i) ? 0 : hr_desc_count(&in[i].desc);
    guards_check(c, "operand", i, in[i].data, hr_desc_bytes(&in[i].desc));
    for (int64_t e = 0; e < count; e++)
      if (!same(element_read(in[i].desc.dtype, in[i].data, e), c->value[i][e])) case_fail(c, "changed operand %d", i);
  }
}

/* What the op says of its products covers what was compiled to prepare it: plans count by that. */
static void products_check(const op_case *c, const hr_op_view *view, int threads) {
  hr_arena arena;
  hr__arena_init(&arena);
  hr_gemm_set set = {.arena = &arena};
  if (c->op->products) c->op->products(view, threads, &set);
  if (hr__dnn_compiled() > hr__gemm_set_shapes(&set))
    case_fail(c, "%zu shapes are compiled, %zu are counted", hr__dnn_compiled(), hr__gemm_set_shapes(&set));
  hr__arena_fini(&arena);
}

run_result case_run(op_case *c, run_options options) {
  hr_tensor in[HR_OP_OPERANDS], out[HR_OP_OPERANDS];
  hr_desc in_desc[HR_OP_OPERANDS];
  run_result result = {0};
  hr_error err = {0};

  inputs_make(c, options.absent, in);
  uint32_t taken = outputs_make(c, options, in, out);
  for (int i = 0; i < c->sample->n_in; i++)
    in_desc[i] = in[i].desc;
  hr_op_view view = case_view(c);
  view.in = in_desc;
  size_t workspace = c->op->workspace ? c->op->workspace(&view, HR_CPU, options.threads) : 0;
  hr_call call = {.in = in,
                  .out = out,
                  .n_in = c->sample->n_in,
                  .n_out = c->n_out,
                  .args = c->sample->args,
                  .workspace = workspace ? guarded_alloc(c, workspace, 0xff) : NULL,
                  .workspace_bytes = workspace,
                  .stream_key = CASE_STREAM,
                  .threads = options.threads,
                  .device = &device};
  if (c->op->cpu.prepare && c->op->cpu.prepare(&call, &call.prepared, &err) != HR_OK)
    case_fail(c, "prepare: %s", err.message);
  products_check(c, &view, options.threads);
  hr_status status = c->op->cpu.run(&call);
  if (c->op->cpu.release) c->op->cpu.release(call.prepared);
  if (status != HR_OK) case_fail(c, "run: %s", hr_status_text(status));

  if (workspace) guards_check(c, "workspace", 0, call.workspace, workspace);
  inputs_check(c, in, taken);
  for (int j = 0; j < c->n_out; j++) {
    int64_t count = hr_desc_count(&c->out[j]);
    guards_check(c, "output", j, out[j].data, hr_desc_bytes(&c->out[j]));
    result.data[j] = out[j].data;
    result.value[j] = case_alloc(c, (size_t)count * sizeof(double));
    for (int64_t e = 0; e < count; e++)
      result.value[j][e] = element_read(c->out[j].dtype, out[j].data, e);
  }
  return result;
}

run_result case_reference(op_case *c) {
  run_result result = {0};
  reference_call call = {
      .in_desc = c->in, .out_desc = c->out, .n_in = c->sample->n_in, .args = c->sample->args, .control = &c->control};
  for (int i = 0; i < c->sample->n_in; i++)
    call.in[i] = c->value[i];
  for (int j = 0; j < c->n_out; j++)
    call.out[j] = result.value[j] = case_alloc(c, (size_t)hr_desc_count(&c->out[j]) * sizeof(double));
  c->reference->run(&call);
  return result;
}

double case_tolerance(const op_case *c) {
  const double bf16_unit = 0x1p-8, f16_unit = 0x1p-11, f32_usual = 1e-5;
  if (case_has(c, HR_BF16)) return 2.0 * bf16_unit;
  if (case_has(c, HR_F16)) return 4.0 * f16_unit;
  return c->reference->tolerance > 0.0 ? c->reference->tolerance : f32_usual;
}

void values_close(const op_case *c, const char *what, const double *got, const double *want, int64_t count,
                  double tolerance) {
  double largest = 0.0, worst = 0.0, norm = 0.0, error = 0.0;
  int64_t at = 0;
  for (int64_t i = 0; i < count; i++) {
    double difference = fabs(got[i] - want[i]);
    if (!isfinite(got[i])) case_fail(c, "%s[%lld] is %g, expected %g", what, (long long)i, got[i], want[i]);
    largest = fmax(largest, fabs(want[i]));
    norm += want[i] * want[i];
    error += difference * difference;
    if (difference > worst) {
      worst = difference;
      at = i;
    }
  }
  if (worst > tolerance * largest || sqrt(error) > tolerance * sqrt(norm))
    case_fail(c, "%s: L2 error %.2e of %.2e; worst at %lld: %.9g instead of %.9g", what, sqrt(error), sqrt(norm),
              (long long)at, got[at], want[at]);
}
