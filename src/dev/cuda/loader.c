/* Loads libheadroom_cuda.so when a CUDA device is wanted. The program itself needs no CUDA. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "dev/cuda/plugin.h"

#define PLUGIN_FILE "libheadroom_cuda.so"
#define PLUGIN_ENV  "HEADROOM_CUDA_PLUGIN"

#ifndef HR_OPS_SHA256
#define HR_OPS_SHA256 "" /* built without the project's CMake files: not compared */
#endif

/* Writes where the plug-in lies: the file that the environment names, else beside the program or in its lib folder. */
static hr_status plugin_find(char path[PATH_MAX], hr_error *err) {
  static const char *const remedy = "build it with -DHR_CUDA=ON (needs nvcc) and keep it beside the program, or name "
                                    "the file in " PLUGIN_ENV;
  const char *given = getenv(PLUGIN_ENV);
  if (given && *given) {
    if (access(given, R_OK) != 0)
      return hr__fail(err, HR_UNSUPPORTED, given, remedy, "%s names a file that cannot be read", PLUGIN_ENV);
    snprintf(path, PATH_MAX, "%s", given);
    return HR_OK;
  }

  char program[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  program[length < 0 ? 0 : length] = '\0';
  char *slash = strrchr(program, '/');
  if (slash) *slash = '\0';
  static const char *const folders[] = {"", "/lib", "/../lib"};
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    int written = snprintf(path, PATH_MAX, "%s%s/" PLUGIN_FILE, program, folders[i]);
    if (written > 0 && written < PATH_MAX && access(path, R_OK) == 0) return HR_OK;
  }
  return hr__fail(err, HR_UNSUPPORTED, NULL, remedy, "the CUDA plug-in %s was not found beside the program",
                  PLUGIN_FILE);
}

/* Without a driver there is no use in the plug-in, whose libraries take 150 MB of a process that computes on the CPU.
 * One that the environment names is somebody's wish. */
static hr_status driver_find(hr_error *err) {
  const char *given = getenv(PLUGIN_ENV);
  if (given && *given) return HR_OK;
  void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (!driver)
    return hr__fail(err, HR_UNSUPPORTED, NULL, "install NVIDIA's driver, or use memory.device: cpu",
                    "there is no GPU that can be used here: no driver (libcuda.so.1) is installed");
  dlclose(driver);
  return HR_OK;
}

hr_status hr__cuda_open(hr_device **out, hr_error *err) {
  static const hr_cuda_host host = {.layout = HR_CUDA_LAYOUT,
                                    .ops = HR_OPS_SHA256,
                                    .fail = hr__fail,
                                    .alloc = hr__alloc,
                                    .free = hr__free,
                                    .memory_create = hr__host_memory_create,
                                    .memory_destroy = hr__host_memory_destroy};
  char path[PATH_MAX];
  HR_TRY(plugin_find(path, err));
  HR_TRY(driver_find(err));

  /* Never unloaded: the CUDA runtime inside does not survive it. Opening again gives the same handle. */
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return hr__fail(err, HR_UNSUPPORTED, path,
                    "install the CUDA libraries it names, or add their folder to LD_LIBRARY_PATH",
                    "the CUDA plug-in cannot be loaded: %s", dlerror());
  void *symbol = dlsym(handle, HR_CUDA_ENTRY);
  if (!symbol)
    return hr__fail(err, HR_UNSUPPORTED, path, "build plug-in and program from one tree", "not a plug-in of headroom");
  hr_cuda_open *open_device;
  memcpy(&open_device, &symbol, sizeof open_device); /* ISO C has no cast from object to function pointer */
  HR_TRY(open_device(&host, out, err));

  /* Threads of the CPU: for kernels on the host, for drawing and packing first values. */
  hr_facts cpu;
  hr__cpu_facts(&cpu);
  hr_status status = hr__pool_create(cpu.threads, &(*out)->pool, err);
  if (status == HR_OK) return HR_OK;
  hr__device_close(*out);
  *out = NULL;
  return status;
}
