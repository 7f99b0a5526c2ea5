/* The catalogue of GPUs: facts and rates for planning on a machine that does not have the GPU. */
#ifndef HR_DEV_GPUS_H
#define HR_DEV_GPUS_H

#include "base/mem.h"
#include "dev/device.h"

/* Rates are the vendor's; what programs reach of them is for those who use them to say (plan/rates.c). */
typedef struct hr_gpu {
  const char *name;      /* as the driver calls it */
  const char *label;     /* short, for people */
  const char *also;      /* further words that may stand in a name */
  uint64_t memory_bytes; /* as nvidia-smi shows it */
  uint64_t usable_bytes; /* of that, what programs can have */
  int multiprocessors;
  int capability;                 /* 10 x major + minor */
  double memory_bytes_per_second; /* of the device's own memory */
  double f32_flops_per_second;    /* dense matrix products, without TF32 */
  double bf16_flops_per_second;   /* 0: no matrix units for it */
  double f16_flops_per_second;    /* with f32 sums */
  double host_bytes_per_second;   /* pinned copies, one direction */
  const char *source;             /* of the vendor's figures */
} hr_gpu;

enum { HR_GPU_CAPABILITY = 80 }; /* the least that the plug-in runs on */

const hr_gpu *hr__gpus(size_t *count);
/* The same, least usable memory first, of equal ones the slower first; NULL: out of memory. */
const hr_gpu **hr__gpus_by_memory(hr_arena *arena, size_t *count);

/* The one that a name stands for: "4090", "rtx 4090" and "NVIDIA GeForce RTX 4090" are the same. NULL: none, or the
 * name leaves open which of several. */
const hr_gpu *hr__gpu_find(const char *name);
/* The one that is a device of this name with so much memory: drivers call cards of several sizes alike. */
const hr_gpu *hr__gpu_like(const hr_facts *facts);

/* What is wrong with a name that finds none, and what to do about it: "a100 is sold with 40 GB and 80 GB", "write
 * a100-40gb or a100-80gb"; those that have a number of it; where all of them are listed. */
typedef struct hr_gpu_refusal {
  char message[192], remedy[320];
  bool unknown; /* it is none of the catalogue's */
} hr_gpu_refusal;
void hr__gpu_refuse(const char *name, hr_gpu_refusal *out);

/* Facts of a GPU that is not here. Fixed costs are those of a context for its number of multiprocessors (on the H200 a
 * bare one takes 527 MiB for 132) and a margin, which facts->margin_bytes states. */
void hr__gpu_facts(const hr_gpu *gpu, hr_facts *facts);
/* The same of no particular one: a middling GPU with so much memory. */
void hr__gpu_facts_generic(uint64_t memory_bytes, hr_facts *facts);

#endif
