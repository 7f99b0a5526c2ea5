/* Initialisers: how a persistent value begins, as a function that draws elements of it. A new one is a function here;
 * nothing else knows them by name. Elements are a pure function of (key, number), so that they can be drawn in pieces.
 */
#ifndef HR_GRAPH_INIT_H
#define HR_GRAPH_INIT_H

#include <stddef.h>

#include "base/random.h"

struct hr_init;
/* Elements [first, first + count) of a value. */
typedef void (*hr_init_rule)(const struct hr_init *init, hr_random_key key, uint64_t first, int64_t count, float *to);

/* Values loaded from a file overrule it. */
typedef struct hr_init {
  hr_init_rule rule; /* NULL: zeros, which cost no drawing */
  float a, b;        /* what the rule needs */
} hr_init;

#define HR_INIT_ZERO           NULL
#define HR_INIT_ONE            hr__init_one
#define HR_INIT_CONSTANT       hr__init_constant       /* a */
#define HR_INIT_NORMAL         hr__init_normal         /* a: standard deviation */
#define HR_INIT_UNIFORM        hr__init_uniform        /* a: bound, on both sides of 0 */
#define HR_INIT_LOG_UNIFORM    hr__init_log_uniform    /* between a and b, both above 0, evenly in the logarithm */
#define HR_INIT_LOG_OF_UNIFORM hr__init_log_of_uniform /* the logarithm of what lies evenly between a and b */
#define HR_INIT_STEP_BIAS      hr__init_step_bias      /* softplus of it is as HR_INIT_LOG_UNIFORM */

void hr__init_one(const hr_init *init, hr_random_key key, uint64_t first, int64_t count, float *to);
void hr__init_constant(const hr_init *init, hr_random_key key, uint64_t first, int64_t count, float *to);
void hr__init_normal(const hr_init *init, hr_random_key key, uint64_t first, int64_t count, float *to);
void hr__init_uniform(const hr_init *init, hr_random_key key, uint64_t first, int64_t count, float *to);
void hr__init_log_uniform(const hr_init *init, hr_random_key key, uint64_t first, int64_t count, float *to);
void hr__init_log_of_uniform(const hr_init *init, hr_random_key key, uint64_t first, int64_t count, float *to);
void hr__init_step_bias(const hr_init *init, hr_random_key key, uint64_t first, int64_t count, float *to);

/* By the numbers of inputs and outputs of a weight. Xavier: uniform, variance 2 / (in + out). Kaiming: normal, variance
 * gain^2 / in (sqrt(2) before relu). */
hr_init hr__init_xavier(int64_t inputs, int64_t outputs);
hr_init hr__init_kaiming(int64_t inputs, double gain);

#endif
