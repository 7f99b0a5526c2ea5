/* The CUDA device: one GPU, one arena per tier; launches and recordings are in recording.cu, copies from and to memory
 * that is not pinned in staging.cu. */
#include <stdio.h>
#include <string.h>

#include "dev/cuda/cublaslt.h"
#include "dev/cuda/cudnn.h"
#include "dev/cuda/device.cuh"
#include "dev/cuda/nvml.h"

/* launchers.inc is generated: one HR_LAUNCHER(op) for every op of ops.def whose source has a .cu file. */
#define HR_LAUNCHER(op) extern "C" const hr_cuda_launcher hr_cuda_##op;
#include "launchers.inc"
#undef HR_LAUNCHER

static const struct {
  const char *op;
  const hr_cuda_launcher *launcher;
} launchers[] = {
#define HR_LAUNCHER(op) {#op, &hr_cuda_##op},
#include "launchers.inc"
#undef HR_LAUNCHER
};

hr_status hr__cuda_fail(const hr_cuda_state *state, hr_error *err, const char *what, cudaError_t error) {
  cudaGetLastError(); /* errors that do not stick end here */
  return state->host.fail(err, error == cudaErrorMemoryAllocation ? HR_NOMEM : HR_FAILURE, "CUDA", NULL, "%s: %s", what,
                          cudaGetErrorString(error));
}

/* The host tier: taken, touched and refused as on the CPU device, then pinned. */
static hr_status host_arena_create(hr_device *device, size_t bytes, void **base, hr_error *err) {
  hr_cuda_state *state = state_of(device);
  hr_status status = state->host.memory_create(device->pool, bytes, base, err);
  if (status != HR_OK) return status;
  cudaError_t error = cudaHostRegister(*base, bytes, cudaHostRegisterDefault);
  if (error == cudaSuccess) return HR_OK;
  state->host.memory_destroy(*base, bytes);
  *base = nullptr;
  cudaGetLastError();
  return state->host.fail(err, HR_NO_FIT, NULL, "keep less on the host: lower memory.host_budget",
                          "cannot pin %zu bytes of host memory for copies to the GPU: %s", bytes,
                          cudaGetErrorString(error));
}

static hr_status device_arena_create(hr_device *device, size_t bytes, void **base, hr_error *err) {
  hr_cuda_state *state = state_of(device);
  cudaError_t error = cudaMalloc(base, bytes);
  if (error != cudaSuccess) {
    cudaGetLastError();
    *base = nullptr;
    return state->host.fail(err, HR_NO_FIT, NULL, "free memory on the GPU or lower memory.budget",
                            "cannot take %zu bytes of GPU memory: %s", bytes, cudaGetErrorString(error));
  }
  error = cudaMemsetAsync(*base, 0, bytes, state->stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(state->stream);
  if (error == cudaSuccess) return HR_OK;
  cudaFree(*base);
  *base = nullptr;
  return hr__cuda_fail(state, err, "cannot clear the arena", error);
}

static hr_status arena_create(hr_device *device, hr_tier tier, size_t bytes, void **base, hr_error *err) {
  *base = nullptr;
  if (tier == HR_TIER_DISK)
    return state_of(device)->host.fail(err, HR_UNSUPPORTED, NULL, NULL, "the disk tier has no arena");
  if (bytes == 0) return HR_OK;
  return tier == HR_TIER_HOST ? host_arena_create(device, bytes, base, err)
                              : device_arena_create(device, bytes, base, err);
}

static void arena_destroy(hr_device *device, hr_tier tier, void *base, size_t bytes) {
  cudaStreamSynchronize(state_of(device)->stream);
  if (tier == HR_TIER_HOST) {
    cudaHostUnregister(base);
    state_of(device)->host.memory_destroy(base, bytes);
  } else {
    cudaFree(base);
  }
}

static const hr_kernel *device_kernel(hr_device *device, const char *op_name) {
  (void)device;
  for (const auto &entry : launchers)
    if (strcmp(entry.op, op_name) == 0) return &entry.launcher->kernel;
  return nullptr;
}

static hr_status device_synchronize(hr_device *device, hr_error *err) {
  hr_cuda_state *state = state_of(device);
  cudaError_t error = cudaStreamSynchronize(state->stream);
  if (error != cudaSuccess) return hr__cuda_fail(state, err, "the GPU reported", error);
  if (device->failed) return state->host.fail(err, HR_FAILURE, NULL, NULL, "a kernel on the host failed");
  return HR_OK;
}

/* Of courier threads: on streams that are used for nothing else while programs run. Nothing is ordered with launches;
 * see mark and reach for what has to be. */
static hr_status copy_beside(hr_device *device, hr_copy kind, void *to, const void *from, size_t bytes, hr_error *err) {
  hr_cuda_state *state = state_of(device);
  bool in = kind == HR_COPY_TO_DEVICE;
  cudaStream_t stream = in ? state->copy_in : state->copy_out;
  cudaError_t error = cudaMemcpyAsync(to, from, bytes, in ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  return error == cudaSuccess ? HR_OK : hr__cuda_fail(state, err, "copy failed", error);
}

/* A mark is an event. Threads that wait for it sleep: they have time. */
static hr_status device_mark(hr_device *device, hr_mark **mark, hr_error *err) {
  hr_cuda_state *state = state_of(device);
  cudaEvent_t event = (cudaEvent_t)*mark;
  cudaError_t error = cudaSuccess;
  if (!event) error = cudaEventCreateWithFlags(&event, cudaEventBlockingSync);
  *mark = (hr_mark *)event;
  if (error == cudaSuccess) error = cudaEventRecord(event, state->stream);
  return error == cudaSuccess ? HR_OK : hr__cuda_fail(state, err, "cannot mark a place", error);
}

static hr_status device_reach(hr_device *device, hr_mark *mark, hr_error *err) {
  cudaError_t error = cudaEventSynchronize((cudaEvent_t)mark);
  return error == cudaSuccess ? HR_OK : hr__cuda_fail(state_of(device), err, "the GPU reported", error);
}

static hr_status device_between(hr_device *device, hr_mark *from, hr_mark *to, double *seconds, hr_error *err) {
  float milliseconds = 0.0f;
  cudaError_t error = cudaEventElapsedTime(&milliseconds, (cudaEvent_t)from, (cudaEvent_t)to);
  *seconds = 1e-3 * milliseconds;
  return error == cudaSuccess ? HR_OK : hr__cuda_fail(state_of(device), err, "cannot tell a time", error);
}

static void mark_destroy(hr_device *device, hr_mark *mark) {
  (void)device;
  cudaEventDestroy((cudaEvent_t)mark);
}

static hr_status process_bytes(hr_device *device, uint64_t *bytes, hr_error *err) {
  hr_cuda_state *state = state_of(device);
  uint64_t now = hr__nvml_process_bytes();
  if (now == 0)
    return state->host.fail(err, HR_UNSUPPORTED, "CUDA", NULL, "the driver does not say what this process holds");
  if (now > state->peak_bytes) state->peak_bytes = now;
  *bytes = state->peak_bytes;
  return HR_OK;
}

static void device_destroy(hr_device *device) {
  hr_cuda_state *state = state_of(device);
  void (*release)(void *) = state->host.free;
  if (state->stream) cudaStreamSynchronize(state->stream); /* an event or a piece may still be in use */
  hr__cudnn_destroy(state);
  hr__lt_destroy(state);
  hr__staging_destroy(state);
  if (state->fork) cudaEventDestroy(state->fork);
  for (cudaStream_t stream : {state->on_host, state->copy_out, state->copy_in, state->stream})
    if (stream) cudaStreamDestroy(stream);
  release(state);
  release(device);
}

static const hr_device_functions functions = {arena_create,
                                              arena_destroy,
                                              hr__cuda_copy,
                                              device_kernel,
                                              hr__cuda_launch,
                                              hr__cuda_record,
                                              hr__cuda_replay,
                                              hr__cuda_recording_destroy,
                                              device_synchronize,
                                              process_bytes,
                                              device_destroy,
                                              copy_beside,
                                              device_mark,
                                              device_reach,
                                              device_between,
                                              mark_destroy,
                                              true};

/* Lazily loaded code takes device memory at its first use: asking for its attributes loads it now. *local_bytes: the
 * most that a thread of any of it has outside of registers. */
static cudaError_t functions_load(size_t *local_bytes) {
  *local_bytes = 0;
  for (const auto &entry : launchers)
    for (const void *function : entry.launcher->functions) {
      if (!function) break;
      cudaFuncAttributes attributes;
      cudaError_t error = cudaFuncGetAttributes(&attributes, function);
      if (error != cudaSuccess) return error;
      if (attributes.localSizeBytes > *local_bytes) *local_bytes = attributes.localSizeBytes;
    }
  return cudaSuccess;
}

/* What the context sets aside for every thread the GPU can hold, and for printing and allocating in kernels, which ours
 * do not do. The driver rounds up to what it needs; that it may refuse a limit does no harm. */
static void limits_set(size_t stack_bytes) {
  cudaDeviceSetLimit(cudaLimitStackSize, stack_bytes);
  cudaDeviceSetLimit(cudaLimitMallocHeapSize, 1 << 16);
  cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 1 << 16);
  cudaGetLastError();
}

static cudaError_t streams_create(hr_cuda_state *state) {
  cudaError_t error = cudaSuccess;
  for (cudaStream_t *stream : {&state->stream, &state->copy_in, &state->copy_out, &state->on_host})
    if (error == cudaSuccess) error = cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking);
  if (error == cudaSuccess) error = cudaEventCreateWithFlags(&state->fork, cudaEventDisableTiming);
  return error == cudaSuccess ? hr__staging_create(state) : error;
}

static hr_status gpu_find(const hr_cuda_host *host, hr_error *err) {
  int count = 0, driver = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver) {
    cudaDriverGetVersion(&driver);
    if (driver == 0)
      return host->fail(err, HR_UNSUPPORTED, NULL, "install NVIDIA's driver, or use memory.device: cpu",
                        "no NVIDIA driver was found");
    return host->fail(err, HR_UNSUPPORTED, NULL, "update the driver, or use memory.device: cpu",
                      "the NVIDIA driver is too old: it knows CUDA %d.%d, the plug-in needs %d.%d", driver / 1000,
                      driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  }
  if (error != cudaSuccess || count == 0)
    return host->fail(err, HR_UNSUPPORTED, NULL, "use memory.device: cpu", "no usable NVIDIA GPU: %s",
                      error == cudaSuccess ? "none found" : cudaGetErrorString(error));
  return HR_OK;
}

static void facts_version(hr_facts *facts, int capability) {
  int driver = 0;
  cudaDriverGetVersion(&driver);
  facts->capability = capability;
  snprintf(facts->version, sizeof facts->version, "driver %d, CUDA %d", driver, CUDART_VERSION);
}

enum { STACK_BYTES = 256 }; /* before it is known what kernels need */

/* Context, streams and library handle; notes what others hold on the GPU before there is a context. */
static hr_status gpu_start(hr_device *device, hr_error *err) {
  hr_cuda_state *state = state_of(device);
  char bus[32];
  cudaError_t error = cudaDeviceGetPCIBusId(bus, sizeof bus, 0);
  if (error == cudaSuccess) {
    hr__nvml_begin(bus);
    cudaSetDeviceFlags(cudaDeviceScheduleSpin); /* waiting is all there is to do; refused when there is a context */
    cudaGetLastError();
    error = cudaSetDevice(0);
  }
  if (error == cudaSuccess) {
    limits_set(STACK_BYTES);
    error = cudaFree(nullptr);
  }
  cudaDeviceProp properties;
  if (error == cudaSuccess) error = cudaGetDeviceProperties(&properties, 0);
  if (error != cudaSuccess) return hr__cuda_fail(state, err, "cannot open GPU 0", error);
  if (properties.major < 8)
    return state->host.fail(err, HR_UNSUPPORTED, NULL, "use memory.device: cpu",
                            "%s has compute capability %d.%d; 8.0 is the least that is supported", properties.name,
                            properties.major, properties.minor);
  error = streams_create(state);
  size_t local_bytes = 0;
  if (error == cudaSuccess) error = functions_load(&local_bytes);
  if (local_bytes > STACK_BYTES) limits_set(local_bytes);
  if (error != cudaSuccess) return hr__cuda_fail(state, err, "cannot start on GPU 0", error);
  snprintf(device->facts.name, sizeof device->facts.name, "%.*s", (int)sizeof device->facts.name - 1, properties.name);
  device->facts.memory_bytes = properties.totalGlobalMem;
  facts_version(&device->facts, properties.major * 10 + properties.minor);
  state->multiprocessors = properties.multiProcessorCount;
  state->meeting = properties.cooperativeLaunch ? properties.multiProcessorCount : 1;
  state->early = properties.major >= 9;
  return hr__lt_create(state, err);
}

static hr_status host_check(const hr_cuda_host *host, hr_error *err) {
  static const hr_cuda_layout own = HR_CUDA_LAYOUT;
  static const char remedy[] = "build plug-in and program from one tree";
  if (memcmp(&host->layout, &own, sizeof own) != 0) {
    /* The error struct itself may differ: nothing may be written into it. */
    return host->layout.abi == own.abi && host->layout.error == own.error
               ? host->fail(err, HR_UNSUPPORTED, NULL, remedy, "the CUDA plug-in was built for another version")
               : HR_UNSUPPORTED;
  }
  if (*host->ops && strcmp(host->ops, HR_OPS_SHA256) != 0)
    return host->fail(err, HR_UNSUPPORTED, NULL, remedy, "the CUDA plug-in was built for another list of ops");
  return HR_OK;
}

extern "C" __attribute__((visibility("default"))) hr_status hr_cuda_plugin_open(const hr_cuda_host *host,
                                                                                hr_device **out, hr_error *err) {
  *out = nullptr;
  hr_status status = host_check(host, err);
  if (status == HR_OK) status = gpu_find(host, err);
  if (status != HR_OK) return status;

  hr_device *device = (hr_device *)host->alloc(sizeof *device);
  hr_cuda_state *state = (hr_cuda_state *)host->alloc(sizeof *state);
  if (!device || !state) {
    host->free(device);
    host->free(state);
    return host->fail(err, HR_NOMEM, NULL, NULL, "out of memory");
  }
  *state = hr_cuda_state();
  state->host = *host;
  *device = hr_device();
  device->functions = &functions;
  device->state = state;
  device->facts.kind = HR_CUDA;
  device->facts.alignment = 256;
  device->facts.threads = 1;

  status = gpu_start(device, err);
  if (status == HR_OK) status = process_bytes(device, &device->facts.fixed_bytes, err);
  if (status != HR_OK) {
    device_destroy(device);
    return status;
  }
  *out = device;
  return HR_OK;
}
