/* compile: recipe -> the whole training graph, through model, the passes before grad, grad, and the passes after it.
 * pass/passes.def lists the passes in order. */
#ifndef HR_PASS_COMPILE_H
#define HR_PASS_COMPILE_H

#include "model/model.h"

enum { HR_SCHEDULE_ENTRIES = 64 };

/* Settings that shape the graph, read from the recipe once and checked against each other (shape.c). */
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
  bool ragged; /* data.source: samples of different lengths, and steps that end with the epoch */
  bool eval;
} hr_training_shape;
hr_status hr__training_shape(const hr_recipe *recipe, hr_training_shape *out, hr_error *err);

/* Whether one program does all of a step (graph/graph.h: kinds of programs). With several buckets each has programs for
 * its micro-batches, and the update is one of its own. */
bool hr__training_whole(const hr_training_shape *shape);
/* The key of a program for bucket number `bucket` of the shape. */
hr_program_key hr__bucket_program(const hr_training_shape *shape, int bucket, hr_program_kind kind);

/* Kinds of values that may live below the device: memory.offload.<name>. */
typedef enum hr_offload_kind {
  HR_OFFLOAD_OPTIMIZER,
  HR_OFFLOAD_PARAMETERS,
  HR_OFFLOAD_GRADIENTS,
  HR_OFFLOAD_ACTIVATIONS,
  HR_OFFLOAD_KINDS
} hr_offload_kind;

extern const hr_key_table hr_compile_keys; /* training.* settings that shape the graph: batch, clipping */
extern const hr_key_table hr_offload_keys; /* memory.offload.* */

/* All that a recipe says about the graph: the key tables of models and passes. */
enum { HR_COMPILE_TABLES = 10 };
void hr__compile_tables(hr_key_table out[HR_COMPILE_TABLES]);

/* What to keep of a block between its forward and its backward pass. */
typedef enum hr_keep {
  HR_KEEP_ALL,       /* everything that backward reads */
  HR_KEEP_SELECTIVE, /* results of matrix products and attention, or what is made of them if that is smaller */
  HR_KEEP_INPUT,     /* only what enters the block */
  HR_KEEP_OFFLOADED  /* what enters it, on a lower tier */
} hr_keep;

/* What a recipe leaves to be chosen (`auto`), chosen. Without choices `auto` means: keep all, all on the device, all
 * blocks whole. */
typedef struct hr_choices {
  const hr_keep *keep; /* per layer (hr__program_layers), the same in every program; NULL: by the recipe */
  size_t n_keep;
  /* memory.offload.* = auto: bytes of each kind that stay on the device; the rest goes to `tier`, where that is the
   * disk all but host_bytes of it. */
  struct {
    uint64_t resident_bytes, host_bytes;
    hr_tier tier;
  } offload[HR_OFFLOAD_KINDS];
  bool update_on_host; /* memory.offload.update = auto */
  int64_t slices;      /* memory.split = auto: of every outermost block; below 2: they stay whole */
  bool few_tiles;      /* of updates below the device, one for several: for a plan that is only to be judged */
} hr_choices;

/* Compiles up to and including the stage named `until` ("model", "grad", a pass; NULL: all). */
hr_status hr__compile(const hr_recipe *recipe, const hr_choices *choices, const char *until, hr_graph **out,
                      hr_error *err);

/* Takes a graph that was built by hand, with its losses as outputs of its programs (hr__program_set_reported), through
 * all stages that follow the model. Values keep their ids; after an error the graph can only be destroyed. */
hr_status hr__compile_by_hand(hr_builder *b, const hr_recipe *settings, hr_error *err);
/* Settings for it from a recipe's text without a model. */
hr_status hr__by_hand_settings(const char *text, hr_recipe **out, hr_error *err);

/* A trunk is a recipe compiled as far as only choices->slices matters of the choices; what other choices make of it are
 * its branches. A recipe that is to be judged in many ways is built once that way. */
typedef struct hr_trunk hr_trunk;
/* The recipe must be there as long as the trunk. */
hr_status hr__trunk_grow(const hr_recipe *recipe, int64_t slices, hr_trunk **out, hr_error *err);
/* All stages, with the trunk's slices. The graph lies in part in the storage of the trunk, which must be there as long,
 * and in that of the passes; hr__graph_compact makes it what hr__compile gives, and its own. */
hr_status hr__trunk_branch(const hr_trunk *trunk, const hr_choices *choices, hr_graph **out, hr_error *err);
void hr__trunk_destroy(hr_trunk *trunk); /* or NULL */

#endif
