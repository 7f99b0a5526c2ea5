/* One safetensors file: what is right is read exactly, what is wrong is refused for the right reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/part_folder.h"
#include "format/safetensors.h"
#include "support/faults.h"

/* A file to be: header text, number of data bytes behind it, and what is done to the whole. */
typedef struct sample {
  const char *name;
  const char *header;   /* the 8 length bytes are put in front */
  size_t data;          /* zero bytes behind it */
  const char *expected; /* fragment of the message; NULL: must be accepted */
  size_t header_bytes;  /* when the header holds NUL; 0: strlen */
  uint64_t length;      /* the length to announce; 0: the true one */
  size_t cut;           /* drop this many bytes from the end of the file */
} sample;

#define T(dtype, shape, offsets) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static const sample samples[] = {
    /* Right. */
    {"no tensors", "{}", 0, NULL, 0, 0, 0},
    {"one tensor", "{\"a\":" T("F32", "[2,3]", "[0,24]") "}", 24, NULL, 0, 0, 0},
    {"scalar", "{\"a\":" T("F32", "[]", "[0,4]") "}", 4, NULL, 0, 0, 0},
    {"empty tensor", "{\"a\":" T("F32", "[0,7]", "[0,0]") "}", 0, NULL, 0, 0, 0},
    {"empty shares offset", "{\"z\":" T("U8", "[2]", "[0,2]") ",\"e\":" T("U8", "[0]", "[0,0]") "}", 2, NULL, 0, 0, 0},
    {"order differs from offsets", "{\"a\":" T("U8", "[1]", "[2,3]") ",\"b\":" T("U8", "[2]", "[0,2]") "}", 3, NULL, 0,
     0, 0},
    {"padding", "{\"a\":" T("U8", "[1]", "[0,1]") "}       ", 1, NULL, 0, 0, 0},
    {"metadata", "{\"__metadata__\":{\"format\":\"pt\"},\"a\":" T("BF16", "[2]", "[0,4]") "}", 4, NULL, 0, 0, 0},
    {"name in UTF-8", "{\"gew\xc3\xb6lbe\":" T("U8", "[1]", "[0,1]") "}", 1, NULL, 0, 0, 0},
    {"name escaped", "{\"\\u00e4\\n\":" T("U8", "[1]", "[0,1]") "}", 1, NULL, 0, 0, 0},
    {"half-byte type", "{\"a\":" T("F4", "[2,3]", "[0,3]") "}", 3, NULL, 0, 0, 0},
    {"unknown field", "{\"a\":{\"x\":1,\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, NULL, 0, 0, 0},
    {"rank 8", "{\"a\":" T("U8", "[1,1,1,1,1,1,1,1]", "[0,1]") "}", 1, NULL, 0, 0, 0},
    /* Length of the header. */
    {"header longer than file", "{}", 0, "only 2 follow", 0, 3, 0},
    {"header far longer", "{}", 0, "only 2 follow", 0, 99999999, 0},
    {"header over the cap", "{}", 0, "at most 100000000", 0, 100000001, 0},
    {"header of 2^63", "{}", 0, "at most 100000000", 0, (uint64_t)1 << 63, 0},
    {"header of 2^64 - 1", "{}", 0, "at most 100000000", 0, UINT64_MAX, 0},
    {"header of 2^64 - 8", "{}", 0, "at most 100000000", 0, UINT64_MAX - 7, 0},
    {"header cut short", "{\"a\":" T("U8", "[1]", "[0,1]") "}", 0, "not valid JSON", 0, 20, 0},
    {"header of one byte", "{}", 0, "header is empty", 0, 1, 0},
    {"announces too little", "{\"a\":" T("U8", "[1]", "[0,1]") "}", 1, "not valid JSON", 0, 2 + 3, 0},
    {"no bytes at all", "", 0, "too short", 0, 0, 8},
    {"seven bytes", "", 0, "too short", 0, 0, 1},
    {"only a length of zero", "", 0, "header is empty", 0, 0, 0},
    /* The header as text. */
    {"begins with a space", " {}", 0, "does not begin with", 0, 0, 0},
    {"a list", "[]", 0, "does not begin with", 0, 0, 0},
    {"a pickle", "\x80\x02}q", 0, "does not begin with", 0, 0, 0},
    {"byte order mark", "\xef\xbb\xbf{}", 0, "does not begin with", 0, 0, 0},
    {"unclosed", "{\"a\":", 0, "not valid JSON", 0, 0, 0},
    {"text behind", "{}x", 0, "not valid JSON", 0, 0, 0},
    {"two objects", "{}{}", 0, "not valid JSON", 0, 0, 0},
    {"trailing comma", "{\"a\":" T("U8", "[1]", "[0,1]") ",}", 1, "not valid JSON", 0, 0, 0},
    {"single quotes", "{'a':1}", 0, "not valid JSON", 0, 0, 0},
    {"comment", "{/**/}", 0, "not valid JSON", 0, 0, 0},
    {"NUL padding", "{}\0\0\0", 0, "not valid JSON", 5, 0, 0},
    {"NUL in a name", "{\"a\\u0000b\":" T("U8", "[1]", "[0,1]") "}", 1, "not valid JSON", 0, 0, 0},
    {"raw NUL in a name", "{\"a\0b\":1}", 0, "not valid JSON", 9, 0, 0},
    {"raw control byte in a name", "{\"a\x1b[2J\":" T("U8", "[1]", "[0,1]") "}", 1, "not valid JSON", 0, 0, 0},
    {"invalid UTF-8", "{\"\xff\":" T("U8", "[1]", "[0,1]") "}", 1, "not valid UTF-8", 0, 0, 0},
    {"overlong UTF-8", "{\"\xc0\xaf\":" T("U8", "[1]", "[0,1]") "}", 1, "not valid UTF-8", 0, 0, 0},
    {"surrogate in UTF-8", "{\"\xed\xa0\x80\":" T("U8", "[1]", "[0,1]") "}", 1, "not valid UTF-8", 0, 0, 0},
    {"half a surrogate pair", "{\"\\ud800\":" T("U8", "[1]", "[0,1]") "}", 1, "not valid JSON", 0, 0, 0},
    {"UTF-16", "{\0}\0", 0, "not valid JSON", 4, 0, 0},
    {"same name twice", "{\"a\":" T("U8", "[1]", "[0,1]") ",\"a\":" T("U8", "[1]", "[1,2]") "}", 2, "duplicate", 0, 0,
     0},
    {"same name twice, escaped", "{\"a\":" T("U8", "[1]", "[0,1]") ",\"\\u0061\":" T("U8", "[1]", "[1,2]") "}", 2,
     "duplicate", 0, 0, 0},
    {"metadata twice", "{\"__metadata__\":{},\"__metadata__\":{}}", 0, "duplicate", 0, 0, 0},
    {"same field twice", "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
     "duplicate", 0, 0, 0},
    /* Entries. */
    {"entry is a number", "{\"a\":1}", 0, "not an object", 0, 0, 0},
    {"entry is null", "{\"a\":null}", 0, "not an object", 0, 0, 0},
    {"entry is empty", "{\"a\":{}}", 0, "\"dtype\" is missing", 0, 0, 0},
    {"dtype is a number", "{\"a\":{\"dtype\":3,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "\"dtype\" is missing", 0, 0,
     0},
    {"dtype unknown", "{\"a\":" T("F33", "[1]", "[0,1]") "}", 1, "not known", 0, 0, 0},
    {"dtype in small letters", "{\"a\":" T("f32", "[1]", "[0,4]") "}", 4, "not known", 0, 0, 0},
    {"dtype empty", "{\"a\":" T("", "[1]", "[0,1]") "}", 1, "not known", 0, 0, 0},
    {"no shape", "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "\"shape\" is missing", 0, 0, 0},
    {"shape is a number", "{\"a\":" T("U8", "1", "[0,1]") "}", 1, "not a list", 0, 0, 0},
    {"dimension negative", "{\"a\":" T("U8", "[-1]", "[0,1]") "}", 1, "dimension 0", 0, 0, 0},
    {"two dimensions negative", "{\"a\":" T("U8", "[-1,-1]", "[0,1]") "}", 1, "dimension 0", 0, 0, 0},
    {"dimension a fraction", "{\"a\":" T("U8", "[1.0]", "[0,1]") "}", 1, "dimension 0", 0, 0, 0},
    {"dimension a string", "{\"a\":" T("U8", "[1,\"1\"]", "[0,1]") "}", 1, "dimension 1", 0, 0, 0},
    {"dimension true", "{\"a\":" T("U8", "[true]", "[0,1]") "}", 1, "dimension 0", 0, 0, 0},
    {"dimension beyond 64 bits", "{\"a\":" T("U8", "[18446744073709551617]", "[0,1]") "}", 1, "not valid JSON", 0, 0,
     0},
    {"dimension 1e400", "{\"a\":" T("U8", "[1e400]", "[0,1]") "}", 1, "not valid JSON", 0, 0, 0},
    {"rank 9", "{\"a\":" T("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1, "9 dimensions", 0, 0, 0},
    {"product wraps to 4", "{\"a\":" T("U8", "[4194305,4194305,211106198978564]", "[0,4]") "}", 4, "too large", 0, 0,
     0},
    {"product wraps to 0", "{\"a\":" T("U8", "[4294967296,4294967296]", "[0,0]") "}", 0, "too large", 0, 0, 0},
    {"product wraps before a zero", "{\"a\":" T("U8", "[4294967296,4294967296,0]", "[0,0]") "}", 0, "too large", 0, 0,
     0},
    {"bytes wrap", "{\"a\":" T("F64", "[2305843009213693952]", "[0,0]") "}", 0, "too large", 0, 0, 0},
    {"half a byte left over", "{\"a\":" T("F4", "[3]", "[0,2]") "}", 2, "whole bytes", 0, 0, 0},
    {"no offsets", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "data_offsets", 0, 0, 0},
    {"one offset", "{\"a\":" T("U8", "[1]", "[0]") "}", 1, "data_offsets", 0, 0, 0},
    {"three offsets", "{\"a\":" T("U8", "[1]", "[0,1,2]") "}", 1, "data_offsets", 0, 0, 0},
    {"offsets as an object", "{\"a\":" T("U8", "[1]", "{}") "}", 1, "data_offsets", 0, 0, 0},
    {"offset negative", "{\"a\":" T("U8", "[2]", "[-1,1]") "}", 1, "data_offsets", 0, 0, 0},
    {"offset a fraction", "{\"a\":" T("U8", "[1]", "[0,1.0]") "}", 1, "data_offsets", 0, 0, 0},
    {"end before begin", "{\"a\":" T("U8", "[1]", "[1,0]") "}", 1, "before it begins", 0, 0, 0},
    {"end behind the file", "{\"a\":" T("U8", "[2]", "[0,2]") "}", 1, "truncated", 0, 0, 0},
    {"end at 2^63 - 1", "{\"a\":" T("U8", "[9223372036854775807]", "[0,9223372036854775807]") "}", 1, "truncated", 0, 0,
     0},
    {"data cut off", "{\"a\":" T("F32", "[4]", "[0,16]") "}", 16, "truncated", 0, 0, 1},
    {"larger than its shape", "{\"a\":" T("U8", "[1]", "[0,2]") "}", 2, "need 1 bytes", 0, 0, 0},
    {"smaller than its shape", "{\"a\":" T("F32", "[1]", "[0,2]") "}", 2, "need 4 bytes", 0, 0, 0},
    {"empty shape, with bytes", "{\"a\":" T("F32", "[0]", "[0,4]") "}", 4, "need 0 bytes", 0, 0, 0},
    /* Together. */
    {"overlap", "{\"a\":" T("U8", "[3]", "[0,3]") ",\"b\":" T("U8", "[3]", "[2,5]") "}", 5, "overlap", 0, 0, 0},
    {"the same bytes twice", "{\"a\":" T("U8", "[3]", "[0,3]") ",\"b\":" T("U8", "[3]", "[0,3]") "}", 3, "overlap", 0,
     0, 0},
    {"one inside another", "{\"a\":" T("U8", "[9]", "[0,9]") ",\"b\":" T("U8", "[1]", "[4,5]") "}", 9, "overlap", 0, 0,
     0},
    {"hole between", "{\"a\":" T("U8", "[1]", "[0,1]") ",\"b\":" T("U8", "[1]", "[2,3]") "}", 3, "hole", 0, 0, 0},
    {"hole in front", "{\"a\":" T("U8", "[1]", "[1,2]") "}", 2, "hole", 0, 0, 0},
    {"empty tensor in a hole", "{\"a\":" T("U8", "[0]", "[1,1]") "}", 1, "hole", 0, 0, 0},
    {"bytes behind the last", "{\"a\":" T("U8", "[1]", "[0,1]") "}", 2, "holds 2 bytes", 0, 0, 0},
    {"data without tensors", "{}", 1, "holds 1 bytes", 0, 0, 0},
    {"empty tensor behind the data", "{\"a\":" T("U8", "[0]", "[5,5]") "}", 1, "truncated", 0, 0, 0},
    {"metadata a list", "{\"__metadata__\":[]}", 0, "__metadata__", 0, 0, 0},
    {"metadata null", "{\"__metadata__\":null}", 0, "__metadata__", 0, 0, 0},
    {"metadata with a number", "{\"__metadata__\":{\"step\":1}}", 0, "not a string", 0, 0, 0},
    {"metadata nested", "{\"__metadata__\":{\"a\":{\"b\":\"c\"}}}", 0, "not a string", 0, 0, 0},
};
enum { SAMPLES = sizeof samples / sizeof samples[0] };

/* The bytes of a sample; free() them. */
static unsigned char *sample_bytes(const sample *s, size_t *bytes) {
  size_t header = s->header_bytes ? s->header_bytes : strlen(s->header);
  uint64_t length = s->length ? s->length : header;
  unsigned char *file = calloc(8 + header + s->data + 1, 1);
  assert_non_null(file);
  for (int i = 0; i < 8; i++)
    file[i] = (unsigned char)(length >> 8 * i & 0xff);
  memcpy(file + 8, s->header, header);
  *bytes = 8 + header + s->data - s->cut;
  return file;
}

static void verdict_check(const sample *s, const char *way, hr_status status, const hr_error *err) {
  if (!s->expected) {
    if (status != HR_OK) fail_msg("%s (%s): refused: %s", s->name, way, err->message);
    return;
  }
  if (status != HR_BAD_INPUT) fail_msg("%s (%s): %s", s->name, way, hr_status_name(status));
  if (!strstr(err->message, s->expected)) fail_msg("%s (%s): wrong reason: %s", s->name, way, err->message);
  if (!err->place[0]) fail_msg("%s (%s): no place", s->name, way);
  for (const char *at = err->message; *at; at++)
    if ((unsigned char)*at < 0x20) fail_msg("%s (%s): control byte in the message", s->name, way);
}

static void table(void **state) {
  (void)state;
  size_t malformed = 0;
  for (size_t i = 0; i < SAMPLES; i++) {
    size_t bytes;
    unsigned char *file = sample_bytes(&samples[i], &bytes);
    hr_safetensors *open = NULL;
    hr_error err = {0};
    hr_status status = hr__safetensors_parse("memory", file, bytes, bytes, &open, &err);
    verdict_check(&samples[i], "memory", status, &err);
    hr__safetensors_close(open);
    folder_write("sample.safetensors", file, bytes);
    open = NULL;
    status = hr__safetensors_open(folder_path("sample.safetensors"), &open, &err);
    verdict_check(&samples[i], "file", status, &err);
    hr__safetensors_close(open);
    free(file);
    malformed += samples[i].expected != NULL;
  }
  assert_true(malformed >= 45);
  assert_int_equal(hr_test_live_bytes(), 0);
}

/* Limits that need generated headers. `entry` is printed with the tensor's number. */
static hr_status many(size_t count, const char *entry, bool metadata, hr_error *err) {
  size_t capacity = 64 + count * (strlen(entry) + 16), used = 8;
  char *file = malloc(capacity);
  assert_non_null(file);
  used += (size_t)sprintf(file + used, "%s", metadata ? "{\"__metadata__\":{" : "{");
  for (size_t i = 0; i < count; i++)
    used += (size_t)sprintf(file + used, entry, i ? "," : "", i);
  used += (size_t)sprintf(file + used, "%s", metadata ? "}}" : "}");
  for (int i = 0; i < 8; i++)
    file[i] = (char)((used - 8) >> 8 * i & 0xff);
  hr_safetensors *open = NULL;
  hr_status status = hr__safetensors_parse("many", file, used, used, &open, err);
  if (status == HR_OK && !metadata) assert_int_equal(hr__safetensors_count(open), count);
  hr__safetensors_close(open);
  free(file);
  return status;
}

static void limits(void **state) {
  (void)state;
  const char *tensor = "%s\"t%zu\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
  hr_error err = {0};
  assert_int_equal(many(1 << 17, tensor, false, &err), HR_OK);
  assert_int_equal(many((1 << 17) + 2, tensor, false, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "at most 131072"));
  assert_int_equal(many(4096, "%s\"k%zu\":\"v\"", true, &err), HR_OK);
  assert_int_equal(many(4097, "%s\"k%zu\":\"v\"", true, &err), HR_BAD_INPUT);

  char name[1100], header[1300];
  for (size_t length = 1024; length <= 1025; length++) {
    memset(name, 'n', length);
    name[length] = '\0';
    snprintf(header, sizeof header, "{\"%s\":" T("U8", "[0]", "[0,0]") "}", name);
    sample s = {"long name", header, 0, length == 1024 ? NULL : "1025 bytes", 0, 0, 0};
    size_t bytes;
    unsigned char *file = sample_bytes(&s, &bytes);
    hr_safetensors *open = NULL;
    verdict_check(&s, "memory", hr__safetensors_parse("memory", file, bytes, bytes, &open, &err), &err);
    hr__safetensors_close(open);
    free(file);
  }

  /* Deep nesting must neither overflow the stack nor pass. */
  enum { DEEP = 100000 };
  char *deep = calloc(DEEP + 16, 1);
  assert_non_null(deep);
  strcpy(deep, "{\"a\":");
  memset(deep + 5, '[', DEEP);
  sample s = {"deep", deep, 0, "not valid JSON", 0, 0, 0};
  size_t bytes;
  unsigned char *file = sample_bytes(&s, &bytes);
  hr_safetensors *open = NULL;
  verdict_check(&s, "memory", hr__safetensors_parse("memory", file, bytes, bytes, &open, &err), &err);
  free(file);
  free(deep);
}

/* A file that announces gigabytes costs nothing before its header is checked. */
static void claims_cost_nothing(void **state) {
  (void)state;
  const char *header = "{\"a\":" T("F32", "[1099511627776]", "[0,4398046511104]") "}";
  sample s = {"terabytes", header, 0, NULL, 0, 0, 0};
  size_t bytes;
  unsigned char *file = sample_bytes(&s, &bytes);
  hr_safetensors *open = NULL;
  hr_error err;
  assert_int_equal(hr__safetensors_parse("claims", file, bytes, bytes + 4398046511104, &open, &err), HR_OK);
  assert_int_equal(hr__safetensors_at(open, 0)->end, 4398046511104);
  assert_true(hr_test_live_bytes() < 100000);
  char data[4];
  assert_int_equal(hr__safetensors_read(open, hr__safetensors_at(open, 0), 0, data, 4, &err), HR_USAGE);
  hr__safetensors_close(open);
  assert_int_equal(hr__safetensors_parse("cut", file, bytes - 10, bytes + 4398046511104, &open, &err), HR_BAD_INPUT);
  assert_int_equal(hr__safetensors_parse("cut", file, 5, bytes, &open, &err), HR_BAD_INPUT);
  free(file);
}

static void not_files(void **state) {
  (void)state;
  hr_safetensors *open = NULL;
  hr_error err;
  assert_int_equal(hr__safetensors_open(folder_path("absent.safetensors"), &open, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "no such file"));
  assert_int_equal(hr__safetensors_open(folder_path("."), &open, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "folder"));
  assert_int_equal(hr__safetensors_open("/dev/zero", &open, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "device"));
}

static void round_trip(void **state) {
  (void)state;
  const hr_safetensor tensors[] = {
      {.name = "z.weight", .dtype = "F32", .rank = 2, .dim = {3, 5}},
      {.name = "quote\" back\\ tab\t \xc3\xa4", .dtype = "BF16", .rank = 1, .dim = {7}},
      {.name = "empty", .dtype = "I64", .rank = 2, .dim = {0, 9}},
      {.name = "scalar", .dtype = "F64", .rank = 0},
      {.name = "large", .dtype = "U8", .rank = 1, .dim = {700001}},
  };
  static const char *const metadata[] = {"format", "pt", "note", "two\nlines \"quoted\"", NULL};
  static unsigned char data[60 + 14 + 8 + 700001], back[700001];
  for (size_t i = 0; i < sizeof data; i++)
    data[i] = (unsigned char)(i * 37 >> 2);
  hr_error err = {0};
  char hex[HR_SHA256_HEX], again[HR_SHA256_HEX];
  uint64_t bytes = 0;
  for (size_t piece = 1; piece < sizeof data * 4; piece = piece * 7 + 1) { /* pieces of any size give the same file */
    hr_safetensors_writer *writer = NULL;
    assert_int_equal(hr__safetensors_writer_open(folder_path("round.safetensors"), tensors, 5, metadata, &writer, &err),
                     HR_OK);
    for (size_t at = 0; at < sizeof data; at += piece)
      assert_int_equal(
          hr__safetensors_writer_put(writer, data + at, sizeof data - at < piece ? sizeof data - at : piece, &err),
          HR_OK);
    assert_int_equal(hr__safetensors_writer_finish(writer, piece == 1 ? hex : again, &bytes, &err), HR_OK);
    hr__safetensors_writer_destroy(writer);
    if (piece > 1) assert_string_equal(hex, again);
  }
  const char *text;
  assert_int_equal(folder_read("round.safetensors", &text), bytes);
  hr__xxh128_hex(text, (size_t)bytes, again);
  assert_string_equal(hex, again);
  assert_int_equal((bytes - sizeof data) % 8, 0);

  hr_safetensors *open = NULL;
  assert_int_equal(hr__safetensors_open(folder_path("round.safetensors"), &open, &err), HR_OK);
  assert_int_equal(hr__safetensors_count(open), 5);
  for (size_t i = 1; i < 5; i++)
    assert_true(strcmp(hr__safetensors_at(open, i - 1)->name, hr__safetensors_at(open, i)->name) < 0);
  assert_null(hr__safetensors_at(open, 5));
  assert_null(hr__safetensors_find(open, "absent"));
  assert_string_equal(hr__safetensors_metadata(open, "note"), metadata[3]);
  assert_null(hr__safetensors_metadata(open, "absent"));
  size_t begin = 0;
  for (size_t i = 0; i < 5; i++) {
    const hr_safetensor *found = hr__safetensors_find(open, tensors[i].name);
    assert_non_null(found);
    assert_string_equal(found->dtype, tensors[i].dtype);
    assert_int_equal(found->rank, tensors[i].rank);
    assert_memory_equal(found->dim, tensors[i].dim, sizeof found->dim);
    assert_int_equal(found->begin, begin);
    size_t length = (size_t)(found->end - found->begin);
    assert_int_equal(hr__safetensors_read(open, found, 0, back, length, &err), HR_OK);
    assert_memory_equal(back, data + begin, length);
    if (length > 3) {
      assert_int_equal(hr__safetensors_read(open, found, 2, back, length - 3, &err), HR_OK);
      assert_memory_equal(back, data + begin + 2, length - 3);
    }
    assert_int_equal(hr__safetensors_read(open, found, 1, back, length, &err), HR_USAGE);
    assert_int_equal(hr__safetensors_read(open, found, UINT64_MAX, back, 1, &err), HR_USAGE);
    begin += length;
  }
  /* The file shrinks under our feet. */
  folder_write("round.safetensors", text, 2000);
  assert_int_equal(hr__safetensors_read(open, hr__safetensors_find(open, "large"), 5000, back, 10, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "ends at byte"));
  hr__safetensors_close(open);
}

static void writer_refuses(void **state) {
  (void)state;
  static const char long_name[1026] = {[0 ... 1024] = 'x'};
  static const struct {
    hr_safetensor tensor[2];
    size_t count;
    const char *expected;
  } cases[] = {
      {{{.name = "a", .dtype = "U8", .rank = 1, .dim = {1}}, {.name = "a", .dtype = "U8"}}, 2, "twice"},
      {{{.name = "a", .dtype = "F31"}}, 1, "impossible"},
      {{{.name = "a", .dtype = "F4", .rank = 1, .dim = {3}}}, 1, "impossible"},
      {{{.name = "a", .dtype = "F32", .rank = 9}}, 1, "impossible"},
      {{{.name = "a", .dtype = "F32", .rank = 1, .dim = {-1}}}, 1, "impossible"},
      {{{.name = "a", .dtype = "F32", .rank = 2, .dim = {INT64_MAX, 9}}}, 1, "impossible"},
      {{{.name = "__metadata__", .dtype = "U8"}}, 1, "cannot be the name"},
      {{{.name = "\xff", .dtype = "U8"}}, 1, "cannot be the name"},
      {{{.name = long_name, .dtype = "U8"}}, 1, "cannot be the name"},
  };
  hr_error err;
  hr_safetensors_writer *writer = NULL;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    remove(folder_path("refused.safetensors"));
    hr_status status = hr__safetensors_writer_open(folder_path("refused.safetensors"), cases[i].tensor, cases[i].count,
                                                   NULL, &writer, &err);
    if (status != HR_FAILURE || !strstr(err.message, cases[i].expected)) fail_msg("case %zu: %s", i, err.message);
    const char *text;
    assert_int_equal(folder_read("refused.safetensors", &text), -1); /* nothing written */
  }
  hr_safetensor vast[9];
  char names[9][2] = {0};
  for (int i = 0; i < 9; i++) {
    names[i][0] = (char)('a' + i);
    vast[i] = (hr_safetensor){.name = names[i], .dtype = "U8", .rank = 1, .dim = {(int64_t)1 << 60}};
  }
  assert_int_equal(hr__safetensors_writer_open(folder_path("x.safetensors"), vast, 9, NULL, &writer, &err), HR_FAILURE);
  assert_non_null(strstr(err.message, "too large together"));
  static const char *const odd[] = {"key", NULL};
  assert_int_equal(hr__safetensors_writer_open(folder_path("x.safetensors"), NULL, 0, odd, &writer, &err), HR_FAILURE);
  const hr_safetensor tensor = {.name = "a", .dtype = "U8", .rank = 1, .dim = {4}};
  assert_int_equal(hr__safetensors_writer_open(folder_path("x.safetensors"), &tensor, 1, NULL, &writer, &err), HR_OK);
  char hex[HR_SHA256_HEX];
  uint64_t bytes;
  assert_int_equal(hr__safetensors_writer_put(writer, "abcde", 5, &err), HR_FAILURE);
  assert_int_equal(hr__safetensors_writer_put(writer, "abc", 3, &err), HR_OK);
  assert_int_equal(hr__safetensors_writer_finish(writer, hex, &bytes, &err), HR_FAILURE);
  assert_non_null(strstr(err.message, "1 bytes of data are missing"));
  hr__safetensors_writer_destroy(writer);
  assert_int_equal(hr__safetensors_writer_open(folder_path("no/such/x.safetensors"), &tensor, 1, NULL, &writer, &err),
                   HR_IO);
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(table),     cmocka_unit_test(limits),     cmocka_unit_test(claims_cost_nothing),
      cmocka_unit_test(not_files), cmocka_unit_test(round_trip), cmocka_unit_test(writer_refuses),
  };
  return cmocka_run_group_tests(tests, folder_setup, folder_teardown);
}
