/* track on CUDA: a warp for each sample, a lane for each track. */
#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/track.h"
}

enum { WARP = 32 };

/* The lane of the smallest distance below none, the first of equal ones; -1 where every lane has none. */
__device__ inline int nearest_lane(float far, bool may) {
  int lane = may ? (int)threadIdx.x : -1;
#pragma unroll
  for (int distance = WARP / 2; distance > 0; distance /= 2) {
    float other_far = __shfl_xor_sync(~0u, far, distance);
    int other = __shfl_xor_sync(~0u, lane, distance);
    if (other >= 0 && (lane < 0 || other_far < far || (other_far == far && other < lane))) {
      far = other_far;
      lane = other;
    }
  }
  return lane;
}

static __global__ void __launch_bounds__(WARP)
    track_kernel(const float *x, float *y, hr_track_sizes s, hr_track_args args) {
  int lane = (int)threadIdx.x;
  int64_t row = s.columns, all = args.tracks * s.frames * row;
  x += blockIdx.x * s.frames * s.detections * row;
  y += blockIdx.x * all;
  for (int64_t i = lane; i < all; i += WARP)
    y[i] = 0.0f;
  __syncwarp();
  float last_x = 0.0f, last_y = 0.0f, most = __fmul_rn(args.reach, args.reach);
  bool begun = false;
  for (int64_t t = 0; t < s.frames; t++) {
    bool taken = false;
    for (int64_t k = 0; k < s.detections; k++) {
      const float *one = x + (t * s.detections + k) * row;
      if (!(one[0] >= args.least)) continue; /* the same in all lanes */
      float dx = __fsub_rn(one[1], last_x), dy = __fsub_rn(one[2], last_y);
      float far = __fadd_rn(__fmul_rn(dx, dx), __fmul_rn(dy, dy));
      int chosen = nearest_lane(far, begun && !taken && far <= most);
      if (chosen < 0) chosen = __ffs((int)__ballot_sync(~0u, !begun && lane < args.tracks)) - 1;
      if (chosen < 0) continue;
      if (lane == chosen) {
        begun = taken = true;
        last_x = one[1];
        last_y = one[2];
      }
      for (int64_t c = lane; c < row; c += WARP)
        y[(chosen * s.frames + t) * row + c] = one[c];
    }
  }
}

static hr_status track_run(const hr_call *call) {
  hr_track_sizes s = hr__track_sizes(&call->in[0].desc);
  launch(track_kernel, (unsigned)s.samples, WARP, 0, call_stream(call), (const float *)call->in[0].data,
         (float *)call->out[0].data, s, *(const hr_track_args *)call->args);
  return launched();
}

extern "C" const hr_cuda_launcher hr_cuda_track = {{nullptr, nullptr, track_run}, {(const void *)track_kernel}};
