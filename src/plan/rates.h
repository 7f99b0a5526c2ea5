/* Rates of a device: what turns an op's cost into seconds. Measured by `headroom devices --measure` (measure/measure.c)
 * and kept in the user's cache folder; sound defaults otherwise, of a GPU those of the catalogue (dev/gpus.h). */
#ifndef HR_PLAN_RATES_H
#define HR_PLAN_RATES_H

#include "base/hash.h"
#include "base/mem.h"
#include "graph/op.h"

typedef struct hr_class_rate {
  double flops_per_second;
  double bytes_per_second;
  double overhead_seconds; /* per launch */
} hr_class_rate;

/* A measured product: seconds of one product of that shape, transposes and type included. */
typedef struct hr_product_rate {
  hr_product product; /* `times` is ignored */
  double seconds;
  int threads; /* it ran on; 0: all */
} hr_product_rate;

/* A measured node: seconds of an op's whole kernel on operands of these shapes and types, out of cold memory. */
typedef struct hr_op_rate {
  const hr_op *op;
  char key[HR_XXH_HEX]; /* hr__rates_key */
  double seconds;
  int threads; /* it ran on */
} hr_op_rate;
enum { HR_RATES_OPS = 4096 }; /* most of them */

/* Copies between tiers; what goes to or comes from the disk passes over the host as well. */
typedef struct hr_copy_rates {
  double host_bytes_per_second;       /* in each direction, while copies go in and out at once */
  double host_alone_bytes_per_second; /* in one direction, while none goes the other way */
  double disk_read_bytes_per_second, disk_write_bytes_per_second;
  double overhead_seconds; /* per copy */
} hr_copy_rates;

/* What a GPU has beside that. */
typedef struct hr_gpu_rates {
  double product_flops[HR_DTYPE_COUNT]; /* per second, of a large product, by the type of its operands */
  hr_class_rate attention_16;           /* of 16-bit floats; the class's own is that of f32 */
  double program_seconds;               /* of a program beside its nodes: starting it, its inputs, reading its loss */
} hr_gpu_rates;

typedef struct hr_rates {
  hr_device_kind kind;
  hr_class_rate classes[HR_CLASS_COUNT][2]; /* [class][0: one thread, 1: all threads] */
  hr_product_rate *products;                /* looked up exactly, else interpolated in the logarithms; any order */
  size_t n_products, cap_products;
  hr_op_rate *ops; /* looked up exactly, and preferred to everything else */
  size_t n_ops, cap_ops;
  hr_copy_rates copies;
  double bf16_products;        /* CPU: how many times as fast as those of f32; 0 on a GPU */
  hr_gpu_rates gpu;            /* zero on the CPU */
  const struct hr_rates *host; /* (optional, borrowed) of the CPU, for nodes that a GPU's program leaves to it */
  int threads;                 /* all threads: what [1] was measured with */
  bool measured;
  hr_arena arena;
} hr_rates;

void hr__rates_default(const hr_facts *facts, hr_rates *rates);
/* The cache file of this device, if there is a good one; else the defaults. Never fails for a missing or damaged file.
 */
hr_status hr__rates_load(const hr_facts *facts, hr_rates *rates, hr_error *err);
hr_status hr__rates_save(const hr_facts *facts, const hr_rates *rates, hr_error *err);
void hr__rates_fini(hr_rates *rates);
/* Adds a measured product, or replaces the one of the same shape and threads. */
hr_status hr__rates_add(hr_rates *rates, const hr_product_rate *measured, hr_error *err);
/* What a node's time depends on, as a hash: its op, the shapes and types of all operands and results, and its cost.
 * Arguments count by what they do to those: where two nodes differ in nothing else, they take the same time. */
void hr__rates_key(const hr_op *op, const hr_op_view *view, char key[HR_XXH_HEX]);
/* NULL: not measured. */
const hr_op_rate *hr__rates_find_op(const hr_rates *rates, const char *key, int threads);
/* Adds a measured node, or replaces the one of the same key and threads. Above HR_RATES_OPS it is left out. */
hr_status hr__rates_add_op(hr_rates *rates, const hr_op_rate *measured, hr_error *err);
/* The cache file of this device, in `arena`; NULL when there is neither XDG_CACHE_HOME nor HOME, or no memory. */
const char *hr__rates_path(const hr_facts *facts, hr_arena *arena);

double hr__rates_seconds(const hr_rates *rates, const hr_cost *cost, int threads);
/* How many threads a call is worth: more only where the measured rates say it pays. */
int hr__rates_threads(const hr_rates *rates, const hr_cost *cost, int available);
/* The same for a node, with its seconds: as measured for that very node, else by the functions above. The launch of a
 * GPU's group counts with its first node (view->follows). */
int hr__rates_node(const hr_rates *rates, const hr_op *op, const hr_op_view *view, int available, double *seconds);

#endif
