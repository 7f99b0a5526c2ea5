/* The shape of a training: settings that say which programs a recipe has, read once and checked against each other. */
#ifndef HR_COMPILE_SHAPE_H
#define HR_COMPILE_SHAPE_H

#include "graph/graph.h"
#include "recipe/recipe.h"

enum { HR_SCHEDULE_ENTRIES = 64 };

typedef struct hr_training_shape {
  int64_t batch, length;    /* rows of a micro-batch; longest row */
  int64_t accumulation;     /* micro-batches per step in the first epoch */
  int64_t accumulation_max; /* in any epoch */
  struct {
    int64_t epoch, accumulation; /* from this epoch on, from 0, ascending */
  } schedule[HR_SCHEDULE_ENTRIES];
  int n_schedule;               /* 1 where accumulation is a number */
  int64_t buckets[HR_PROGRAMS]; /* lengths of rows, ascending; the last is `length` */
  int n_buckets;
  bool ragged;    /* data.source: samples of different lengths, and steps that end with the epoch */
  bool documents; /* data.packing: several in a sample */
  bool eval;
} hr_training_shape;
hr_status hr__training_shape(const hr_recipe *recipe, hr_training_shape *out, hr_error *err);

/* Whether one program does all of a step (graph/graph.h: kinds of programs). With several buckets each has programs for
 * its micro-batches, and the update is one of its own. */
bool hr__training_whole(const hr_training_shape *shape);
/* The key of a program for bucket number `bucket` of the shape. */
hr_program_key hr__bucket_program(const hr_training_shape *shape, int bucket, hr_program_kind kind);

#endif
