/* One token of the shape of Llama-3.2-1B on a GPU, as `headroom generate` runs it, without the processor: where the
 * time goes.
 *
 *     bench_token [LAYERS [CONTEXT [BYTES_PER_SECOND]]]     (16 320 4.8e12: what bench/generate.py has, on an H200)
 *
 * The launches of a token's program on memory that holds zeros, recorded and replayed back to back, and the same with
 * some of them only: first all, then each part alone, one layer's after the other's, then all without that part. Prints
 * for each
 * {"parts", "us", "bytes", "share"}: microseconds of a replay, bytes of weights it reads, and their share of what the
 * bandwidth allows.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dev/device.h"
#include "op/cache.h"
#include "op/rmsnorm.h"
#include "op/rope.h"
#include "op/topk.h"

enum { HIDDEN = 2048, INNER = 8192, HEADS = 32, KV_HEADS = 8, HEAD_DIM = 64, VOCABULARY = 128256 };
enum { WIDTH = KV_HEADS * HEAD_DIM, PACKED = HIDDEN + 2 * WIDTH };
enum {
  MOST_LAYERS = 64,
  MOST_LAUNCHES = MOST_LAYERS * 10 + 3,
  OPERANDS = 6,
  WORKSPACE = 16 << 20,
  REPLAYS = 64,
  REPEATS = 5
};

typedef enum part { QKV, ATTENTION, OUT, GATE_UP, DOWN, HEAD, BEST, PARTS } part;
static const char *const names[PARTS] = {
    "norm, q k v, rope, cache_put", "cache_attention", "o", "norm, gate up, swiglu", "down", "norm, head", "topk"};

static hr_device *gpu;
static char *base;
static size_t used;

static struct { hr_tensor norms[2], qkv, out, gate_up, down, keys, values; } layers[MOST_LAYERS];
static hr_tensor x, x_between, normed, rstd, packed, angles, positions, counts, mixed, both, inner, last_norm, head,
    logits, best, at, workspace;

static hr_launch launches[MOST_LAUNCHES];
static hr_tensor in[MOST_LAUNCHES][OPERANDS], out[MOST_LAUNCHES][2];
static size_t count;
static double bytes;

static void must(hr_status status, const hr_error *err) {
  if (status == HR_OK) return;
  fprintf(stderr, "error: %s\n", err->message);
  exit(1);
}

static hr_tensor take(hr_desc desc) {
  hr_tensor tensor = {.desc = desc, .data = base ? base + used : NULL};
  used += (hr_desc_bytes(&desc) + 255) / 256 * 256;
  return tensor;
}

/* Without a base, only what all of it needs. */
static void tensors_take(int n, int64_t context) {
  used = 0;
  for (int l = 0; l < n; l++) {
    for (int i = 0; i < 2; i++)
      layers[l].norms[i] = take(hr__desc1(HR_BF16, HIDDEN));
    layers[l].qkv = take(hr__desc2(HR_BF16, PACKED, HIDDEN));
    layers[l].out = take(hr__desc2(HR_BF16, HIDDEN, HIDDEN));
    layers[l].gate_up = take(hr__desc2(HR_BF16, 2 * INNER, HIDDEN));
    layers[l].down = take(hr__desc2(HR_BF16, HIDDEN, INNER));
    layers[l].keys = take(hr__desc3(HR_BF16, 1, context, WIDTH));
    layers[l].values = take(hr__desc3(HR_BF16, 1, context, WIDTH));
  }
  x = take(hr__desc3(HR_BF16, 1, 1, HIDDEN));
  x_between = take(x.desc);
  normed = take(x.desc);
  rstd = take(hr__desc1(HR_F32, 1));
  packed = take(hr__desc3(HR_BF16, 1, 1, PACKED));
  angles = take(hr__desc3(HR_F32, 2, 1, HEAD_DIM / 2));
  positions = take(hr__desc1(HR_I32, 1));
  counts = take(hr__desc1(HR_I32, 1));
  mixed = take(x.desc);
  both = take(hr__desc3(HR_BF16, 1, 1, 2 * INNER));
  inner = take(hr__desc3(HR_BF16, 1, 1, INNER));
  last_norm = take(hr__desc1(HR_BF16, HIDDEN));
  head = take(hr__desc2(HR_BF16, VOCABULARY, HIDDEN));
  logits = take(hr__desc3(HR_BF16, 1, 1, VOCABULARY));
  best = take(hr__desc3(HR_BF16, 1, 1, 1));
  at = take(hr__desc3(HR_I32, 1, 1, 1));
  workspace = take(hr__desc1(HR_I32, WORKSPACE / 4));
}

#define WITH(...)                                                                                                      \
  (const hr_tensor[OPERANDS]) {                                                                                        \
    __VA_ARGS__                                                                                                        \
  }

static void add(const char *op, int n_in, const hr_tensor *from, int n_out, const hr_tensor *to, const void *args) {
  hr_error err = {0};
  hr_launch *launch = &launches[count];
  memcpy(in[count], from, (size_t)n_in * sizeof *from);
  memcpy(out[count], to, (size_t)n_out * sizeof *to);
  *launch = (hr_launch){.kind = HR_LAUNCH_KERNEL, .kernel = gpu->functions->kernel(gpu, op)};
  launch->call = (hr_call){.in = in[count],
                           .out = out[count],
                           .n_in = n_in,
                           .n_out = n_out,
                           .args = args,
                           .workspace = workspace.data,
                           .workspace_bytes = WORKSPACE,
                           .device = gpu};
  if (launch->kernel->prepare) must(launch->kernel->prepare(&launch->call, &launch->call.prepared, &err), &err);
  count++;
}

static void norm_add(hr_tensor from, hr_tensor weights) {
  static const hr_rmsnorm_args args = {.eps = 1e-5f};
  add("rmsnorm", 2, WITH(from, weights), 2, WITH(normed, rstd), &args);
}

static void product_add(hr_tensor from, hr_tensor weights, hr_tensor residual, hr_tensor to) {
  add("linear", 4, WITH(from, weights, {0}, residual), 1, WITH(to), NULL);
  bytes += (double)hr_desc_bytes(&weights.desc);
}

static void layer_add(int l, unsigned parts) {
  static const hr_rope_args rope = {.head_dim = HEAD_DIM, .heads = HEADS + KV_HEADS};
  static const hr_cache_args cache = {.heads = HEADS, .kv_heads = KV_HEADS, .head_dim = HEAD_DIM, .scale = 0.125f};
  const hr_tensor none = {0}, keys = layers[l].keys, values = layers[l].values;
  if (parts >> QKV & 1) {
    norm_add(x, layers[l].norms[0]);
    product_add(normed, layers[l].qkv, none, packed);
    add("rope", 2, WITH(packed, angles), 1, WITH(packed), &rope);
    add("cache_put", 6, WITH(keys, values, packed, none, positions, counts), 2, WITH(keys, values), &cache);
  }
  if (parts >> ATTENTION & 1)
    add("cache_attention", 5, WITH(packed, keys, values, positions, counts), 1, WITH(mixed), &cache);
  if (parts >> OUT & 1) product_add(mixed, layers[l].out, x, x_between);
  if (parts >> GATE_UP & 1) {
    norm_add(x_between, layers[l].norms[1]);
    product_add(normed, layers[l].gate_up, none, both);
    add("swiglu", 2, WITH(both, none), 1, WITH(inner), NULL);
  }
  if (parts >> DOWN & 1) product_add(inner, layers[l].down, x_between, x);
}

static double seconds_of(void) {
  hr_error err = {0};
  hr_recording *recording;
  hr_mark *marks[2] = {NULL, NULL};
  size_t failed;
  double least = HUGE_VAL;
  must(gpu->functions->record(gpu, launches, count, &recording, &failed, &err), &err);
  for (int repeat = 0; repeat < REPEATS; repeat++) {
    double seconds;
    must(gpu->functions->mark(gpu, &marks[0], &err), &err);
    for (int i = 0; i < REPLAYS; i++)
      must(gpu->functions->replay(gpu, recording, &failed), &err);
    must(gpu->functions->mark(gpu, &marks[1], &err), &err);
    must(gpu->functions->reach(gpu, marks[1], &err), &err);
    must(gpu->functions->between(gpu, marks[0], marks[1], &seconds, &err), &err);
    least = fmin(least, seconds / REPLAYS);
  }
  for (int i = 0; i < 2; i++)
    gpu->functions->mark_destroy(gpu, marks[i]);
  gpu->functions->recording_destroy(gpu, recording);
  return least;
}

static void parts_time(unsigned parts, const char *what, const char *name, int n, double bandwidth) {
  static const hr_topk_args topk = {.k = 1};
  count = 0;
  bytes = 0;
  for (int l = 0; l < n; l++)
    layer_add(l, parts);
  if (parts >> HEAD & 1) {
    norm_add(x, last_norm);
    product_add(normed, head, (hr_tensor){0}, logits);
  }
  if (parts >> BEST & 1) add("topk", 1, WITH(logits), 2, WITH(best, at), &topk);
  double seconds = seconds_of();
  printf("{\"parts\": \"%s%s\", \"us\": %.1f, \"bytes\": %.4g, \"share\": %.3f}\n", what, name, 1e6 * seconds, bytes,
         bytes / bandwidth / seconds);
  fflush(stdout);
}

int main(int argc, char **argv) {
  hr_error err = {0};
  int n = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 16;
  int64_t context = argc > 2 ? strtoll(argv[2], NULL, 10) : 320;
  double bandwidth = argc > 3 ? strtod(argv[3], NULL) : 4.8e12;
  if (n < 1 || n > MOST_LAYERS || context < 2) {
    fprintf(stderr, "error: 1 to %d layers, and a context of 2 or more\n", MOST_LAYERS);
    return 1;
  }
  must(hr__cuda_open(&gpu, &err), &err);
  tensors_take(n, context);
  size_t all = used;
  void *arena;
  must(gpu->functions->arena_create(gpu, HR_TIER_DEVICE, all, &arena, &err), &err);
  base = arena;
  tensors_take(n, context);
  int32_t here = (int32_t)(context * 3 / 5), one = 1; /* where a text is on average, behind a prompt of a fifth */
  must(gpu->functions->copy(gpu, HR_COPY_TO_DEVICE, positions.data, &here, sizeof here, &err), &err);
  must(gpu->functions->copy(gpu, HR_COPY_TO_DEVICE, counts.data, &one, sizeof one, &err), &err);
  const unsigned whole = (1u << PARTS) - 1;
  parts_time(whole, "all", "", n, bandwidth);
  for (int p = 0; p < PARTS; p++)
    parts_time(1u << p, "only ", names[p], n, bandwidth);
  for (int p = 0; p < PARTS; p++)
    parts_time(whole & ~(1u << p), "without ", names[p], n, bandwidth);
  gpu->functions->arena_destroy(gpu, HR_TIER_DEVICE, arena, all);
  hr__device_close(gpu);
  return 0;
}
