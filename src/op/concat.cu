/* concat on CUDA: one launch for each operand, in units of its type. */
#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/concat.h"
}

enum { CONCAT_THREADS = 256 };
static const int64_t CONCAT_BLOCKS = 4096;

/* `rows` runs of `run` elements, which lie `pitch` apart in y. */
template <typename T>
static __global__ void __launch_bounds__(CONCAT_THREADS)
    concat_kernel(const T *from, T *to, int64_t rows, int64_t run, int64_t pitch) {
  int64_t stride = (int64_t)gridDim.x * CONCAT_THREADS, count = rows * run;
  for (int64_t i = (int64_t)blockIdx.x * CONCAT_THREADS + threadIdx.x; i < count; i += stride)
    to[i / run * pitch + i % run] = from[i];
}

static int64_t run_of(const hr_desc &desc, int axis) {
  int64_t run = 1;
  for (int d = axis; d < desc.rank; d++)
    run *= desc.dim[d];
  return run;
}

template <typename T> static void concat_launch(const hr_call *call, int axis) {
  int64_t pitch = run_of(call->out[0].desc, axis), rows = desc_count(call->out[0].desc) / pitch, at = 0;
  for (int i = 0; i < call->n_in; i++) {
    int64_t run = run_of(call->in[i].desc, axis), blocks = divide_up(rows * run, CONCAT_THREADS);
    if (blocks > CONCAT_BLOCKS) blocks = CONCAT_BLOCKS;
    launch(concat_kernel<T>, (unsigned)blocks, CONCAT_THREADS, 0, call_stream(call), (const T *)call->in[i].data,
           (T *)call->out[0].data + at, rows, run, pitch);
    at += run;
  }
}

static hr_status concat_run(const hr_call *call) {
  int axis = ((const hr_concat_args *)call->args)->axis;
  if (call->out[0].desc.dtype == HR_F32)
    concat_launch<uint32_t>(call, axis);
  else
    concat_launch<uint16_t>(call, axis);
  return launched();
}

extern "C" const hr_cuda_launcher hr_cuda_concat = {
    {nullptr, nullptr, concat_run}, {(const void *)concat_kernel<uint32_t>, (const void *)concat_kernel<uint16_t>}};
