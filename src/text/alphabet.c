#include "text/alphabet.h"

#include "text/unicode.h"

static bool itself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
}

/* The other bytes are three runs: 00-20, 7F-A0, AD. */
uint32_t hr__alphabet_char(unsigned char byte) {
  if (itself(byte)) return byte;
  return 0x100 + (byte <= 0x20 ? byte : byte <= 0xa0 ? byte - 0x7fu + 33 : 67u);
}

int hr__alphabet_byte(uint32_t c) {
  if (c < 0x100) return itself(c) ? (int)c : -1;
  uint32_t index = c - 0x100;
  return index <= 32 ? (int)index : index <= 66 ? (int)(index - 33 + 0x7f) : index == 67 ? 0xad : -1;
}

hr_status hr__alphabet_bytes(const char *text, size_t bytes, hr_string *out, bool *whole, hr_error *err) {
  size_t began = out->count;
  HR_TRY(hr__string_room(out, bytes, err));
  for (size_t i = 0, length; i < bytes; i += length) {
    int byte = hr__alphabet_byte(hr__utf8_get(text + i, &length));
    if (byte < 0) {
      out->count = began;
      *whole = false;
      return HR_OK;
    }
    out->data[out->count++] = (char)byte;
  }
  *whole = true;
  return HR_OK;
}
