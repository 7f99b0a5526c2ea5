/* Allocator, arena, checked arithmetic, sorting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/sort.h"
#include "support/faults.h"

static void allocator_counts(void **state) {
  (void)state;
  uint64_t before = hr__alloc_count();
  char *memory = hr__alloc(0);
  assert_non_null(memory);
  memory = hr__realloc(memory, 100);
  assert_non_null(memory);
  memset(memory, 7, 100);
  hr__free(memory);
  hr__free(NULL);
  assert_int_equal(hr__alloc_count() - before, 2);
  unsigned char *zero = hr__alloc_zero(10, 10);
  for (int i = 0; i < 100; i++)
    assert_int_equal(zero[i], 0);
  hr__free(zero);
  assert_null(hr__alloc_zero(SIZE_MAX / 2, 3));
  assert_int_equal(hr_test_live_bytes(), 0);
}

static void arena_blocks(void **state) {
  (void)state;
  hr_arena arena = {0};
  hr_random_key key = {.seed = 1};
  enum { BLOCKS = 3000 };
  static unsigned char *blocks[BLOCKS];
  static size_t sizes[BLOCKS];
  size_t total = 0;
  for (size_t i = 0; i < BLOCKS; i++) {
    sizes[i] = (size_t)hr__random_below(key, 0, i, i % 100 == 99 ? 100000 : 300);
    blocks[i] = hr__arena_alloc(&arena, sizes[i]);
    assert_non_null(blocks[i]);
    assert_int_equal((uintptr_t)blocks[i] % 16, 0);
    for (size_t k = 0; k < sizes[i]; k++)
      assert_int_equal(blocks[i][k], 0);
    memset(blocks[i], (int)(i % 251) + 1, sizes[i]);
    total += sizes[i];
  }
  for (size_t i = 0; i < BLOCKS; i++) /* nobody wrote into a neighbour */
    for (size_t k = 0; k < sizes[i]; k++)
      assert_int_equal(blocks[i][k], (int)(i % 251) + 1);
  assert_int_equal(arena.used_bytes, total);
  assert_true(hr_test_live_bytes() < 3 * total + (1 << 20)); /* oversized blocks do not waste whole chunks */
  hr__arena_fini(&arena);
  assert_int_equal(hr_test_live_bytes(), 0);
  assert_null(arena.chunk);
}

static void arena_text(void **state) {
  (void)state;
  hr_arena arena;
  hr__arena_init(&arena);
  assert_string_equal(hr__arena_text(&arena, "words"), "words");
  assert_string_equal(hr__arena_format(&arena, "%s %d", "layer", 7), "layer 7");
  char *long_text = hr__arena_format(&arena, "%0*d", 10000, 5);
  assert_int_equal(strlen(long_text), 10000);
  assert_null(hr__arena_array(&arena, SIZE_MAX / 4, 8));
  assert_null(hr__arena_alloc(&arena, SIZE_MAX - 4));
  hr__arena_fini(&arena);
  hr__arena_fini(&arena); /* twice is harmless */
}

static void arena_growth(void **state) {
  (void)state;
  hr_arena arena = {0};
  int *items = NULL;
  size_t capacity = 0;
  for (int i = 0; i < 10000; i++) {
    assert_int_equal(hr__arena_grow(&arena, (void **)&items, &capacity, (size_t)i, sizeof *items), 0);
    items[i] = i;
  }
  for (int i = 0; i < 10000; i++)
    assert_int_equal(items[i], i);
  hr__arena_fini(&arena);
}

static void checked_arithmetic(void **state) {
  (void)state;
  size_t size;
  int64_t number;
  assert_true(hr__mul_size(1 << 20, 1 << 20, &size) && size == (size_t)1 << 40);
  assert_false(hr__mul_size((size_t)1 << 40, (size_t)1 << 24, &size));
  assert_false(hr__add_size(SIZE_MAX, 1, &size));
  assert_true(hr__mul_i64(-3, 5, &number) && number == -15);
  assert_false(hr__mul_i64(INT64_MAX, 2, &number));
  assert_false(hr__add_i64(INT64_MAX, 1, &number));
  assert_true(hr__round_up(65, 64, &size) && size == 128);
  assert_true(hr__round_up(0, 64, &size) && size == 0);
  assert_false(hr__round_up(SIZE_MAX - 3, 64, &size));
}

typedef struct pair {
  int key, order;
} pair;

static int pair_order(const void *a, const void *b) {
  return ((const pair *)a)->key - ((const pair *)b)->key;
}

static void sort_is_stable(void **state) {
  (void)state;
  enum { MOST = 700 };
  static pair pairs[MOST];
  static const void *items[MOST], *scratch[MOST];
  hr_random_key key = {.seed = 9};
  for (size_t count = 0; count <= MOST; count += count < 40 ? 1 : 33) {
    for (size_t i = 0; i < count; i++) {
      pairs[i] = (pair){(int)hr__random_below(key, count, i, 20), (int)i};
      items[i] = &pairs[i];
    }
    hr__sort(items, count, scratch, pair_order);
    for (size_t i = 1; i < count; i++) {
      const pair *a = items[i - 1], *b = items[i];
      assert_true(a->key < b->key || (a->key == b->key && a->order < b->order));
    }
  }
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(allocator_counts), cmocka_unit_test(arena_blocks),       cmocka_unit_test(arena_text),
      cmocka_unit_test(arena_growth),     cmocka_unit_test(checked_arithmetic), cmocka_unit_test(sort_is_stable),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
