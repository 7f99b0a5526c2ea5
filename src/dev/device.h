/* A device as a struct of functions. Two exist: the CPU (dev/cpu) and the CUDA plug-in (dev/cuda, loaded at run time).
 */
#ifndef HR_DEV_DEVICE_H
#define HR_DEV_DEVICE_H

#include "base/threads.h"
#include "dev/kernel.h"

/* Where a value lives. On the CPU device the device tier is RAM as well. */
typedef enum hr_tier { HR_TIER_DEVICE, HR_TIER_HOST, HR_TIER_DISK, HR_TIER_COUNT } hr_tier;
const char *hr_tier_name(hr_tier tier);
enum {
  HR_DISK_ALIGNMENT = 16384
}; /* of what lies on the disk tier, in its file: whole pages, and the unit of checks */

/* What the CUDA device pins on the host at its start, for copies from and to memory that is not of the host tier. */
enum { HR_CUDA_PIECES = 4, HR_CUDA_PIECE_BYTES = 4 << 20, HR_CUDA_PINNED_BYTES = HR_CUDA_PIECES * HR_CUDA_PIECE_BYTES };

/* Windows through which a run loads and saves, whatever its size: one for files (HR_WINDOW_BYTES), and those that
 * weights are packed through (run/pack.c). On the CPU they are part of the process's fixed bytes. */
enum { HR_WINDOW_BYTES = 1 << 20, HR_PACK_BYTES = 3 << 20 };
enum { HR_CUDA_HOST_BYTES = HR_CUDA_PINNED_BYTES + HR_WINDOW_BYTES + HR_PACK_BYTES };

typedef enum hr_device_kind { HR_CPU, HR_CUDA, HR_DEVICE_KIND_COUNT } hr_device_kind;
const char *hr_device_kind_name(hr_device_kind kind);

/* What planning needs to know about a device; needs no device to be present. */
typedef struct hr_facts {
  hr_device_kind kind;
  char name[96];         /* "Intel Xeon ... (2 threads)", "NVIDIA H200" */
  uint64_t memory_bytes; /* all memory of the device */
  uint64_t fixed_bytes;  /* program, context, library handles: held by the process before the arena */
  uint64_t margin_bytes; /* of that, what the catalogue adds to be on the safe side; 0 where it was measured */
  bool absent;           /* not on this machine: out of the catalogue (dev/gpus.h) */
  int capability;        /* CUDA: compute capability, 10 x major + minor */
  char version[32];      /* CUDA: driver and libraries; rates measured with others are not believed */
  size_t alignment;      /* of every buffer in an arena; a power of two */
  int threads;           /* CPU: pool size; elsewhere 1 */
  bool narrow_products;  /* CPU: multiplies bf16 itself, as far as oneDNN's limit on instructions lets it */
  bool compiled;         /* CPU: products are oneDNN's, which compiles code for every shape of them */
} hr_facts;

typedef struct hr_device hr_device;
typedef struct hr_mark hr_mark;
typedef struct hr_recording hr_recording; /* a sequence of launches, ready to be replayed (CUDA: a graph) */
typedef enum hr_copy { HR_COPY_TO_DEVICE, HR_COPY_FROM_DEVICE } hr_copy;

typedef struct hr_device_functions {
  /* One block for a whole tier, zeroed and touched, so that it cannot fail later. */
  hr_status (*arena_create)(hr_device *device, hr_tier tier, size_t bytes, void **base, hr_error *err);
  void (*arena_destroy)(hr_device *device, hr_tier tier, void *base, size_t bytes);
  /* Host memory <-> device tier, ordered with launches; done when it returns. */
  hr_status (*copy)(hr_device *device, hr_copy kind, void *to, const void *from, size_t bytes, hr_error *err);
  /* (optional) the kernel of an op by name; NULL result: not there. Default: the op's own CPU kernel. */
  const hr_kernel *(*kernel)(hr_device *device, const char *op_name);
  /* One launch, ordered after earlier ones. */
  hr_status (*launch)(hr_device *device, const hr_launch *launch);
  /* Records launches[0..count) as one replayable unit; a copy that begins inside is done when the unit is. The launches
   * stay with the caller and must outlive it. On failure *failed is the index of the launch where that is known, else
   * count. */
  hr_status (*record)(hr_device *device, const hr_launch *launches, size_t count, hr_recording **out, size_t *failed,
                      hr_error *err);
  /* Replays; on failure *failed is the index of the launch where that is known, else count. */
  hr_status (*replay)(hr_device *device, hr_recording *recording, size_t *failed);
  void (*recording_destroy)(hr_device *device, hr_recording *recording);
  /* Waits for everything. A host kernel that failed in a recording is told here: see hr_device.failed. */
  hr_status (*synchronize)(hr_device *device, hr_error *err);
  /* Peak bytes this process has held on the device, as the operating system (VmHWM) or the driver counts them. */
  hr_status (*process_bytes)(hr_device *device, uint64_t *bytes, hr_error *err);
  void (*destroy)(hr_device *device);
  /* As `copy`, but called from threads of its own beside launches, and not ordered with them; the host's end lies in
   * the host tier. */
  hr_status (*copy_beside)(hr_device *device, hr_copy kind, void *to, const void *from, size_t bytes, hr_error *err);
  /* (optional) A place in the order of launches, for devices that lag behind their callers: `mark` puts *mark, which it
   * makes where it is NULL, behind all launches so far; `reach` blocks any thread until the device has come there;
   * `between` says how long it took from one to another that it has come to, by its own clock. */
  hr_status (*mark)(hr_device *device, hr_mark **mark, hr_error *err);
  hr_status (*reach)(hr_device *device, hr_mark *mark, hr_error *err);
  hr_status (*between)(hr_device *device, hr_mark *from, hr_mark *to, double *seconds, hr_error *err);
  void (*mark_destroy)(hr_device *device, hr_mark *mark);
  /* Launches may be copies and waits. Without it copies between tiers are the caller's, by copy_beside. */
  bool copies;
} hr_device_functions;

struct hr_device {
  const hr_device_functions *functions;
  hr_facts facts;
  hr_pool *pool;           /* CPU threads; closing the device ends them */
  void *state;             /* the device's own */
  const hr_launch *failed; /* first host kernel that failed in a recording; NULL: none */
};

/* The CPU of this machine, without opening it. */
void hr__cpu_facts(hr_facts *facts);
/* The most that the process has held counts from here on: for another run in the same process. */
void hr__cpu_peak_restart(void);
hr_status hr__cpu_open(hr_device **out, hr_error *err);

/* A block of host memory for an arena: zero, touched by all threads of the pool, and refused when there is less left.
 */
hr_status hr__host_memory_create(hr_pool *pool, size_t bytes, void **base, hr_error *err);
void hr__host_memory_destroy(void *base, size_t bytes);

/* Loads libheadroom_cuda.so and opens GPU 0; HR_UNSUPPORTED with a clear message where there is none. */
hr_status hr__cuda_open(hr_device **out, hr_error *err);
void hr__device_close(hr_device *device);

#endif
