/* Copies between the device and memory of the host that is not pinned: through a ring of pinned pieces, so that the
 * copy engine moves one piece while the processor copies the next.
 *
 * A piece is taken again when the copy that used it last is done; each has an event for that. A copy to the device is
 * over for the caller when its last piece is filled: what follows on the stream comes after it. */
#include <string.h>

#include "dev/cuda/device.cuh"

cudaError_t hr__staging_create(hr_cuda_state *state) {
  cudaError_t error = cudaHostAlloc((void **)&state->pieces, HR_CUDA_PINNED_BYTES, cudaHostAllocDefault);
  for (int i = 0; error == cudaSuccess && i < HR_CUDA_PIECES; i++)
    error = cudaEventCreateWithFlags(&state->piece_free[i], cudaEventDisableTiming);
  return error;
}

void hr__staging_destroy(hr_cuda_state *state) {
  for (cudaEvent_t event : state->piece_free)
    if (event) cudaEventDestroy(event);
  if (state->pieces) cudaFreeHost(state->pieces);
}

static size_t piece_bytes(size_t bytes, size_t number) {
  size_t left = bytes - number * HR_CUDA_PIECE_BYTES;
  return left < HR_CUDA_PIECE_BYTES ? left : (size_t)HR_CUDA_PIECE_BYTES;
}

static cudaError_t copy_in(hr_cuda_state *state, char *to, const char *from, size_t bytes) {
  size_t count = (bytes + HR_CUDA_PIECE_BYTES - 1) / HR_CUDA_PIECE_BYTES;
  cudaError_t error = cudaSuccess;
  for (size_t k = 0; error == cudaSuccess && k < count; k++) {
    size_t slot = state->piece_next++ % HR_CUDA_PIECES, at = k * HR_CUDA_PIECE_BYTES, n = piece_bytes(bytes, k);
    char *piece = state->pieces + slot * HR_CUDA_PIECE_BYTES;
    error = cudaEventSynchronize(state->piece_free[slot]);
    if (error != cudaSuccess) break;
    memcpy(piece, from + at, n);
    error = cudaMemcpyAsync(to + at, piece, n, cudaMemcpyHostToDevice, state->stream);
    if (error == cudaSuccess) error = cudaEventRecord(state->piece_free[slot], state->stream);
  }
  return error;
}

/* Piece k is sent while piece k - LAG is taken out. */
static cudaError_t copy_out(hr_cuda_state *state, char *to, const char *from, size_t bytes) {
  enum { LAG = HR_CUDA_PIECES - 1 };
  size_t count = (bytes + HR_CUDA_PIECE_BYTES - 1) / HR_CUDA_PIECE_BYTES, first = state->piece_next;
  cudaError_t error = cudaSuccess;
  for (size_t k = 0; error == cudaSuccess && k < count + LAG; k++) {
    if (k < count) {
      size_t slot = (first + k) % HR_CUDA_PIECES;
      error = cudaEventSynchronize(state->piece_free[slot]); /* of an earlier copy to the device */
      if (error == cudaSuccess)
        error = cudaMemcpyAsync(state->pieces + slot * HR_CUDA_PIECE_BYTES, from + k * HR_CUDA_PIECE_BYTES,
                                piece_bytes(bytes, k), cudaMemcpyDeviceToHost, state->stream);
      if (error == cudaSuccess) error = cudaEventRecord(state->piece_free[slot], state->stream);
    }
    if (error == cudaSuccess && k >= LAG && k - LAG < count) {
      size_t slot = (first + k - LAG) % HR_CUDA_PIECES;
      error = cudaEventSynchronize(state->piece_free[slot]);
      if (error == cudaSuccess)
        memcpy(to + (k - LAG) * HR_CUDA_PIECE_BYTES, state->pieces + slot * HR_CUDA_PIECE_BYTES,
               piece_bytes(bytes, k - LAG));
    }
  }
  state->piece_next = first + count;
  return error;
}

hr_status hr__cuda_copy(hr_device *device, hr_copy kind, void *to, const void *from, size_t bytes, hr_error *err) {
  hr_cuda_state *state = state_of(device);
  cudaError_t error = kind == HR_COPY_TO_DEVICE ? copy_in(state, (char *)to, (const char *)from, bytes)
                                                : copy_out(state, (char *)to, (const char *)from, bytes);
  return error == cudaSuccess ? HR_OK : hr__cuda_fail(state, err, "copy failed", error);
}
