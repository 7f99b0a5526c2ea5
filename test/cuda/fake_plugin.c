/* A plug-in for tests where no GPU is: a device with facts, on which nothing can be run. */
#include "dev/cuda/plugin.h"

static const hr_cuda_host *program;

static hr_status arena_create(hr_device *device, hr_tier tier, size_t bytes, void **base, hr_error *err) {
  (void)device, (void)tier, (void)bytes, (void)base;
  return program->fail(err, HR_FAILURE, NULL, NULL, "the GPU of the tests has come to be used");
}

static hr_status process_bytes(hr_device *device, uint64_t *bytes, hr_error *err) {
  (void)device, (void)err;
  *bytes = 0;
  return HR_OK;
}

static void destroy(hr_device *device) {
  program->free(device);
}

static const hr_device_functions functions = {
    .arena_create = arena_create, .process_bytes = process_bytes, .destroy = destroy};

__attribute__((visibility("default"))) hr_status hr_cuda_plugin_open(const hr_cuda_host *host, hr_device **out,
                                                                     hr_error *err) {
  program = host;
  hr_device *device = host->alloc(sizeof *device);
  if (!device) return host->fail(err, HR_NOMEM, NULL, NULL, "out of memory");
  *device = (hr_device){.functions = &functions,
                        .facts = {.kind = HR_CUDA,
                                  .name = "NVIDIA GeForce RTX 3060",
                                  .memory_bytes = (uint64_t)12036 << 20,
                                  .fixed_bytes = (uint64_t)150 << 20,
                                  .capability = 86,
                                  .version = "tests",
                                  .alignment = 256,
                                  .threads = 1}};
  *out = device;
  return HR_OK;
}
