/* What the program and libheadroom_cuda.so agree on: one entry, checked before anything is used.
 *
 * The program hands over its error path and its allocator; the plug-in gives back an open device. Either side refuses
 * the other when version, struct sizes or the list of ops differ: both come from one tree, but they are separate files.
 */
#ifndef HR_DEV_CUDA_PLUGIN_H
#define HR_DEV_CUDA_PLUGIN_H

#include "dev/control.h"
#include "dev/device.h"

enum { HR_CUDA_ABI = 2 };
#define HR_CUDA_ENTRY "hr_cuda_plugin_open"

/* Sizes of the structs that cross the border. */
typedef struct hr_cuda_layout {
  uint32_t abi;
  uint32_t error, device, functions, launch, control;
} hr_cuda_layout;
#define HR_CUDA_LAYOUT                                                                                                 \
  {                                                                                                                    \
    HR_CUDA_ABI, (uint32_t)sizeof(hr_error), (uint32_t)sizeof(hr_device), (uint32_t)sizeof(hr_device_functions),       \
        (uint32_t)sizeof(hr_launch), (uint32_t)sizeof(hr_control)                                                      \
  }

typedef struct hr_cuda_host {
  hr_cuda_layout layout; /* first, so that it can be read whatever follows */
  const char *ops;       /* SHA-256 of ops.def */
  hr_status (*fail)(hr_error *err, hr_status status, const char *place, const char *remedy, const char *format, ...);
  void *(*alloc)(size_t bytes);
  void (*free)(void *pointer);
  hr_status (*memory_create)(hr_pool *pool, size_t bytes, void **base, hr_error *err);
  void (*memory_destroy)(void *base, size_t bytes);
} hr_cuda_host;

typedef hr_status hr_cuda_open(const hr_cuda_host *host, hr_device **out, hr_error *err);

/* The state of a CUDA device begins with what it has done so far. */
typedef struct hr_cuda_counts {
  uint64_t graphs;         /* recordings made */
  uint64_t graph_launches; /* replays of recordings, each one cudaGraphLaunch */
  uint64_t launches;       /* single launches outside recordings */
  uint64_t recorded;       /* launches inside recordings */
  uint64_t graph_bytes;    /* of device memory that became less free while recordings were made */
} hr_cuda_counts;

#endif
