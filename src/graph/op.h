/* The type of an op: everything the stages need to know about one kind of node, in one descriptor.
 *
 * Instances live in op/, one source file per family, listed in op/ops.def. Nodes point to descriptors: there is no op
 * enum and no switch over ops. Backward kernels are ops as well, in the same file.
 */
#ifndef HR_GRAPH_OP_H
#define HR_GRAPH_OP_H

#include "dev/control.h"
#include "dev/device.h"
#include "dev/kernel.h"

enum { HR_OP_OPERANDS = 9 }; /* operands of a non-variadic op, operands and results of a sample */

/* A node as its op's rules see it: shapes only. Absent optional operands have rank 0. */
typedef struct hr_op_view {
  const hr_desc *in;
  const hr_desc *out;
  int n_in, n_out;
  const void *args;
  /* For its time only: the device that `cost` is asked for, and whether the node before it is of the same op. */
  hr_device_kind kind;
  bool follows;
} hr_op_view;

/* What an op's time depends on: the rows of graph/classes.def. */
typedef enum hr_op_class {
#define HR_COST_CLASS(name, text, flops, bytes, launch, gpu_flops, gpu_bytes) HR_CLASS_##name,
#include "graph/classes.def"
#undef HR_COST_CLASS
  HR_CLASS_COUNT
} hr_op_class;
const char *hr_op_class_name(hr_op_class op_class);

/* `times` products of [m,k] x [k,n]; transposes and types as stored. */
typedef struct hr_product {
  int64_t m, n, k, times;
  bool transpose_a, transpose_b;
  bool accumulate;
  hr_dtype dtype;
} hr_product;

enum { HR_COST_PRODUCTS = 3 };
typedef struct hr_cost {
  hr_op_class op_class;
  double flops; /* all arithmetic, products included */
  double bytes; /* memory read and written outside the products */
  hr_product products[HR_COST_PRODUCTS];
  int n_products;
  bool narrow; /* computes on 16-bit floats */
} hr_cost;

/* Whether an output may, or must, take over the storage of an input. */
typedef enum hr_alias_kind {
  HR_ALIAS_MAY,        /* the plan decides: the input dies here, is not persistent, and has the same bytes */
  HR_ALIAS_ACCUMULATE, /* out = in + something: as MAY, but a persistent input is always updated in place */
  HR_ALIAS_MUST        /* an update of state: always in place */
} hr_alias_kind;
typedef struct hr_alias {
  int in, out;
  hr_alias_kind kind;
} hr_alias;
enum { HR_OP_ALIASES = 10 };

/* Where a value carries the batch: samples one behind another along an axis, `rows` of it to each. */
typedef struct hr_batch {
  int axis; /* -1: it does not */
  int64_t rows;
} hr_batch;

/* Axes of output 0, counted from the first as in the operands, along which an op works independently, so that a region
 * may be sliced there (graph/batch.h). All others couple. test/op/test_axes.c holds the ops to it. */
typedef enum hr_axes {
  HR_AXES_NONE,  /* every axis couples: reductions, losses, norms over the whole tensor */
  HR_AXES_BATCH, /* the first axis only: attention */
  HR_AXES_ROWS,  /* all but the last: products, norms over rows */
  HR_AXES_ALL    /* elementwise */
} hr_axes;

/* What the gradient rule reads, declared so that passes can reason before grad runs; a test holds rules to it. */
#define HR_SAVE_IN(i)  (1u << (i))
#define HR_SAVE_OUT(j) (1u << (16 + (j)))
#define HR_SAVE_ALL_IN (1u << 31) /* of a variadic op: any of its inputs */

#define HR_DTYPE_BIT(dtype) (1u << (dtype))
#define HR_FLOATS           (HR_DTYPE_BIT(HR_F32) | HR_DTYPE_BIT(HR_BF16) | HR_DTYPE_BIT(HR_F16)) /* of streams on the CPU */
#define HR_FLOATS_16        (HR_DTYPE_BIT(HR_BF16) | HR_DTYPE_BIT(HR_F16))

/* Copies between tiers run beside the computing; see hr_op.transfer. */
typedef enum hr_transfer {
  HR_TRANSFER_NONE,
  HR_TRANSFER_START, /* begins a copy; its result is there only after the matching wait */
  HR_TRANSFER_WAIT   /* operand 0 goes on in place when its copy is done */
} hr_transfer;

/* Shapes that exercise an op: they feed the conformance test, the gradient check, CPU against CUDA, and the bench.
 * Float dtypes written as f32 stand for every supported float type. */
typedef struct hr_sample {
  int n_in;
  hr_desc in[HR_OP_OPERANDS];
  const void *args;
  int64_t index_below; /* integer operands are drawn from [0, index_below) */
  bool index_ascends;  /* along the last axis, and none is above its own place there */
} hr_sample;

/* Rows [first, first + count) of a value along an axis. */
typedef struct hr_rows {
  int64_t first, count;
} hr_rows;

struct hr_adjoint;
struct hr_builder;
struct hr_node;
struct hr_gemm_set;

typedef struct hr_op {
  const char *name;
  int n_in, n_out;   /* n_in: with optional operands; ignored when variadic */
  uint32_t optional; /* bit i: input i may be absent */
  bool variadic;     /* any number of inputs of one kind (gradient norm) */
  /* (optional) how many results a node has, where that depends on its arguments; n_out is then the most of samples. */
  int (*results)(const void *args);
  bool effect;       /* writes persistent state: never recomputed, never removed, once per step */
  bool random;       /* draws random numbers keyed by module path */
  size_t sample_at;  /* of a random op: where in its arguments an int64_t counts samples before row 0; 0: nowhere */
  size_t args_bytes; /* size of the op's argument struct; 0 without arguments */
  /* Works element by element on flat operands as long as operand 0 (or a fixed part of that), so that it can be cut
   * into tiles: offset in the arguments of an int64_t with the number of the first element; 0: it cannot. */
  size_t first_at;
  uint32_t saves;    /* HR_SAVE_IN / HR_SAVE_OUT */
  uint32_t computes; /* bit i: input i takes the type the node computes in (the precision pass converts it) */
  bool never_saved;  /* its result is made anew for every use and never kept: weights unpacked from a packed form */
  hr_transfer transfer;
  hr_alias alias[HR_OP_ALIASES];
  int n_alias;
  /* Types of output 0 for which a device's result does not keep its bits when it is written over the operand, so that
   * it is not (HR_ALIAS_MUST aside). */
  uint32_t not_in_place[HR_DEVICE_KIND_COUNT];
  /* (optional) whether output `out` may lie where input `in` does, where that depends on the arguments. */
  bool (*takes)(const void *args, int in, int out);
  bool grouped; /* on a GPU neighbours in a program run as one launch (hr_cuda_launcher.run_many) */
  hr_axes axes;
  uint32_t shares; /* bit i: every row reads all of input i (weights, tables), so it may not carry the batch */
  /* (optional) instead of `axes`: where results carry the batch, given where operands do. False: an axis couples, which
   * results may carry all the same. */
  bool (*batch)(const hr_op_view *view, const hr_batch *in, hr_batch *out);
  /* (optional) arguments for fewer samples: the batch's axis of result 0 is to be `size` long. */
  void (*resize)(void *args, int axis, int64_t size);
  /* (optional) How rows of result 0 along an axis are made without the others, by an op that reads more of its operands
   * than the same rows (windows). Gives in[i], of operands that have the axis: the rows that are read, beyond the ends
   * as 0, others are left as they are; `made`: the rows that come of them, those asked for and maybe some around them,
   * also beyond the ends; and changes `args`, a copy, to make these. False: not along this axis. */
  bool (*cut)(const hr_op_view *view, int axis, hr_rows rows, hr_rows *in, hr_rows *made, void *args);
  /* (optional) Before any row can be made, something of all rows of operand 0 must be known, which becomes operand
   * `gathered`: emits the node that takes it from rows x, which lie behind `rows_before` others, and from what those
   * have left (HR_NONE: they are the first). A node that has the operand already can be cut. */
  uint32_t (*gather)(struct hr_builder *b, const struct hr_node *node, uint32_t x, uint32_t before, int axis,
                     int64_t rows_before);
  int gathered;
  int typed_by;                          /* operand whose dtype selects the kernel */
  uint32_t dtypes[HR_DEVICE_KIND_COUNT]; /* supported dtypes of that operand, per device; 0: no kernel */
  /* (optional) HR_UNSUPPORTED, without place, where a device's kernel does not take these sizes. */
  hr_status (*limits)(const hr_op_view *view, hr_device_kind kind, hr_error *err);

  /* Output shapes and types from the inputs and args; checks them (message without place: the builder adds it). */
  hr_status (*shape)(const hr_op_view *view, hr_desc *out, hr_error *err);
  /* (optional) emits the ops of the backward pass through graph/adjoint.h. Without it nothing flows back. */
  void (*grad)(struct hr_adjoint *adjoint, const struct hr_node *node);
  /* Work and traffic on a device of view->kind. */
  void (*cost)(const hr_op_view *view, hr_cost *cost);
  /* (optional) cap of the scratch this op takes on a device with that many threads; pure arithmetic. */
  size_t (*workspace)(const hr_op_view *view, hr_device_kind kind, int threads);
  /* (optional) the products that `cpu.prepare` makes of oneDNN, for that many threads; pure arithmetic. */
  void (*products)(const hr_op_view *view, int threads, struct hr_gemm_set *set);

  hr_kernel cpu;
  const hr_sample *samples;
  int n_samples;
} hr_op;

/* Whether an output may lie where an alias has its operand; `result` is the type of output 0. */
static inline bool hr__op_takes(const hr_op *op, const void *args, const hr_alias *alias, hr_device_kind kind,
                                hr_dtype result) {
  if (op->takes && !op->takes(args, alias->in, alias->out)) return false;
  return alias->kind == HR_ALIAS_MUST || !(op->not_in_place[kind] & HR_DTYPE_BIT(result));
}

static inline int hr__op_results(const hr_op *op, const void *args) {
  return op->results ? op->results(args) : op->n_out;
}

/* All ops, in the order of ops.def. Defined in op/. */
extern const hr_op *const hr_ops[];
extern const size_t hr_op_count;
const hr_op *hr__op_find(const char *name); /* NULL when unknown */

#endif
