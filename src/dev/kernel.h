/* Kernels: the one signature for every op on every device, free of graph types. */
#ifndef HR_DEV_KERNEL_H
#define HR_DEV_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "dev/dtype.h"

enum { HR_RANK = 6 }; /* largest number of dimensions */

/* Shape and type of a dense row-major array. rank 0 is "absent" for optional operands; a scalar is rank 1, dim {1}. */
typedef struct hr_desc {
  hr_dtype dtype;
  int rank;
  int64_t dim[HR_RANK];
} hr_desc;

int64_t hr_desc_count(const hr_desc *desc);                  /* elements; 1 for rank 0 */
size_t hr_desc_bytes(const hr_desc *desc);                   /* elements x element size */
int64_t hr_desc_rows(const hr_desc *desc);                   /* product of all dims but the last */
int64_t hr_desc_columns(const hr_desc *desc);                /* the last dim */
bool hr_desc_same_shape(const hr_desc *a, const hr_desc *b); /* dims only */

/* An operand as a kernel sees it. Absent optional operands have data == NULL and rank 0. */
typedef struct hr_tensor {
  void *data;
  hr_desc desc;
  int64_t stride[HR_RANK]; /* in elements */
} hr_tensor;

struct hr_device;

/* One bound launch: addresses are final, the same struct is used at every step. */
typedef struct hr_call {
  const hr_tensor *in;
  const hr_tensor *out;
  int n_in, n_out;
  const void *args; /* the op's own argument struct */
  void *workspace;  /* from the plan, aligned as the arena; NULL when workspace_bytes is 0 */
  size_t workspace_bytes;
  void *prepared;      /* what prepare returned; NULL without prepare */
  uint64_t stream_key; /* hr__random_stream of the node's module path */
  int threads;         /* CPU: how many threads this call is worth, chosen from its cost */
  struct hr_device *device;
} hr_call;

typedef struct hr_kernel {
  /* (optional) once at bind time: library objects for this call's shapes. Addresses in `call` are final. */
  hr_status (*prepare)(const hr_call *call, void **prepared, hr_error *err);
  void (*release)(void *prepared); /* (optional) */
  /* The work. Allocates nothing. A failure is a library's or the device's, reported by the executor with the node. */
  hr_status (*run)(const hr_call *call);
} hr_kernel;

/* What one step of a program is to the device. Copies are launches only where the device makes them
 * (hr_device_functions.copies). */
typedef enum hr_launch_kind {
  HR_LAUNCH_KERNEL, /* the call, on the device */
  HR_LAUNCH_HOST,   /* the call, on threads of the CPU; all its operands lie in memory of the host tier */
  HR_LAUNCH_COPY,   /* begins a copy between host tier and device tier, which runs beside the launches behind it */
  HR_LAUNCH_WAIT    /* the end of such a copy: launches behind it come after it */
} hr_launch_kind;

typedef struct hr_moving {
  void *to;
  const void *from;
  size_t bytes;
  bool to_device;
} hr_moving;

typedef struct hr_launch {
  hr_launch_kind kind;
  const hr_kernel *kernel; /* NULL: a copy or a wait */
  union {
    hr_call call;
    hr_moving copy;
    const struct hr_launch *begun; /* wait: for which copy */
  };
} hr_launch;

#endif
