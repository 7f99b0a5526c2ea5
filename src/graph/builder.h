/* The builder: the only way nodes and values come into a graph.
 *
 * Errors stick: after the first failure every call is a no-op that returns HR_NONE, and hr__builder_status tells. Model
 * code therefore reads as a list of calls. The builder infers shapes by the op's rule and gives in-place results the
 * storage of their input.
 */
#ifndef HR_GRAPH_BUILDER_H
#define HR_GRAPH_BUILDER_H

#include "graph/graph.h"

typedef struct hr_builder {
  hr_graph *graph;
  hr_id program; /* nodes go here; setting it back to an earlier program needs hr__graph_regroup afterwards */
  hr_id block;   /* innermost open block */
  hr_phase phase;
  const char *module;  /* path put on new nodes */
  const char *prefix;  /* "text.": before the names of modules, blocks and parameters of a part of a model; "" */
  const char *weights; /* instead of `prefix` before the names of parameters: those of another part; NULL: its own */
  hr_dtype dtype;      /* parameters and activations of the model */
  hr_status status;    /* first failure */
  hr_error error;
} hr_builder;

void hr__builder_init(hr_builder *b, hr_graph *graph, hr_dtype dtype);
hr_status hr__builder_status(const hr_builder *b, hr_error *err); /* copies the message */

/* Begins a program and ends the previous one: of a kind, for the longest samples, named as the kind is; or of any key
 * and name. */
hr_id hr__program_begin(hr_builder *b, hr_program_kind kind);
hr_id hr__program_begin_keyed(hr_builder *b, hr_program_key key, const char *name);
void hr__program_set_output(hr_builder *b, const char *name, hr_id value);
/* A loss or a metric: grad takes losses from here. */
void hr__program_set_reported(hr_builder *b, const char *name, hr_id value, hr_output_kind kind, float weight,
                              hr_id factor);
void hr__program_set_input(hr_builder *b, const char *name, hr_id value); /* the host writes it instead of hr__input */
__attribute__((format(printf, 2, 3))) void hr__module(hr_builder *b, const char *format, ...);
const char *hr__module_here(const hr_builder *b); /* the path that hr__module was given last */
__attribute__((format(printf, 2, 3))) void hr__block_begin(hr_builder *b, const char *format, ...);
/* A block around layers; see hr_block.component. It is ended as any block. */
__attribute__((format(printf, 2, 3))) void hr__component_begin(hr_builder *b, const char *format, ...);
void hr__block_end(hr_builder *b);

/* A persistent value by name; the same name gives the same value again (shapes must agree). */
hr_id hr__persistent(hr_builder *b, const char *name, hr_role role, hr_desc desc, hr_init init);
/* A parameter of the model, trained, in the builder's dtype. */
hr_id hr__parameter(hr_builder *b, const char *name, hr_desc desc, hr_init init);
/* A value of the model that persists without gradient, in f32 in every precision: running statistics. It is read like
 * any other and written by hr__state_follow (op/ema.h). */
hr_id hr__state(hr_builder *b, const char *name, hr_desc desc, hr_init init);
/* Keys, values or states of the sequences being generated, in the type that the module around them computes in. It
 * persists from call to call of programs that generate, and is part of no checkpoint. */
hr_id hr__cache(hr_builder *b, const char *name, hr_desc desc);
hr_id hr__cache_f32(hr_builder *b, const char *name, hr_desc desc); /* f32 in every precision */
/* Tensors stacked into one persistent value by their first dimension, `desc.dim[0]` in all; the same name gives the
 * same value again. One tensor alone is an ordinary persistent value of its own name. */
typedef struct hr_member {
  const char *name;
  int64_t rows;
  hr_init init;
} hr_member;
hr_id hr__stacked(hr_builder *b, const char *name, hr_role role, hr_desc desc, const hr_member *members, int count);
enum { HR_MEMBERS = 4 }; /* at most */
/* The same of parameters of the model, trained, in the builder's dtype. */
hr_id hr__parameter_stacked(hr_builder *b, const char *name, hr_desc desc, const hr_member *members, int count);
/* A persistent value that belongs to another: "<kind>.<name>". Beside a stacked one it is stacked alike, with members
 * "<kind>.<member>" whose first dimensions divide desc.dim[0] as those of the members do. */
hr_id hr__beside(hr_builder *b, hr_id value, const char *kind, hr_role role, hr_desc desc, hr_init init);
/* The storage of a value is owned by the module that owns another's. hr__beside sees to it itself. */
void hr__belongs(hr_graph *graph, hr_id value, hr_id to);
/* A batch tensor of the current program, written by the host before it runs. Its first axis counts samples. */
hr_id hr__input(hr_builder *b, const char *name, hr_desc desc);
/* One that has the batch along another axis, several rows of it to a sample, or not at all. */
hr_id hr__input_batch(hr_builder *b, const char *name, hr_desc desc, hr_batch batch);
/* Elements [first, first + count) of a dense value as a value of its own, rank 1, over the same storage. It has the
 * producer of the whole, and no role of its own: whoever lists persistent values leaves views out. */
hr_id hr__view(hr_builder *b, hr_id value, int64_t first, int64_t count);
/* Bytes of a dense value from `offset` on as a value of any type and shape, in the same way. */
hr_id hr__view_as(hr_builder *b, hr_id value, size_t offset, const char *name, hr_desc desc);
/* New transient storage of the current program for a value that lies elsewhere: its buffer. The value stays as it is.
 */
hr_id hr__storage(hr_builder *b, hr_id value);
/* The control block (persistent, one per graph): u8[sizeof(hr_control)]. */
hr_id hr__control(hr_builder *b);

/* The value itself, which backward takes as given from now on: whoever reads it, nothing flows to what it was made of.
 */
hr_id hr__detached(hr_builder *b, hr_id value);

/* Names an axis behind the second (samples, channels) whose rows, and those of what is made of them, may be made a few
 * at a time: blocks are split along it where the batch has too few samples (pass/split_rows.c). */
void hr__rows_along(hr_builder *b, hr_id value, int axis);

/* Adds a node; `args` is copied. Returns output 0; further outputs through hr__node_out. */
hr_id hr__emit(hr_builder *b, const hr_op *op, const hr_id *in, int n_in, const void *args);
hr_id hr__node_out(const hr_builder *b, hr_id value, int out); /* output `out` of the producer of `value` */

static inline hr_desc hr__desc1(hr_dtype t, int64_t a) {
  return (hr_desc){t, 1, {a}};
}
static inline hr_desc hr__desc2(hr_dtype t, int64_t a, int64_t b) {
  return (hr_desc){t, 2, {a, b}};
}
static inline hr_desc hr__desc3(hr_dtype t, int64_t a, int64_t b, int64_t c) {
  return (hr_desc){t, 3, {a, b, c}};
}

#endif
