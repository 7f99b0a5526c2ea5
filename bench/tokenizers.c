/* Tokenizers from the outside: ids of many texts for a comparison, and how fast they come.
 *
 *   bench_tokenizers ids TOKENIZER TEXTS OUT     TEXTS: records of a length (u32) and that many bytes
 *   bench_tokenizers speed TOKENIZER FILE PIECE  seconds of the processor for FILE in pieces of PIECE bytes
 *
 * OUT gets for every text: number of ids (u32), ids (i32), bytes of decoded text (u32), the text; a number of 2^32 - 1
 * stands for a text that was refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "format/doc.h"
#include "format/file.h"
#include "text/tokenizer.h"

static int fail(const hr_error *err) {
  fprintf(stderr, "%s: %s\n", err->place, err->message);
  return 1;
}

static void put(FILE *out, const void *data, size_t bytes) {
  if (fwrite(data, 1, bytes, out) != bytes) exit(1);
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int ids_write(const hr_tokenizer *tokenizer, hr_encoder *encoder, const char *text, size_t bytes, FILE *out) {
  hr_ids ids = {0};
  hr_string decoded = {0};
  hr_error err;
  for (size_t at = 0; at + 4 <= bytes;) {
    uint32_t length, refused = UINT32_MAX;
    memcpy(&length, text + at, 4);
    at += 4;
    ids.count = decoded.count = 0;
    hr_status status = hr__encode(encoder, text + at, length, false, &ids, &err);
    at += length;
    if (status == HR_BAD_INPUT) {
      put(out, &refused, 4);
      continue;
    }
    if (status == HR_OK) status = hr__decode(tokenizer, ids.items, ids.count, false, &decoded, &err);
    if (status != HR_OK) return fail(&err);
    uint32_t count = (uint32_t)ids.count, decoded_bytes = (uint32_t)decoded.count;
    put(out, &count, 4);
    put(out, ids.items, 4 * ids.count);
    put(out, &decoded_bytes, 4);
    put(out, decoded.data, decoded.count);
  }
  hr__ids_fini(&ids);
  hr__string_fini(&decoded);
  return 0;
}

static int speed_tell(hr_encoder *encoder, const char *text, size_t bytes, size_t piece) {
  hr_ids ids = {0};
  hr_error err;
  double began = seconds();
  size_t count = 0;
  for (size_t at = 0; at < bytes;) {
    size_t length = piece < bytes - at ? piece : bytes - at;
    length = hr__utf8_check(text + at, length); /* not inside of a character */
    if (length == 0) break;
    ids.count = 0;
    if (hr__encode(encoder, text + at, length, false, &ids, &err) != HR_OK) return fail(&err);
    count += ids.count;
    at += length;
  }
  double spent = seconds() - began;
  printf("%.6f seconds, %zu ids, %.2f MB/s\n", spent, count, (double)bytes / spent / 1e6);
  hr__ids_fini(&ids);
  return 0;
}

int main(int argc, char **argv) {
  bool ids = argc == 5 && strcmp(argv[1], "ids") == 0;
  if (!ids && !(argc == 5 && strcmp(argv[1], "speed") == 0)) {
    fprintf(stderr, "bench_tokenizers ids TOKENIZER TEXTS OUT | speed TOKENIZER FILE PIECE\n");
    return 2;
  }
  hr_arena arena = {0};
  hr_tokenizer *tokenizer;
  hr_encoder *encoder;
  char *text;
  size_t bytes;
  hr_error err;
  if (hr__tokenizer_open(argv[2], &tokenizer, &err) != HR_OK ||
      hr__encoder_create(tokenizer, &encoder, &err) != HR_OK ||
      hr__file_read(argv[3], (size_t)1 << 31, &arena, &text, &bytes, &err) != HR_OK)
    return fail(&err);
  int code;
  if (ids) {
    FILE *out = fopen(argv[4], "wb");
    if (!out) return 1;
    code = ids_write(tokenizer, encoder, text, bytes, out);
    if (fclose(out) != 0) code = 1;
  } else {
    code = speed_tell(encoder, text, bytes, strtoul(argv[4], NULL, 10));
  }
  hr__encoder_destroy(encoder);
  hr__tokenizer_close(tokenizer);
  hr__arena_fini(&arena);
  return code;
}
