/* Grouped-query attention, causal (in a window, or not) or over both directions, in 16-bit types through cuDNN.
 * dev/cuda/cudnn.cpp is the only file that calls it.
 *
 * The library is loaded at run time and may be missing, and it may refuse a shape: then prepare says so and the caller
 * has kernels of its own. One plan of the library serves all calls of one shape.
 */
#ifndef HR_DEV_CUDA_CUDNN_H
#define HR_DEV_CUDA_CUDNN_H

#include "dev/cuda/launch.cuh"

/* Strides are elements from one row (position) to the next; batches are `length` rows apart, heads head_dim apart
 * inside a row. dq, dk, dv have the strides of q, k, v, and dy that of y. */
struct hr_cudnn_attention {
  int64_t batch, length, heads, kv_heads, head_dim;
  int64_t window; /* keys that a query sees at most; 0: no limit */
  bool bidirectional;
  float scale;
  hr_dtype dtype;
  int64_t q_stride, k_stride, v_stride, y_stride;
  bool backward;
};

/* Makes or finds the plan of a shape. False: not available for this shape, on this device, or within the call's
 * workspace. A new plan runs once, on zeros, inside the call's workspace and outputs, which are zero afterwards. */
bool hr__cudnn_attention_prepare(const hr_call *call, const hr_cudnn_attention *shape, void **plan);
/* The plan stays with the device: recordings may still hold its code, and the next program asks for it again. */
void hr__cudnn_attention_release(void *plan);

/* lse f32 [batch, heads, length]: natural logarithm of the sum of exponentials of the scaled scores. */
hr_status hr__cudnn_attention_forward(const hr_call *call, void *plan, const void *q, const void *k, const void *v,
                                      void *y, float *lse);
/* The same bits for the same operands, on one kind of GPU and one version of the library. */
hr_status hr__cudnn_attention_backward(const hr_call *call, void *plan, const void *q, const void *k, const void *v,
                                       const void *y, const float *lse, const void *dy, void *dq, void *dk, void *dv);

/* Frees plans and handle; for the closing of a device. */
void hr__cudnn_destroy(hr_cuda_state *state);

#endif
