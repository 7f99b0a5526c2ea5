/* See protobuf_write.h. */
#include "format/protobuf_write.h"

#include <string.h>

enum { VARINT = 0, BITS64 = 1, BYTES = 2, BITS32 = 5 };

static void put(hr_protobuf_out *out, const void *bytes, size_t count) {
  if (out->full || count > out->capacity - out->count) {
    out->full = true;
    return;
  }
  if (count > 0) memcpy(out->bytes + out->count, bytes, count);
  out->count += count;
}

static void put_varint(hr_protobuf_out *out, uint64_t value) {
  unsigned char bytes[10];
  size_t count = 0;
  do {
    bytes[count] = (unsigned char)(value & 0x7f);
    value >>= 7;
    if (value) bytes[count] |= 0x80;
    count++;
  } while (value);
  put(out, bytes, count);
}

static void put_key(hr_protobuf_out *out, uint32_t field, unsigned type) {
  put_varint(out, (uint64_t)field << 3 | type);
}

static void put_fixed(hr_protobuf_out *out, uint64_t bits, size_t count) {
  unsigned char bytes[8];
  for (size_t i = 0; i < count; i++)
    bytes[i] = (unsigned char)(bits >> (8 * i));
  put(out, bytes, count);
}

void hr__protobuf_put_int(hr_protobuf_out *out, uint32_t field, uint64_t value) {
  put_key(out, field, VARINT);
  put_varint(out, value);
}

void hr__protobuf_put_double(hr_protobuf_out *out, uint32_t field, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  put_key(out, field, BITS64);
  put_fixed(out, bits, sizeof bits);
}

void hr__protobuf_put_float(hr_protobuf_out *out, uint32_t field, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  put_key(out, field, BITS32);
  put_fixed(out, bits, sizeof bits);
}

void hr__protobuf_put_bytes(hr_protobuf_out *out, uint32_t field, const void *bytes, size_t count) {
  put_key(out, field, BYTES);
  put_varint(out, count);
  put(out, bytes, count);
}

void hr__protobuf_put_text(hr_protobuf_out *out, uint32_t field, const char *text) {
  hr__protobuf_put_bytes(out, field, text, strlen(text));
}

void hr__protobuf_put_message(hr_protobuf_out *out, uint32_t field, const hr_protobuf_out *message) {
  hr__protobuf_put_bytes(out, field, message->bytes, message->count);
  out->full = out->full || message->full;
}
