/* Caps that the planner and the CUDA plug-in agree on. Plain C without CUDA: op files include it to declare workspace.
 */
#ifndef HR_DEV_CUDA_LIMITS_H
#define HR_DEV_CUDA_LIMITS_H

#include <stddef.h>
#include <stdint.h>

/* Scratch of one cuBLASLt product: its heuristic is asked for algorithms that need no more than this. */
static const size_t HR_CUBLASLT_WORKSPACE = (size_t)32 << 20;

/* Sums over whole tensors: one f64 partial for every so many elements of a tensor (the rest counts as one more). */
static const int64_t HR_CUDA_SUM_CHUNK = 32 * 1024;

#endif
