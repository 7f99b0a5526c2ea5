/* The training shape: batch, accumulation and length buckets. See shape.h. */
#include "compile/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/packing.h"
#include "data/source.h"
#include "model/features.h"
#include "model/generation.h"

#define ACCUMULATION "training.gradient_accumulation"
#define EFFECTIVE    "training.effective_batch"
#define BUCKETS      "data.buckets"

enum { ACCUMULATION_MAX = 1 << 20 };

/* A key that is a whole number of at most 15 digits. */
static bool key_int(const char *key, int64_t *out) {
  size_t digits = strspn(key, "0123456789");
  if (digits == 0 || digits > 15 || key[digits] != 0) return false;
  *out = strtoll(key, NULL, 10);
  return true;
}

static hr_status entry_read(const hr_recipe *recipe, const hr_doc_node *node, hr_training_shape *out, hr_error *err) {
  static const char example[] = "write it as {0: 4, 8: 2}: from epoch 0 four micro-batches a step, from epoch 8 two";
  int64_t epoch, accumulation;
  if (!key_int(node->key, &epoch))
    return hr__recipe_fail_at(recipe, ACCUMULATION, node, example, err, "'%.40s' is not the number of an epoch",
                              node->key);
  if (node->kind != HR_DOC_SCALAR || !hr__doc_int(node, &accumulation) || accumulation < 1 ||
      accumulation > ACCUMULATION_MAX)
    return hr__recipe_fail_at(recipe, ACCUMULATION, node, example, err,
                              "gradient_accumulation: epoch %" PRId64
                              " must have a whole number of micro-batches between 1 and %d",
                              epoch, ACCUMULATION_MAX);
  if (out->n_schedule == 0 && epoch != 0)
    return hr__recipe_fail_at(recipe, ACCUMULATION, node, "begin with the entry for epoch 0", err,
                              "the schedule begins at epoch %" PRId64 ", so the epochs before it have no value", epoch);
  if (out->n_schedule > 0 && epoch <= out->schedule[out->n_schedule - 1].epoch)
    return hr__recipe_fail_at(recipe, ACCUMULATION, node, "put the epochs in ascending order", err,
                              "epoch %" PRId64 " comes after epoch %" PRId64, epoch,
                              out->schedule[out->n_schedule - 1].epoch);
  if (out->n_schedule == HR_SCHEDULE_ENTRIES)
    return hr__recipe_fail_at(recipe, ACCUMULATION, node, "use fewer steps of the schedule", err,
                              "a schedule has at most %d entries", HR_SCHEDULE_ENTRIES);
  out->schedule[out->n_schedule].epoch = epoch;
  out->schedule[out->n_schedule++].accumulation = accumulation;
  if (accumulation > out->accumulation_max) out->accumulation_max = accumulation;
  return HR_OK;
}

static hr_status schedule_read(const hr_recipe *recipe, const hr_doc_node *tree, hr_training_shape *out,
                               hr_error *err) {
  if (tree->kind != HR_DOC_MAP || !tree->child)
    return hr__recipe_fail(recipe, ACCUMULATION, "write a number, or a schedule by epoch as {0: 4, 8: 2}", err,
                           "%s is not a schedule", tree->kind == HR_DOC_MAP ? "an empty section" : "a list");
  for (const hr_doc_node *node = tree->child; node; node = node->next)
    HR_TRY(entry_read(recipe, node, out, err));
  if (hr__recipe_has(recipe, EFFECTIVE))
    return hr__recipe_fail(recipe, EFFECTIVE, "give only one of the two", err,
                           "effective_batch fixes the samples of a step, but gradient_accumulation is a schedule that "
                           "changes them");
  if (out->n_schedule > 1 && hr__source_of(recipe)->endless)
    return hr__recipe_fail(recipe, ACCUMULATION, "give a number, or use source: text or lines", err,
                           "synthetic data has no end, so there are no epochs for a schedule to go by");
  out->accumulation = out->schedule[0].accumulation;
  return HR_OK;
}

static hr_status number_read(const hr_recipe *recipe, hr_training_shape *out, hr_error *err) {
  bool counted = hr__recipe_has(recipe, ACCUMULATION);
  if (counted) out->accumulation = hr__recipe_int(recipe, ACCUMULATION);
  if (hr__recipe_has(recipe, EFFECTIVE)) {
    int64_t effective = hr__recipe_int(recipe, EFFECTIVE);
    if (effective % out->batch != 0)
      return hr__recipe_fail(recipe, EFFECTIVE, "choose a batch_size that divides it", err,
                             "effective_batch %" PRId64 " is not a multiple of batch_size %" PRId64, effective,
                             out->batch);
    int64_t accumulation = effective / out->batch;
    if (counted && accumulation != out->accumulation)
      return hr__recipe_fail(recipe, EFFECTIVE, "give only one of the two", err,
                             "effective_batch %" PRId64 " contradicts batch_size x gradient_accumulation = %" PRId64,
                             effective, out->batch * out->accumulation);
    if (accumulation > ACCUMULATION_MAX)
      return hr__recipe_fail(recipe, EFFECTIVE, "raise batch_size", err,
                             "%" PRId64 " micro-batches per step are too many", accumulation);
    out->accumulation = accumulation;
  }
  out->accumulation_max = out->schedule[0].accumulation = out->accumulation;
  out->n_schedule = 1;
  return HR_OK;
}

static hr_status bucket_read(const hr_recipe *recipe, const hr_doc_node *node, hr_training_shape *out, hr_error *err) {
  int64_t length;
  if (node->kind != HR_DOC_SCALAR || !hr__doc_int(node, &length) || length < 1)
    return hr__recipe_fail_at(recipe, BUCKETS, node, "write it as [64, 128, 256]", err,
                              "the length of a bucket must be a whole number of 1 or more");
  if (length > out->length)
    return hr__recipe_fail_at(recipe, BUCKETS, node, "leave it out, or raise data.sequence_length", err,
                              "a bucket of %" PRId64 " tokens is longer than data.sequence_length (%" PRId64 ")",
                              length, out->length);
  if (out->n_buckets > 0 && length <= out->buckets[out->n_buckets - 1])
    return hr__recipe_fail_at(recipe, BUCKETS, node, "put the lengths in ascending order", err,
                              "bucket %" PRId64 " comes after bucket %" PRId64, length,
                              out->buckets[out->n_buckets - 1]);
  if (out->n_buckets == HR_PROGRAMS)
    return hr__recipe_fail_at(recipe, BUCKETS, node, "use fewer", err, "more than %d buckets", HR_PROGRAMS);
  out->buckets[out->n_buckets++] = length;
  return HR_OK;
}

static hr_status buckets_read(const hr_recipe *recipe, hr_training_shape *out, hr_error *err) {
  if (!hr__recipe_has(recipe, BUCKETS)) {
    out->buckets[out->n_buckets++] = out->length;
    return HR_OK;
  }
  const hr_doc_node *tree = hr__recipe_tree(recipe, BUCKETS);
  if (tree->kind != HR_DOC_LIST || !tree->child)
    return hr__recipe_fail(recipe, BUCKETS, "write lengths as [64, 128, 256]", err,
                           "buckets must be a list of lengths");
  if (out->documents)
    return hr__recipe_fail(recipe, BUCKETS, "leave data.buckets or data.packing out", err,
                           "packed samples have one length, data.sequence_length");
  if (!out->ragged)
    return hr__recipe_fail(recipe, BUCKETS, "leave data.buckets out, or use source: lines", err,
                           "source %s has samples of one length only", hr__recipe_text(recipe, "data.source"));
  for (const hr_doc_node *node = tree->child; node; node = node->next)
    HR_TRY(bucket_read(recipe, node, out, err));
  if (out->buckets[out->n_buckets - 1] != out->length)
    return hr__recipe_fail(recipe, BUCKETS, "add it at the end, or lower data.sequence_length", err,
                           "the last bucket (%" PRId64 ") is not data.sequence_length (%" PRId64 ")",
                           out->buckets[out->n_buckets - 1], out->length);
  int programs = out->n_buckets * (out->accumulation_max > 1 ? 2 : 1) + 1 + out->eval;
  if (hr__recipe_has(recipe, "training.generation_every")) programs += HR_GENERATION_LENGTHS;
  if (out->n_buckets > 1 && programs > HR_PROGRAMS)
    return hr__recipe_fail(recipe, BUCKETS, "use fewer buckets", err,
                           "%d buckets need %d programs, more than the %d there can be", out->n_buckets, programs,
                           HR_PROGRAMS);
  return HR_OK;
}

/* Numbers that may be `auto` are closed by fit/search before anything is shaped. */
static hr_status numbers_check(const hr_recipe *recipe, hr_error *err) {
  static const char *const paths[] = {"training.batch_size", "data.sequence_length", ACCUMULATION};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
    if (hr__recipe_word_is(recipe, paths[i], "auto"))
      return hr__recipe_fail(recipe, paths[i], "write a number", err, "%s: auto is still open here", paths[i]);
  return HR_OK;
}

/* Where nothing is trained, a step is one token of each sequence, or one row of features. */
static hr_training_shape untrained_shape(int64_t batch) {
  return (hr_training_shape){.batch = batch,
                             .length = 1,
                             .accumulation = 1,
                             .accumulation_max = 1,
                             .schedule = {{0, 1}},
                             .n_schedule = 1,
                             .buckets = {1},
                             .n_buckets = 1};
}

static hr_status generation_shape(const hr_recipe *recipe, hr_training_shape *out, hr_error *err) {
  hr_generation generation;
  HR_TRY(hr__generation_read(recipe, &generation, err));
  *out = untrained_shape(generation.batch);
  return HR_OK;
}

hr_status hr__training_shape(const hr_recipe *recipe, hr_training_shape *out, hr_error *err) {
  if (hr__generation_alone(recipe)) return generation_shape(recipe, out, err);
  HR_TRY(numbers_check(recipe, err));
  if (hr__features_alone(recipe)) {
    *out = untrained_shape(hr__recipe_int(recipe, "training.batch_size"));
    return HR_OK;
  }
  *out = (hr_training_shape){.batch = hr__recipe_int(recipe, "training.batch_size"),
                             .length = hr__recipe_int(recipe, "data.sequence_length"),
                             .accumulation = 1,
                             .ragged = hr__source_of(recipe)->scan != NULL,
                             .documents = hr__packing(recipe),
                             .eval = hr__recipe_has(recipe, "training.eval_every")};
  const hr_doc_node *schedule = hr__recipe_has(recipe, ACCUMULATION) ? hr__recipe_tree(recipe, ACCUMULATION) : NULL;
  if (schedule)
    HR_TRY(schedule_read(recipe, schedule, out, err));
  else
    HR_TRY(number_read(recipe, out, err));
  return buckets_read(recipe, out, err);
}

bool hr__training_whole(const hr_training_shape *shape) {
  return shape->n_buckets == 1 && shape->accumulation_max == 1;
}

hr_program_key hr__bucket_program(const hr_training_shape *shape, int bucket, hr_program_kind kind) {
  return (hr_program_key){.kind = kind, .bucket = shape->n_buckets - 1 - bucket};
}
