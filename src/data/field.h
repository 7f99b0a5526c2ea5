/* Fields: what a batch consists of. A model declares the fields that its programs read; a source fills them (source.h).
 *
 * One axis of a field counts the samples of a micro-batch; what is left is one sample. Fields of one batch have the
 * same number of samples.
 */
#ifndef HR_DATA_FIELD_H
#define HR_DATA_FIELD_H

#include "graph/op.h"

/* What a field is for, and so who fills it and how. */
typedef enum hr_purpose {
  HR_FOR_TOKENS,  /* whole numbers below `bound`: what the model reads */
  HR_FOR_TARGETS, /* one for each token: what it is to predict; negative: nothing there */
  HR_FOR_LENGTHS, /* of each sample: positions that hold data. Not filled by sources, which tell lengths anyway */
  HR_FOR_STARTS,  /* of each token: where its document begins in the sample */
  HR_FOR_VALUES,  /* measurements: signals, images, volumes */
  HR_FOR_FACTOR,  /* f32 [1], of the batch as a whole: written by whoever trains, not by data */
  HR_PURPOSES
} hr_purpose;

/* What whole numbers are in made-up samples (source synthetic), where numbers at random would make no sense. */
typedef enum hr_made_up {
  HR_MADE_AT_RANDOM,
  HR_MADE_LARGEST, /* counts and masks: samples are whole */
  HR_MADE_IN_ORDER /* places: ascending by one along the last axis, up to the largest */
} hr_made_up;

typedef struct hr_field {
  const char *name; /* of the programs' input */
  hr_purpose purpose;
  hr_desc desc;   /* of a whole micro-batch */
  int batch_axis; /* which dim counts samples */
  int64_t bound;  /* whole numbers are below it; 0: none is given */
  hr_made_up made_up;
} hr_field;

enum { HR_FIELDS = 40 };
typedef struct hr_fields {
  hr_field list[HR_FIELDS];
  int count;
} hr_fields;

void hr__field_add(hr_fields *fields, hr_field field); /* more than HR_FIELDS is a bug of the model (assert) */
/* The first field of a purpose, as its number; -1: there is none. */
int hr__field_for(const hr_fields *fields, hr_purpose purpose);
const hr_field *hr__field_named(const hr_fields *fields, const char *name); /* NULL: there is none */
const char *hr_purpose_name(hr_purpose purpose);                            /* "tokens", ... */

/* A sample of a field lies in `pieces` runs of `piece_bytes`, `stride_bytes` apart, the first at sample x piece_bytes:
 * one run where the batch is the first axis. */
typedef struct hr_pieces {
  int64_t pieces;
  size_t piece_bytes, stride_bytes;
} hr_pieces;
hr_pieces hr__field_pieces(const hr_field *field);
static inline size_t hr__field_sample_bytes(const hr_field *field) {
  return hr_desc_bytes(&field->desc) / (size_t)field->desc.dim[field->batch_axis];
}

/* The same fields for a batch of one sample. */
hr_fields hr__fields_of_one(const hr_fields *fields);

/* The planned room of batches on the host: a persistent value of this name, with as many slots, each large enough for
 * the batch of any program. */
#define HR_BATCH "batch"
enum { HR_BATCH_SLOTS = 2 };

/* Fields of a batch one behind the other: where each begins. Returns the bytes of all. */
enum { HR_FIELD_ALIGNMENT = 64 };
size_t hr__fields_place(const hr_fields *fields, size_t begin[HR_FIELDS]);

#endif
