/* Parts of tokenizers one by one: merging against a plain rule, tries against a search, added tokens, normal forms,
 * characters, the alphabet of bytes, mending of UTF-8, encoders of several threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "text/added.h"
#include "text/alphabet.h"
#include "text/charsmap.h"
#include "text/decode.h"
#include "text/merge.h"
#include "text/normalize.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

static uint32_t seed = 1;
static uint32_t draw(uint32_t below) {
  seed = seed * 1664525 + 1013904223;
  return (seed >> 8) % below;
}

/* The rule itself: again and again the pair of the lowest rank, the leftmost of equal ones. */
static size_t merge_plainly(const hr_pairs *pairs, int32_t *ids, size_t count) {
  for (;;) {
    size_t best = count;
    int32_t lowest = HR_NO_RANK;
    for (size_t i = 0; i + 1 < count; i++)
      if (hr__pairs_find(pairs, ids[i], ids[i + 1])->rank < lowest) {
        lowest = hr__pairs_find(pairs, ids[i], ids[i + 1])->rank;
        best = i;
      }
    if (best == count) return count;
    ids[best] = hr__pairs_find(pairs, ids[best], ids[best + 1])->joined;
    memmove(ids + best + 1, ids + best + 2, (count - best - 2) * sizeof *ids);
    count--;
  }
}

static void merging(void **state) {
  (void)state;
  hr_error err = {0};
  hr_string work = {0};
  for (int round = 0; round < 60; round++) {
    hr_arena arena = {0};
    hr_pairs pairs;
    assert_int_equal(hr__pairs_init(&pairs, 200, &arena, &err), HR_OK);
    for (int p = 0; p < 200; p++) /* some share a rank, as equal scores do */
      hr__pairs_add(&pairs, (int32_t)draw(20), (int32_t)draw(20), round % 2 ? p : (int32_t)draw(12), (int32_t)draw(20));
    for (int text = 0; text < 40; text++) {
      int32_t plain[300], fast[300];
      size_t count = 1 + draw(round < 30 ? 64 : 300), left = count;
      for (size_t i = 0; i < count; i++)
        plain[i] = fast[i] = (int32_t)draw(20);
      assert_int_equal(hr__merge(&pairs, fast, &left, &work, &err), HR_OK);
      assert_int_equal(left, merge_plainly(&pairs, plain, count));
      assert_memory_equal(plain, fast, left * sizeof *fast);
    }
    hr__arena_fini(&arena);
  }
  hr__string_fini(&work);
}

static void tries(void **state) {
  (void)state;
  hr_error err = {0};
  for (int round = 0; round < 100; round++) {
    hr_arena arena = {0};
    hr_trie trie;
    static char texts[50][8];
    hr_trie_key keys[50], sorted[50];
    for (int k = 0; k < 50; k++) {
      uint32_t bytes = 1 + draw(6);
      for (uint32_t i = 0; i < bytes; i++)
        texts[k][i] = (char)(draw(3) + (draw(9) ? 'a' : 0xf0));
      keys[k] = sorted[k] = (hr_trie_key){texts[k], bytes, k};
    }
    assert_int_equal(hr__trie_build(&trie, sorted, 50, &arena, &err), HR_OK);
    for (int text = 0; text < 50; text++) {
      char at[12];
      for (size_t i = 0; i < sizeof at; i++)
        at[i] = (char)(draw(3) + (draw(9) ? 'a' : 0xf0));
      size_t length = 0, longest = 0;
      int32_t found = hr__trie_longest(&trie, at, sizeof at, &length), expected = -1;
      for (int k = 49; k >= 0; k--) /* of equal keys the first */
        if (keys[k].bytes >= longest && memcmp(keys[k].text, at, keys[k].bytes) == 0) {
          longest = keys[k].bytes;
          expected = k;
        }
      assert_int_equal(found, expected);
      if (found >= 0) assert_int_equal(length, longest);
    }
    hr__arena_fini(&arena);
  }
}

static void normal_is(bool compose, bool compat, const char *text, const char *expected) {
  hr_error err = {0};
  hr_string out = {0};
  assert_int_equal(hr__normal_form(text, strlen(text), compose, compat, &out, &err), HR_OK);
  if (out.count != strlen(expected) || memcmp(out.data, expected, out.count) != 0)
    fail_msg("'%s' became '%.*s'", text, (int)out.count, out.data);
  hr__string_fini(&out);
}

static void normal_forms(void **state) {
  (void)state;
  normal_is(true, false, "e\xcc\x81", "\xc3\xa9");
  normal_is(false, false, "\xc3\xa9", "e\xcc\x81");
  normal_is(true, true, "\xef\xac\x81 \xe2\x91\xa0", "fi 1");
  normal_is(false, true, "\xef\xac\x81\xc3\xa9", "fie\xcc\x81");
  normal_is(true, false, "\xea\xb0\x81", "\xea\xb0\x81");
  normal_is(false, false, "\xea\xb0\x81", "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8"); /* Hangul */
  /* Marks are put in order, and join the letter before plain text as well. */
  normal_is(true, false, "abca\xcc\xa7\xcc\x81", "abc\xc3\xa1\xcc\xa7");
  /* What came after Unicode 9 stays: U+11935 U+11930 do not join, U+1E030 is no letter of another alphabet. */
  normal_is(true, false, "\xf0\x91\xa4\xb5\xf0\x91\xa4\xb0", "\xf0\x91\xa4\xb5\xf0\x91\xa4\xb0");
  normal_is(true, true, "\xf0\x9e\x80\xb0", "\xf0\x9e\x80\xb0");
}

static void characters(void **state) {
  (void)state;
  assert_true(hr__is(0x1e030, HR_LETTERS) && hr__is(0x31350, HR_LETTERS) && hr__is(0x10d50, HR_IN(HR_LU)));
  assert_true(hr__is_space(0x85) && hr__is_space(0x3000) && !hr__is_space(0x180e) && !hr__is_space(0x200b));
  assert_true(hr__is_word('_') && hr__is_word(0x200d) && hr__is_word(0x24b6) && !hr__is_word(0xbd) &&
              !hr__is_word('-'));
  assert_true(hr__was(0x1734, HR_IN(HR_MN), 8) && !hr__is(0x1734, HR_IN(HR_MN)) && !hr__was(0x890, HR_IN(HR_CF), 8));
  uint32_t lower[2];
  assert_int_equal(hr__lower(0x130, lower), 2);
  assert_true(lower[0] == 'i' && lower[1] == 0x307);
  assert_true(hr__lower(0x3a3, lower) == 1 && lower[0] == 0x3c3);
  assert_true(hr__lower(0xa7dc, lower) == 1 && lower[0] == 0x19b);
  for (int byte = 0; byte < 256; byte++)
    assert_int_equal(hr__alphabet_byte(hr__alphabet_char((unsigned char)byte)), byte);
  assert_int_equal(hr__alphabet_char(' '), 0x120);
  assert_int_equal(hr__alphabet_char(0), 0x100);
  assert_int_equal(hr__alphabet_byte(0x20), -1);
  assert_int_equal(hr__alphabet_byte(0x144), -1);
  for (uint32_t c = 0; c < 0x110000; c += c < 0x3000 ? 1 : 61) {
    char text[5] = {0};
    size_t length, bytes = hr__utf8_put(c, text);
    if (c >= 0xd800 && c < 0xe000) continue;
    assert_true(hr__utf8_get(text, &length) == c && length == bytes &&
                hr__utf8_length((unsigned char)text[0]) == bytes);
    assert_true(hr__utf8_before(text + bytes, &length) == c && length == bytes);
  }
}

static void mended(void **state) {
  (void)state;
  static const char *const pairs[][2] = {{"abc", "abc"},
                                         {"a\xff", "a\xef\xbf\xbd"},
                                         {"\xe2\x82", "\xef\xbf\xbd"},
                                         {"\xe2\x82z", "\xef\xbf\xbdz"},
                                         {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
                                         {"\xf0\x9f\x91x", "\xef\xbf\xbdx"},
                                         {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    hr_error err = {0};
    hr_string out = {0};
    assert_int_equal(hr__utf8_mend(pairs[i][0], strlen(pairs[i][0]), &out, &err), HR_OK);
    assert_int_equal(out.count, strlen(pairs[i][1]));
    assert_memory_equal(out.data, pairs[i][1], out.count);
    hr__string_fini(&out);
  }
}

static void charsmaps(void **state) {
  (void)state;
  hr_error err = {0};
  hr_arena arena = {0};
  hr_charsmap map;
  static const unsigned char bad[][8] = {{0}, {3, 0, 0, 0, 1, 2, 3, 4}, {255, 255, 255, 255}, {8, 0, 0, 0, 1, 2, 3, 4}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_int_equal(hr__charsmap_read(bad[i], 8, &arena, &map, &err), HR_BAD_INPUT);
  /* Any units are searched without leaving the table. */
  for (int round = 0; round < 2000; round++) {
    unsigned char data[4 + 64 + 8] = {64};
    for (size_t i = 4; i < sizeof data; i++)
      data[i] = (unsigned char)draw(256);
    assert_int_equal(hr__charsmap_read(data, sizeof data, &arena, &map, &err), HR_OK);
    size_t length = 0;
    const char *found = hr__charsmap_find(&map, "ab\xc3\xa9", 4, round % 2, &length);
    assert_true(!found || (length >= 1 && length <= 4 && strlen(found) <= 8));
  }
  hr__arena_fini(&arena);
}

static void *encode_all(void *arg) {
  hr_encoder *encoder = NULL;
  hr_error err = {0};
  hr_ids *ids = hr__alloc_zero(1, sizeof *ids);
  if (!ids || hr__encoder_create(arg, &encoder, &err) != HR_OK) return NULL;
  static const char text[] = "The cats sat on the mat; it's 12345 of them. caf\xc3\xa9 \xe4\xbd\xa0\xe5\xa5\xbd";
  for (int i = 0; i < 300; i++) {
    ids->count = 0;
    if (hr__encode(encoder, text, sizeof text - 1, true, ids, &err) != HR_OK) return NULL;
  }
  hr__encoder_destroy(encoder);
  return ids;
}

/* One tokenizer, an encoder for each thread: the same ids. */
static void threads(void **state) {
  (void)state;
  hr_tokenizer *t = NULL;
  hr_error err = {0};
  assert_int_equal(hr__tokenizer_open(HR_SOURCE_DIR "/test/text/tokenizers/deepseek", &t, &err), HR_OK);
  pthread_t started[4];
  hr_ids *ids[4];
  for (int i = 0; i < 4; i++)
    assert_int_equal(pthread_create(&started[i], NULL, encode_all, t), 0);
  for (int i = 0; i < 4; i++) {
    void *result;
    pthread_join(started[i], &result);
    assert_non_null(result);
    ids[i] = result;
    assert_true(ids[i]->count > 10 && ids[i]->count == ids[0]->count);
    assert_memory_equal(ids[i]->items, ids[0]->items, ids[0]->count * sizeof *ids[0]->items);
  }
  for (int i = 0; i < 4; i++) {
    hr__ids_fini(ids[i]);
    hr__free(ids[i]);
  }
  hr__tokenizer_close(t);
}

/* A million letters in one word take a moment, not hours. */
static void long_words(void **state) {
  (void)state;
  static const char *const names[] = {"byte-level", "fallback", "unigram", "spm-bpe", "wordpiece", "deepseek"};
  enum { LONG = 1000000 };
  char *text = hr__alloc(LONG);
  assert_non_null(text);
  for (int i = 0; i < LONG; i++)
    text[i] = "thecatsat"[draw(9)];
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char path[512];
    hr_tokenizer *t = NULL;
    hr_encoder *encoder = NULL;
    hr_error err = {0};
    hr_ids ids = {0};
    snprintf(path, sizeof path, HR_SOURCE_DIR "/test/text/tokenizers/%s", names[i]);
    assert_int_equal(hr__tokenizer_open(path, &t, &err), HR_OK);
    assert_int_equal(hr__encoder_create(t, &encoder, &err), HR_OK);
    assert_int_equal(hr__encode(encoder, text, LONG, false, &ids, &err), HR_OK);
    assert_true(ids.count > 0);
    hr__ids_fini(&ids);
    hr__encoder_destroy(encoder);
    hr__tokenizer_close(t);
  }
  hr__free(text);
}

static int setup(void **state) {
  (void)state;
  hr__unicode_init();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(merging),      cmocka_unit_test(tries),
                                     cmocka_unit_test(normal_forms), cmocka_unit_test(characters),
                                     cmocka_unit_test(mended),       cmocka_unit_test(charsmaps),
                                     cmocka_unit_test(threads),      cmocka_unit_test(long_words)};
  return cmocka_run_group_tests(tests, setup, NULL);
}
