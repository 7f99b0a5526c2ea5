#include "dev/part_gemm.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "dev/cpu/onednn.h"

enum { GUARD = 256, GUARD_BYTE = 0x5a };

hr_gemm_spec gemm_spec_make(int64_t m, int64_t n, int64_t k, int transposes, bool accumulate, hr_dtype a, hr_dtype b,
                            hr_dtype c, int64_t padding) {
  bool ta = transposes & 1, tb = transposes & 2;
  return (hr_gemm_spec){.m = m,
                        .n = n,
                        .k = k,
                        .lda = (ta ? m : k) + padding,
                        .ldb = (tb ? k : n) + padding,
                        .ldc = n + padding,
                        .transpose_a = ta,
                        .transpose_b = tb,
                        .accumulate = accumulate,
                        .a = a,
                        .b = b,
                        .c = c};
}

static double element(const void *data, hr_dtype dtype, int64_t index) {
  if (dtype == HR_F32) return (double)((const float *)data)[index];
  uint16_t bits = ((const uint16_t *)data)[index];
  return (double)(dtype == HR_F16 ? hr__f16_to_f32(bits) : hr__bf16_to_f32(bits));
}

/* Values in [-1, 1) from a multiplicative generator. */
static void *fill(hr_dtype dtype, int64_t count, unsigned *state) {
  void *data = malloc((size_t)count * hr_dtype_bytes(dtype));
  assert_non_null(data);
  for (int64_t i = 0; i < count; i++) {
    *state = *state * 1664525u + 1013904223u;
    float value = (float)(*state >> 8) / 8388608.0f - 1.0f;
    if (dtype == HR_F32)
      ((float *)data)[i] = value;
    else
      ((uint16_t *)data)[i] = dtype == HR_F16 ? hr__f32_to_f16(value) : hr__f32_to_bf16(value);
  }
  return data;
}

/* x, and what is near it, times a row of b onto sums; rounded: NULL or a row. Without the sanitizers' checks, which
 * would take most of the test's time: the loop is the test's own, and its rows are n long. */
__attribute__((no_sanitize("address", "undefined"))) static void
terms_add(double x, double near_x, const double *b, int64_t n, double *row, double *spread, double *rounded) {
  for (int64_t j = 0; j < n; j++) {
    double term = x * b[j];
    row[j] += term;
    spread[j] += term * term;
  }
  for (int64_t j = 0; rounded && j < n; j++)
    rounded[j] += near_x * b[j];
}

void gemm_case_init(gemm_case *g, hr_gemm_spec spec, unsigned seed) {
  const hr_gemm_spec *s = &spec;
  unsigned state = seed * 2654435761u + 1u;
  *g = (gemm_case){.spec = spec};
  g->a = fill(s->a, (s->transpose_a ? s->k : s->m) * s->lda, &state);
  g->b = fill(s->b, (s->transpose_b ? s->n : s->k) * s->ldb, &state);
  g->c = fill(s->c, s->m * s->ldc, &state);
  g->c_bytes = (size_t)(s->m * s->ldc) * hr_dtype_bytes(s->c);
  g->result = malloc(g->c_bytes);
  assert_non_null(g->result);
}

void gemm_case_expect(gemm_case *g) {
  const hr_gemm_spec *s = &g->spec;
  g->expected = calloc((size_t)(s->m * s->n), sizeof(double));
  g->spread = calloc((size_t)(s->m * s->n), sizeof(double));
  bool rounds = s->a == HR_F32 && s->b == HR_BF16 && hr__dnn_native(HR_BF16);
  g->rounded = rounds ? calloc((size_t)(s->m * s->n), sizeof(double)) : NULL;
  double *b = malloc((size_t)(s->k * s->n) * sizeof(double));
  assert_true(g->expected && g->spread && b && (g->rounded || !rounds));
  for (int64_t p = 0; p < s->k; p++)
    for (int64_t j = 0; j < s->n; j++)
      b[p * s->n + j] = element(g->b, s->b, s->transpose_b ? j * s->ldb + p : p * s->ldb + j);
  for (int64_t i = 0; i < s->m; i++) {
    double *row = g->expected + i * s->n, *spread = g->spread + i * s->n;
    double *rounded = rounds ? g->rounded + i * s->n : NULL;
    for (int64_t j = 0; s->accumulate && j < s->n; j++) {
      row[j] = element(g->c, s->c, i * s->ldc + j);
      spread[j] = row[j] * row[j];
      if (rounds) rounded[j] = row[j];
    }
    for (int64_t p = 0; p < s->k; p++) {
      double x = element(g->a, s->a, s->transpose_a ? p * s->lda + i : i * s->lda + p);
      double near_x = (double)hr__bf16_to_f32(hr__f32_to_bf16((float)x));
      terms_add(x, near_x, b + p * s->n, s->n, row, spread, rounded);
    }
    for (int64_t j = 0; j < s->n; j++)
      spread[j] = sqrt(spread[j]);
  }
  free(b);
}

void gemm_case_fini(gemm_case *g) {
  free(g->a);
  free(g->b);
  free(g->c);
  free(g->result);
  free(g->expected);
  free(g->rounded);
  free(g->spread);
}

static void gaps_check(const gemm_case *g) {
  const hr_gemm_spec *s = &g->spec;
  size_t size = hr_dtype_bytes(s->c);
  for (int64_t i = 0; i < s->m; i++) {
    size_t gap = (size_t)(i * s->ldc + s->n) * size;
    assert_memory_equal((char *)g->result + gap, (char *)g->c + gap, (size_t)(s->ldc - s->n) * size);
  }
}

void gemm_case_run(gemm_case *g, int threads) {
  hr_error err = {0};
  hr_pool *pool = NULL;
  hr_gemm *gemm = NULL;
  int workers = threads ? threads : 1;
  size_t bytes = hr__gemm_workspace(&g->spec, workers);
  unsigned char *block = aligned_alloc(64, (bytes + 2 * GUARD + 63) / 64 * 64);
  assert_non_null(block);
  memset(block, GUARD_BYTE, bytes + 2 * GUARD);
  memset(block + GUARD, 0xff, bytes); /* NaN wherever something unwritten is read */
  memcpy(g->result, g->c, g->c_bytes);
  assert_int_equal(hr__pool_create(workers, &pool, &err), HR_OK);
  assert_int_equal(hr__gemm_create(&g->spec, workers, NULL, &gemm, &err), HR_OK);

  uint64_t requests = hr__alloc_count();
  hr_status status = threads ? hr__gemm_run(gemm, pool, threads, g->a, g->b, g->result, block + GUARD)
                             : hr__gemm_run_here(gemm, 0, g->a, g->b, g->result, block + GUARD);
  assert_int_equal(status, HR_OK);
  assert_int_equal(hr__alloc_count(), requests);

  for (size_t i = 0; i < GUARD; i++) {
    assert_int_equal(block[i], GUARD_BYTE);
    assert_int_equal(block[GUARD + bytes + i], GUARD_BYTE);
  }
  gaps_check(g);
  hr__gemm_destroy(gemm);
  hr__pool_destroy(pool);
  free(block);
}

/* Half the distance from 1 to the next number of a type. */
static double unit_of(hr_dtype dtype) {
  return dtype == HR_BF16 ? 0x1p-8 : dtype == HR_F16 ? 0x1p-11 : 0x1p-24;
}

static double error_from(const gemm_case *g, const double *expected) {
  const hr_gemm_spec *s = &g->spec;
  double wrong = 0.0, size = 0.0, spread = 0.0;
  for (int64_t i = 0; i < s->m; i++)
    for (int64_t j = 0; j < s->n; j++) {
      int64_t at = i * s->n + j;
      double difference = element(g->result, s->c, i * s->ldc + j) - expected[at];
      wrong += difference * difference;
      size += expected[at] * expected[at];
      spread += g->spread[at] * g->spread[at];
    }
  double sums = (1.0 + sqrt((double)s->k + 1.0)) * unit_of(HR_F32) * sqrt(spread);
  double result = s->c == HR_F32 ? 0.0 : unit_of(s->c) * (sqrt(size) + sums);
  return sqrt(wrong) / (sums + result);
}

double gemm_case_error(const gemm_case *g) {
  double error = error_from(g, g->expected);
  return g->rounded ? fmin(error, error_from(g, g->rounded)) : error;
}
