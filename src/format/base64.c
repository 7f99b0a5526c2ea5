#include "format/base64.h"

#include <stdint.h>

static int digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

hr_status hr__base64_read(const char *text, size_t bytes, char *out, size_t *count, hr_error *err) {
  if (bytes > 0 && bytes % 4 == 0 && text[bytes - 1] == '=') bytes -= text[bytes - 2] == '=' ? 2 : 1;
  if (bytes % 4 == 1) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "not base64: a digit is missing");
  *count = 0;
  uint32_t bits = 0;
  for (size_t i = 0; i < bytes; i++) {
    int value = digit(text[i]);
    if (value < 0) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "not base64: byte %zu of it is no digit", i + 1);
    bits = bits << 6 | (uint32_t)value;
    if (i % 4 == 0) continue;
    out[(*count)++] = (char)(bits >> (2 * (3 - i % 4)) & 0xff);
  }
  return HR_OK;
}
