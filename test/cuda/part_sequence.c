/* See part_sequence.h. */
#include "part_sequence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

hr_device *gpu;
void *bases[2];
char *host, *results[2];

static void check(hr_status status, const hr_error *err) {
  if (status != HR_OK) fail_msg("%s", err->message);
}

hr_tensor tensor_take(sequence *s, hr_desc desc) {
  hr_tensor tensor = {.desc = desc, .data = s->base + s->used};
  s->used += (hr_desc_bytes(&desc) + 255) / 256 * 256;
  assert_true(s->used <= ARENA);
  return tensor;
}

void sequence_work(sequence *s, void *work, size_t bytes) {
  s->work = work;
  s->work_bytes = bytes;
}

void launch_add(sequence *s, const char *op, int n_in, int n_out, const void *args) {
  hr_error err;
  hr_launch *launch = &s->launches[s->count];
  *launch = (hr_launch){.kind = HR_LAUNCH_KERNEL, .kernel = gpu->functions->kernel(gpu, op)};
  assert_non_null(launch->kernel);
  launch->call = (hr_call){.in = s->in[s->count],
                           .out = s->out[s->count],
                           .n_in = n_in,
                           .n_out = n_out,
                           .args = args,
                           .workspace = s->work,
                           .workspace_bytes = s->work_bytes,
                           .stream_key = 7,
                           .device = gpu};
  sequence_work(s, NULL, 0);
  if (launch->kernel->prepare) check(launch->kernel->prepare(&launch->call, &launch->call.prepared, &err), &err);
  s->count++;
}

void sequences_run(const sequence *one, const sequence *recorded) {
  hr_error err;
  size_t failed;
  for (int i = 0; i < 2; i++)
    check(gpu->functions->copy(gpu, HR_COPY_TO_DEVICE, bases[i], host, one->used, &err), &err);
  for (size_t i = 0; i < one->count; i++)
    assert_int_equal(gpu->functions->launch(gpu, &one->launches[i]), HR_OK);
  check(gpu->functions->synchronize(gpu, &err), &err);
  hr_recording *recording;
  check(gpu->functions->record(gpu, recorded->launches, recorded->count, &recording, &failed, &err), &err);
  assert_int_equal(gpu->functions->replay(gpu, recording, &failed), HR_OK);
  check(gpu->functions->synchronize(gpu, &err), &err);
  gpu->functions->recording_destroy(gpu, recording);
  for (int i = 0; i < 2; i++)
    check(gpu->functions->copy(gpu, HR_COPY_FROM_DEVICE, results[i], bases[i], one->used, &err), &err);
}

int sequences_open(void) {
  hr_error err = {0};
  if (hr__cuda_open(&gpu, &err) != HR_OK) {
    printf("skipped: %s\n", err.message);
    return 77;
  }
  host = malloc(ARENA);
  bool there = host != NULL;
  for (int i = 0; i < 2; i++) {
    results[i] = malloc(ARENA);
    there &= results[i] && gpu->functions->arena_create(gpu, HR_TIER_DEVICE, ARENA, &bases[i], &err) == HR_OK;
  }
  return there ? 0 : 1;
}

void sequences_close(void) {
  for (int i = 0; i < 2; i++) {
    gpu->functions->arena_destroy(gpu, HR_TIER_DEVICE, bases[i], ARENA);
    free(results[i]);
  }
  free(host);
  hr__device_close(gpu);
}
