/* Every op on the GPU against the CPU's kernel: its own samples, larger ones of the shapes that training has, and
 * random ones, in every accepted mix of float types, in every place the op allows. A call runs by itself and, twice
 * side by side, out of a recording; all three must have the same bits, and so must all places. Every operand lies
 * between guards, results and scratch begin as garbage, operands that no result takes over must come back unchanged.
 * Skipped (77) without a GPU.
 *
 * HEADROOM_CASES=few leaves out all but the ops' own samples, and of sets of places all but none and all (for slow
 * checkers, and where the GPU is emulated); HEADROOM_OPS=name,name only those ops.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../op/part_case.h"
#include "base/random.h"
#include "part_samples.h"

enum { GUARD_BYTES = 256, SIDES = 2, RANDOM_SHAPES = 6, RANDOM_TRIES = 200, LARGEST = 1 << 21 };
static const unsigned char GUARD = 0xa5, GARBAGE = 0xff;

static hr_device *gpu; /* opened once by main */
static struct {
#ifdef HR_ASAN
  int offered;
#endif
  int cases, runs;
  double worst; /* difference by tolerance, of the op at hand */
} seen;

static void check(hr_status status, const hr_error *err) {
  if (status != HR_OK) fail_msg("%s: %s (%s)", err->place, err->message, err->remedy);
}

/* Where everything lies in one block of device memory; each part has a guard behind it. */
typedef struct block_layout {
  size_t in[HR_OP_OPERANDS], out[HR_OP_OPERANDS], workspace, workspace_bytes, bytes;
  int home[HR_OP_OPERANDS]; /* input whose storage an output takes over, or -1 */
} block_layout;

static size_t part_take(size_t *used, size_t bytes) {
  size_t at = *used;
  *used = (at + bytes + GUARD_BYTES + 255) / 256 * 256;
  return at;
}

static block_layout layout_make(const op_case *c, uint32_t in_place) {
  block_layout l = {0};
  part_take(&l.bytes, 0); /* a guard before everything */
  for (int i = 0; i < c->sample->n_in; i++)
    if (c->in[i].rank) l.in[i] = part_take(&l.bytes, hr_desc_bytes(&c->in[i]));
  uint32_t taken = 0;
  for (int j = 0; j < c->n_out; j++) {
    l.home[j] = -1;
    for (int a = 0; a < c->op->n_alias; a++) {
      const hr_alias *alias = &c->op->alias[a];
      bool wanted = alias->out == j && (in_place & (1u << a)) &&
                    hr__op_takes(c->op, c->sample->args, alias, HR_CUDA, c->out[0].dtype) &&
                    alias->in < c->sample->n_in && c->in[alias->in].rank && !(taken & (1u << alias->in));
      if (wanted && hr_desc_bytes(&c->in[alias->in]) == hr_desc_bytes(&c->out[j]) && hr_desc_count(&c->out[j]) > 0)
        l.home[j] = alias->in;
    }
    if (l.home[j] >= 0) taken |= 1u << l.home[j];
    l.out[j] = l.home[j] >= 0 ? l.in[l.home[j]] : part_take(&l.bytes, hr_desc_bytes(&c->out[j]));
  }
  hr_op_view view = case_view(c);
  l.workspace_bytes = c->op->workspace ? c->op->workspace(&view, HR_CUDA, 1) : 0;
  l.workspace = part_take(&l.bytes, l.workspace_bytes);
  return l;
}

/* The block as it is before the op runs. */
static unsigned char *image_make(const op_case *c, const block_layout *l) {
  unsigned char *image = malloc(l->bytes);
  if (!image) fail_msg("out of memory");
  memset(image, GUARD, l->bytes);
  for (int j = 0; j < c->n_out; j++)
    if (l->home[j] < 0) memset(image + l->out[j], GARBAGE, hr_desc_bytes(&c->out[j]));
  memset(image + l->workspace, GARBAGE, l->workspace_bytes);
  for (int i = 0; i < c->sample->n_in; i++)
    for (int64_t e = 0; c->in[i].rank && e < hr_desc_count(&c->in[i]); e++)
      element_write(c->in[i].dtype, image + l->in[i], e, c->value[i][e]);
  return image;
}

/* What lies outside of results and scratch must be as it was. */
static void image_check(const op_case *c, const block_layout *l, const unsigned char *before, unsigned char *after) {
  unsigned char *free_to_change = calloc(1, l->bytes);
  if (!free_to_change) fail_msg("out of memory");
  for (int j = 0; j < c->n_out; j++)
    memset(free_to_change + l->out[j], 1, hr_desc_bytes(&c->out[j]));
  memset(free_to_change + l->workspace, 1, l->workspace_bytes);
  for (size_t at = 0; at < l->bytes; at++)
    if (!free_to_change[at] && before[at] != after[at]) case_fail(c, "changed byte %zu, which is no result", at);
  free(free_to_change);
}

/* One call bound to a block. */
typedef struct side {
  hr_tensor in[HR_OP_OPERANDS], out[HR_OP_OPERANDS];
} side;

static hr_launch side_bind(const op_case *c, const block_layout *l, char *base, side *s) {
  for (int i = 0; i < c->sample->n_in; i++)
    s->in[i] = c->in[i].rank ? tensor_make(&c->in[i], base + l->in[i]) : (hr_tensor){0};
  for (int j = 0; j < c->n_out; j++)
    s->out[j] = tensor_make(&c->out[j], base + l->out[j]);
  hr_launch launch = {.kernel = gpu->functions->kernel(gpu, c->op->name),
                      .call = {.in = s->in,
                               .out = s->out,
                               .n_in = c->sample->n_in,
                               .n_out = c->n_out,
                               .args = c->sample->args,
                               .workspace = l->workspace_bytes ? base + l->workspace : NULL,
                               .workspace_bytes = l->workspace_bytes,
                               .stream_key = CASE_STREAM,
                               .threads = 1,
                               .device = gpu}};
  hr_error err = {0};
  if (launch.kernel->prepare && launch.kernel->prepare(&launch.call, &launch.call.prepared, &err) != HR_OK)
    case_fail(c, "prepare: %s", err.message);
  return launch;
}

static void results_compare(const op_case *c, const block_layout *l, const unsigned char *image,
                            const run_result *expected) {
  for (int j = 0; j < c->n_out; j++) {
    int64_t count = hr_desc_count(&c->out[j]);
    hr_dtype dtype = c->out[j].dtype;
    double narrowest = case_has(c, HR_BF16) ? 0x1p-7 : case_has(c, HR_F16) ? 0x1p-9 : 1e-5;
    double tolerance = fmax(narrowest, c->reference->tolerance);
    double largest = 0, worst = 0, norm = 0, error = 0;
    int64_t at = 0;
    for (int64_t e = 0; e < count; e++) {
      double got = element_read(dtype, image + l->out[j], e), want = expected->value[j][e], off = fabs(got - want);
      if (isnan(want) && isnan(got)) continue;
      if (!(off <= 1e300)) case_fail(c, "output %d, element %lld is %g, on the CPU %g", j, (long long)e, got, want);
      largest = fmax(largest, fabs(want));
      norm += want * want;
      error += off * off;
      if (off > worst) worst = off, at = e;
    }
    /* a softmax over one key, a norm over two columns: the rounding of what cancels is all there is */
    if (c->reference->cancels && largest < 1e-3 && worst < tolerance) continue;
    if (worst > tolerance * largest || sqrt(error) > tolerance * sqrt(norm))
      case_fail(c, "output %d [%lld of %lld] is %.9g, on the CPU %.9g; L2 %.2e of %.2e", j, (long long)at,
                (long long)count, element_read(dtype, image + l->out[j], at), expected->value[j][at], sqrt(error),
                sqrt(norm));
    if (norm > 0) seen.worst = fmax(seen.worst, sqrt(error / norm) / tolerance);
  }
}

/* Results of the first place a case ran in: the plan's choice of places must not change a bit. */
static void places_compare(const op_case *c, const block_layout *l, const unsigned char *image, void **first) {
  for (int j = 0; j < c->n_out; j++) {
    size_t bytes = hr_desc_bytes(&c->out[j]);
    if (!first[j]) {
      if (!(first[j] = malloc(bytes + 1))) fail_msg("out of memory");
      memcpy(first[j], image + l->out[j], bytes);
    } else if (memcmp(first[j], image + l->out[j], bytes) != 0) {
      case_fail(c, "output %d has other bits in place (of operand %d)", j, l->home[j]);
    }
  }
}

/* By itself into image 0, then out of a recording into images 0 and 1. */
static void case_run_on_gpu(const op_case *c, const block_layout *l, const unsigned char *before,
                            const run_result *expected, void **places) {
  const hr_device_functions *f = gpu->functions;
  hr_error err = {0};
  void *base;
  side sides[SIDES];
  hr_launch launches[SIDES];
  hr_recording *recording = NULL;
  size_t failed = 0;
  unsigned char *first = malloc(l->bytes), *again = malloc(l->bytes);
  if (!first || !again) fail_msg("out of memory");
  check(f->arena_create(gpu, HR_TIER_DEVICE, SIDES * l->bytes, &base, &err), &err);
  for (int s = 0; s < SIDES; s++)
    launches[s] = side_bind(c, l, (char *)base + (size_t)s * l->bytes, &sides[s]);

  check(f->copy(gpu, HR_COPY_TO_DEVICE, base, before, l->bytes, &err), &err);
  if (f->launch(gpu, &launches[0]) != HR_OK) case_fail(c, "the launch was refused");
  check(f->synchronize(gpu, &err), &err);
  check(f->copy(gpu, HR_COPY_FROM_DEVICE, first, base, l->bytes, &err), &err);
  image_check(c, l, before, first);
  results_compare(c, l, first, expected);
  places_compare(c, l, first, places);

  for (int s = 0; s < SIDES; s++)
    check(f->copy(gpu, HR_COPY_TO_DEVICE, (char *)base + (size_t)s * l->bytes, before, l->bytes, &err), &err);
  check(f->record(gpu, launches, SIDES, &recording, &failed, &err), &err);
  if (f->replay(gpu, recording, &failed) != HR_OK) case_fail(c, "the replay failed");
  check(f->synchronize(gpu, &err), &err);
  for (int s = 0; s < SIDES; s++) {
    check(f->copy(gpu, HR_COPY_FROM_DEVICE, again, (char *)base + (size_t)s * l->bytes, l->bytes, &err), &err);
    image_check(c, l, before, again);
    for (int j = 0; j < c->n_out; j++)
      if (memcmp(first + l->out[j], again + l->out[j], hr_desc_bytes(&c->out[j])) != 0)
        case_fail(c, "output %d has other bits out of a recording (side %d)", j, s);
  }
  f->recording_destroy(gpu, recording);
  for (int s = 0; s < SIDES; s++)
    if (launches[s].kernel->release && launches[s].call.prepared)
      launches[s].kernel->release(launches[s].call.prepared);
  f->arena_destroy(gpu, HR_TIER_DEVICE, base, SIDES * l->bytes);
  free(first);
  free(again);
  seen.runs++;
}

static bool few_cases(void) {
  const char *cases = getenv("HEADROOM_CASES");
  return cases && strcmp(cases, "few") == 0;
}

/* Under a sanitizer, where cases are to be few: of the many types that some ops' samples have each fourth behind the
 * first ones. */
static bool case_skipped(void) {
#ifdef HR_ASAN
  enum { FIRST = 40, EACH = 4 };
  int number = seen.offered++;
  return few_cases() && number >= FIRST && number % EACH != 0;
#else
  return false;
#endif
}

static void case_visit(op_case *c) {
  if (case_skipped()) return;
  const hr_desc *typed = c->sample->n_in && c->in[c->op->typed_by].rank ? &c->in[c->op->typed_by] : &c->out[0];
  if (!(c->op->dtypes[HR_CUDA] & HR_DTYPE_BIT(typed->dtype))) case_fail(c, "the GPU lacks a type that the CPU has");
  uint32_t must = 0;
  for (int a = 0; a < c->op->n_alias; a++)
    if (c->op->alias[a].kind == HR_ALIAS_MUST) must |= 1u << a;
  run_result expected = case_run(c, (run_options){.threads = 1});
  seen.cases++;
  void *places[HR_OP_OPERANDS] = {0};
  /* All sets of places, or with many of them none, each and all: sets grow as powers of two. */
  uint32_t all = (1u << c->op->n_alias) - 1;
  bool many = c->op->n_alias > 3;
  for (uint32_t number = 0;; number++) {
    uint32_t in_place = must | (few_cases()                         ? (number ? all : 0)
                                : !many                             ? number
                                : number == 0                       ? 0
                                : number > (uint32_t)c->op->n_alias ? all
                                                                    : 1u << (number - 1));
    if (!few_cases() && !many && (number & must)) continue; /* the same set again */
    block_layout l = layout_make(c, in_place);
    unsigned char *before = image_make(c, &l);
    case_run_on_gpu(c, &l, before, &expected, places);
    free(before);
    if (in_place == all) break;
  }
  for (int j = 0; j < HR_OP_OPERANDS; j++)
    free(places[j]);
}

/* A sample with some of its extents replaced, equal ones alike; false: the op refuses it, or it is too large. */
static bool sample_vary(const hr_op *op, const hr_sample *from, uint64_t number, hr_sample *to) {
  static const int64_t extents[] = {1,   2,   3,   5,   8,   16,  24,  31,  33,   64,  96,
                                    127, 128, 130, 200, 256, 257, 512, 777, 1024, 2048};
  enum { EXTENTS = sizeof extents / sizeof *extents };
  hr_random_key key = {.seed = 77, .stream = hr__random_stream(op->name)};
  int64_t old[64], new[64];
  int known = 0;
  *to = *from;
  for (int i = 0; i < to->n_in; i++)
    for (int d = 0; d < to->in[i].rank && to->in[i].dtype != HR_U8; d++) {
      int at = 0;
      while (at < known && old[at] != to->in[i].dim[d])
        at++;
      if (at == known) {
        old[known] = to->in[i].dim[d];
        bool keep = old[known] == from->index_below || hr__random_below(key, number, (uint64_t)(2 * known), 2) == 0;
        new[known] = keep ? old[known] : extents[hr__random_below(key, number, (uint64_t)(2 * known + 1), EXTENTS)];
        known++;
      }
      to->in[i].dim[d] = new[at];
    }
  hr_desc out[HR_OP_OPERANDS];
  hr_error err;
  hr_op_view view = {.in = to->in, .out = out, .n_in = to->n_in, .n_out = op->n_out, .args = to->args};
  int64_t elements = 0;
  bool same = true;
  for (int i = 0; i < to->n_in; i++) {
    elements += to->in[i].rank ? hr_desc_count(&to->in[i]) : 0;
    same = same && memcmp(&to->in[i], &from->in[i], sizeof(hr_desc)) == 0;
  }
  if (same || elements > LARGEST || op->shape(&view, out, &err) != HR_OK) return false;
  hr_cost cost = {0};
  view.out = out;
  op->cost(&view, &cost);
  return cost.flops < 2e8;
}

static bool op_wanted(const hr_op *op) {
  const char *only = getenv("HEADROOM_OPS");
  if (!only || !*only) return true;
  size_t length = strlen(op->name);
  for (const char *at = only; (at = strstr(at, op->name)); at += length)
    if ((at == only || at[-1] == ',') && (at[length] == 0 || at[length] == ',')) return true;
  return false;
}

static void op_check(const hr_op *op) {
  bool few = few_cases();
  memset(&seen, 0, sizeof seen);
  for (int s = 0; s < op->n_samples; s++)
    sample_visit(op, &op->samples[s], s, case_visit);
  size_t n_large;
  const large_sample *large = large_samples(&n_large);
  for (size_t i = 0; !few && i < n_large; i++)
    if (strcmp(large[i].op, op->name) == 0) sample_visit(op, &large[i].sample, 100 + (int)i, case_visit);
  for (int s = 0; !few && s < op->n_samples; s++) {
    int found = 0;
    for (uint64_t tried = 0; found < RANDOM_SHAPES && tried < RANDOM_TRIES; tried++) {
      hr_sample varied;
      if (!sample_vary(op, &op->samples[s], tried + 1000 * (uint64_t)s, &varied)) continue;
      sample_visit(op, &varied, 1000 * (s + 1) + (int)tried, case_visit);
      found++;
    }
  }
  print_message("%-14s %4d cases, %4d runs, worst %.2f of its tolerance\n", op->name, seen.cases, seen.runs,
                seen.worst);
  fflush(stdout);
}

static void op_test(void **state) {
  op_check(*state);
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
  struct CMUnitTest *tests = calloc(hr_op_count, sizeof *tests);
  size_t count = 0;
  if (!tests) return 1;
  for (size_t o = 0; o < hr_op_count; o++) {
    const hr_op *op = hr_ops[o];
    if (op->transfer || !op_wanted(op)) continue; /* copies between tiers are the run's */
    bool has_kernel = gpu->functions->kernel(gpu, op->name) != NULL;
    if (!has_kernel || op->dtypes[HR_CUDA] == 0) {
      print_error("%s has %s kernel, its descriptor says %s\n", op->name, has_kernel ? "a" : "no",
                  op->dtypes[HR_CUDA] ? "one" : "none");
      return 1;
    }
    tests[count++] =
        (struct CMUnitTest){.name = op->name, .test_func = op_test, .initial_state = (void *)(uintptr_t)op};
  }
  int failed = _cmocka_run_group_tests("ops on CPU and GPU", tests, count, device_setup, device_teardown);
  free(tests);
  hr__device_close(gpu);
  return failed;
}
