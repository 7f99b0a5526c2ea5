#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <vector>
typedef __nv_bfloat16 bf16;
#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL %s line %d: %s\n", #x, __LINE__, cudaGetErrorString(e_)); exit(1);} } while (0)
__device__ inline uint32_t sa(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ inline void mb_init(uint64_t *b, unsigned n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(sa(b)), "r"(n) : "memory"); }
__device__ inline void mb_expect(uint64_t *b, unsigned bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(sa(b)), "r"(bytes) : "memory"); }
__device__ inline void mb_wait(uint64_t *b, unsigned parity) {
  asm volatile("{\n.reg .pred P;\nL:\nmbarrier.try_wait.parity.shared::cta.b64 P, [%0], %1;\n@P bra D;\nbra L;\nD:\n}" ::"r"(sa(b)), "r"(parity) : "memory");
}
__device__ inline uint64_t policy_first() { uint64_t p; asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(p)); return p; }
__device__ inline void bulk(void *to, const void *from, unsigned bytes, uint64_t *b, uint64_t pol) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(sa(to)), "l"(from), "r"(bytes), "r"(sa(b)), "l"(pol) : "memory");
}
__device__ inline void bulk_l2(const void *from, unsigned bytes) { asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory"); }
__device__ inline void cpa(void *to, const void *from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(sa(to)), "l"(from) : "memory"); }
__device__ inline void cpa_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ inline void cpa_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
__device__ inline unsigned ld_acq(const unsigned *p) { unsigned v; asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
__device__ inline unsigned ld_rlx(const unsigned *p) { unsigned v; asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
__device__ inline void red_rel(unsigned *p, unsigned v) { asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
__device__ inline void st_rel(unsigned *p, unsigned v) { asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
__device__ inline float warp_sum(float v) {
#pragma unroll
  for (int d = 16; d; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  return v;
}

__device__ inline void bar512() { asm volatile("barrier.sync 1, 512;" ::: "memory"); }
__device__ inline void mb_arrive(uint64_t *b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(sa(b)) : "memory"); }
// ---------------- barriers -----------------
struct sync_area { unsigned count[8 * 32]; unsigned flags[256]; unsigned out; };
__device__ sync_area g_sync;
struct trace_line { long long begin, released, ready, waited, done; };
__device__ trace_line g_trace[128];
__device__ long long g_end[128][16], g_put[128][16], g_wait[128][16];
__device__ unsigned long long g_arrive[128][160];
__device__ inline unsigned long long now_ns() { unsigned long long v; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(v)); return v; }

template <int KIND> __device__ inline void arrive(unsigned epoch) { // after a __syncthreads, by all threads
  if (KIND == 4 && threadIdx.x == 480) red_rel(&g_sync.count[0], 1);
  if (KIND == 5 && threadIdx.x == 480) asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(&g_sync.count[0]) : "memory");
  if (threadIdx.x == 0) {
    if (KIND == 0 || KIND == 2) red_rel(&g_sync.count[0], 1);
    if (KIND == 1) st_rel(&g_sync.flags[blockIdx.x], epoch);
    if (KIND == 3) red_rel(&g_sync.count[blockIdx.x % 8 * 32], 1);
  }
}
template <int KIND> __device__ inline void await(unsigned epoch) {
  int lane = threadIdx.x % 32;
  if (KIND == 4 || KIND == 5) {
    if (threadIdx.x == 480) while ((int)(ld_acq(&g_sync.count[0]) - epoch * gridDim.x) < 0) ;
    __syncthreads();
  }
  if (KIND == 0) {
    if (threadIdx.x == 0) while ((int)(ld_acq(&g_sync.count[0]) - epoch * gridDim.x) < 0) ;
    __syncthreads();
  }
  if (KIND == 2) {
    if (lane == 0) while ((int)(ld_acq(&g_sync.count[0]) - epoch * gridDim.x) < 0) ;
    __syncwarp();
  }
  if (KIND == 1) {
    if (threadIdx.x < 32) {
      bool ok;
      do {
        ok = true;
#pragma unroll
        for (int i = 0; i < 5; i++) { unsigned b = lane + i * 32; if (b < gridDim.x) ok &= (int)(ld_rlx(&g_sync.flags[b]) - epoch) >= 0; }
      } while (!__all_sync(~0u, ok));
      __threadfence();
    }
    __syncthreads();
  }
  if (KIND == 3) {
    if (threadIdx.x < 32) {
      unsigned mine = (gridDim.x - lane % 8 + 7) / 8;
      while (!__all_sync(~0u, (int)(ld_acq(&g_sync.count[lane % 8 * 32]) - epoch * mine) >= 0)) ;
    }
    __syncthreads();
  }
}
__device__ inline void sync_exit() {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    unsigned t = atomicAdd(&g_sync.out, 1);
    if (t == gridDim.x - 1) {
      for (int i = 0; i < 8; i++) g_sync.count[i * 32] = 0;
      for (int i = 0; i < 256; i++) g_sync.flags[i] = 0;
      g_sync.out = 0;
      __threadfence();
    }
  }
}
template <int KIND> __global__ void __launch_bounds__(512, 1) barrier_kernel(int n) {
  for (int i = 1; i <= n; i++) { __syncthreads(); arrive<KIND>(i); await<KIND>(i); }
  sync_exit();
}

// ---------------- pure stream -----------------
enum { BULK, CPA };
extern __shared__ __align__(128) unsigned char smem[];
template <int METHOD, int W, int D, int STAGE, int AHEAD> __global__ void __launch_bounds__(W * 32, 1) stream_kernel(const char *from, unsigned units, unsigned *out) {
  __shared__ uint64_t full[W][D];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  char *ring = (char *)smem + warp * D * STAGE;
  unsigned G = gridDim.x * W, u = warp * gridDim.x + blockIdx.x, issue = u;
  if (METHOD == BULK && lane == 0) for (int i = 0; i < D; i++) mb_init(&full[warp][i], 1);
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncwarp();
  uint64_t pol = policy_first();
  auto put = [&](int s) {
    if (METHOD == BULK) {
      if (lane == 0 && issue < units) {
        mb_expect(&full[warp][s], STAGE);
        bulk(ring + s * STAGE, from + (size_t)issue * STAGE, STAGE, &full[warp][s], pol);
        if (AHEAD && issue + AHEAD * G < units) bulk_l2(from + (size_t)(issue + AHEAD * G) * STAGE, STAGE);
      }
    } else {
      if (issue < units)
#pragma unroll
        for (int i = 0; i < STAGE / 512; i++) cpa(ring + s * STAGE + (i * 32 + lane) * 16, from + (size_t)issue * STAGE + (i * 32 + lane) * 16);
      cpa_commit();
    }
    issue += G;
  };
  for (int s = 0; s < D; s++) put(s);
  unsigned parity = 0, sum = 0;
  int s = 0;
  for (; u < units; u += G) {
    if (METHOD == BULK) mb_wait(&full[warp][s], parity); else { cpa_wait<D - 1>(); __syncwarp(); }
#pragma unroll
    for (int i = 0; i < STAGE / 512; i++) { uint4 v = *(uint4 *)(ring + s * STAGE + (i * 32 + lane) * 16); sum += v.x ^ v.y ^ v.z ^ v.w; }
    __syncwarp();
    put(s);
    if (++s == D) s = 0, parity ^= 1;
  }
  if (METHOD == CPA) cpa_wait<0>();
  if (sum == 0x12345678) out[0] = sum;
}

// ---------------- token -----------------
enum { HIDDEN = 2048, INNER = 8192, HEADS = 32, KVH = 8, HD = 64, VOCAB = 128256, WIDTH = KVH * HD, PACKED = HIDDEN + 2 * WIDTH, LAYERS = 16, CONTEXT = 320 };
struct phase {
  int kind, behind; // kind 0 product, 1 attention; behind 1 swiglu 2 rope
  unsigned tasks, k, distance, columns, shift;
  const bf16 *w, *x, *norm, *add;
  bf16 *y, *keys, *values;
};
enum { PHASES = LAYERS * 5 + 1 };
struct table { int count; const float *cosines; const int *position; phase p[PHASES]; };

template <int SPLIT, int N> __device__ inline void unit_add(const char *w, const bf16 *x, float (&sums)[4], int lane, unsigned packs) {
#pragma unroll
  for (int i = 0; i < N; i++) {
    if (N * 32 > packs && (i * 32 + lane) >= packs) break;
    uint4 a = *(const uint4 *)(w + (i * 32 + lane) * 16), b = *(const uint4 *)(x + (i * 32 + lane) * 8);
    const uint32_t *p = &a.x, *q = &b.x;
    float s = sums[i % SPLIT];
#pragma unroll
    for (int e = 0; e < 4; e++) {
      s += __uint_as_float(p[e] << 16) * __uint_as_float(q[e] << 16);
      s += __uint_as_float(p[e] & 0xffff0000u) * __uint_as_float(q[e] & 0xffff0000u);
    }
    sums[i % SPLIT] = s;
  }
}
// rope etc. behind a pair
__device__ inline void behind_pair(const phase &p, const table &t, unsigned pair, unsigned column, bf16 a, bf16 b) {
  if (p.behind == 1) {
    float g = __bfloat162float(a), u = __bfloat162float(b);
    p.y[pair] = __float2bfloat16_rn(u * (g * __fdividef(1.0f, 1.0f + __expf(-g))));
    return;
  }
  if (pair < (HEADS + KVH) * HD / 2) {
    float c = t.cosines[pair % 32], s = t.cosines[32 + pair % 32], l = __bfloat162float(a), r = __bfloat162float(b);
    a = __float2bfloat16_rn(__fmaf_rn(l, c, -(r * s)));
    b = __float2bfloat16_rn(__fmaf_rn(r, c, l * s));
  }
  p.y[column] = a;
  p.y[column + 32] = b;
  if (column < HIDDEN) return;
  unsigned at = column - HIDDEN;
  bf16 *cache = (at < WIDTH ? p.keys + at : p.values + at - WIDTH) + (size_t)*t.position * WIDTH;
  cache[0] = a;
  cache[32] = b;
}

template <int W> struct att_room { float results[W][HD], most[W], sums[W]; };
// block: a row (kv head * 4 + r)
template <int W> __device__ inline void attention_row(const phase &p, int position, unsigned row, att_room<W> &room) {
  const int STREAMS = W * 4;
  int stream = threadIdx.x / 8, warp = threadIdx.x / 32, first = threadIdx.x % 8 * 8;
  unsigned group = row / 4, head = row;
  float q[8], most = -INFINITY, sum = 0, result[8] = {};
  const bf16 *keys = p.keys + group * HD + first, *values = p.values + group * HD + first;
  uint4 key = {}, value = {};
  if (stream <= position) { key = __ldcg((const uint4 *)(keys + (size_t)stream * WIDTH)); value = __ldcg((const uint4 *)(values + (size_t)stream * WIDTH)); }
  uint4 qq = __ldcg((const uint4 *)(p.x + head * HD + first));
#pragma unroll
  for (int e = 0; e < 4; e++) { q[2 * e] = __uint_as_float((&qq.x)[e] << 16) * 0.125f; q[2 * e + 1] = __uint_as_float((&qq.x)[e] & 0xffff0000u) * 0.125f; }
  for (int round = 0; round <= position; round += STREAMS) {
    int j = round + stream;
    uint4 k = key, v = value;
    if (j + STREAMS <= position) { key = __ldcg((const uint4 *)(keys + (size_t)(j + STREAMS) * WIDTH)); value = __ldcg((const uint4 *)(values + (size_t)(j + STREAMS) * WIDTH)); }
    float score = 0;
#pragma unroll
    for (int e = 0; e < 4; e++) { score += q[2 * e] * __uint_as_float((&k.x)[e] << 16); score += q[2 * e + 1] * __uint_as_float((&k.x)[e] & 0xffff0000u); }
#pragma unroll
    for (int d = 4; d; d /= 2) score += __shfl_xor_sync(~0u, score, d);
    if (j <= position) {
      float m = fmaxf(most, score), keep = expf(most - m), weight = expf(score - m);
      most = m;
      sum = sum * keep + weight;
#pragma unroll
      for (int e = 0; e < 4; e++) {
        result[2 * e] = result[2 * e] * keep + weight * __uint_as_float((&v.x)[e] << 16);
        result[2 * e + 1] = result[2 * e + 1] * keep + weight * __uint_as_float((&v.x)[e] & 0xffff0000u);
      }
    }
  }
#pragma unroll
  for (int d = 8; d < 32; d *= 2) {
    float other = __shfl_xor_sync(~0u, most, d), m = fmaxf(most, other), keep = m > -INFINITY ? expf(most - m) : 0.0f;
    most = m;
    sum *= keep;
    sum += __shfl_xor_sync(~0u, sum, d);
#pragma unroll
    for (int e = 0; e < 8; e++) { result[e] *= keep; result[e] += __shfl_xor_sync(~0u, result[e], d); }
  }
  if (threadIdx.x % 32 < 8) {
    if (first == 0) { room.most[warp] = most; room.sums[warp] = sum; }
#pragma unroll
    for (int e = 0; e < 8; e++) room.results[warp][first + e] = result[e];
  }
  bar512();
  if (threadIdx.x < HD) {
    float all = -INFINITY, s = 0, r = 0;
#pragma unroll
    for (int w = 0; w < W; w++) all = fmaxf(all, room.most[w]);
#pragma unroll
    for (int w = 0; w < W; w++) { float f = expf(room.most[w] - all); s += room.sums[w] * f; r += room.results[w][threadIdx.x] * f; }
    p.y[head * HD + threadIdx.x] = __float2bfloat16_rn(r / s);
  }
}


template <int DEEP> struct ahead { uint4 key[DEEP], value[DEEP]; };
template <int W, int DEEP> __device__ inline void attention_ahead(const phase &p, int position, unsigned row, ahead<DEEP> &h) { // old keys only
  int stream = threadIdx.x / 8, first = threadIdx.x % 8 * 8;
  const bf16 *keys = p.keys + row / 4 * HD + first, *values = p.values + row / 4 * HD + first;
#pragma unroll
  for (int i = 0; i < DEEP; i++) {
    int j = stream + i * W * 4;
    h.key[i] = h.value[i] = {};
    if (j < position) { h.key[i] = __ldcg((const uint4 *)(keys + (size_t)j * WIDTH)); h.value[i] = __ldcg((const uint4 *)(values + (size_t)j * WIDTH)); }
  }
}
template <int W, int DEEP> __device__ inline void attention_row2(const phase &p, int position, unsigned row, att_room<W> &room, ahead<DEEP> &h) {
  const int STREAMS = W * 4;
  int stream = threadIdx.x / 8, warp = threadIdx.x / 32, first = threadIdx.x % 8 * 8;
  unsigned head = row;
  float q[8], most = -INFINITY, sum = 0, result[8] = {};
  const bf16 *keys = p.keys + row / 4 * HD + first, *values = p.values + row / 4 * HD + first;
  uint4 qq = __ldcg((const uint4 *)(p.x + head * HD + first));
#pragma unroll
  for (int i = 0; i < DEEP; i++) {
    int j = stream + i * STREAMS;
    if (j == position) { h.key[i] = __ldcg((const uint4 *)(keys + (size_t)j * WIDTH)); h.value[i] = __ldcg((const uint4 *)(values + (size_t)j * WIDTH)); }
  }
#pragma unroll
  for (int e = 0; e < 4; e++) { q[2 * e] = __uint_as_float((&qq.x)[e] << 16) * 0.125f; q[2 * e + 1] = __uint_as_float((&qq.x)[e] & 0xffff0000u) * 0.125f; }
  for (int base = 0; base <= position; base += STREAMS * DEEP) {
    float score[DEEP];
#pragma unroll
    for (int i = 0; i < DEEP; i++) {
      uint4 k = h.key[i];
      int j = base + i * STREAMS + stream;
      if (j + STREAMS * DEEP <= position) h.key[i] = __ldcg((const uint4 *)(keys + (size_t)(j + STREAMS * DEEP) * WIDTH));
      float c = 0;
#pragma unroll
      for (int e = 0; e < 4; e++) { c += q[2 * e] * __uint_as_float((&k.x)[e] << 16); c += q[2 * e + 1] * __uint_as_float((&k.x)[e] & 0xffff0000u); }
      score[i] = c;
    }
#pragma unroll
    for (int d = 4; d; d /= 2)
#pragma unroll
      for (int i = 0; i < DEEP; i++) score[i] += __shfl_xor_sync(~0u, score[i], d);
#pragma unroll
    for (int i = 0; i < DEEP; i++) {
      int j = base + i * STREAMS + stream;
      uint4 v = h.value[i];
      if (j + STREAMS * DEEP <= position) h.value[i] = __ldcg((const uint4 *)(values + (size_t)(j + STREAMS * DEEP) * WIDTH));
      if (j <= position) {
        float m = fmaxf(most, score[i]), keep = expf(most - m), weight = expf(score[i] - m);
        most = m;
        sum = sum * keep + weight;
#pragma unroll
        for (int e = 0; e < 4; e++) {
          result[2 * e] = result[2 * e] * keep + weight * __uint_as_float((&v.x)[e] << 16);
          result[2 * e + 1] = result[2 * e + 1] * keep + weight * __uint_as_float((&v.x)[e] & 0xffff0000u);
        }
      }
    }
  }
#pragma unroll
  for (int d = 8; d < 32; d *= 2) {
    float other = __shfl_xor_sync(~0u, most, d), m = fmaxf(most, other), keep = m > -INFINITY ? expf(most - m) : 0.0f;
    most = m;
    sum *= keep;
    sum += __shfl_xor_sync(~0u, sum, d);
#pragma unroll
    for (int e = 0; e < 8; e++) { result[e] *= keep; result[e] += __shfl_xor_sync(~0u, result[e], d); }
  }
  if (threadIdx.x % 32 < 8) {
    if (first == 0) { room.most[warp] = most; room.sums[warp] = sum; }
#pragma unroll
    for (int e = 0; e < 8; e++) room.results[warp][first + e] = result[e];
  }
  bar512();
  if (threadIdx.x < HD) {
    float all = -INFINITY, s = 0, r = 0;
#pragma unroll
    for (int w = 0; w < W; w++) all = fmaxf(all, room.most[w]);
#pragma unroll
    for (int w = 0; w < W; w++) { float f = expf(room.most[w] - all); s += room.sums[w] * f; r += room.results[w][threadIdx.x] * f; }
    p.y[head * HD + threadIdx.x] = __float2bfloat16_rn(r / s);
  }
}

// ---- second form: R warps read, two rows at a time; 16 warps attend ----
template <int SPLIT> __device__ inline void group_add(uint4 u, uint4 v, uint4 y, float &sa, float &sb) {
  const uint32_t *p = &u.x, *q = &v.x, *r = &y.x;
#pragma unroll
  for (int e = 0; e < 4; e++) {
    float lo = __uint_as_float(r[e] << 16), hi = __uint_as_float(r[e] & 0xffff0000u);
    sa += __uint_as_float(p[e] << 16) * lo;
    sb += __uint_as_float(q[e] << 16) * lo;
    sa += __uint_as_float(p[e] & 0xffff0000u) * hi;
    sb += __uint_as_float(q[e] & 0xffff0000u) * hi;
  }
}
template <int SPLIT> __device__ inline void pair_add(const char *a, const char *b, const bf16 *x, float (&sa)[SPLIT], float (&sb)[SPLIT], int lane, int packs) {
  a += lane * 16; b += lane * 16; x += lane * 8;
  if (packs >= 256) {
#pragma unroll
    for (int i = 0; i < 8; i++)
      group_add<SPLIT>(*(const uint4 *)(a + i * 512), *(const uint4 *)(b + i * 512), *(const uint4 *)(x + i * 256), sa[i % SPLIT], sb[i % SPLIT]);
  } else {
#pragma unroll
    for (int i = 0; i < 8; i++)
      if (i * 32 + lane < packs) group_add<SPLIT>(*(const uint4 *)(a + i * 512), *(const uint4 *)(b + i * 512), *(const uint4 *)(x + i * 256), sa[i % SPLIT], sb[i % SPLIT]);
  }
}
__device__ inline void behind_pair3(const phase &p, int position, float c, float s, unsigned pair, unsigned column, bf16 a, bf16 b) {
  if (p.behind == 1) {
    float g = __bfloat162float(a), u = __bfloat162float(b);
    p.y[pair] = __float2bfloat16_rn(u * (g * __fdividef(1.0f, 1.0f + __expf(-g))));
    return;
  }
  if (pair < (HEADS + KVH) * HD / 2) {
    float l = __bfloat162float(a), r = __bfloat162float(b);
    a = __float2bfloat16_rn(__fmaf_rn(l, c, -(r * s)));
    b = __float2bfloat16_rn(__fmaf_rn(r, c, l * s));
  }
  p.y[column] = a;
  p.y[column + 32] = b;
  if (column < HIDDEN) return;
  unsigned at = column - HIDDEN;
  bf16 *cache = (at < WIDTH ? p.keys + at : p.values + at - WIDTH) + (size_t)position * WIDTH;
  cache[0] = a;
  cache[32] = b;
}
template <int R, int D, int T, int P, int WHEN, int J0, int XR, int SKIP, int BAR>
__global__ void __launch_bounds__(T, 1) token4_kernel(__grid_constant__ const table t) {
  const int W = 16;
  __shared__ uint64_t full[R][D];
  __shared__ float squares[32];
  __shared__ att_room<W> room;
  __shared__ struct ask_entry { const bf16 *w; unsigned k, tasks, distance, shift; } asks[PHASES];
  __shared__ phase now[2];
  for (int i = threadIdx.x; i < t.count; i += T) { const phase &p = t.p[i]; asks[i] = {p.w, p.k, p.kind ? 0 : p.columns == 1 ? p.tasks / 2 : p.tasks, p.columns == 1 ? 0 : p.distance, p.shift}; }
  if (threadIdx.x < sizeof(phase) / 4) ((uint32_t *)&now[0])[threadIdx.x] = ((const uint32_t *)&t.p[0])[threadIdx.x];
  const int position = *t.position;
  __syncthreads();
  bf16 *xs = (bf16 *)smem;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  char *ring = (char *)smem + INNER * 2 + warp * D * 8192;
  const unsigned G = gridDim.x * R, gw = warp * gridDim.x + blockIdx.x;
  uint64_t pol = policy_first();
  const bool reads = warp < R;
  // what is asked for next
  int ask_at = -1; unsigned ask_tasks = 0, ask_task = 0; int ask_left = 0, ask_row = 0; const char *ask_from = nullptr; size_t ask_pair = 0, ask_step = 0; bool ask_near = false;
  auto place = [&](const phase &p, unsigned task) { return p.columns == 1 ? 2 * task : task + task / p.distance * p.distance; };
  auto tasks_of = [&](const phase &p) { return p.columns == 1 ? p.tasks / 2 : p.tasks; };
  auto ask_place = [&](const ask_entry &p, unsigned task) { return p.distance == 0 ? 2 * task : task < p.distance ? task : task + task / p.distance * p.distance; };
  auto seek = [&]() {
    for (ask_at++; ask_at < t.count; ask_at++) {
      const ask_entry &p = asks[ask_at];
      ask_task = (gw + p.shift) % G; ask_tasks = p.tasks;
      if (ask_task >= ask_tasks) continue;
      ask_row = ask_left = p.k * 2;
      ask_pair = (size_t)(p.distance == 0 ? 1 : p.distance) * ask_row;
      ask_near = p.distance > 0 && p.distance < p.tasks;
      ask_from = (const char *)p.w + (size_t)ask_place(p, ask_task) * ask_row;
      ask_step = (size_t)(p.distance == 0 ? 2 * G : G) * ask_row;
      return;
    }
  };
  auto put = [&](int s) {
    if (ask_at >= t.count) return;
    unsigned bytes = min(4096, ask_left);
    mb_expect(&full[warp][s], 2 * bytes);
    bulk(ring + s * 8192, ask_from, bytes, &full[warp][s], pol);
    bulk(ring + s * 8192 + 4096, ask_from + ask_pair, bytes, &full[warp][s], pol);
    ask_from += bytes; ask_left -= bytes;
    if (ask_left > 0) return;
    ask_left = ask_row;
    ask_task += G;
    if (ask_task >= ask_tasks) { seek(); return; }
    if (ask_near) ask_from = (const char *)asks[ask_at].w + (size_t)ask_place(asks[ask_at], ask_task) * ask_row;
    else ask_from += ask_step - ask_row;
  };
  if (reads && lane == 0) {
    for (int i = 0; i < D; i++) mb_init(&full[warp][i], 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    seek();
    for (int s = 0; s < D; s++) put(s);
  }
  __syncwarp();
  unsigned parity = 0;
  int s = 0;
#pragma unroll 1
  for (int at = 0; at < t.count; at++) {
    const phase &p = now[at % 2];
    if (warp == 15 && at + 1 < t.count && lane < sizeof(phase) / 4) ((uint32_t *)&now[(at + 1) % 2])[lane] = ((const uint32_t *)&t.p[at + 1])[lane];
    if (P && warp == 14 && (WHEN == 1 ? p.kind == 1 : WHEN == 0 ? p.behind == 2 : p.kind == 0 && p.behind == 0 && p.k == HIDDEN && p.tasks == HIDDEN)) {
      const ask_entry &g = asks[at + (WHEN == 1 ? 2 : WHEN == 0 ? 3 : 1)];
      for (int i = lane; i < R * P; i += 32) {
        unsigned number = i % R * gridDim.x + blockIdx.x, task = (number + g.shift) % G + (J0 + i / R) * G;
        if (task >= g.tasks) continue;
        const char *from = (const char *)g.w + (size_t)task * g.k * 2;
        bulk_l2(from, 4096);
        bulk_l2(from + (size_t)g.distance * g.k * 2, 4096);
      }
    }
    if (p.behind == 2 && warp == 0) {
      int lines = position * 8;
      for (int i = blockIdx.x * 32 + lane; i < 2 * lines; i += gridDim.x * 32) {
        const char *a = (const char *)(i < lines ? p.keys : p.values) + (size_t)(i % lines) * 128;
        asm volatile("prefetch.global.L2 [%0];" ::"l"(a));
      }
    }
    trace_line line = {};
    long long puts = 0;
    if (SKIP & 8) line.begin = clock64();
    const int packs = p.k / 8;
    uint4 nw = {};
    if (p.norm && threadIdx.x < packs) nw = *(const uint4 *)(p.norm + threadIdx.x * 8);
    if (p.kind == 1 && (SKIP & 16) == 0 && blockIdx.x < HEADS) {
      ahead<4> h;
      attention_ahead<W, 4>(p, position, blockIdx.x, h);
      if (!(SKIP & 1)) await<BAR>(at);
      if (SKIP & 8) line.released = clock64();
      if (!(SKIP & 2)) attention_row2<W, 4>(p, position, blockIdx.x, room, h);
    } else {
    if (at > 0 && !(SKIP & 1)) await<BAR>(at);
    if (SKIP & 8) line.released = clock64();
    if (p.kind == 1) {
      if (!(SKIP & 2) && blockIdx.x < HEADS) attention_row<W>(p, position, blockIdx.x, room);
    } else {
      if (SKIP & 4) {
      } else if (p.norm) {
        uint4 v = {};
        float sq = 0;
        if (threadIdx.x < packs) v = __ldcg((const uint4 *)(p.x + threadIdx.x * 8));
        float f[8];
#pragma unroll
        for (int e = 0; e < 4; e++) { f[2 * e] = __uint_as_float((&v.x)[e] << 16); f[2 * e + 1] = __uint_as_float((&v.x)[e] & 0xffff0000u); }
#pragma unroll
        for (int e = 0; e < 8; e++) sq += f[e] * f[e];
        sq = warp_sum(sq);
        if (lane == 0) squares[warp] = sq;
        __syncthreads();
        float all = 0;
#pragma unroll
        for (int i = 0; i < 8; i++) all += squares[i];
        float rstd = 1.0f / sqrtf(all / (float)p.k + 1e-5f);
        if (threadIdx.x < packs) {
          const bf16 *w8 = (const bf16 *)&nw;
          __align__(16) bf16 r[8];
#pragma unroll
          for (int e = 0; e < 8; e++) r[e] = __float2bfloat16_rn(__bfloat162float(w8[e]) * __bfloat162float(__float2bfloat16_rn(f[e] * rstd)));
          *(uint4 *)(xs + threadIdx.x * 8) = *(uint4 *)r;
        }
        __syncthreads();
      } else {
        for (int i = threadIdx.x; i < packs; i += T) *(uint4 *)(xs + i * 8) = __ldcg((const uint4 *)(p.x + i * 8));
        __syncthreads();
      }
      if (SKIP & 8) line.ready = clock64();
      const unsigned tasks = tasks_of(p);
      const int k = p.k;
      uint4 xr[8];
      if (XR && k == HIDDEN) {
#pragma unroll
        for (int i = 0; i < 8; i++) xr[i] = *(const uint4 *)(xs + (i * 32 + lane) * 8);
      }
      if (reads)
      for (unsigned task = (gw + p.shift) % G; task < tasks; task += G) {
        const unsigned column = place(p, task);
        float add[2] = {};
        if (p.add && lane == 0) { uint32_t both = __ldcg((const unsigned *)(p.add + column)); add[0] = __uint_as_float(both << 16); add[1] = __uint_as_float(both & 0xffff0000u); }
        float cosine = 1, sine = 0;
        if (p.behind == 2 && lane == 0 && task < (HEADS + KVH) * HD / 2) { cosine = t.cosines[task % 32]; sine = t.cosines[32 + task % 32]; }
        float a = 0, b = 0;
        auto turn = [&](auto &sa, auto &sb, int offset) {
          long long c0 = SKIP & 8 ? clock64() : 0;
          mb_wait(&full[warp][s], parity);
          if (SKIP & 8) line.waited += clock64() - c0;
          pair_add(ring + s * 8192, ring + s * 8192 + 4096, xs + offset, sa, sb, lane, (k - offset) / 8);
          __syncwarp();
          long long c1 = SKIP & 8 ? clock64() : 0;
          if (lane == 0) put(s);
          __syncwarp();
          if (SKIP & 8) puts += clock64() - c1;
          if (++s == D) s = 0, parity ^= 1;
        };
        if (k == INNER) {
          float sa[4] = {}, sb[4] = {};
#pragma unroll 1
          for (int offset = 0; offset < k; offset += 2048) turn(sa, sb, offset);
#pragma unroll
          for (int i = 0; i < 4; i++) { float u = warp_sum(sa[i]), v = warp_sum(sb[i]); a = i ? a + u : u; b = i ? b + v : v; }
        } else {
          float sa[1] = {}, sb[1] = {};
          if (XR) {
            long long c0 = SKIP & 8 ? clock64() : 0;
            mb_wait(&full[warp][s], parity);
            if (SKIP & 8) line.waited += clock64() - c0;
            const char *w = ring + s * 8192 + lane * 16;
#pragma unroll
            for (int i = 0; i < 8; i++) group_add<1>(*(const uint4 *)(w + i * 512), *(const uint4 *)(w + 4096 + i * 512), xr[i], sa[0], sb[0]);
            __syncwarp();
            long long c1 = SKIP & 8 ? clock64() : 0;
            if (lane == 0) put(s);
            __syncwarp();
            if (SKIP & 8) puts += clock64() - c1;
            if (++s == D) s = 0, parity ^= 1;
          } else turn(sa, sb, 0);
          a = warp_sum(sa[0]); b = warp_sum(sb[0]);
        }
        if (lane == 0) {
          if (p.add) a += add[0], b += add[1];
          bf16 ra = __float2bfloat16_rn(a), rb = __float2bfloat16_rn(b);
          if (p.columns == 1) *(uint32_t *)(p.y + column) = (uint32_t)__bfloat16_as_ushort(ra) | (uint32_t)__bfloat16_as_ushort(rb) << 16;
          else behind_pair3(p, position, cosine, sine, task, column, ra, rb);
        }
      }
    }
    }
    if (SKIP & 8) { line.done = clock64(); if (blockIdx.x == 5 && lane == 0) { if (warp == 0) g_trace[at] = line; if (warp < 16) { g_end[at][warp] = line.done; g_put[at][warp] = puts; g_wait[at][warp] = line.waited; } } }
    if (!(SKIP & 1) && at + 1 < t.count) { __syncthreads(); if ((SKIP & 8) && threadIdx.x == 0) g_arrive[at][blockIdx.x] = now_ns(); arrive<BAR>(at + 1); }
  }
  sync_exit();
}
// The producers' warps copy units in the order of need; at most cap units are under way. A unit: PIECE elements of two rows.
template <int PIECE, int NP, int SKIP>
__global__ void __launch_bounds__(512 + NP * 32, 1) token6_kernel(__grid_constant__ const table t, const int R, const unsigned cap) {
  const int W = 16, BYTES = PIECE * 4, S = 24 * 2048 / PIECE;
  __shared__ uint64_t full[S], empty[S];
  __shared__ float squares[32];
  __shared__ att_room<W> room;
  __shared__ struct ask_entry { const bf16 *w; unsigned k, tasks, distance, shift; } asks[PHASES];
  __shared__ phase now[2];
  const int T = 512 + NP * 32;
  for (int i = threadIdx.x; i < t.count; i += T) { const phase &p = t.p[i]; asks[i] = {p.w, p.k, p.kind ? 0 : p.columns == 1 ? p.tasks / 2 : p.tasks, p.columns == 1 ? 0 : p.distance, p.shift}; }
  if (threadIdx.x < sizeof(phase) / 4) ((uint32_t *)&now[0])[threadIdx.x] = ((const uint32_t *)&t.p[0])[threadIdx.x];
  const int position = *t.position;
  if (threadIdx.x == 0) {
    for (int i = 0; i < S; i++) mb_init(&full[i], 1), mb_init(&empty[i], 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  bf16 *xs = (bf16 *)smem;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  char *ring = (char *)smem + INNER * 2;
  const unsigned G = gridDim.x;
  if (warp >= W) {
    if (lane == 0) {
      const uint64_t pol = policy_first();
      const unsigned q = warp - W, lead = cap % S;
      unsigned slot = 0, behind = (S - lead) % S, n = 0; // behind: the slot of unit n - cap
      unsigned turn = 1, behind_turn = 0;                 // parities: of the slot's reading before, of the copy cap before
      const unsigned ring_at = sa(ring), full_at = sa(full), empty_at = sa(empty);
      for (int at = 0; at < t.count; at++) {
        const ask_entry e = asks[at];
        const unsigned first = (blockIdx.x + e.shift) % G;
        if (first >= e.tasks) continue;
        const unsigned count = (e.tasks - first + G - 1) / G, row_bytes = e.k * 2;
        const bool whole = e.distance == 0 && e.k == PIECE; // both rows in one copy
        const unsigned pair = (e.distance ? e.distance : 1) * row_bytes;
        for (unsigned base = 0; base < count; base += R) {
          const unsigned width = min((unsigned)R, count - base);
          for (unsigned offset = 0; offset < row_bytes; offset += PIECE * 2) {
            unsigned task = first + base * G;
            for (unsigned i = 0; i < width; i++, task += G) {
              if (NP == 1 || n % NP == q) {
                const unsigned row = e.distance == 0 ? 2 * task : e.distance != 32 ? task : task + (task & ~31u);
                const char *from = (const char *)e.w + (size_t)(row * row_bytes + offset);
                const unsigned to = ring_at + slot * BYTES, sign = full_at + slot * 8;
                if (n >= S) asm volatile("{\n.reg .pred P;\nL:\nmbarrier.try_wait.parity.shared::cta.b64 P, [%0], %1;\n@!P bra L;\n}" ::"r"(empty_at + slot * 8), "r"(turn) : "memory");
                if (n >= cap && cap < S) asm volatile("{\n.reg .pred P;\nL:\nmbarrier.try_wait.parity.shared::cta.b64 P, [%0], %1;\n@!P bra L;\n}" ::"r"(full_at + behind * 8), "r"(behind_turn) : "memory");
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(sign), "r"(BYTES) : "memory");
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to), "l"(from), "r"(whole ? BYTES : BYTES / 2), "r"(sign), "l"(pol) : "memory");
                if (!whole) asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to + BYTES / 2), "l"(from + pair), "r"(BYTES / 2), "r"(sign), "l"(pol) : "memory");
              }
              n++;
              if (++slot == S) slot = 0, turn ^= 1;
              if (n > cap && ++behind == S) behind = 0, behind_turn ^= 1;
              if (n == cap) behind = 0;
            }
          }
        }
      }
    }
    __syncwarp();
    sync_exit();
    return;
  }
  unsigned due = 0; // arrivals before the phase at hand
  auto await6 = [&]() {
    if (threadIdx.x == 480) while ((int)(ld_acq(&g_sync.count[0]) - due) < 0) ;
    bar512();
  };
  const bool reads = warp < R;
  unsigned n0 = 0;
#pragma unroll 1
  for (int at = 0; at < t.count; at++) {
    const phase &p = now[at % 2];
    if (warp == 15 && at + 1 < t.count && lane < sizeof(phase) / 4) ((uint32_t *)&now[(at + 1) % 2])[lane] = ((const uint32_t *)&t.p[at + 1])[lane];
    if (p.behind == 2 && warp == 0) {
      int lines = position * 8;
      for (int i = blockIdx.x * 32 + lane; i < 2 * lines; i += gridDim.x * 32) {
        const char *a = (const char *)(i < lines ? p.keys : p.values) + (size_t)(i % lines) * 128;
        asm volatile("prefetch.global.L2 [%0];" ::"l"(a));
      }
    }
    trace_line line = {};
    if (SKIP & 8) line.begin = clock64();
    const int packs = p.k / 8;
    uint4 nw = {};
    if (p.norm && threadIdx.x < packs) nw = *(const uint4 *)(p.norm + threadIdx.x * 8);
    if (p.kind == 1) {
      if (blockIdx.x < HEADS) {
        ahead<4> h;
        attention_ahead<W, 4>(p, position, blockIdx.x, h);
        if (!(SKIP & 1)) await6();
        if (SKIP & 8) line.released = clock64();
        if (!(SKIP & 2)) attention_row2<W, 4>(p, position, blockIdx.x, room, h);
      } // the others have nothing to read that this barrier guards
    } else {
      if (at > 0 && !(SKIP & 1)) await6();
      if (SKIP & 8) line.released = clock64();
      if (SKIP & 4) {
      } else if (p.norm) {
        uint4 v = {};
        float sq = 0;
        if (threadIdx.x < packs) v = __ldcg((const uint4 *)(p.x + threadIdx.x * 8));
        float f[8];
#pragma unroll
        for (int e = 0; e < 4; e++) { f[2 * e] = __uint_as_float((&v.x)[e] << 16); f[2 * e + 1] = __uint_as_float((&v.x)[e] & 0xffff0000u); }
#pragma unroll
        for (int e = 0; e < 8; e++) sq += f[e] * f[e];
        sq = warp_sum(sq);
        if (lane == 0) squares[warp] = sq;
        bar512();
        float all = 0;
#pragma unroll
        for (int i = 0; i < 8; i++) all += squares[i];
        float rstd = 1.0f / sqrtf(all / (float)p.k + 1e-5f);
        if (threadIdx.x < packs) {
          const bf16 *w8 = (const bf16 *)&nw;
          __align__(16) bf16 r[8];
#pragma unroll
          for (int e = 0; e < 8; e++) r[e] = __float2bfloat16_rn(__bfloat162float(w8[e]) * __bfloat162float(__float2bfloat16_rn(f[e] * rstd)));
          *(uint4 *)(xs + threadIdx.x * 8) = *(uint4 *)r;
        }
        bar512();
      } else {
        for (int i = threadIdx.x; i < packs; i += 512) *(uint4 *)(xs + i * 8) = __ldcg((const uint4 *)(p.x + i * 8));
        bar512();
      }
      if (SKIP & 8) line.ready = clock64();
      const unsigned tasks = p.columns == 1 ? p.tasks / 2 : p.tasks, first = (blockIdx.x + p.shift) % G;
      const unsigned count = first < tasks ? (tasks - first + G - 1) / G : 0, parts = p.k / PIECE;
      const int k = p.k;
      if (reads)
      for (unsigned base = 0; base + warp < count; base += R) {
        const unsigned task = first + (base + warp) * G, width = min((unsigned)R, count - base);
        const unsigned column = p.columns == 1 ? 2 * task : p.distance == 32 ? task + (task & ~31u) : task;
        float add[2] = {};
        if (p.add && lane == 0) { uint32_t both = __ldcg((const unsigned *)(p.add + column)); add[0] = __uint_as_float(both << 16); add[1] = __uint_as_float(both & 0xffff0000u); }
        float cosine = 1, sine = 0;
        if (p.behind == 2 && lane == 0 && task < (HEADS + KVH) * HD / 2) { cosine = t.cosines[task % 32]; sine = t.cosines[32 + task % 32]; }
        unsigned n = n0 + base * parts + warp;
        float a = 0, b = 0;
        auto turn = [&](auto &sa, auto &sb, const bf16 *x) {
          constexpr int SPLIT = sizeof(sa) / sizeof(float);
          const unsigned slot = n % S;
          long long c0 = SKIP & 8 ? clock64() : 0;
          mb_wait(&full[slot], n / S & 1);
          if (SKIP & 8) line.waited += clock64() - c0;
          const char *w = ring + slot * BYTES + lane * 16;
          x += lane * 8;
#pragma unroll
          for (int i = 0; i < PIECE / 256; i++) group_add<1>(*(const uint4 *)(w + i * 512), *(const uint4 *)(w + BYTES / 2 + i * 512), *(const uint4 *)(x + i * 256), sa[i % SPLIT], sb[i % SPLIT]);
          __syncwarp();
          if (lane == 0) mb_arrive(&empty[slot]);
          n += width;
        };
        if (k == INNER) {
          float sa[4] = {}, sb[4] = {};
#pragma unroll 1
          for (int offset = 0; offset < k; offset += PIECE) turn(sa, sb, xs + offset);
#pragma unroll
          for (int i = 0; i < 4; i++) { float u = warp_sum(sa[i]), v = warp_sum(sb[i]); a = i ? a + u : u; b = i ? b + v : v; }
        } else {
          float sa[1] = {}, sb[1] = {};
#pragma unroll
          for (int offset = 0; offset < HIDDEN; offset += PIECE) turn(sa, sb, xs + offset);
          a = warp_sum(sa[0]); b = warp_sum(sb[0]);
        }
        if (lane == 0) {
          if (p.add) a += add[0], b += add[1];
          bf16 ra = __float2bfloat16_rn(a), rb = __float2bfloat16_rn(b);
          if (p.columns == 1) *(uint32_t *)(p.y + column) = (uint32_t)__bfloat16_as_ushort(ra) | (uint32_t)__bfloat16_as_ushort(rb) << 16;
          else behind_pair3(p, position, cosine, sine, task, column, ra, rb);
        }
      }
      n0 += count * parts;
    }
    if (SKIP & 8) { line.done = clock64(); if (blockIdx.x == 5 && lane == 0) { if (warp == 0) g_trace[at] = line; g_end[at][warp] = line.done; g_wait[at][warp] = line.waited; } }
    if (at + 1 < t.count) {
      const bool product = p.kind == 0; // now[at % 2] is written anew behind the barrier
      bar512();
      if ((SKIP & 8) && threadIdx.x == 0) g_arrive[at][blockIdx.x] = now_ns();
      if (!(SKIP & 1) && threadIdx.x == 480 && (product || blockIdx.x < HEADS)) red_rel(&g_sync.count[0], 1);
      due += product ? G : HEADS;
    }
  }
  sync_exit();
}
// ---- reference: a kernel each, with the same order of sums ----
__global__ void ref_norm(const bf16 *x, const bf16 *w, bf16 *y, int k) {
  __shared__ float sq[8];
  float f[8], s = 0;
  for (int e = 0; e < 8; e++) { f[e] = __bfloat162float(x[threadIdx.x * 8 + e]); s += f[e] * f[e]; }
  s = warp_sum(s);
  if (threadIdx.x % 32 == 0) sq[threadIdx.x / 32] = s;
  __syncthreads();
  float all = 0;
  for (int i = 0; i < 8; i++) all += sq[i];
  float rstd = 1.0f / sqrtf(all / (float)k + 1e-5f);
  for (int e = 0; e < 8; e++) y[threadIdx.x * 8 + e] = __float2bfloat16_rn(__bfloat162float(w[threadIdx.x * 8 + e]) * __bfloat162float(__float2bfloat16_rn(f[e] * rstd)));
}
__device__ float ref_sum(const bf16 *x, const bf16 *w, int k, int split) {
  int lane = threadIdx.x % 32;
  float sum = 0;
  for (int part = 0; part < split; part++) {
    float s = 0;
    for (int at = (part * 32 + lane) * 8; at < k; at += 256 * split)
      for (int e = 0; e < 8; e++) s += __bfloat162float(w[at + e]) * __bfloat162float(x[at + e]);
    s = warp_sum(s);
    sum = part ? sum + s : s;
  }
  return sum;
}
__global__ void ref_product(phase p, table t, const bf16 *x) {
  unsigned task = blockIdx.x * 8 + threadIdx.x / 32;
  if (task >= p.tasks) return;
  int split = p.k == INNER ? 4 : 1;
  if (p.columns == 1) {
    float s = ref_sum(x, p.w + (size_t)task * p.k, p.k, split);
    if (p.add) s += __bfloat162float(p.add[task]);
    if (threadIdx.x % 32 == 0) p.y[task] = __float2bfloat16_rn(s);
    return;
  }
  unsigned col = task + task / p.distance * p.distance;
  float a = ref_sum(x, p.w + (size_t)col * p.k, p.k, split), b = ref_sum(x, p.w + (size_t)(col + p.distance) * p.k, p.k, split);
  if (threadIdx.x % 32 == 0) behind_pair(p, t, task, col, __float2bfloat16_rn(a), __float2bfloat16_rn(b));
}
template <int W> __global__ void ref_attention(phase p, const int *position) {
  __shared__ att_room<W> room;
  attention_row<W>(p, *position, blockIdx.x, room);
}
__global__ void fill(bf16 *p, size_t n, float scale, unsigned seed) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
    unsigned h = (unsigned)(i * 2654435761u) ^ seed ^ (unsigned)(i >> 32) * 97u;
    h ^= h >> 16; h *= 0x7feb352du; h ^= h >> 15; h *= 0x846ca68bu; h ^= h >> 16;
    p[i] = __float2bfloat16_rn(((int)(h & 0xffff) - 32768) / 32768.0f * scale);
  }
}
__global__ void fill_one(bf16 *p, size_t n) { for (size_t i = threadIdx.x; i < n; i += blockDim.x) p[i] = __float2bfloat16_rn(1.0f); }

static char *base; static size_t used, all_bytes;
static bf16 *take(size_t n) { bf16 *p = (bf16 *)(base + used); used += (n * 2 + 255) / 256 * 256; return p; }
static bf16 *x, *xb, *packed, *mixed, *inner, *logits, *normed, *keys, *values; static float *angles; static int *position;
static table make(int sms, int W) {
  used = 0;
  table t = {};
  t.count = 0;
  struct { bf16 *n0, *n1, *qkv, *o, *gu, *d; } l[LAYERS];
  for (int i = 0; i < LAYERS; i++) { l[i].qkv = take((size_t)PACKED * HIDDEN); l[i].o = take(HIDDEN * HIDDEN); l[i].gu = take(2 * (size_t)INNER * HIDDEN); l[i].d = take((size_t)INNER * HIDDEN); }
  bf16 *head = take((size_t)VOCAB * HIDDEN);
  all_bytes = used;
  bf16 *norms = take((2 * LAYERS + 1) * HIDDEN);
  for (int i = 0; i < LAYERS; i++) { l[i].n0 = norms + 2 * i * HIDDEN; l[i].n1 = norms + (2 * i + 1) * HIDDEN; }
  keys = take((size_t)LAYERS * CONTEXT * WIDTH); values = take((size_t)LAYERS * CONTEXT * WIDTH);
  x = take(HIDDEN); xb = take(HIDDEN); packed = take(PACKED); mixed = take(HIDDEN); inner = take(INNER); logits = take(VOCAB); normed = take(HIDDEN);
  angles = (float *)take(256); position = (int *)take(64);
  t.cosines = angles; t.position = position;
  unsigned G = sms * W; unsigned long long gone = 0;
  auto add = [&](phase p) { if (p.kind == 0) { p.shift = (unsigned)((G - gone % G) % G); gone += p.tasks; } t.p[t.count++] = p; };
  for (int i = 0; i < LAYERS; i++) {
    bf16 *k = keys + (size_t)i * CONTEXT * WIDTH, *v = values + (size_t)i * CONTEXT * WIDTH;
    phase p = {};
    p.behind = 2; p.tasks = PACKED / 2; p.k = HIDDEN; p.distance = 32; p.columns = 2; p.w = l[i].qkv; p.x = x; p.norm = l[i].n0; p.y = packed; p.keys = k; p.values = v; add(p);
    p = {}; p.kind = 1; p.x = packed; p.y = mixed; p.keys = k; p.values = v; add(p);
    p = {}; p.tasks = HIDDEN; p.k = HIDDEN; p.columns = 1; p.w = l[i].o; p.x = mixed; p.add = x; p.y = xb; add(p);
    p = {}; p.behind = 1; p.tasks = INNER; p.k = HIDDEN; p.distance = INNER; p.columns = 2; p.w = l[i].gu; p.x = xb; p.norm = l[i].n1; p.y = inner; add(p);
    p = {}; p.tasks = HIDDEN; p.k = INNER; p.columns = 1; p.w = l[i].d; p.x = inner; p.add = xb; p.y = x; add(p);
  }
  phase p = {}; p.tasks = VOCAB; p.k = HIDDEN; p.columns = 1; p.w = head; p.x = x; p.norm = norms + 2 * LAYERS * HIDDEN; p.y = logits; add(p);
  return t;
}
static int sms; static cudaEvent_t e0, e1;
static std::vector<uint16_t> want_logits[3];
static void state_reset() {
  fill<<<8, 256>>>(x, HIDDEN, 1.0f, 77);
  fill<<<64, 256>>>(keys, (size_t)LAYERS * CONTEXT * WIDTH, 1.0f, 5);
  fill<<<64, 256>>>(values, (size_t)LAYERS * CONTEXT * WIDTH, 1.0f, 6);
  CK(cudaMemset(logits, 0xff, VOCAB * 2));
  CK(cudaMemset(inner, 0xff, INNER * 2));
}
template <int W> static std::vector<uint16_t> reference(const table &t) {
  state_reset();
  for (int i = 0; i < t.count; i++) {
    const phase &p = t.p[i];
    if (p.kind == 1) { ref_attention<W><<<HEADS, W * 32>>>(p, position); continue; }
    const bf16 *from = p.x;
    if (p.norm) { ref_norm<<<1, 256>>>(p.x, p.norm, normed, p.k); from = normed; }
    ref_product<<<(p.tasks + 7) / 8, 256>>>(p, t, from);
  }
  CK(cudaDeviceSynchronize());
  std::vector<uint16_t> r(VOCAB);
  CK(cudaMemcpy(r.data(), logits, VOCAB * 2, cudaMemcpyDeviceToHost));
  return r;
}
static void phases_print(const table &t) {
    trace_line l[128]; CK(cudaMemcpyFromSymbol(l, g_trace, sizeof l));
    for (int k = 0; k < 6; k++) {
      double a[5] = {}; int n = 0;
      for (int i = k; i < t.count; i += k == 5 ? 1 : 5) {
        if (k == 5 ? i != t.count - 1 : i == t.count - 1) continue;
        n++; a[0] += l[i].released - l[i].begin; a[1] += l[i].ready ? l[i].ready - l[i].released : 0; a[2] += l[i].waited; a[3] += l[i].done - l[i].begin; a[4] += i ? l[i].begin - l[i - 1].done : 0;
      }
      if (n) printf("  phase %d: barrier %.0f x %.0f ring-waits %.0f all %.0f (+sync before %.0f) cycles\n", k, a[0] / n, a[1] / n, a[2] / n, a[3] / n, a[4] / n);
    }
}
template <int R, int D, int P, int WHEN, int J0, int XR, int SKIP = 0, int BAR = 4, int T = 512> static void token4_run() {
  auto kernel = token4_kernel<R, D, T, P, WHEN, J0, XR, SKIP, BAR>;
  table t = make(sms, R);
  { // tasks are pairs of rows here
    unsigned G = sms * R; unsigned long long gone = 0;
    for (int i = 0; i < t.count; i++) { phase &p = t.p[i]; if (p.kind) continue; p.shift = (unsigned)((G - gone % G) % G); gone += p.columns == 1 ? p.tasks / 2 : p.tasks; }
  }
  size_t bytes = (size_t)R * D * 8192 + INNER * 2;
  cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
  if (e != cudaSuccess) { cudaGetLastError(); printf("token3 R%d D%d: no room\n", R, D); return; }
  if (want_logits[2].empty()) want_logits[2] = reference<16>(t);
  state_reset();
  void *args[] = {&t};
  cudaLaunchAttribute at = {}; at.id = cudaLaunchAttributeCooperative; at.val.cooperative = 1;
  cudaLaunchConfig_t c = {}; c.gridDim = dim3(sms); c.blockDim = dim3(T); c.dynamicSmemBytes = bytes; c.attrs = &at; c.numAttrs = 1;
  e = cudaLaunchKernelExC(&c, (void *)kernel, args);
  if (e != cudaSuccess) { printf("token3 R%d D%d: %s\n", R, D, cudaGetErrorString(e)); cudaGetLastError(); return; }
  CK(cudaDeviceSynchronize());
  std::vector<uint16_t> r(VOCAB);
  CK(cudaMemcpy(r.data(), logits, VOCAB * 2, cudaMemcpyDeviceToHost));
  size_t bad = 0, nan = 0;
  for (int i = 0; i < VOCAB; i++) { bad += r[i] != want_logits[2][i]; nan += (r[i] & 0x7fff) > 0x7f80; }
  float best = 1e9f, ms;
  for (int rep = 0; rep < 4; rep++) {
    CK(cudaEventRecord(e0));
    for (int i = 0; i < 16; i++) CK(cudaLaunchKernelExC(&c, (void *)kernel, args));
    CK(cudaEventRecord(e1)); CK(cudaEventSynchronize(e1)); CK(cudaEventElapsedTime(&ms, e0, e1));
    if (ms < best) best = ms;
  }
  printf("token4 R%d D%d ahead%d when%d from%d xregs%d skip%d arrival%d: %.1f us, share %.3f, differ %zu nan %zu\n", R, D, P, WHEN, J0, XR, SKIP, BAR, best / 16 * 1e3, all_bytes / 4.8e12 / (best / 16 * 1e-3), bad, nan);
  if (SKIP & 8) {
    phases_print(t);
    static long long en[128][16], pu[128][16], wa[128][16]; CK(cudaMemcpyFromSymbol(en, g_end, sizeof en)); CK(cudaMemcpyFromSymbol(pu, g_put, sizeof pu)); CK(cudaMemcpyFromSymbol(wa, g_wait, sizeof wa));
    for (int k = 0; k < 5; k++) {
      if (k == 1) continue;
      printf("  phase %d readers: end/waited/put", k);
      for (int w = 0; w < R; w++) { double e = 0, u = 0, v = 0; for (int l = 1; l < 16; l++) { int i = l * 5 + k; e += (en[i][w] - en[i][0]) / 15.0; u += wa[i][w] / 15.0; v += pu[i][w] / 15.0; } printf(" %.0f/%.0f/%.0f", e, u, v); }
      printf("\n");
    }
    static unsigned long long arr[128][160]; CK(cudaMemcpyFromSymbol(arr, g_arrive, sizeof arr));
    double spread[5] = {}, len[5] = {}, mid[5] = {};
    unsigned long long before = 0;
    for (int i = 0; i < t.count - 1; i++) {
      unsigned long long lo = ~0ull, hi = 0, sum = 0;
      for (int b = 0; b < sms; b++) { if (arr[i][b] < lo) lo = arr[i][b]; if (arr[i][b] > hi) hi = arr[i][b]; }
      for (int b = 0; b < sms; b++) sum += arr[i][b] - lo;
      spread[i % 5] += (hi - lo) / 16.0; mid[i % 5] += sum / (double)sms / 16.0; if (before) len[i % 5] += (hi - before) / (i % 5 ? 16.0 : 15.0);
      before = hi;
    }
    for (int k = 0; k < 5; k++) printf("  phase %d: from last arrival to last %.0f ns, first to last %.0f, mean behind first %.0f\n", k, len[k], spread[k], mid[k]);
  }
  fflush(stdout);
}
template <int PIECE, int NP, int SKIP> static void token6_run(int R, unsigned cap) {
  auto kernel = token6_kernel<PIECE, NP, SKIP>;
  table t = make(sms, R);
  { // tasks are pairs of rows here
    unsigned G = sms; unsigned long long gone = 0;
    for (int i = 0; i < t.count; i++) { phase &p = t.p[i]; if (p.kind) continue; p.shift = (unsigned)((G - gone % G) % G); gone += p.columns == 1 ? p.tasks / 2 : p.tasks; }
  }
  size_t bytes = (size_t)24 * 8192 + INNER * 2;
  cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
  if (e != cudaSuccess) { cudaGetLastError(); printf("token6: no room\n"); return; }
  if (want_logits[2].empty()) want_logits[2] = reference<16>(t);
  state_reset();
  void *args[] = {&t, &R, &cap};
  cudaLaunchAttribute at = {}; at.id = cudaLaunchAttributeCooperative; at.val.cooperative = 1;
  cudaLaunchConfig_t c = {}; c.gridDim = dim3(sms); c.blockDim = dim3(512 + NP * 32); c.dynamicSmemBytes = bytes; c.attrs = &at; c.numAttrs = 1;
  e = cudaLaunchKernelExC(&c, (void *)kernel, args);
  if (e != cudaSuccess) { printf("token6: %s\n", cudaGetErrorString(e)); cudaGetLastError(); return; }
  CK(cudaDeviceSynchronize());
  std::vector<uint16_t> r(VOCAB);
  CK(cudaMemcpy(r.data(), logits, VOCAB * 2, cudaMemcpyDeviceToHost));
  size_t bad = 0, nan = 0;
  for (int i = 0; i < VOCAB; i++) { bad += r[i] != want_logits[2][i]; nan += (r[i] & 0x7fff) > 0x7f80; }
  float best = 1e9f, ms;
  for (int rep = 0; rep < 3; rep++) {
    CK(cudaEventRecord(e0));
    for (int i = 0; i < 16; i++) CK(cudaLaunchKernelExC(&c, (void *)kernel, args));
    CK(cudaEventRecord(e1)); CK(cudaEventSynchronize(e1)); CK(cudaEventElapsedTime(&ms, e0, e1));
    if (ms < best) best = ms;
  }
  printf("token6 unit %d KB producers %d R%d cap %d KB skip%d: %.1f us, share %.3f, differ %zu nan %zu\n", PIECE * 4 / 1024, NP, R, (int)cap * PIECE * 4 / 1024, SKIP, best / 16 * 1e3, all_bytes / 4.8e12 / (best / 16 * 1e-3), bad, nan);
  if (SKIP & 8) {
    phases_print(t);
    static long long en[128][16], wa[128][16]; CK(cudaMemcpyFromSymbol(en, g_end, sizeof en)); CK(cudaMemcpyFromSymbol(wa, g_wait, sizeof wa));
    for (int k = 0; k < 5; k++) {
      if (k == 1) continue;
      printf("  phase %d readers: end/waited", k);
      for (int w = 0; w < R; w++) { double e = 0, u = 0; for (int l = 1; l < 16; l++) { int i = l * 5 + k; e += (en[i][w] - en[i][0]) / 15.0; u += wa[i][w] / 15.0; } printf(" %.0f/%.0f", e, u); }
      printf("\n");
    }
    static unsigned long long arr[128][160]; CK(cudaMemcpyFromSymbol(arr, g_arrive, sizeof arr));
    double spread[5] = {}, len[5] = {}, mid[5] = {};
    unsigned long long before = 0;
    for (int i = 0; i < t.count - 1; i++) {
      unsigned long long lo = ~0ull, hi = 0, sum = 0;
      for (int b = 0; b < sms; b++) { if (arr[i][b] < lo) lo = arr[i][b]; if (arr[i][b] > hi) hi = arr[i][b]; }
      for (int b = 0; b < sms; b++) sum += arr[i][b] - lo;
      spread[i % 5] += (hi - lo) / 16.0; mid[i % 5] += sum / (double)sms / 16.0; if (before) len[i % 5] += (hi - before) / (i % 5 ? 16.0 : 15.0);
      before = hi;
    }
    for (int k = 0; k < 5; k++) printf("  phase %d: from last arrival to last %.0f ns, first to last %.0f, mean behind first %.0f\n", k, len[k], spread[k], mid[k]);
  }
  fflush(stdout);
}
template <int METHOD, int W, int D, int STAGE, int AHEAD> static void stream_run() {
  auto kernel = stream_kernel<METHOD, W, D, STAGE, AHEAD>;
  CK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, W * D * STAGE));
  float best = 1e9f, ms;
  for (int rep = 0; rep < 4; rep++) {
    CK(cudaEventRecord(e0));
    for (int i = 0; i < 4; i++) kernel<<<sms, W * 32, W * D * STAGE>>>(base, (unsigned)(all_bytes / STAGE), (unsigned *)position);
    CK(cudaEventRecord(e1)); CK(cudaEventSynchronize(e1)); CK(cudaEventElapsedTime(&ms, e0, e1));
    if (ms < best) best = ms;
  }
  printf("stream %s W%d D%d S%d ahead%d: %.1f us, %.3f TB/s\n", METHOD == BULK ? "bulk" : "cpa", W, D, STAGE, AHEAD, best / 4 * 1e3, all_bytes / (best / 4 * 1e-3) / 1e12);
  fflush(stdout);
}
static void stream_run_quiet() {
  auto kernel = stream_kernel<BULK, 8, 6, 4096, 0>;
  CK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 8 * 6 * 4096));
  for (int i = 0; i < 10; i++) kernel<<<sms, 256, 8 * 6 * 4096>>>(base, (unsigned)(all_bytes / 4096), (unsigned *)position);
}
int main() {
  cudaDeviceProp pr; CK(cudaGetDeviceProperties(&pr, 0)); sms = pr.multiProcessorCount;
  printf("%s %d\n", pr.name, sms);
  CK(cudaEventCreate(&e0)); CK(cudaEventCreate(&e1));
  make(sms, 16); size_t need = used; printf("bytes %.4g of weights, %.4g\n", (double)all_bytes, (double)need);
  CK(cudaMalloc(&base, need));
  make(sms, 16);
  fill<<<132 * 8, 256>>>((bf16 *)base, all_bytes / 2, 0.03f, 1);
  make(sms, 16);
  { bf16 *norms = (bf16 *)(base + all_bytes); fill_one<<<1, 256>>>(norms, (2 * LAYERS + 1) * HIDDEN); }
  float h[64]; for (int i = 0; i < 32; i++) h[i] = cosf(0.1f * i), h[32 + i] = sinf(0.1f * i);
  CK(cudaMemcpy(angles, h, sizeof h, cudaMemcpyHostToDevice));
  int pos = 192; CK(cudaMemcpy(position, &pos, 4, cudaMemcpyHostToDevice));
  CK(cudaDeviceSynchronize());
  for (int i = 0; i < 60; i++) stream_run_quiet();
  CK(cudaDeviceSynchronize());
  const int kb[] = {5, 6, 4, 7, 8, 12, 24};
  token6_run<2048, 2, 0>(12, 5);
  token6_run<2048, 1, 8>(12, 5);
  token6_run<2048, 2, 8>(12, 5);
  token6_run<2048, 2, 8>(8, 6);
  for (int k : kb) token6_run<2048, 2, 0>(12, k);
  for (int k : kb) token6_run<2048, 1, 0>(12, k);
  for (int k : kb) token6_run<2048, 4, 0>(12, k);
  for (int k : kb) token6_run<2048, 2, 7>(12, k);
  for (int k : kb) token6_run<2048, 1, 7>(12, k);
  for (int k : kb) token6_run<2048, 2, 0>(8, k);
  token6_run<2048, 2, 1>(12, 5);
  token6_run<2048, 2, 2>(12, 5);
  token6_run<2048, 4, 8>(12, 5);
  for (int c = 8; c <= 14; c += 2) token6_run<1024, 4, 0>(12, c);
  for (int k : kb) token6_run<2048, 2, 0>(16, k);
  CK(cudaDeviceSynchronize());
  return 0;
}
