/* The CPU's kernels of group_norm, between its two files. */
#ifndef HR_OP_GROUP_NORM_PARTS_H
#define HR_OP_GROUP_NORM_PARTS_H

#include "graph/op.h"

hr_status hr__group_norm_run(const hr_call *call);
hr_status hr__group_norm_bwd_run(const hr_call *call);

#endif
