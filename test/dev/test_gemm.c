/* Products against f64 for shapes, transposes, types and sums; equal bits for any number of
 * threads and of rows; caps that hold. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "dev/cpu/gemm_set.h"
#include "dev/cpu/onednn.h"
#include "dev/part_gemm.h"

typedef struct types {
  hr_dtype a, b, c;
} types;

static const types all_types[] = {{HR_F32, HR_F32, HR_F32},   {HR_BF16, HR_BF16, HR_BF16}, {HR_BF16, HR_BF16, HR_F32},
                                  {HR_F32, HR_BF16, HR_BF16}, {HR_F32, HR_BF16, HR_F32},   {HR_F16, HR_F16, HR_F16},
                                  {HR_F16, HR_F16, HR_F32},   {HR_F32, HR_F16, HR_F32}};

/* One below, at and above the tile sizes, and the thin shapes that kernels get wrong. */
static const int64_t shapes[][3] = {{1, 1, 1},      {1, 7, 300},   {5, 3, 2},      {17, 1, 64},     {64, 64, 64},
                                    {63, 65, 130},  {129, 70, 40}, {257, 30, 64},  {30, 300, 65},   {300, 520, 33},
                                    {40, 48, 2100}, {515, 17, 90}, {16, 1030, 24}, {260, 260, 1100}};
enum { SHAPES = sizeof shapes / sizeof *shapes, TYPES = sizeof all_types / sizeof *all_types, TYPES_WHOLE = 4 };

/* Types behind the first ones go through the tiles that bf16 goes through: a third of the cases is enough for them. */
static bool type_skipped(int type, int number) {
  return type >= TYPES_WHOLE && number % 3 != 0;
}

static void test_values(void **state) {
  (void)state;
  for (int shape = 0; shape < SHAPES; shape++)
    for (int type = 0; type < TYPES; type++)
      for (int variant = 0; variant < 8; variant++) {
        if (type_skipped(type, shape + variant)) continue;
        const int64_t *d = shapes[shape];
        types t = all_types[type];
        gemm_case g;
        gemm_case_init(&g, gemm_spec_make(d[0], d[1], d[2], variant & 3, variant & 4, t.a, t.b, t.c, (shape % 3) * 5),
                       (unsigned)(shape * 64 + type * 8 + variant));
        gemm_case_expect(&g);
        gemm_case_run(&g, 1);
        if (!(gemm_case_error(&g) <= 1.0))
          fail_msg("%d x %d x %d, types %d, variant %d: %g times what roundings allow", (int)d[0], (int)d[1], (int)d[2],
                   type, variant, gemm_case_error(&g));
        gemm_case_fini(&g);
      }
}

static void test_threads_change_no_bit(void **state) {
  (void)state;
  const int64_t sizes[][3] = {{300, 700, 130}, {290, 270, 1100}};
  for (int size = 0; size < 2; size++)
    for (int type = 0; type < TYPES; type++)
      for (int variant = 0; variant < 8; variant += 3) {
        if (type_skipped(type, type + size + variant / 3)) continue;
        const int64_t *d = sizes[size];
        types t = all_types[type];
        gemm_case g;
        gemm_case_init(&g, gemm_spec_make(d[0], d[1], d[2], variant & 3, variant & 4, t.a, t.b, t.c, 0), 7);
        gemm_case_expect(&g);
        gemm_case_run(&g, 1);
        assert_true(gemm_case_error(&g) <= 1.0);
        void *first = malloc(g.c_bytes);
        assert_non_null(first);
        memcpy(first, g.result, g.c_bytes);
        for (int threads = 0; threads <= 3; threads += threads ? 1 : 2) { /* 0: in the calling thread */
          gemm_case_run(&g, threads);
          assert_memory_equal(first, g.result, g.c_bytes);
        }
        free(first);
        gemm_case_fini(&g);
      }
}

/* Rows [begin, begin + rows) alone, against what they were among the others. */
static void rows_compare(const gemm_case *g, int64_t begin, int64_t rows) {
  const hr_gemm_spec *s = &g->spec;
  gemm_case part = *g;
  part.spec.m = rows;
  part.a = (char *)g->a + (size_t)(begin * s->lda) * hr_dtype_bytes(s->a);
  part.c = (char *)g->c + (size_t)(begin * s->ldc) * hr_dtype_bytes(s->c);
  part.c_bytes = (size_t)(rows * s->ldc) * hr_dtype_bytes(s->c);
  part.result = malloc(part.c_bytes);
  assert_non_null(part.result);
  gemm_case_run(&part, 1);
  if (memcmp(part.result, (char *)g->result + g->c_bytes / (size_t)s->m * (size_t)begin, part.c_bytes) != 0)
    fail_msg("%d x %d x %d, types %d %d %d%s%s: rows %d to %d alone have other bits", (int)s->m, (int)s->n, (int)s->k,
             s->a, s->b, s->c, s->transpose_b ? ", B transposed" : "", s->accumulate ? ", added" : "", (int)begin,
             (int)(begin + rows - 1));
  free(part.result);
}

/* Rows of activations are tokens: what a token gets must not depend on how many there are. */
static void test_rows_alone_have_the_same_bits(void **state) {
  (void)state;
  const int64_t sizes[][3] = {{300, 70, 90}, {67, 530, 300},   {140, 24, 1030},
                              {600, 8, 40},  {130, 520, 1030}, {290, 530, 2060}};
  for (int size = 0; size < (int)(sizeof sizes / sizeof *sizes); size++)
    for (int type = 0; type < TYPES; type++)
      for (int variant = 0; variant < 8; variant += 2) { /* A is not transposed */
        if (type_skipped(type, type + size + variant / 2)) continue;
        const int64_t *d = sizes[size];
        types t = all_types[type];
        gemm_case g;
        gemm_case_init(&g, gemm_spec_make(d[0], d[1], d[2], variant & 3, variant & 4, t.a, t.b, t.c, (size % 2) * 5),
                       9);
        gemm_case_run(&g, 1);
        const int64_t parts[][2] = {{0, 1}, {d[0] - 1, 1}, {5, 2}, {1, 7}, {d[0] / 2, 16}, {3, 33}, {2, d[0] - 2}};
        for (int part = 0; part < (int)(sizeof parts / sizeof *parts); part++)
          rows_compare(&g, parts[part][0], parts[part][1]);
        gemm_case_fini(&g);
      }
}

/* Creating checks the library's real scratch against the cap; odd and large shapes must pass. */
static void test_workspace_caps(void **state) {
  (void)state;
  unsigned random = 1;
  hr_error err = {0};
  for (int i = 0; i < 250; i++) {
    int64_t d[3];
    for (int j = 0; j < 3; j++) {
      random = random * 1664525u + 1013904223u;
      int64_t most = (random >> 8) % 3 == 0 ? 40 : (random >> 8) % 3 == 1 ? 600 : 9000;
      random = random * 1664525u + 1013904223u;
      d[j] = 1 + (random >> 8) % most;
    }
    types t = all_types[i % TYPES];
    hr_gemm_spec spec = gemm_spec_make(d[0], d[1], d[2], i & 3, i & 4, t.a, t.b, t.c, i % 7);
    hr_gemm *gemm = NULL;
    if (hr__gemm_create(&spec, 1 + i % 3, NULL, &gemm, &err) != HR_OK)
      fail_msg("%d x %d x %d: %s", (int)d[0], (int)d[1], (int)d[2], err.message);
    assert_in_range(hr__gemm_workspace(&spec, 1), 1, 8 << 20);
    assert_true(hr__gemm_workspace(&spec, 4) <= 4 * hr__gemm_workspace(&spec, 1));
    hr__gemm_destroy(gemm);
  }
}

static void test_no_elements(void **state) {
  (void)state;
  hr_error err = {0};
  hr_gemm *gemm = NULL;
  hr_gemm_spec spec = gemm_spec_make(0, 4, 4, 0, false, HR_F32, HR_F32, HR_F32, 4);
  assert_int_equal(hr__gemm_create(&spec, 1, NULL, &gemm, &err), HR_FAILURE);
  assert_int_equal(hr__gemm_workspace(&spec, 1), 0);
  assert_null(gemm);
}

/* Products of one shape share code but, with different users, no library object: two runs in one process may use the
 * same worker numbers at the same time. */
typedef struct rival {
  hr_gemm *gemm;
  float *a, *b, *c;
  void *workspace;
  bool wrong;
} rival;

enum { RIVAL_SIDE = 48, RIVAL_ROUNDS = 400 };

static void *rival_main(void *arg) {
  rival *r = arg;
  for (int round = 0; round < RIVAL_ROUNDS; round++) {
    if (hr__gemm_run_here(r->gemm, 0, r->a, r->b, r->c, r->workspace) != HR_OK) r->wrong = true;
    for (int i = 0; i < RIVAL_SIDE * RIVAL_SIDE; i++)
      r->wrong |= r->c[i] != r->a[0] * r->b[0] * RIVAL_SIDE;
  }
  return NULL;
}

static void test_equal_products_of_two_runs_do_not_meet(void **state) {
  (void)state;
  hr_error err = {0};
  hr_gemm_spec spec = gemm_spec_make(RIVAL_SIDE, RIVAL_SIDE, RIVAL_SIDE, 0, false, HR_F32, HR_F32, HR_F32, 0);
  rival rivals[2];
  pthread_t threads[2];
  for (int t = 0; t < 2; t++) {
    size_t bytes = RIVAL_SIDE * RIVAL_SIDE * sizeof(float);
    rivals[t] = (rival){.a = malloc(bytes), .b = malloc(bytes), .c = malloc(bytes)};
    rivals[t].workspace = aligned_alloc(64, (hr__gemm_workspace(&spec, 1) + 63) / 64 * 64);
    for (int i = 0; i < RIVAL_SIDE * RIVAL_SIDE; i++)
      rivals[t].a[i] = (float)(t + 1), rivals[t].b[i] = (float)(t + 3);
    assert_int_equal(hr__gemm_create(&spec, 1, &rivals[t], &rivals[t].gemm, &err), HR_OK);
  }
  for (int t = 0; t < 2; t++)
    assert_int_equal(pthread_create(&threads[t], NULL, rival_main, &rivals[t]), 0);
  for (int t = 0; t < 2; t++)
    pthread_join(threads[t], NULL);
  for (int t = 0; t < 2; t++) {
    assert_false(rivals[t].wrong);
    hr__gemm_destroy(rivals[t].gemm);
    free(rivals[t].a), free(rivals[t].b), free(rivals[t].c), free(rivals[t].workspace);
  }
}

enum { MANY = 1 << 20 }; /* bytes of scratch: enough for the library's first choice */

static void test_equal_products_of_one_user_are_one(void **state) {
  (void)state;
  hr_error err = {0};
  hr_gemm_spec spec = gemm_spec_make(24, 24, 24, 0, false, HR_F32, HR_F32, HR_F32, 0), other = spec;
  other.accumulate = true;
  int users[2];
  hr_dnn_product *p[6];
  assert_int_equal(hr__dnn_create(&spec, MANY, 2, &users[0], &p[0], &err), HR_OK);
  assert_int_equal(hr__dnn_create(&spec, MANY, 2, &users[0], &p[1], &err), HR_OK);
  assert_int_equal(hr__dnn_create(&spec, MANY, 2, &users[1], &p[2], &err), HR_OK);
  assert_int_equal(hr__dnn_create(&spec, MANY, 1, &users[0], &p[3], &err), HR_OK);
  assert_int_equal(hr__dnn_create(&other, MANY, 2, &users[0], &p[4], &err), HR_OK);
  assert_int_equal(hr__dnn_create(&spec, MANY, 2, NULL, &p[5], &err), HR_OK);
  assert_ptr_equal(p[0], p[1]);
  for (int i = 2; i < 6; i++)
    for (int j = 0; j < i; j++)
      assert_ptr_not_equal(p[i], p[j]);
  hr__dnn_destroy(p[0]);
  float a[24 * 24] = {0}, c[24 * 24];
  void *scratch = aligned_alloc(64, hr__dnn_scratch_bytes(p[1]) / 64 * 64 + 64);
  assert_int_equal(hr__dnn_run(p[1], 1, a, a, c, scratch), HR_OK); /* still there for the other */
  free(scratch);
  for (int i = 1; i < 6; i++)
    hr__dnn_destroy(p[i]);
}

/* Products of those types, all there at once: more are not compiled than are counted, and in f32 as many. */
static void compiled_compare(int first_type, int end_type) {
  enum { MOST = SHAPES * 4 * TYPES };
  static hr_gemm *made[MOST];
  hr_arena arena;
  hr_error err = {0};
  int n = 0, user;
  hr__arena_init(&arena);
  hr_gemm_set set = {.arena = &arena};
  for (int shape = 0; shape < SHAPES; shape++)
    for (int transposes = 0; transposes < 4; transposes++)
      for (int type = first_type; type < end_type; type++) {
        const int64_t *size = shapes[shape];
        types t = all_types[type];
        hr_gemm_spec spec = gemm_spec_make(size[0], size[1], size[2], transposes, false, t.a, t.b, t.c, shape % 2);
        assert_int_equal(hr__gemm_create(&spec, 2, &user, &made[n++], &err), HR_OK);
        hr__gemm_set_add(&set, &spec, 2);
        hr__gemm_set_add(&set, &spec, 2); /* equal ones are one */
      }
  size_t compiled = hr__dnn_compiled(), counted = hr__gemm_set_shapes(&set);
  if (compiled > counted) fail_msg("%zu shapes are compiled, %zu are counted", compiled, counted);
  if (end_type == 1 && hr__gemm_is_compiled()) assert_int_equal(compiled, counted);
  assert_int_equal(hr__gemm_set_workers(&set), 2 * counted);
  while (n > 0)
    hr__gemm_destroy(made[--n]);
  assert_int_equal(hr__dnn_compiled(), 0);
  hr__arena_fini(&arena);
}

static void test_what_is_compiled_is_counted_before(void **state) {
  (void)state;
  compiled_compare(0, 1);
  compiled_compare(0, TYPES);
}

/* With less scratch than its first choice wants, the library takes another way: in f32 always, with the same product up
 * to rounding; in bf16 it may refuse. A product made with more scratch is not taken for one that has less. */
static void test_little_scratch(void **state) {
  (void)state;
  enum { M = 100, N = 96, K = 70 };
  hr_error err = {0};
  static float a[M * K], b[N * K], c[2][M * N];
  for (int i = 0; i < M * K; i++)
    a[i] = (float)(i % 13) - 6.0f;
  for (int i = 0; i < N * K; i++)
    b[i] = (float)(i % 7) - 3.0f;
  for (int accumulate = 0; accumulate < 2; accumulate++) {
    hr_gemm_spec spec = gemm_spec_make(M, N, K, 2, accumulate, HR_F32, HR_F32, HR_F32, 0);
    hr_dnn_product *products[2];
    for (int little = 0; little < 2; little++) {
      assert_int_equal(hr__dnn_create(&spec, little ? 0 : MANY, 1, &spec, &products[little], &err), HR_OK);
      size_t bytes = hr__dnn_scratch_bytes(products[little]);
      assert_true(bytes <= (little ? 0 : MANY));
      void *scratch = aligned_alloc(64, bytes / 64 * 64 + 64);
      for (int i = 0; i < M * N; i++)
        c[little][i] = 1.0f;
      assert_int_equal(hr__dnn_run(products[little], 0, a, b, c[little], scratch), HR_OK);
      free(scratch);
    }
    hr__dnn_destroy(products[0]), hr__dnn_destroy(products[1]);
    for (int i = 0; i < M * N; i++)
      assert_true(c[0][i] == c[1][i]); /* integers: exact in any order */
  }
  hr_gemm_spec narrow = gemm_spec_make(M, N, K, 2, false, HR_BF16, HR_BF16, HR_F32, 0);
  hr_dnn_product *product = NULL;
  hr_status status = hr__dnn_create(&narrow, 0, 1, NULL, &product, &err);
  assert_true(status == HR_OK ? hr__dnn_scratch_bytes(product) == 0 : status == HR_UNSUPPORTED && !product);
  hr__dnn_destroy(product);
}

/* Fails every request from number `left` on. */
static void *failing_realloc(void *user, void *old, size_t size) {
  int *left = user;
  if (size == 0) {
    free(old);
    return NULL;
  }
  return (*left)-- > 0 ? realloc(old, size) : NULL;
}

static void test_out_of_memory(void **state) {
  (void)state;
  hr_gemm_spec spec = gemm_spec_make(300, 300, 1100, 1, false, HR_F32, HR_F32, HR_F32, 3);
  hr_status status = HR_NOMEM;
  int attempts = 0;
  for (; status == HR_NOMEM && attempts < 100; attempts++) {
    int left = attempts;
    hr_error err = {0};
    hr_gemm *gemm = NULL;
    hr_allocator_set(&(hr_allocator){failing_realloc, &left});
    status = hr__gemm_create(&spec, 2, NULL, &gemm, &err);
    hr__gemm_destroy(gemm);
    hr_allocator_set(NULL);
  }
  assert_int_equal(status, HR_OK);
  assert_true(attempts > (hr__dnn_vector_bytes() < 64 ? 1 : 3)); /* without library objects there is one request */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_threads_change_no_bit),
      cmocka_unit_test(test_rows_alone_have_the_same_bits),
      cmocka_unit_test(test_workspace_caps),
      cmocka_unit_test(test_no_elements),
      cmocka_unit_test(test_out_of_memory),
      cmocka_unit_test(test_equal_products_of_two_runs_do_not_meet),
      cmocka_unit_test(test_equal_products_of_one_user_are_one),
      cmocka_unit_test(test_little_scratch),
      cmocka_unit_test(test_what_is_compiled_is_counted_before),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
