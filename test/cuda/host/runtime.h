/* The functions of CUDA's runtime that the plug-in calls. */
#ifndef HR_TEST_CUDA_HOST_RUNTIME_H
#define HR_TEST_CUDA_HOST_RUNTIME_H

enum cudaError_t {
  cudaSuccess,
  cudaErrorInvalidValue,
  cudaErrorMemoryAllocation,
  cudaErrorInsufficientDriver,
  cudaErrorLaunchFailure,
  cudaErrorInvalidConfiguration,
  cudaErrorStreamCapture,
};
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError(void);

/* ---- the device ---- */

struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem;
  int major, minor, multiProcessorCount, cooperativeLaunch;
};
enum cudaLimit { cudaLimitStackSize, cudaLimitMallocHeapSize, cudaLimitPrintfFifoSize };
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount };
enum { cudaDeviceScheduleSpin = 1 };
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaDeviceGetPCIBusId(char *name, int room, int device);
cudaError_t cudaSetDeviceFlags(unsigned flags);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device);
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value);

/* ---- memory ---- */

enum { cudaHostRegisterDefault = 0, cudaHostAllocDefault = 0 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
cudaError_t cudaMalloc(void **to, size_t bytes);
template <typename T> static cudaError_t cudaMalloc(T **to, size_t bytes) {
  return cudaMalloc((void **)to, bytes);
}
cudaError_t cudaFree(void *pointer);
cudaError_t cudaHostAlloc(void **to, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void *pointer);
cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void *pointer);
cudaError_t cudaMemGetInfo(size_t *left, size_t *all);
template <typename T> static cudaError_t cudaGetSymbolAddress(void **to, T &symbol) {
  *to = (void *)&symbol;
  return cudaSuccess;
}

/* ---- streams, events, graphs ---- */

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
enum { cudaStreamNonBlocking = 1, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeRelaxed };
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *to, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreate(cudaEvent_t *to);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *to, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *to, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph);

/* ---- what goes on a stream ---- */

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void *), void *with);

struct cudaFuncAttributes {
  size_t localSizeBytes;
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *function);
cudaError_t cudaFuncSetAttribute(const void *function, cudaFuncAttribute attribute, int value);

enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization };
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    int programmaticStreamSerializationAllowed;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute *attrs;
  unsigned numAttrs;
};

namespace emulated {
/* Does `work` now, or when the graph that captures the stream is launched. */
cudaError_t stream_add(cudaStream_t stream, std::function<void()> work);
cudaError_t kernel_add(const cudaLaunchConfig_t &config, const void *kernel, std::function<void()> thread);
} // namespace emulated

/* Arguments become parameters when a kernel is launched, not when it runs. */
template <typename... Parameters, typename... Arguments>
static cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(Parameters...),
                                      Arguments &&...arguments) {
  std::tuple<std::remove_cv_t<Parameters>...> parameters(arguments...);
  return emulated::kernel_add(*config, (const void *)kernel, [kernel, parameters] { std::apply(kernel, parameters); });
}

#endif
