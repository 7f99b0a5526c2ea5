#include "format/protobuf.h"

#include <string.h>

hr_protobuf hr__protobuf(const void *data, size_t bytes) {
  return (hr_protobuf){.at = data, .end = (const unsigned char *)data + bytes};
}

static bool varint(hr_protobuf *m, uint64_t *out) {
  *out = 0;
  for (unsigned shift = 0; shift < 64 && m->at < m->end; shift += 7) {
    unsigned char byte = *m->at++;
    *out |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return true;
  }
  return false;
}

static bool fixed(hr_protobuf *m, size_t bytes, uint64_t *out) {
  if ((size_t)(m->end - m->at) < bytes) return false;
  *out = 0;
  for (size_t i = 0; i < bytes; i++)
    *out |= (uint64_t)m->at[i] << (8 * i);
  m->at += bytes;
  return true;
}

static bool field_read(hr_protobuf *m, hr_protobuf_field *field) {
  uint64_t key, length;
  if (!varint(m, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX) return false;
  *field = (hr_protobuf_field){.number = (uint32_t)(key >> 3), .type = (int)(key & 7)};
  switch (field->type) {
  case 0:
    return varint(m, &field->value);
  case 1:
    return fixed(m, 8, &field->value);
  case 2:
    if (!varint(m, &length) || length > (uint64_t)(m->end - m->at)) return false;
    field->bytes = (const char *)m->at;
    field->count = (size_t)length;
    m->at += length;
    return true;
  case 5:
    return fixed(m, 4, &field->value);
  default:
    return false;
  }
}

bool hr__protobuf_next(hr_protobuf *m, hr_protobuf_field *field) {
  if (m->damaged || m->at == m->end) return false;
  m->damaged = !field_read(m, field);
  return !m->damaged;
}

float hr__protobuf_float(const hr_protobuf_field *field) {
  uint32_t bits = field->type == 5 ? (uint32_t)field->value : 0;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
