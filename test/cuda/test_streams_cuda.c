/* Copies on a GPU: beside kernels and host kernels in a recording, one by one, through pinned pieces, and from threads
 * of their own. Skipped (77) without a GPU. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dev/cuda/plugin.h"
#include "op/add.h"

enum { TILES = 13, SLOTS = 3, COUNT = 300001, RUNS = 20, LAUNCHES = 8 * TILES };
static const size_t tile_bytes = sizeof(float) * 300032; /* rounded up to what an operand is aligned to */

static hr_device *gpu;

static void check(hr_status status, const hr_error *err) {
  if (status != HR_OK) fail_msg("%s: %s (%s)", err->place, err->message, err->remedy);
}

static hr_status half_run(const hr_call *call) {
  float *x = call->out[0].data;
  for (int i = 0; i < COUNT; i++)
    x[i] += 0.5f;
  return HR_OK;
}
static const hr_kernel half = {.run = half_run};

/* A row of tiles: each comes up from the host, has 1 added there, goes back, and has 0.5 added on the host, while its
 * neighbours are on their way. */
typedef struct row {
  float *host;                      /* TILES of them */
  char *staged, *made, *one, *base; /* on the device: SLOTS, SLOTS, one tile */
  hr_tensor tensors[TILES][4];
  hr_launch launches[LAUNCHES], *in[TILES], *out[TILES];
  size_t count;
} row;

static hr_launch *launch_add(row *r, hr_launch_kind kind) {
  r->launches[r->count] = (hr_launch){.kind = kind};
  return &r->launches[r->count++];
}

static hr_tensor tensor_at(void *data) {
  return (hr_tensor){.data = data, .desc = {.dtype = HR_F32, .rank = 1, .dim = {COUNT}}, .stride = {1}};
}

static void tile_in(row *r, int k) {
  r->in[k] = launch_add(r, HR_LAUNCH_COPY);
  r->in[k]->copy = (hr_moving){.to = r->staged + (size_t)(k % SLOTS) * tile_bytes,
                               .from = r->host + (size_t)k * COUNT,
                               .bytes = sizeof(float) * COUNT,
                               .to_device = true};
}

static void tile_add(row *r, int k) {
  static const hr_add_args args = {1.0f};
  hr_tensor *t = r->tensors[k];
  t[0] = tensor_at(r->staged + (size_t)(k % SLOTS) * tile_bytes);
  t[1] = tensor_at(r->one);
  t[2] = tensor_at(r->made + (size_t)(k % SLOTS) * tile_bytes);
  t[3] = tensor_at(r->host + (size_t)k * COUNT);
  hr_launch *launch = launch_add(r, HR_LAUNCH_KERNEL);
  launch->kernel = gpu->functions->kernel(gpu, "add");
  launch->call = (hr_call){.in = t, .out = t + 2, .n_in = 2, .n_out = 1, .args = &args, .threads = 1, .device = gpu};
}

static void tile_out(row *r, int k) {
  r->out[k] = launch_add(r, HR_LAUNCH_COPY);
  r->out[k]->copy = (hr_moving){.to = r->host + (size_t)k * COUNT,
                                .from = r->made + (size_t)(k % SLOTS) * tile_bytes,
                                .bytes = sizeof(float) * COUNT};
}

static void tile_half(row *r, int k) {
  launch_add(r, HR_LAUNCH_WAIT)->begun = r->out[k];
  hr_launch *launch = launch_add(r, HR_LAUNCH_HOST);
  launch->kernel = &half;
  launch->call = (hr_call){.out = &r->tensors[k][3], .n_out = 1, .threads = 1, .device = gpu};
}

static row *row_create(void) {
  hr_error err = {0};
  void *host, *device;
  row *r = calloc(1, sizeof *r);
  float *ones = malloc(sizeof(float) * COUNT);
  check(gpu->functions->arena_create(gpu, HR_TIER_HOST, sizeof(float) * COUNT * TILES, &host, &err), &err);
  check(gpu->functions->arena_create(gpu, HR_TIER_DEVICE, tile_bytes * (2 * SLOTS + 1), &device, &err), &err);
  r->host = host;
  r->base = device;
  r->staged = r->base;
  r->made = r->staged + SLOTS * tile_bytes;
  r->one = r->made + SLOTS * tile_bytes;
  for (size_t i = 0; i < (size_t)COUNT * TILES; i++)
    r->host[i] = (float)(i % 4099);
  for (int i = 0; i < COUNT; i++)
    ones[i] = 1;
  check(gpu->functions->copy(gpu, HR_COPY_TO_DEVICE, r->one, ones, sizeof(float) * COUNT, &err), &err);
  free(ones);
  tile_in(r, 0);
  for (int k = 0; k < TILES; k++) {
    if (k + 1 < TILES) tile_in(r, k + 1);
    launch_add(r, HR_LAUNCH_WAIT)->begun = r->in[k];
    tile_add(r, k);
    if (k > 0) tile_half(r, k - 1);
    tile_out(r, k);
  }
  tile_half(r, TILES - 1);
  return r;
}

static void row_destroy(row *r) {
  gpu->functions->arena_destroy(gpu, HR_TIER_HOST, r->host, sizeof(float) * COUNT * TILES);
  gpu->functions->arena_destroy(gpu, HR_TIER_DEVICE, r->base, tile_bytes * (2 * SLOTS + 1));
  free(r);
}

static void row_check(const row *r, int runs) {
  for (size_t i = 0; i < (size_t)COUNT * TILES; i++)
    if (r->host[i] != (float)(i % 4099) + 1.5f * (float)runs)
      fail_msg("element %zu of tile %zu is %g after %d runs", i % COUNT, i / COUNT, (double)r->host[i], runs);
}

static void test_recorded(void **state) {
  (void)state;
  hr_error err = {0};
  row *r = row_create();
  hr_recording *whole, *parts[2];
  size_t failed, cut = r->count / 2; /* copies that begin before it and are waited for behind it are done at its end */
  check(gpu->functions->record(gpu, r->launches, r->count, &whole, &failed, &err), &err);
  check(gpu->functions->record(gpu, r->launches, cut, &parts[0], &failed, &err), &err);
  check(gpu->functions->record(gpu, r->launches + cut, r->count - cut, &parts[1], &failed, &err), &err);
  for (int i = 0; i < RUNS; i++)
    assert_int_equal(gpu->functions->replay(gpu, whole, &failed), HR_OK);
  check(gpu->functions->synchronize(gpu, &err), &err);
  row_check(r, RUNS);
  for (int i = 0; i < RUNS; i++) {
    assert_int_equal(gpu->functions->replay(gpu, parts[0], &failed), HR_OK);
    assert_int_equal(gpu->functions->replay(gpu, parts[1], &failed), HR_OK);
  }
  check(gpu->functions->synchronize(gpu, &err), &err);
  row_check(r, 2 * RUNS);
  const hr_cuda_counts *counts = gpu->state;
  print_message("%llu launches in %llu graphs took %llu bytes of device memory\n", (unsigned long long)counts->recorded,
                (unsigned long long)counts->graphs, (unsigned long long)counts->graph_bytes);
  gpu->functions->recording_destroy(gpu, whole);
  gpu->functions->recording_destroy(gpu, parts[0]);
  gpu->functions->recording_destroy(gpu, parts[1]);
  row_destroy(r);
}

static void test_one_by_one(void **state) {
  (void)state;
  hr_error err = {0};
  row *r = row_create();
  for (int i = 0; i < 2; i++)
    for (size_t n = 0; n < r->count; n++)
      assert_int_equal(gpu->functions->launch(gpu, &r->launches[n]), HR_OK);
  check(gpu->functions->synchronize(gpu, &err), &err);
  row_check(r, 2);
  row_destroy(r);
}

/* More than all pieces, no multiple of them, and many small ones in between. */
static void test_pieces(void **state) {
  (void)state;
  enum { SMALL = 1000 };
  hr_error err = {0};
  size_t bytes = (size_t)2 * HR_CUDA_HOST_BYTES + HR_CUDA_PIECE_BYTES / 2 + 13;
  unsigned char *data = malloc(bytes), *got = calloc(1, bytes);
  void *base;
  check(gpu->functions->arena_create(gpu, HR_TIER_DEVICE, bytes, &base, &err), &err);
  for (size_t i = 0; i < bytes; i++)
    data[i] = (unsigned char)(i * 2654435761u >> 13);
  check(gpu->functions->copy(gpu, HR_COPY_TO_DEVICE, base, data, bytes, &err), &err);
  for (size_t at = 0; at < 100 * SMALL; at += SMALL) {
    data[at] ^= 1;
    check(gpu->functions->copy(gpu, HR_COPY_TO_DEVICE, (char *)base + at, data + at, SMALL, &err), &err);
  }
  check(gpu->functions->copy(gpu, HR_COPY_FROM_DEVICE, got, base, bytes, &err), &err);
  assert_memory_equal(got, data, bytes);
  memset(got, 0, SMALL);
  check(gpu->functions->copy(gpu, HR_COPY_FROM_DEVICE, got, (char *)base + 77, SMALL, &err), &err);
  assert_memory_equal(got, data + 77, SMALL);
  check(gpu->functions->copy(gpu, HR_COPY_TO_DEVICE, base, data, 0, &err), &err);
  gpu->functions->arena_destroy(gpu, HR_TIER_DEVICE, base, bytes);
  free(data);
  free(got);
}

typedef struct beside {
  row *r;
  hr_mark *mark;
  hr_status status;
} beside;

/* Takes the staged tiles down when the device has got there. */
static void *beside_run(void *arg) {
  beside *b = arg;
  hr_error err = {0};
  b->status = gpu->functions->reach(gpu, b->mark, &err);
  if (b->status == HR_OK)
    b->status =
        gpu->functions->copy_beside(gpu, HR_COPY_FROM_DEVICE, b->r->host, b->r->made, sizeof(float) * COUNT, &err);
  return NULL;
}

static void test_from_a_thread(void **state) {
  (void)state;
  hr_error err = {0};
  row *r = row_create();
  beside b = {.r = r};
  hr_recording *recording;
  size_t failed;
  check(gpu->functions->mark(gpu, &b.mark, &err), &err);
  check(gpu->functions->record(gpu, r->launches, r->count, &recording, &failed, &err), &err);
  assert_int_equal(gpu->functions->replay(gpu, recording, &failed), HR_OK);
  check(gpu->functions->mark(gpu, &b.mark, &err), &err);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, beside_run, &b), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(b.status, HR_OK);
  int last = (TILES - 1) / SLOTS * SLOTS; /* the last tile that was in slot 0 */
  for (size_t i = 0; i < COUNT; i++)
    assert_true(r->host[i] == (float)(((size_t)last * COUNT + i) % 4099) + 1.0f);
  check(gpu->functions->synchronize(gpu, &err), &err);
  gpu->functions->mark_destroy(gpu, b.mark);
  gpu->functions->recording_destroy(gpu, recording);
  row_destroy(r);
}

int main(void) {
  hr_error err = {0};
  if (hr__cuda_open(&gpu, &err) != HR_OK) {
    print_message("skipped: %s\n", err.message);
    return 77;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_recorded), cmocka_unit_test(test_one_by_one),
                                     cmocka_unit_test(test_pieces), cmocka_unit_test(test_from_a_thread)};
  int failures = cmocka_run_group_tests(tests, NULL, NULL);
  hr__device_close(gpu);
  return failures;
}
