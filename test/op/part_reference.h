/* References: every op once more in double precision, as the plain formula, for the tests to compare with.
 *
 * Operands are arrays of double that hold exactly what the kernel's operands hold. An op without an entry here fails
 * the tests.
 */
#ifndef HR_TEST_OP_REFERENCE_H
#define HR_TEST_OP_REFERENCE_H

#include "graph/op.h"

enum { CASE_STREAM = 12345 }; /* stream key of every call: what stands for its module path */

typedef struct reference_call {
  const double *in[HR_OP_OPERANDS]; /* NULL: absent. Integers as doubles */
  double *out[HR_OP_OPERANDS];
  const hr_desc *in_desc, *out_desc;
  int n_in;
  const void *args;
  const hr_control *control; /* contents of the control operand */
} reference_call;

typedef struct reference {
  const char *op;
  void (*run)(const reference_call *call);
  /* (optional) makes drawn operands sound: moments that are not negative, results that belong to their inputs. */
  void (*fill)(double *const *in, const hr_desc *desc, const void *args);
  bool differentiable; /* has a gradient rule, from output 0 to every float input but `constants` */
  uint32_t constants;  /* bit i: float input i takes no gradient */
  uint32_t any_type;   /* bit i: input i may have any type */
  uint32_t loose;      /* bit i: any size of input i is right and leaves the results' shapes alone */
  double tolerance;    /* relative, in f32; 0: the usual one */
  bool cancels;        /* terms of size 1 may leave next to nothing, by which no difference can be measured */
} reference;

/* What a file of references has. */
typedef struct reference_family {
  const reference *ops;
  size_t count;
} reference_family;
extern const reference_family references_of_products, references_of_convs, references_of_rows, references_of_attention,
    references_of_caches, references_of_scans, references_of_elements, references_of_programs, references_of_losses,
    references_of_updates, references_of_pools, references_of_recurrent, references_of_volumes;

const reference *reference_find(const char *op); /* NULL: none */

static inline double reference_dot(const double *a, const double *b, int64_t n) {
  double sum = 0.0;
  for (int64_t i = 0; i < n; i++)
    sum += a[i] * b[i];
  return sum;
}

#endif
