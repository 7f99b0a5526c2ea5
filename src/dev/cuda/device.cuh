/* What the files of the CUDA device share; ops need none of it. */
#ifndef HR_DEV_CUDA_DEVICE_CUH
#define HR_DEV_CUDA_DEVICE_CUH

#include "dev/cuda/launch.cuh"

static inline hr_cuda_state *state_of(hr_device *device) {
  return (hr_cuda_state *)device->state;
}

/* Writes the message of a call that failed. */
hr_status hr__cuda_fail(const hr_cuda_state *state, hr_error *err, const char *what, cudaError_t error);

/* recording.cu: hr_device_functions.launch, .record, .replay, .recording_destroy. */
hr_status hr__cuda_launch(hr_device *device, const hr_launch *launch);
hr_status hr__cuda_record(hr_device *device, const hr_launch *launches, size_t count, hr_recording **out,
                          size_t *failed, hr_error *err);
hr_status hr__cuda_replay(hr_device *device, hr_recording *recording, size_t *failed);
void hr__cuda_recording_destroy(hr_device *device, hr_recording *recording);

/* staging.cu: copies between the device and memory of the host that is not pinned, and hr_device_functions.copy. */
cudaError_t hr__staging_create(hr_cuda_state *state);
void hr__staging_destroy(hr_cuda_state *state); /* also of one that is not there */
hr_status hr__cuda_copy(hr_device *device, hr_copy kind, void *to, const void *from, size_t bytes, hr_error *err);

#endif
