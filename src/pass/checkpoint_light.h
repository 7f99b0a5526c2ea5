/* Light values: those that backward makes again although all else is kept, since it takes next to no time. */
#ifndef HR_PASS_CHECKPOINT_LIGHT_H
#define HR_PASS_CHECKPOINT_LIGHT_H

#include "graph/graph.h"

/* What is known of a value made in forward. */
typedef struct hr_light_value {
  bool kept;    /* it is there in backward, which reads it */
  bool open;    /* it would be kept for backward, but its node may run again */
  bool light;   /* out: to be made again; also what only makes others that are */
  double moved; /* bytes to read and write for it in backward; negative: it is not to be had there */
} hr_light_value;

/* Finds the light values of a program; `values` has an entry for each of the graph, `descs` room for the operands of
 * any node. */
void hr__light_find(const hr_graph *graph, hr_id program, hr_light_value *values, hr_desc *descs);

#endif
