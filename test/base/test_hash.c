/* Hashes: published answers, and streaming equal to one piece. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/hash.h"

static void hex_of(hr_hash_kind kind, const void *data, size_t bytes, size_t piece, char out[HR_SHA256_HEX]) {
  hr_hash *hash = NULL;
  hr_error err;
  assert_int_equal(hr__hash_create(kind, &hash, &err), HR_OK);
  for (size_t at = 0; at < bytes; at += piece)
    assert_int_equal(hr__hash_update(hash, (const char *)data + at, bytes - at < piece ? bytes - at : piece, &err),
                     HR_OK);
  assert_int_equal(hr__hash_hex(hash, out, &err), HR_OK);
  hr__hash_destroy(hash);
}

/* FIPS 180-4 examples. */
static void sha256_known_answers(void **state) {
  (void)state;
  char hex[HR_SHA256_HEX];
  hex_of(HR_HASH_SHA256, "", 0, 1, hex);
  assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  hex_of(HR_HASH_SHA256, "abc", 3, 3, hex);
  assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const char *two_blocks = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  hex_of(HR_HASH_SHA256, two_blocks, strlen(two_blocks), 5, hex);
  assert_string_equal(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void xxh128_known_answers(void **state) {
  (void)state;
  char hex[HR_SHA256_HEX];
  hr__xxh128_hex("", 0, hex);
  assert_string_equal(hex, "99aa06d3014798d86001c324468d497f");
  hr__xxh128_hex("abc", 3, hex);
  assert_string_equal(hex, "06b05ab6733a618578af5f94892f3950");
}

static void pieces_do_not_matter(void **state) {
  (void)state;
  static unsigned char data[5000];
  for (size_t i = 0; i < sizeof data; i++)
    data[i] = (unsigned char)(i * 131 >> 3);
  char whole[HR_SHA256_HEX], hex[HR_SHA256_HEX];
  hr__xxh128_hex(data, sizeof data, whole);
  for (int kind = HR_HASH_XXH128; kind <= HR_HASH_SHA256; kind++) {
    if (kind == HR_HASH_SHA256) hex_of(HR_HASH_SHA256, data, sizeof data, sizeof data, whole);
    for (size_t piece = 1; piece < sizeof data; piece = piece * 3 + 1) {
      hex_of((hr_hash_kind)kind, data, sizeof data, piece, hex);
      assert_string_equal(hex, whole);
    }
    data[77] ^= 1;
    hex_of((hr_hash_kind)kind, data, sizeof data, 100, hex);
    assert_string_not_equal(hex, whole);
    data[77] ^= 1;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sha256_known_answers),
      cmocka_unit_test(xxh128_known_answers),
      cmocka_unit_test(pieces_do_not_matter),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
