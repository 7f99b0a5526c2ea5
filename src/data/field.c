/* See field.h. */
#include "data/field.h"

#include <assert.h>
#include <string.h>

const char *hr_purpose_name(hr_purpose purpose) {
  static const char *const names[HR_PURPOSES] = {[HR_FOR_TOKENS] = "tokens",   [HR_FOR_TARGETS] = "targets",
                                                 [HR_FOR_LENGTHS] = "lengths", [HR_FOR_STARTS] = "starts of documents",
                                                 [HR_FOR_VALUES] = "values",   [HR_FOR_FACTOR] = "factor"};
  return names[purpose];
}

void hr__field_add(hr_fields *fields, hr_field field) {
  assert(fields->count < HR_FIELDS && field.batch_axis < field.desc.rank);
  fields->list[fields->count++] = field;
}

int hr__field_for(const hr_fields *fields, hr_purpose purpose) {
  for (int i = 0; i < fields->count; i++)
    if (fields->list[i].purpose == purpose) return i;
  return -1;
}

const hr_field *hr__field_named(const hr_fields *fields, const char *name) {
  for (int i = 0; i < fields->count; i++)
    if (strcmp(fields->list[i].name, name) == 0) return &fields->list[i];
  return NULL;
}

hr_pieces hr__field_pieces(const hr_field *field) {
  hr_pieces p = {.pieces = 1, .piece_bytes = hr_dtype_bytes(field->desc.dtype)};
  for (int i = 0; i < field->batch_axis; i++)
    p.pieces *= field->desc.dim[i];
  for (int i = field->batch_axis + 1; i < field->desc.rank; i++)
    p.piece_bytes *= (size_t)field->desc.dim[i];
  p.stride_bytes = p.piece_bytes * (size_t)field->desc.dim[field->batch_axis];
  return p;
}

hr_fields hr__fields_of_one(const hr_fields *fields) {
  hr_fields one = *fields;
  for (int i = 0; i < one.count; i++)
    one.list[i].desc.dim[one.list[i].batch_axis] = 1;
  return one;
}

size_t hr__fields_place(const hr_fields *fields, size_t begin[HR_FIELDS]) {
  size_t used = 0, unit = HR_FIELD_ALIGNMENT;
  for (int i = 0; i < fields->count; i++) {
    begin[i] = used;
    used += (hr_desc_bytes(&fields->list[i].desc) + unit - 1) / unit * unit;
  }
  return used;
}
