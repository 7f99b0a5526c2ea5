/* Where a thread is: CUDA's variables of the same names. They belong to the thread that runs (block.h). */
#ifndef HR_TEST_CUDA_HOST_COORDINATES_H
#define HR_TEST_CUDA_HOST_COORDINATES_H

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

#endif
