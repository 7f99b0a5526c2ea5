/* Runs of products of few rows (few.cuh), and of attention over a cache between them, in one kernel: a token's layers.
 *
 * A product of few rows waits for its weights, and what comes before it does not change them. So a few warps of each
 * block ask for the rows of all products of the run in the order in which the others read them, as far ahead as a ring
 * in shared memory reaches: while blocks wait for each other between two products, or attend to keys, the rings fill
 * and memory never rests. There is one block on each multiprocessor; all of them do one phase, and the next one once
 * all are done with it.
 *
 * What is asked for lies in a queue in front of memory, and whatever else is read waits behind it: rows of x, and the
 * counts by which blocks meet. So no more is under way at a time than memory needs to be busy (CHAIN_UNDER_WAY),
 * however much room the ring has.
 *
 * A task is two rows of weights, neighbours or the pair that goes together in what is behind: rows of x are taken apart
 * once for both. Blocks have tasks by turns, each phase where the one before it ended, so that every one has as much to
 * read. Who has a task changes no bit: sums have the order of few_kernel, attention that of cache_attention.
 */
#ifndef HR_OP_FEW_CHAIN_CUH
#define HR_OP_FEW_CHAIN_CUH

#include "op/cache_rows.cuh"
#include "op/few.cuh"

enum {
  CHAIN_ROWS = 2,   /* of x, at most: sums of more find no room in registers */
  CHAIN_WARPS = 16, /* that reckon, as attention has them; others ask for weights */
  CHAIN_THREADS = WARP * CHAIN_WARPS,
  CHAIN_READERS = 12,                       /* of these warps, of products */
  CHAIN_GROUPS = 8,                         /* of packs of a row, one for each lane, in a piece */
  CHAIN_PIECE = CHAIN_GROUPS * WARP * WIDE, /* elements of each of two rows */
  CHAIN_ASKERS = 2,                         /* warps that ask: one takes longer over a piece than memory does */
  CHAIN_UNDER_WAY = 6 /* pieces that are asked for and not there yet, at most: a multiple of the askers */
};
enum { CHAIN_MOST = 112, CHAIN_MOST_DEEP = 48 }; /* phases, pieces of a ring */

typedef enum chain_kind { CHAIN_PRODUCT, CHAIN_ATTENTION, CHAIN_JOIN } chain_kind;

template <typename T> struct chain_phase {
  chain_kind kind;
  unsigned shift;  /* of a product: task t is of block (t - shift) modulo all blocks */
  unsigned blocks; /* that have something to do */
  union {
    few_product<T> product;
    cache_read<T> attention;
  };
};

/* The parameters of the kernel. */
template <typename T> struct few_chain {
  int count;          /* phases */
  unsigned deep;      /* pieces of a ring */
  unsigned rows_room; /* bytes for rows of x */
  bool early;         /* as few_product.early, of all weights */
  chain_phase<T> phases[CHAIN_MOST];
};

/* How many blocks are done with phases, and how many with the run. */
struct chain_counts {
  unsigned done, ended;
};
static __device__ chain_counts chain_counted;

/* Behind what so many phases of blocks have done. */
__device__ inline void blocks_await(unsigned done) {
  if (threadIdx.x == 0)
    while (count_of(&chain_counted.done) < done)
      ;
  threads_meet<CHAIN_THREADS>();
}

/* Who ends last leaves the counts as they were: nobody looks at them any more. */
__device__ inline void blocks_part(void) {
  if (threadIdx.x == 0 && atomicAdd(&chain_counted.ended, 1u) == gridDim.x - 1) {
    chain_counted.done = 0;
    chain_counted.ended = 0;
  }
}

/* ---- who reads what ---- */

/* The first of a task's two rows, and how far behind it the second one is: none behind the last row of an odd number.
 */
__device__ inline unsigned chain_column(unsigned distance, unsigned task) {
  if (distance == 0) return 2 * task;
  return task < distance ? task : task + task / distance * distance;
}
__device__ inline unsigned chain_apart(unsigned distance, unsigned n, unsigned column) {
  return distance > 0 ? distance : column + 1 < n ? 1 : 0;
}

/* Of a product, in shared memory: what is to be known before its time. */
template <typename T> struct chain_weights {
  const T *w;
  unsigned n, k, distance, shift; /* distance 0: neighbours go together */
};

/* The block's shared memory, in front of rows and the ring. */
template <typename T> struct chain_room {
  uint64_t there[CHAIN_MOST_DEEP], read[CHAIN_MOST_DEEP]; /* signs of pieces: a copy has come, its reader is done */
  chain_phase<T> phases[2];                               /* this one and the next one, by turns */
  chain_weights<T> weights[CHAIN_MOST];                   /* n = 0: no product */
};

template <typename T> __device__ inline chain_room<T> &room_of(void) {
  return *launch_shared<chain_room<T>>();
}

/* The block's tasks of a product. They go to the readers by turns, a round of all readers at a time: piece by piece of
 * these, each piece of all of them before the next one. */
struct chain_share {
  unsigned first, count; /* first, first + gridDim.x, ... */
  unsigned pieces;       /* of a row */
  __device__ chain_share(unsigned n, unsigned k, unsigned shift)
      : first((blockIdx.x + shift) % gridDim.x), count(0), pieces((k + CHAIN_PIECE - 1) / CHAIN_PIECE) {
    unsigned tasks = (n + 1) / 2;
    if (first < tasks) count = (tasks - first + gridDim.x - 1) / gridDim.x;
  }
  __device__ unsigned task(unsigned i) const { return first + i * gridDim.x; }
  __device__ unsigned width(unsigned round) const { /* readers of the round from task `round` on */
    return count - round < CHAIN_READERS ? count - round : (unsigned)CHAIN_READERS;
  }
};

/* The ring as one of the block's warps sees it. Pieces are counted from the run's first one on. */
template <typename T> struct chain_ring {
  T *pieces; /* [deep, 2, CHAIN_PIECE] */
  unsigned deep;

  __device__ T *at(unsigned piece) const { return pieces + piece % deep * 2 * CHAIN_PIECE; }
  __device__ uint64_t *there(unsigned piece) const { return &room_of<T>().there[piece % deep]; }
  __device__ uint64_t *read(unsigned piece) const { return &room_of<T>().read[piece % deep]; }

  __device__ void wait(unsigned piece) const { bulk_wait(there(piece), piece / deep % 2); }
  /* By the reader's warp, behind its last look. */
  __device__ void release(unsigned piece) const {
    __syncwarp();
    if (threadIdx.x % WARP == 0) bulk_turn_end(read(piece));
  }
};

/* A piece of the ring, and its turn there. */
struct chain_place {
  unsigned piece, turn;
  __device__ void next(unsigned deep) {
    if (++piece < deep) return;
    piece = 0;
    turn ^= 1;
  }
};

/* One thread of an asking warp: of all that the block's readers will want its share, piece by piece by turns. It is in
 * the way of the whole block's reading, so nothing is divided here. */
template <typename T> __device__ inline void weights_ask(const chain_ring<T> &ring, int phases, unsigned asker) {
  chain_room<T> &room = room_of<T>();
  const unsigned deep = ring.deep;
  chain_place place = {}, before = {}; /* of the piece, and of that CHAIN_UNDER_WAY before it: this warp's own too */
  unsigned count = 0;
  for (int phase = 0; phase < phases; phase++) {
    const chain_weights<T> w = room.weights[phase];
    const chain_share share(w.n, w.k, w.shift);
    for (unsigned round = 0; round < share.count; round += CHAIN_READERS)
      for (unsigned from = 0; from < w.k; from += CHAIN_PIECE)
        for (unsigned i = 0; i < share.width(round); i++, count++) {
          if (count % CHAIN_ASKERS == asker) {
            const unsigned column = chain_column(w.distance, share.task(round + i));
            const int64_t apart = (int64_t)chain_apart(w.distance, w.n, column) * w.k;
            const unsigned many = w.k - from < CHAIN_PIECE ? w.k - from : (unsigned)CHAIN_PIECE;
            const unsigned bytes = many * (unsigned)sizeof(T);
            const T *first = w.w + (int64_t)column * w.k + from;
            T *to = ring.pieces + place.piece * 2 * CHAIN_PIECE;
            uint64_t *there = &room.there[place.piece];
            if (count >= deep) bulk_wait(&room.read[place.piece], place.turn ^ 1);
            if (count >= CHAIN_UNDER_WAY) bulk_wait(&room.there[before.piece], before.turn);
            bulk_expect(there, 2 * bytes);
            if (apart == CHAIN_PIECE && many == CHAIN_PIECE) { /* the second row right behind the first one */
              bulk_start(to, first, 2 * bytes, there);
            } else {
              bulk_start(to, first, bytes, there);
              bulk_start(to + CHAIN_PIECE, first + apart, bytes, there);
            }
          }
          place.next(deep);
          if (count >= CHAIN_UNDER_WAY) before.next(deep);
        }
  }
}

/* All of the block's threads: the weights of all phases, and signs. */
template <typename T> __device__ inline void room_begin(const few_chain<T> &chain) {
  chain_room<T> &room = room_of<T>();
  for (unsigned i = threadIdx.x; i < (unsigned)chain.count; i += blockDim.x) {
    const chain_phase<T> &p = chain.phases[i];
    chain_weights<T> weights = {};
    if (p.kind == CHAIN_PRODUCT)
      weights = {p.product.w, (unsigned)p.product.n, (unsigned)p.product.k,
                 p.product.after ? (unsigned)p.product.distance : 0, p.shift};
    room.weights[i] = weights;
  }
  if (threadIdx.x > 0) return;
  for (unsigned i = 0; i < chain.deep; i++) {
    bulk_sign_make(&room.there[i]);
    bulk_sign_make(&room.read[i]);
  }
  bulk_signs_made();
}

/* ---- products ---- */

/* A pack of each of two rows of weights times those of rows of x. */
template <typename T, int M>
__device__ inline void chain_add(const few_words<T> &first, const few_words<T> &second, const T *x, int k,
                                 float (&sums)[2][M]) {
  pack<T, WIDE> a, b;
  memcpy(&a, &first, sizeof a);
  memcpy(&b, &second, sizeof b);
#pragma unroll
  for (int m = 0; m < M; m++) {
    float values[WIDE];
    pack_read<WIDE>(x + m * k, values);
#pragma unroll
    for (int e = 0; e < WIDE; e++) {
      sums[0][m] += to_float(a.value[e]) * values[e];
      sums[1][m] += to_float(b.value[e]) * values[e];
    }
  }
}

/* Both sums of a task with each row of x, in lane m those of row m. SPLIT as in few_kernel: parts of a row are summed
 * apart. The first piece of the row is `piece`, the others come `width` apart. */
template <typename T, int M, int SPLIT>
__device__ inline float2 chain_sums(const chain_ring<T> &ring, unsigned piece, unsigned width, const T *x, int k,
                                    int lane) {
  float sums[SPLIT][2][M] = {};
#pragma unroll 1
  for (int base = 0; base < k; base += CHAIN_PIECE, piece += width) {
    ring.wait(piece);
    const T *weights = ring.at(piece) + lane * WIDE, *rows = x + base + lane * WIDE;
    auto group = [&](int i) {
      const T *at = weights + i * WARP * WIDE;
      chain_add<T, M>(*(const few_words<T> *)at, *(const few_words<T> *)(at + CHAIN_PIECE), rows + i * WARP * WIDE, k,
                      sums[i % SPLIT]);
    };
    if (base + CHAIN_PIECE <= k) { /* apart from the rest, so that all is read before it is asked for */
#pragma unroll
      for (int i = 0; i < CHAIN_GROUPS; i++)
        group(i);
    } else {
#pragma unroll
      for (int i = 0; i < CHAIN_GROUPS; i++)
        if (base + (i * WARP + lane) * WIDE < k) group(i);
    }
    ring.release(piece);
  }
  float2 mine = {};
#pragma unroll
  for (int m = 0; m < M; m++) {
    float2 all = {};
#pragma unroll
    for (int part = 0; part < SPLIT; part++) {
      float2 sum = warp_sum(float2{sums[part][0][m], sums[part][1][m]});
      all = part == 0 ? sum : float2{all.x + sum.x, all.y + sum.y};
    }
    if (lane == m) mine = all;
  }
  return mine;
}

template <typename T, int M, int SPLIT>
__device__ inline void chain_read(const chain_phase<T> &phase, const chain_ring<T> &ring, const chain_share &share,
                                  unsigned pieces, const T *x) {
  const few_product<T> &p = phase.product;
  const int lane = (int)threadIdx.x % WARP, k = (int)p.k;
  const unsigned reader = threadIdx.x / WARP, distance = p.after ? (unsigned)p.distance : 0, n = (unsigned)p.n;
  for (unsigned round = 0; round + reader < share.count; round += CHAIN_READERS) {
    const unsigned task = share.task(round + reader), first = pieces + round * share.pieces + reader;
    const unsigned column = chain_column(distance, task), apart = chain_apart(distance, n, column);
    float bias[2] = {}, add[2] = {};
    few_turn turn = {};
    if (lane < M) { /* asked for before the sums are there */
      if (p.after) turn = few_ahead(p, (unsigned)lane, task);
#pragma unroll
      for (int c = 0; c < 2; c++) {
        if (p.bias) bias[c] = to_float(p.bias[column + c * apart]);
        if (p.add) add[c] = to_float(p.add[lane * p.n + column + c * apart]);
      }
    }
    float2 both = chain_sums<T, M, SPLIT>(ring, first, share.width(round), x, k, lane);
    if (lane < M) {
      float sum[2] = {both.x, both.y};
      T rounded[2];
#pragma unroll
      for (int c = 0; c < 2; c++) {
        if (p.bias) sum[c] += bias[c];
        if (p.add) sum[c] += add[c];
        rounded[c] = from_float<T>(sum[c]);
        if (p.y && (c == 0 || apart > 0)) p.y[lane * p.n + column + c * apart] = rounded[c];
      }
      if (p.after) few_after(p, (unsigned)lane, task, column, rounded[0], rounded[1], turn);
    }
  }
}

/* `pieces`: those of the block's products before this one. */
template <typename T, int M>
__device__ inline void chain_product(const chain_phase<T> &phase, const chain_ring<T> &ring, const chain_share &share,
                                     unsigned pieces, T *rows) {
  const few_product<T> &p = phase.product;
  if (p.norm)
    few_norm<T, M, CHAIN_THREADS>(p, rows);
  else
    for (int i = (int)threadIdx.x; i < M * (int)p.k / WIDE; i += CHAIN_THREADS)
      *(few_words<T> *)(rows + i * WIDE) = *(const few_words<T> *)(p.x + i * WIDE);
  threads_meet<CHAIN_THREADS>();
  if (threadIdx.x >= CHAIN_READERS * WARP) return;
  switch (p.split) {
  case 1:
    return chain_read<T, M, 1>(phase, ring, share, pieces, rows);
  case 2:
    return chain_read<T, M, 2>(phase, ring, share, pieces, rows);
  case 4:
    return chain_read<T, M, 4>(phase, ring, share, pieces, rows);
  default:
    return chain_read<T, M, 8>(phase, ring, share, pieces, rows);
  }
}

/* ---- attention ---- */

template <typename T, int LANES> __device__ inline void chain_rows(const cache_read<T> &c, void *room) {
  const attention_shape &s = c.shape;
  const unsigned rows = (unsigned)s.rows, parts = (unsigned)s.parts, groups = (unsigned)(s.samples * s.kv_heads);
  for (unsigned i = blockIdx.x; i < rows * groups * parts; i += gridDim.x) {
    attention_rows_do<T, LANES, 1>(c, i % rows, i / rows % groups, i / rows / groups,
                                   *(attention_room<LANES, 1> *)room);
    threads_meet<CHAIN_THREADS>();
  }
}

template <typename T> __device__ inline void chain_attention(const cache_read<T> &c, void *room) {
  if (c.shape.head_dim <= 4 * WIDE) return chain_rows<T, 4>(c, room);
  if (c.shape.head_dim <= 8 * WIDE) return chain_rows<T, 8>(c, room);
  return chain_rows<T, 16>(c, room);
}

template <typename T> __device__ inline void chain_join(const cache_read<T> &c) {
  const attention_shape &s = c.shape;
  const unsigned d = (unsigned)s.head_dim, all = (unsigned)(s.samples * s.length * s.heads) * d;
  for (unsigned i = blockIdx.x * CHAIN_THREADS + threadIdx.x; i < all; i += gridDim.x * CHAIN_THREADS)
    join_do(c, i / d, i % d);
}

/* ---- the next phase, made ready by one warp while others do this one ---- */

/* Keys and values of positions before this call's, on their way into the device's cache. */
template <typename T> __device__ inline void keys_ahead(const cache_read<T> &c, int lane) {
  const attention_shape &s = c.shape;
  const int64_t width = s.kv_heads * s.head_dim, line = 128 / (int64_t)sizeof(T);
  for (int64_t sample = 0; sample < s.samples; sample++) {
    int64_t position = c.positions[sample], end = position < s.context ? position : s.context;
    int64_t from = s.window > 0 && end > s.window ? end - s.window : 0, base = sample * s.context * width;
    for (int64_t at = from * width + (blockIdx.x * WARP + lane) * line; at < end * width;
         at += gridDim.x * WARP * line) {
      ask_ahead(c.keys + base + at);
      ask_ahead(c.values + base + at);
    }
  }
}

/* Parameters are far away when they are read first, and so is what a phase begins with. */
template <typename T> __device__ inline void phase_ready(const few_chain<T> &chain, int number) {
  static_assert(sizeof(chain_phase<T>) % sizeof(uint2) == 0, "moved in these");
  const int lane = (int)threadIdx.x % WARP;
  chain_phase<T> &phase = room_of<T>().phases[number % 2];
  for (unsigned i = (unsigned)lane; i < sizeof phase / sizeof(uint2); i += WARP)
    ((uint2 *)&phase)[i] = ((const uint2 *)&chain.phases[number])[i];
  __syncwarp();
  if (phase.kind == CHAIN_ATTENTION) keys_ahead(phase.attention, lane);
  const few_product<T> &p = phase.product;
  if (phase.kind == CHAIN_PRODUCT && p.norm)
    for (int at = lane * 128; at < (int)p.k * (p.norm_f32 ? (int)sizeof(float) : (int)sizeof(T)); at += WARP * 128)
      ask_ahead((const char *)p.norm + at);
}

/* Shared memory: the room, rows of x (or what attention needs), the ring. */
template <typename T> constexpr size_t CHAIN_ROOM = (sizeof(chain_room<T>) + 127) / 128 * 128;
enum {
  CHAIN_SHARED = 226 << 10, /* bytes, together with what few_norm has */
  CHAIN_ROWS_LEAST = 16 << 10,
  CHAIN_ROWS_MOST = 64 << 10,
  CHAIN_PIECE_BYTES = 2 * CHAIN_PIECE * 2 /* 16-bit elements of two rows */
};

template <typename T, int M>
static __global__ void __launch_bounds__(CHAIN_THREADS + CHAIN_ASKERS * WARP, 1)
    few_chain_kernel(__grid_constant__ const few_chain<T> chain) {
  char *shared = launch_shared<char>() + CHAIN_ROOM<T>;
  T *rows = (T *)shared;
  const chain_ring<T> ring = {(T *)(shared + chain.rows_room), chain.deep};
  const unsigned warp = threadIdx.x / WARP;
  room_begin(chain);
  __syncthreads();
  if (warp >= CHAIN_WARPS) {
    if (!chain.early) front_wait();
    if (threadIdx.x % WARP == 0) weights_ask(ring, chain.count, warp - CHAIN_WARPS);
    return;
  }
  front_wait();
  if (warp == CHAIN_WARPS - 1) phase_ready(chain, 0);
  threads_meet<CHAIN_THREADS>();
  unsigned done = 0, pieces = 0; /* of phases before this one: by all blocks, of this block's products */
#pragma unroll 1
  for (int i = 0; i < chain.count; i++) {
    const chain_phase<T> &phase = room_of<T>().phases[i % 2];
    const bool takes_part = blockIdx.x < phase.blocks; /* others go on: there is nothing that they read too early */
    const unsigned before = done;
    done += phase.blocks;
    if (warp == CHAIN_WARPS - 1 && i + 1 < chain.count) phase_ready(chain, i + 1);
    if (takes_part && i > 0) blocks_await(before);
    if (phase.kind == CHAIN_PRODUCT) {
      const chain_share share((unsigned)phase.product.n, (unsigned)phase.product.k, phase.shift);
      chain_product<T, M>(phase, ring, share, pieces, rows);
      pieces += share.count * share.pieces;
    } else if (takes_part && phase.kind == CHAIN_ATTENTION) {
      chain_attention(phase.attention, rows);
    } else if (takes_part) {
      chain_join(phase.attention);
    }
    if (i + 1 == chain.count) break;
    threads_meet<CHAIN_THREADS>(); /* behind it the phase is another one's place */
    if (takes_part && threadIdx.x == 0) count_up(&chain_counted.done);
  }
  blocks_part();
}

#endif
