/* The CUDA device: one GPU, one stream, one arena per tier, recordings as CUDA graphs. */
#include <stdio.h>
#include <string.h>

#include "dev/cuda/cublaslt.h"
#include "dev/cuda/cudnn.h"
#include "dev/cuda/launch.cuh"
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

struct hr_recording {
  cudaGraphExec_t graph;
  size_t count; /* launches inside */
};

static hr_cuda_state *state_of(hr_device *device) {
  return (hr_cuda_state *)device->state;
}

static hr_status cuda_fail(const hr_cuda_state *state, hr_error *err, const char *what, cudaError_t error) {
  cudaGetLastError(); /* errors that do not stick end here */
  return state->host.fail(err, error == cudaErrorMemoryAllocation ? HR_NOMEM : HR_FAILURE, "CUDA", NULL, "%s: %s", what,
                          cudaGetErrorString(error));
}

static hr_status arena_create(hr_device *device, hr_tier tier, size_t bytes, void **base, hr_error *err) {
  hr_cuda_state *state = state_of(device);
  bool host = tier == HR_TIER_HOST;
  *base = nullptr;
  if (tier == HR_TIER_DISK) return state->host.fail(err, HR_UNSUPPORTED, NULL, NULL, "the disk tier has no arena");
  if (bytes == 0) return HR_OK;
  cudaError_t error = host ? cudaHostAlloc(base, bytes, cudaHostAllocDefault) : cudaMalloc(base, bytes);
  if (error != cudaSuccess) {
    cudaGetLastError();
    return state->host.fail(err, HR_NOMEM, NULL, "free memory on the GPU or lower memory.budget",
                            "cannot take %zu bytes of %s memory: %s", bytes, host ? "pinned host" : "GPU",
                            cudaGetErrorString(error));
  }
  if (host) {
    memset(*base, 0, bytes);
    return HR_OK;
  }
  error = cudaMemsetAsync(*base, 0, bytes, state->stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(state->stream);
  if (error == cudaSuccess) return HR_OK;
  cudaFree(*base);
  *base = nullptr;
  return cuda_fail(state, err, "cannot clear the arena", error);
}

static void arena_destroy(hr_device *device, hr_tier tier, void *base, size_t bytes) {
  (void)bytes;
  cudaStreamSynchronize(state_of(device)->stream);
  if (tier == HR_TIER_HOST)
    cudaFreeHost(base);
  else
    cudaFree(base);
}

static hr_status device_copy(hr_device *device, hr_copy kind, void *to, const void *from, size_t bytes, hr_error *err) {
  hr_cuda_state *state = state_of(device);
  cudaMemcpyKind direction = kind == HR_COPY_TO_DEVICE ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
  cudaError_t error = cudaMemcpyAsync(to, from, bytes, direction, state->stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(state->stream);
  return error == cudaSuccess ? HR_OK : cuda_fail(state, err, "copy failed", error);
}

static const hr_kernel *device_kernel(hr_device *device, const char *op_name) {
  (void)device;
  for (const auto &entry : launchers)
    if (strcmp(entry.op, op_name) == 0) return &entry.launcher->kernel;
  return nullptr;
}

static hr_status device_launch(hr_device *device, const hr_launch *launch) {
  state_of(device)->counts.launches++;
  return launch->kernel->run(&launch->call);
}

static const hr_cuda_launcher *launcher_of(const hr_kernel *kernel) {
  return (const hr_cuda_launcher *)kernel; /* its first member, and kernels come from no other place */
}

/* Runs launches[i] and those of its neighbours that go together with it; *i moves on behind them. */
static hr_status launches_run(const hr_launch *launches, size_t count, size_t *i) {
  const hr_launch *first = &launches[*i];
  const hr_cuda_launcher *launcher = launcher_of(first->kernel);
  size_t many = 1;
  while (launcher->run_many && *i + many < count && first[many].kernel == first->kernel)
    many++;
  hr_status status = many > 1 ? launcher->run_many(first, many) : first->kernel->run(&first->call);
  if (status == HR_OK) *i += many;
  return status;
}

/* Runs all launches into a stream under capture. On failure *failed is the launch that was refused. */
static cudaError_t launches_capture(hr_cuda_state *state, const hr_launch *launches, size_t count, cudaGraph_t *graph,
                                    size_t *failed) {
  cudaError_t error = cudaStreamBeginCapture(state->stream, cudaStreamCaptureModeRelaxed);
  if (error != cudaSuccess) return error;
  size_t i = 0;
  while (i < count && launches_run(launches, count, &i) == HR_OK)
    continue;
  *failed = i;
  error = cudaStreamEndCapture(state->stream, graph);
  if (i < count && error == cudaSuccess) {
    cudaGraphDestroy(*graph);
    return cudaErrorLaunchFailure;
  }
  return error;
}

static hr_status device_record(hr_device *device, const hr_launch *launches, size_t count, hr_recording **out,
                               hr_error *err) {
  hr_cuda_state *state = state_of(device);
  hr_recording *recording = (hr_recording *)state->host.alloc(sizeof *recording);
  if (!recording) return state->host.fail(err, HR_NOMEM, NULL, NULL, "out of memory");
  *recording = hr_recording{nullptr, count};

  cudaGraph_t graph = nullptr;
  size_t failed = count;
  cudaError_t error = launches_capture(state, launches, count, &graph, &failed);
  if (error == cudaSuccess) {
    error = cudaGraphInstantiate(&recording->graph, graph, 0);
    cudaGraphDestroy(graph);
  }
  /* What a graph needs on the device is taken now, not at the first replay. */
  if (error == cudaSuccess) error = cudaGraphUpload(recording->graph, state->stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(state->stream);
  if (error != cudaSuccess) {
    if (recording->graph) cudaGraphExecDestroy(recording->graph);
    state->host.free(recording);
    cudaGetLastError();
    return state->host.fail(err, HR_FAILURE, "CUDA", NULL, "cannot record launch %zu of %zu: %s", failed, count,
                            cudaGetErrorString(error));
  }
  state->counts.graphs++;
  *out = recording;
  return HR_OK;
}

/* A graph fails as a whole: which launch it was is not known. */
static hr_status device_replay(hr_device *device, hr_recording *recording, size_t *failed) {
  hr_cuda_state *state = state_of(device);
  *failed = recording->count;
  state->counts.graph_launches++;
  return cudaGraphLaunch(recording->graph, state->stream) == cudaSuccess ? HR_OK : HR_FAILURE;
}

static void recording_destroy(hr_device *device, hr_recording *recording) {
  cudaStreamSynchronize(state_of(device)->stream);
  cudaGraphExecDestroy(recording->graph);
  state_of(device)->host.free(recording);
}

static hr_status device_synchronize(hr_device *device, hr_error *err) {
  cudaError_t error = cudaStreamSynchronize(state_of(device)->stream);
  return error == cudaSuccess ? HR_OK : cuda_fail(state_of(device), err, "the GPU reported", error);
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
  hr__cudnn_destroy(state);
  hr__lt_destroy(state);
  if (state->stream) cudaStreamDestroy(state->stream);
  release(state);
  release(device);
}

static const hr_device_functions functions = {arena_create,       arena_destroy, device_copy,    device_kernel,
                                              device_launch,      device_record, device_replay,  recording_destroy,
                                              device_synchronize, process_bytes, device_destroy, nullptr};

/* Lazily loaded code takes device memory at its first use: asking for its attributes loads it now. */
static cudaError_t functions_load(void) {
  for (const auto &entry : launchers)
    for (const void *function : entry.launcher->functions) {
      if (!function) break;
      cudaFuncAttributes attributes;
      cudaError_t error = cudaFuncGetAttributes(&attributes, function);
      if (error != cudaSuccess) return error;
    }
  return cudaSuccess;
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

/* Context, stream and library handle; notes what others hold on the GPU before there is a context. */
static hr_status gpu_start(hr_device *device, hr_error *err) {
  hr_cuda_state *state = state_of(device);
  char bus[32];
  cudaError_t error = cudaDeviceGetPCIBusId(bus, sizeof bus, 0);
  if (error == cudaSuccess) {
    hr__nvml_begin(bus);
    error = cudaSetDevice(0);
  }
  if (error == cudaSuccess) error = cudaFree(nullptr);
  cudaDeviceProp properties;
  if (error == cudaSuccess) error = cudaGetDeviceProperties(&properties, 0);
  if (error != cudaSuccess) return cuda_fail(state, err, "cannot open GPU 0", error);
  if (properties.major < 8)
    return state->host.fail(err, HR_UNSUPPORTED, NULL, "use memory.device: cpu",
                            "%s has compute capability %d.%d; 8.0 is the least that is supported", properties.name,
                            properties.major, properties.minor);
  error = cudaStreamCreateWithFlags(&state->stream, cudaStreamNonBlocking);
  if (error == cudaSuccess) error = functions_load();
  if (error != cudaSuccess) return cuda_fail(state, err, "cannot start on GPU 0", error);
  snprintf(device->facts.name, sizeof device->facts.name, "%.*s", (int)sizeof device->facts.name - 1, properties.name);
  device->facts.memory_bytes = properties.totalGlobalMem;
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
