/* Columns and names of a page: whatever is put in comes out again, and what repeats takes little room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "format/base64.h"
#include "format/json.h"
#include "report/names.h"

enum { MOST = 20000 };

typedef struct reading {
  unsigned char bytes[16 * MOST];
  size_t count, at;
} reading;

static uint64_t number_get(reading *r) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    unsigned char byte = r->bytes[r->at++];
    value |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return value;
  }
}

/* The numbers of a column, as columns.h describes it. */
static size_t unpack(const json_t *text, uint64_t *out) {
  static reading r;
  size_t n = 0;
  r.at = 0;
  assert_int_equal(hr__base64_read(json_string_value(text), json_string_length(text), (char *)r.bytes, &r.count, NULL),
                   HR_OK);
  while (r.at < r.count) {
    for (uint64_t literals = number_get(&r); literals > 0; literals--)
      out[n++] = number_get(&r);
    if (r.at >= r.count) break;
    uint64_t length = number_get(&r), back = number_get(&r);
    assert_true(back > 0 && back <= n);
    for (; length > 0; length--, n++)
      out[n] = out[n - back];
  }
  return n;
}

static uint64_t state;
static uint64_t random_next(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state >> 33;
}

static size_t column_check(const uint64_t *numbers, size_t count) {
  static uint64_t back[MOST];
  hr_column c = {0};
  for (size_t i = 0; i < count; i++)
    hr__column_add(&c, numbers[i]);
  json_t *text = hr__column_end(&c);
  assert_non_null(text);
  assert_int_equal(unpack(text, back), count);
  if (count > 0) assert_memory_equal(back, numbers, count * sizeof *numbers);
  size_t bytes = json_string_length(text);
  json_decref(text);
  return bytes;
}

static void columns_come_back(void **unused) {
  (void)unused;
  static uint64_t numbers[MOST];
  for (size_t count = 0; count < 40; count++) {
    for (size_t i = 0; i < count; i++)
      numbers[i] = random_next() % 3;
    column_check(numbers, count);
  }
  for (size_t i = 0; i < MOST; i++)
    numbers[i] = random_next() << (random_next() % 33);
  numbers[7] = UINT64_MAX;
  column_check(numbers, MOST);
  for (size_t i = 0; i < MOST; i++)
    numbers[i] = i % 97 == 5 ? random_next() : (i % 97) * (i % 97);
  assert_true(column_check(numbers, MOST) < 8000); /* alike but for one number in 97 */
  for (size_t i = 0; i < MOST; i++)
    numbers[i] = 12345678901234;
  assert_true(column_check(numbers, MOST) < 40);
}

static void signed_numbers_are_folded(void **unused) {
  (void)unused;
  static const int64_t given[] = {0, -1, 1, -2, INT64_MAX, INT64_MIN};
  static const uint64_t folded[] = {0, 1, 2, 3, UINT64_MAX - 1, UINT64_MAX};
  uint64_t back[6];
  hr_column c = {0}, next = {0};
  for (size_t i = 0; i < 6; i++)
    hr__column_add_signed(&c, given[i]);
  json_t *text = hr__column_end(&c);
  assert_int_equal(unpack(text, back), 6);
  assert_memory_equal(back, folded, sizeof folded);
  json_decref(text);
  for (uint64_t i = 0; i < 6; i++)
    hr__column_add_next(&next, 100 - 7 * i);
  text = hr__column_end(&next);
  assert_int_equal(unpack(text, back), 6);
  assert_int_equal(back[0], 200);
  assert_int_equal(back[5], 13);
  json_decref(text);
}

/* Names out of patterns and numbers. */
static void name_read(const json_t *patterns, uint64_t pattern, const uint64_t *folded, size_t *at, int64_t *before,
                      char *out) {
  const json_t *pieces = json_array_get(patterns, (size_t)pattern);
  strcpy(out, json_string_value(json_array_get(pieces, 0)));
  for (size_t k = 1; k < json_array_size(pieces); k++) {
    uint64_t f = folded[(*at)++];
    before[k - 1] += f % 2 ? -(int64_t)(f / 2) - 1 : (int64_t)(f / 2);
    sprintf(out + strlen(out), "%lld%s", (long long)before[k - 1], json_string_value(json_array_get(pieces, k)));
  }
}

static void names_come_back(void **unused) {
  (void)unused;
  static const char *const given[] = {"model.layers.0.mlp",
                                      "model.layers.11.mlp",
                                      "",
                                      "7",
                                      "007 and 12345678901234567890",
                                      "a\1b3",
                                      "1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.17.18",
                                      "</script>9",
                                      "model.layers.3.mlp"};
  static const char *const shown[] = {"model.layers.0.mlp",
                                      "model.layers.11.mlp",
                                      "",
                                      "7",
                                      "007 and 12345678901234567890",
                                      "a\\x01b3",
                                      "1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.17.18",
                                      "</script>9",
                                      "model.layers.3.mlp"};
  enum { COUNT = sizeof given / sizeof *given };
  hr_names names;
  hr_name_column column = {0};
  hr__names_init(&names);
  for (size_t i = 0; i < COUNT; i++)
    assert_int_equal(hr__names_add(&names, given[i], &column, NULL), HR_OK);
  assert_true(names.count < COUNT); /* layers share a pattern */
  json_t *pair = hr__name_column_end(&column), *patterns = hr__names_json(&names);
  uint64_t which[COUNT], numbers[64];
  assert_int_equal(unpack(json_array_get(pair, 0), which), COUNT);
  unpack(json_array_get(pair, 1), numbers);
  int64_t before[HR_NAME_HOLES] = {0};
  size_t at = 0;
  for (size_t i = 0; i < COUNT; i++) {
    char text[256];
    name_read(patterns, which[i], numbers, &at, before, text);
    assert_string_equal(text, shown[i]);
  }
  json_decref(pair);
  json_decref(patterns);
  hr__names_fini(&names);
}

int main(void) {
  hr__json_init();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(columns_come_back),
      cmocka_unit_test(signed_numbers_are_folded),
      cmocka_unit_test(names_come_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
