/* Strips of ROWS x COLUMNS of C stay in registers over all of k: with AVX2 12 sums, 2 vectors of B and one element of A
 * are the 16 registers there are. Fewer rows at the end of C, and fewer columns, are the same sums without the others.
 */
#include "dev/cpu/rowwise.h"

#include <immintrin.h>
#include <string.h>

#include "dev/cpu/matrix.h"

enum {
  ROWS = 6,
  VECTOR = 8,
  COLUMNS = 2 * VECTOR,
  WIDTH = 4 * COLUMNS, /* packed at a time where B is stored [k, n], so that its rows are read by 256 bytes */
  AHEAD = 16 /* rows of such a B that are asked for early: they are too far apart for the processor to guess */
};

/* Of rows x COLUMNS. */
typedef struct strip {
  const float *a, *b;
  float *c;
  int64_t lda, ldb, ldc, k;
  bool add;
} strip;

#define AVX2        __attribute__((target("avx2,fma")))
#define AVX2_INLINE AVX2 static inline __attribute__((always_inline))

/* `rows` and `vectors` (of columns) are constants where this is inlined, so that the sums are registers. */
AVX2_INLINE void strip_run(const strip *s, int rows, int vectors) {
  __m256 sum[ROWS][2], b[2];
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vectors; v++)
      sum[r][v] = _mm256_setzero_ps();
  for (int64_t p = 0; p < s->k; p++) {
    for (int v = 0; v < vectors; v++)
      b[v] = _mm256_loadu_ps(s->b + p * s->ldb + v * VECTOR);
    for (int r = 0; r < rows; r++) {
      __m256 x = _mm256_broadcast_ss(s->a + r * s->lda + p);
      for (int v = 0; v < vectors; v++)
        sum[r][v] = _mm256_fmadd_ps(x, b[v], sum[r][v]);
    }
  }
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vectors; v++) {
      float *to = s->c + r * s->ldc + v * VECTOR;
      _mm256_storeu_ps(to, s->add ? _mm256_add_ps(_mm256_loadu_ps(to), sum[r][v]) : sum[r][v]);
    }
}

AVX2_INLINE void strips_run(strip s, int64_t rows, int vectors) {
  for (; rows >= ROWS; rows -= ROWS, s.a += ROWS * s.lda, s.c += ROWS * s.ldc)
    strip_run(&s, ROWS, vectors);
  switch (rows) {
  case 5:
    strip_run(&s, 5, vectors);
    break;
  case 4:
    strip_run(&s, 4, vectors);
    break;
  case 3:
    strip_run(&s, 3, vectors);
    break;
  case 2:
    strip_run(&s, 2, vectors);
    break;
  case 1:
    strip_run(&s, 1, vectors);
    break;
  default:
    break;
  }
}

AVX2 static void rows_avx2(const strip *s, int64_t rows, int64_t columns) {
  if (columns > VECTOR)
    strips_run(*s, rows, 2);
  else
    strips_run(*s, rows, 1);
}

/* On any x86-64: vectors of 4, and products rounded before they are added. */
static void rows_plain(const strip *s, int64_t rows) {
  for (int64_t i = 0; i < rows; i++) {
    float sum[COLUMNS] = {0}, *to = s->c + i * s->ldc;
    for (int64_t p = 0; p < s->k; p++)
#pragma omp simd
      for (int j = 0; j < COLUMNS; j++)
        sum[j] += s->a[i * s->lda + p] * s->b[p * s->ldb + j];
    for (int j = 0; j < COLUMNS; j++)
      to[j] = s->add ? to[j] + sum[j] : sum[j];
  }
}

static void rows_run(const strip *s, int64_t rows, int64_t columns, bool avx2) {
  if (avx2)
    rows_avx2(s, rows, columns);
  else
    rows_plain(s, rows);
}

/* The last columns of C: whole strips beside C, and of these what is there. */
static void edge_run(const strip *s, int64_t rows, int64_t columns, bool avx2) {
  float beside[ROWS * COLUMNS];
  for (int64_t i = 0; i < rows; i += ROWS) {
    int64_t here = rows - i < ROWS ? rows - i : ROWS;
    rows_run(&(strip){s->a + i * s->lda, s->b, beside, s->lda, s->ldb, COLUMNS, s->k, false}, here, columns, avx2);
    for (int64_t r = 0; r < here; r++)
      for (int64_t j = 0; j < columns; j++) {
        float *to = s->c + (i + r) * s->ldc + j, sum = beside[r * COLUMNS + j];
        *to = s->add ? *to + sum : sum;
      }
  }
}

/* to[j][i] = from[i][j] for 8 x 8. */
AVX2_INLINE void square_turn(const float *from, int64_t from_ld, float *to, int64_t to_ld) {
  __m256 row[8], pair[8], four[8];
  for (int i = 0; i < 8; i++)
    row[i] = _mm256_loadu_ps(from + i * from_ld);
  for (int i = 0; i < 8; i += 2) {
    pair[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
    pair[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
  }
  for (int i = 0; i < 8; i += 4)
    for (int half = 0; half < 2; half++) {
      four[i + 2 * half] = _mm256_shuffle_ps(pair[i + half], pair[i + half + 2], 0x44);
      four[i + 2 * half + 1] = _mm256_shuffle_ps(pair[i + half], pair[i + half + 2], 0xee);
    }
  for (int i = 0; i < 4; i++) {
    _mm256_storeu_ps(to + i * to_ld, _mm256_permute2f128_ps(four[i], four[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * to_ld, _mm256_permute2f128_ps(four[i], four[i + 4], 0x31));
  }
}

/* Rows of B as stored [n, k] become columns of a panel. */
AVX2 static void turn_avx2(const float *b, int64_t ldb, int64_t rows, int64_t k, float *panel) {
  int64_t whole_rows = rows / 8 * 8, whole_k = k / 8 * 8;
  for (int64_t p = 0; p < whole_k; p += 8)
    for (int64_t i = 0; i < whole_rows; i += 8)
      square_turn(b + i * ldb + p, ldb, panel + p * COLUMNS + i, COLUMNS);
  for (int64_t p = 0; p < k; p++)
    for (int64_t i = p < whole_k ? whole_rows : 0; i < rows; i++)
      panel[p * COLUMNS + i] = b[i * ldb + p];
}

static void panel_turn(const hr_gemm_spec *spec, const float *b, int64_t rows, float *panel, bool avx2) {
  if (avx2)
    turn_avx2(b, spec->ldb, rows, spec->k, panel);
  else
    hr__f32_transpose(b, spec->ldb, rows, spec->k, panel, COLUMNS);
}

/* Columns of B into panels [k, COLUMNS]; what is missing of the last one is zero. */
static void panels_pack(const hr_gemm_spec *spec, const float *b, int64_t columns, float *panels, bool avx2) {
  int64_t whole = columns / COLUMNS * COLUMNS, rest = columns - whole;
  float *last = panels + whole * spec->k;
  if (rest > 0) memset(last, 0, (size_t)(spec->k * COLUMNS) * sizeof(float));
  if (spec->transpose_b) {
    for (int64_t j = 0; j < whole; j += COLUMNS)
      panel_turn(spec, b + j * spec->ldb, COLUMNS, panels + j * spec->k, avx2);
    if (rest > 0) panel_turn(spec, b + whole * spec->ldb, rest, last, avx2);
    return;
  }
  for (int64_t p = 0; p < spec->k; p++, b += spec->ldb) {
    for (int64_t j = 0; j < whole; j += COLUMNS) {
      __builtin_prefetch(b + AHEAD * spec->ldb + j);
      memcpy(panels + j * spec->k + p * COLUMNS, b + j, COLUMNS * sizeof(float));
    }
    for (int64_t j = 0; j < rest; j++)
      last[p * COLUMNS + j] = b[whole + j];
  }
}

size_t hr__rowwise_bytes(int64_t k) {
  return (size_t)k * WIDTH * sizeof(float);
}

void hr__rowwise_run(const hr_gemm_spec *spec, bool avx2, const float *a, const float *b, float *c, float *scratch) {
  int64_t width = spec->transpose_b ? COLUMNS : WIDTH;
  for (int64_t j = 0; j < spec->n; j += COLUMNS) {
    int64_t left = spec->n - j, at = j % width;
    if (at == 0)
      panels_pack(spec, b + (spec->transpose_b ? j * spec->ldb : j), left < width ? left : width, scratch, avx2);
    strip s = {a, scratch + at * spec->k, c + j, spec->lda, COLUMNS, spec->ldc, spec->k, spec->accumulate};
    if (left < COLUMNS)
      edge_run(&s, spec->m, left, avx2);
    else
      rows_run(&s, spec->m, COLUMNS, avx2);
  }
}
