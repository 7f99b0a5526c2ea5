/* A few launches over an arena, run one by one and recorded: what kernels that take neighbours along
 * (hr_cuda_launcher.take) leave in memory has to be the same. */
#ifndef HR_TEST_CUDA_PART_SEQUENCE_H
#define HR_TEST_CUDA_PART_SEQUENCE_H

#include "dev/device.h"

enum { MOST_LAUNCHES = 24, MOST_OPERANDS = 6, ARENA = 64 << 20 };

extern hr_device *gpu;
extern void *bases[2];          /* arenas of ARENA bytes */
extern char *host, *results[2]; /* ARENA bytes: what both begin with, and what they end with */

/* Launches over one arena. */
typedef struct sequence {
  hr_launch launches[MOST_LAUNCHES];
  hr_tensor in[MOST_LAUNCHES][MOST_OPERANDS], out[MOST_LAUNCHES][2];
  size_t count, used;
  char *base;
  void *work; /* of the next launch */
  size_t work_bytes;
} sequence;

/* 0, or what main returns: 77 without a GPU. */
int sequences_open(void);
void sequences_close(void);

hr_tensor tensor_take(sequence *s, hr_desc desc);

/* Behind setting in[count] and out[count]. */
void launch_add(sequence *s, const char *op, int n_in, int n_out, const void *args);

/* Workspace of the launch that is added next. */
void sequence_work(sequence *s, void *work, size_t bytes);

/* Both begin with the image in `host`; the one goes launch by launch, the other recorded. */
void sequences_run(const sequence *one, const sequence *recorded);

#endif
