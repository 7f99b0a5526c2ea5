/* ZeRO: what DeepSpeed's engine holds beside PyTorch on one GPU. Nothing is divided among one, but weights that are
 * trained lie in one flat tensor, an f32 copy of them is what the optimizer updates, and gradients go through buffers.
 *
 * Stages 1 and 2: each gradient is copied into a bucket (two, where copies overlap), and when that is full into one
 * tensor of all; the first stage does so behind the last backward of a step only. An update makes one flat gradient
 * of them, and one of f32. Stage 3: the bucket and the tensor of all are there from the beginning, buckets are joined
 * before they are summed up among GPUs, and the update goes by sub-groups. With the optimizer offloaded there is
 * neither f32 copy nor flat gradient on the GPU: each gradient becomes f32 there and is copied to the host.
 *
 * Norms of gradients are taken in f64, of one gradient after the other.
 */
#ifndef HR_TORCH_ZERO_H
#define HR_TORCH_ZERO_H

#include "torch/eager.h"

/* From settings.zero; the model is built on the host from here on. */
void hr__zero_init(hr_eager *e);
/* deepspeed.initialize: the model is whole. */
void hr__zero_begin(hr_eager *e);
/* Around the forward and backward of a micro-batch; `last`: of a step. */
void hr__zero_backward_begin(hr_eager *e, bool last);
void hr__zero_backward_end(hr_eager *e);
void hr__zero_update(hr_eager *e, bool first);

/* Bytes of the host that the run keeps, by what they are for; 0 where nothing is offloaded. */
typedef struct hr_zero_host {
  uint64_t parameters; /* f32 copies, and those of 16 bits on their way back */
  uint64_t gradients, optimizer;
} hr_zero_host;
hr_zero_host hr__zero_host(const hr_eager *e);

#endif
