/* Lack of memory in base: every request of every function that allocates fails in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/threads.h"
#include "support/faults.h"

static hr_status arena_body(void *arg, hr_error *err) {
  (void)arg;
  hr_arena arena = {0};
  int *items = NULL;
  size_t capacity = 0;
  bool ok = hr__arena_text(&arena, "text") && hr__arena_format(&arena, "%d", 5) && hr__arena_array(&arena, 10000, 8);
  for (size_t i = 0; i < 5000 && ok; i++) {
    ok = hr__arena_grow(&arena, (void **)&items, &capacity, i, sizeof *items) == 0;
    if (ok) items[i] = (int)i;
  }
  hr__arena_fini(&arena);
  return ok ? HR_OK : hr__nomem(err);
}

static hr_status hash_body(void *arg, hr_error *err) {
  hr_hash *hash;
  char hex[HR_SHA256_HEX];
  HR_TRY(hr__hash_create(*(hr_hash_kind *)arg, &hash, err));
  hr_status status = hr__hash_update(hash, "abc", 3, err);
  if (status == HR_OK) status = hr__hash_hex(hash, hex, err);
  hr__hash_destroy(hash);
  return status;
}

static hr_status pool_body(void *arg, hr_error *err) {
  (void)arg;
  hr_pool *pool;
  HR_TRY(hr__pool_create(3, &pool, err));
  hr__pool_destroy(pool);
  return HR_OK;
}

static hr_status zero_body(void *arg, hr_error *err) {
  (void)arg;
  void *memory = hr__alloc_zero(3, 5);
  if (!memory) return hr__nomem(err);
  void *grown = hr__realloc(memory, 500);
  hr__free(grown ? grown : memory);
  return grown ? HR_OK : hr__nomem(err);
}

static void each_request(void **state) {
  (void)state;
  hr_hash_kind sha = HR_HASH_SHA256, xxh = HR_HASH_XXH128;
  assert_true(hr_test_each_fault(arena_body, NULL) >= 10);
  assert_int_equal(hr_test_each_fault(hash_body, &sha), 2);
  assert_int_equal(hr_test_each_fault(hash_body, &xxh), 2);
  assert_int_equal(hr_test_each_fault(pool_body, NULL), 6);
  assert_int_equal(hr_test_each_fault(zero_body, NULL), 4);
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_request)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
