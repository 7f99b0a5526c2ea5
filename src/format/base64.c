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

size_t hr__base64_write(const void *data, size_t count, char *out) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const unsigned char *from = data;
  size_t written = 0;
  for (size_t i = 0; i < count; i += 3) {
    size_t left = count - i;
    uint32_t bits = (uint32_t)from[i] << 16;
    if (left > 1) bits |= (uint32_t)from[i + 1] << 8;
    if (left > 2) bits |= from[i + 2];
    out[written++] = digits[bits >> 18];
    out[written++] = digits[bits >> 12 & 63];
    out[written++] = left > 1 ? digits[bits >> 6 & 63] : '=';
    out[written++] = left > 2 ? digits[bits & 63] : '=';
  }
  out[written] = '\0';
  return written;
}
