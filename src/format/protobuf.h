/* Fields of a protobuf message, one after the other. Lengths are checked against the message; groups are refused. */
#ifndef HR_FORMAT_PROTOBUF_H
#define HR_FORMAT_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hr_protobuf {
  const unsigned char *at, *end;
  bool damaged; /* the message ends in the middle of a field, or has one of no known type */
} hr_protobuf;

typedef struct hr_protobuf_field {
  uint32_t number;
  int type;          /* 0: varint, 1: 64 bits, 2: bytes, 5: 32 bits */
  uint64_t value;    /* of types 0, 1 and 5 */
  const char *bytes; /* of type 2, `count` of them */
  size_t count;
} hr_protobuf_field;

hr_protobuf hr__protobuf(const void *data, size_t bytes);
/* False at the end, and where the message is damaged. */
bool hr__protobuf_next(hr_protobuf *message, hr_protobuf_field *field);
float hr__protobuf_float(const hr_protobuf_field *field); /* of type 5; 0 of any other */

#endif
