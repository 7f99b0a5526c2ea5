/* Streams without a capture do at once what they are given. Those of a capture make a graph, with the order that events
 * give it and no more: backwards (block.h), what is not ordered runs the other way round. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include "cuda_runtime.h"

using emulated::broken;

/* What the device is like; small, so that plans for it are too. */
static const size_t MEMORY_BYTES = (size_t)8 << 30, CONTEXT_BYTES = 1 << 20;
enum { MAJOR = 9, MINOR = 0, PROCESSORS = 4, SHARED_FREE = 48 << 10, SHARED_MOST = 227 << 10 };

static std::atomic<cudaError_t> last_error{cudaSuccess};

static cudaError_t noted(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

const char *cudaGetErrorString(cudaError_t error) {
  static const char *const texts[] = {"no error",         "invalid argument", "out of memory",
                                      "no driver",        "a kernel failed",  "invalid launch configuration",
                                      "invalid capturing"};
  return texts[error];
}
cudaError_t cudaGetLastError(void) {
  return last_error.exchange(cudaSuccess);
}

/* ---- the device ---- */

cudaError_t cudaGetDeviceCount(int *count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char *name, int room, int) {
  snprintf(name, (size_t)room, "0000:00:00.0");
  return cudaSuccess;
}
cudaError_t cudaSetDeviceFlags(unsigned) {
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) {
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) {
  *device = 0;
  return cudaSuccess;
}
/* HEADROOM_EMULATE_CAPABILITY, 10 x major + minor: kernels that only some devices have are left out for others. */
static int capability(void) {
  const char *given = getenv("HEADROOM_EMULATE_CAPABILITY");
  return given && *given ? atoi(given) : 10 * MAJOR + MINOR;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int) {
  *properties = cudaDeviceProp();
  snprintf(properties->name, sizeof properties->name, "emulated GPU");
  properties->totalGlobalMem = MEMORY_BYTES;
  properties->major = capability() / 10;
  properties->minor = capability() % 10;
  properties->multiProcessorCount = PROCESSORS;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr, int) {
  *value = PROCESSORS;
  return cudaSuccess;
}
cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) {
  return cudaSuccess;
}

/* ---- memory ---- */

static struct {
  std::mutex lock;
  std::map<char *, size_t> blocks;
  size_t bytes;
} memory;

cudaError_t cudaMalloc(void **to, size_t bytes) {
  std::lock_guard<std::mutex> hold(memory.lock);
  *to = nullptr;
  if (bytes > MEMORY_BYTES - CONTEXT_BYTES - memory.bytes) return noted(cudaErrorMemoryAllocation);
  if (posix_memalign(to, 256, bytes ? bytes : 1) != 0) return noted(cudaErrorMemoryAllocation);
  memset(*to, emulated::POISON, bytes);
  memory.blocks[(char *)*to] = bytes;
  memory.bytes += bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void *pointer) {
  if (!pointer) return cudaSuccess;
  std::lock_guard<std::mutex> hold(memory.lock);
  auto found = memory.blocks.find((char *)pointer);
  if (found == memory.blocks.end()) return noted(cudaErrorInvalidValue);
  memory.bytes -= found->second;
  memory.blocks.erase(found);
  free(pointer);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void **to, size_t bytes, unsigned) {
  return posix_memalign(to, 4096, bytes ? bytes : 1) == 0 ? cudaSuccess : noted(cudaErrorMemoryAllocation);
}
cudaError_t cudaFreeHost(void *pointer) {
  free(pointer);
  return cudaSuccess;
}
cudaError_t cudaHostRegister(void *, size_t, unsigned) {
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void *) {
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *left, size_t *all) {
  std::lock_guard<std::mutex> hold(memory.lock);
  *all = MEMORY_BYTES;
  *left = MEMORY_BYTES - CONTEXT_BYTES - memory.bytes;
  return cudaSuccess;
}

/* Whether all of it is in one block of the device, where `device` says that it has to be, and in none otherwise. */
static bool lies_right(const void *pointer, size_t bytes, bool device) {
  std::lock_guard<std::mutex> hold(memory.lock);
  char *at = (char *)pointer;
  auto next = memory.blocks.upper_bound(at);
  if (next == memory.blocks.begin()) return !device;
  auto block = std::prev(next);
  size_t offset = (size_t)(at - block->first);
  bool inside = offset < block->second;
  return device ? inside && bytes <= block->second - offset : !inside;
}

/* ---- streams ---- */

typedef std::vector<size_t> nodes; /* numbers in the graph */

struct node {
  std::function<void()> work;
  nodes after;
};
struct CUgraph_st {
  std::vector<node> all;
  std::vector<cudaStream_t> streams; /* that take part while it is captured, the first one first */
};
struct CUgraphExec_st {
  std::vector<std::function<void()>> work; /* in the order in which it is done */
};
struct CUstream_st {
  CUgraph_st *capture; /* NULL: none */
  nodes tail;          /* that the next node comes behind */
};
struct CUevent_st {
  CUgraph_st *capture;
  nodes tail;
  timespec time;
};

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *to, unsigned) {
  *to = new CUstream_st();
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return stream->capture ? noted(cudaErrorStreamCapture) : cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *to, unsigned) {
  *to = new CUevent_st();
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *to) {
  return cudaEventCreateWithFlags(to, 0);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->capture = stream->capture;
  event->tail = stream->tail;
  clock_gettime(CLOCK_MONOTONIC, &event->time);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return event->capture ? noted(cudaErrorStreamCapture) : cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to) {
  *milliseconds = (float)((double)(to->time.tv_sec - from->time.tv_sec) * 1e3 +
                          (double)(to->time.tv_nsec - from->time.tv_nsec) * 1e-6);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (!event->capture) return stream->capture ? noted(cudaErrorStreamCapture) : cudaSuccess;
  if (stream->capture && stream->capture != event->capture) return noted(cudaErrorStreamCapture);
  if (!stream->capture) event->capture->streams.push_back(stream);
  stream->capture = event->capture;
  for (size_t number : event->tail)
    if (std::find(stream->tail.begin(), stream->tail.end(), number) == stream->tail.end())
      stream->tail.push_back(number);
  return cudaSuccess;
}

/* ---- captures and graphs ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (stream->capture) return noted(cudaErrorStreamCapture);
  stream->capture = new CUgraph_st();
  stream->capture->streams.push_back(stream);
  stream->tail.clear();
  return cudaSuccess;
}

/* Whether everything is done when the nodes of `last` are. */
static bool all_behind(const CUgraph_st *graph, const nodes &last) {
  std::vector<bool> reached(graph->all.size());
  nodes open = last;
  while (!open.empty()) {
    size_t number = open.back();
    open.pop_back();
    if (reached[number]) continue;
    reached[number] = true;
    open.insert(open.end(), graph->all[number].after.begin(), graph->all[number].after.end());
  }
  return std::find(reached.begin(), reached.end(), false) == reached.end();
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  CUgraph_st *made = stream->capture;
  if (!made || made->streams[0] != stream) return noted(cudaErrorStreamCapture);
  bool joined = all_behind(made, stream->tail);
  for (cudaStream_t part : made->streams) {
    part->capture = nullptr;
    part->tail.clear();
  }
  *graph = joined ? made : nullptr;
  if (joined) return cudaSuccess;
  delete made;
  return noted(cudaErrorStreamCapture);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *to, cudaGraph_t graph, unsigned long long) {
  size_t count = graph->all.size();
  std::vector<bool> done(count);
  CUgraphExec_st *made = new CUgraphExec_st();
  while (made->work.size() < count) {
    size_t chosen = count;
    for (size_t i = 0; i < count; i++) {
      size_t number = emulated::backwards() ? count - 1 - i : i;
      const nodes &after = graph->all[number].after;
      if (done[number] || !std::all_of(after.begin(), after.end(), [&](size_t n) { return done[n]; })) continue;
      chosen = number;
      break;
    }
    done[chosen] = true;
    made->work.push_back(graph->all[chosen].work);
  }
  *to = made;
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  if (stream->capture) return noted(cudaErrorStreamCapture);
  for (const auto &work : graph->work)
    work();
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return cudaSuccess;
}

/* ---- what goes on a stream ---- */

cudaError_t emulated::stream_add(cudaStream_t stream, std::function<void()> work) {
  if (!stream->capture) {
    work();
    return cudaSuccess;
  }
  std::vector<node> &all = stream->capture->all;
  all.push_back({std::move(work), stream->tail});
  stream->tail = {all.size() - 1};
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes && (!lies_right(to, bytes, kind != cudaMemcpyDeviceToHost) ||
                !lies_right(from, bytes, kind != cudaMemcpyHostToDevice)))
    return noted(cudaErrorInvalidValue);
  return emulated::stream_add(stream, [=] { memmove(to, from, bytes); });
}
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
  if (bytes && !lies_right(to, bytes, true)) return noted(cudaErrorInvalidValue);
  return emulated::stream_add(stream, [=] { memset(to, value, bytes); });
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void *), void *with) {
  return emulated::stream_add(stream, [=] { function(with); });
}

/* ---- kernels ---- */

static std::map<const void *, size_t> shared_allowed; /* where more than SHARED_FREE is */

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *function) {
  *attributes = cudaFuncAttributes();
  return function ? cudaSuccess : noted(cudaErrorInvalidValue);
}
cudaError_t cudaFuncSetAttribute(const void *function, cudaFuncAttribute, int value) {
  if (value < 0 || value > SHARED_MOST) return noted(cudaErrorInvalidValue);
  shared_allowed[function] = (size_t)value;
  return cudaSuccess;
}

/* For messages: what the linker calls a kernel, where it has a name to the outside. */
static const char *kernel_name(const void *kernel) {
  Dl_info info;
  return dladdr(kernel, &info) && info.dli_sname ? info.dli_sname : "a kernel";
}

cudaError_t emulated::kernel_add(const cudaLaunchConfig_t &config, const void *kernel, std::function<void()> thread) {
  dim3 grid = config.gridDim, block = config.blockDim;
  size_t shared = config.dynamicSmemBytes;
  auto allowed = shared_allowed.find(kernel);
  size_t most = allowed == shared_allowed.end() ? (size_t)SHARED_FREE : allowed->second;
  bool sizes = grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= INT32_MAX && grid.y <= 65535 && grid.z <= 65535;
  bool threads = block.x > 0 && block.y > 0 && block.z > 0 && block.x <= 1024 && block.y <= 1024 && block.z <= 64 &&
                 (uint64_t)block.x * block.y * block.z <= 1024;
  if (!sizes || !threads || (shared > SHARED_FREE && shared > most)) return noted(cudaErrorInvalidConfiguration);
  return stream_add(config.stream, [=] { grid_run(kernel_name(kernel), grid, block, shared, thread); });
}
