/* Writing a protobuf message into memory of the caller. What does not fit is remembered, and the message is then of no
 * use. A message inside of another is written by itself first, then put as bytes. */
#ifndef HR_FORMAT_PROTOBUF_WRITE_H
#define HR_FORMAT_PROTOBUF_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hr_protobuf_out {
  unsigned char *bytes;
  size_t count, capacity;
  bool full;
} hr_protobuf_out;

void hr__protobuf_put_int(hr_protobuf_out *out, uint32_t field, uint64_t value);
void hr__protobuf_put_double(hr_protobuf_out *out, uint32_t field, double value);
void hr__protobuf_put_float(hr_protobuf_out *out, uint32_t field, float value);
void hr__protobuf_put_bytes(hr_protobuf_out *out, uint32_t field, const void *bytes, size_t count);
void hr__protobuf_put_text(hr_protobuf_out *out, uint32_t field, const char *text);
void hr__protobuf_put_message(hr_protobuf_out *out, uint32_t field, const hr_protobuf_out *message);

#endif
