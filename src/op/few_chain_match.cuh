/* Which launches one few_chain takes: products of few rows with their neighbours (few_match.cuh) and attention over a
 * cache, one behind the other, as long as nothing else stands between them. Blocks meet between any two of them, so
 * that each may read and write as alone; only weights and positions are read before their time, and none of the
 * launches may write them.
 */
#ifndef HR_OP_FEW_CHAIN_MATCH_CUH
#define HR_OP_FEW_CHAIN_MATCH_CUH

#include "op/few_chain.cuh"
#include "op/few_match.cuh"

extern "C" const hr_cuda_launcher hr_cuda_cache_attention;

enum { CHAIN_FEWEST = 2 /* products: a single one has a kernel of its own */ };

/* Whether one row to a block has the bits of the op alone. */
static bool attention_goes(const attention_shape &s) {
  return s.head_dim <= 16 * WIDE && s.rows <= 4;
}

template <typename T> struct chain_maker {
  few_chain<T> chain;
  const hr_tensor *weights[CHAIN_MOST];   /* of its products */
  const hr_tensor *positions[CHAIN_MOST]; /* of attention: keys before them are asked for ahead */
  size_t taken, products, attentions;     /* launches; phases that are products, calls of attention */
  uint64_t tasks;
  unsigned blocks;

  /* Phases behind those there are; none where they do not fit. */
  bool product_add(const few_group &group) {
    chain_phase<T> &phase = chain.phases[chain.count];
    size_t bytes = (size_t)(desc_rows(group.product->in[0].desc) * group.product->in[1].desc.dim[1]) * sizeof(T);
    if (bytes > CHAIN_ROWS_MOST || chain.count == CHAIN_MOST) return false;
    if (bytes > chain.rows_room) chain.rows_room = (unsigned)bytes;
    phase.kind = CHAIN_PRODUCT;
    phase.blocks = blocks;
    phase.product = few_of<T>(group);
    phase.product.split = few_split<T>(phase.product.k);
    phase.shift = (unsigned)((blocks - tasks % blocks) % blocks);
    tasks += (uint64_t)divide_up(phase.product.n, 2);
    weights[products++] = &group.product->in[1];
    chain.count++;
    taken += group.count;
    return true;
  }
  bool attention_add(const hr_call *call) {
    const attention_shape shape = attention_shape_of(call);
    const int kinds = shape.parts > 1 ? 2 : 1;
    if (!attention_goes(shape) || chain.count + kinds > CHAIN_MOST) return false;
    for (int i = 0; i < kinds; i++) {
      const int64_t tasks = i == 0
                                ? shape.rows * shape.samples * shape.kv_heads * shape.parts
                                : divide_up(shape.samples * shape.length * shape.heads * shape.head_dim, CHAIN_THREADS);
      chain_phase<T> &phase = chain.phases[chain.count++];
      phase.kind = i == 0 ? CHAIN_ATTENTION : CHAIN_JOIN;
      phase.blocks = tasks < blocks ? (unsigned)tasks : blocks;
      phase.attention = cache_read_of<T>(call, shape);
    }
    positions[attentions++] = &call->in[ATT_POSITIONS];
    taken++;
    return true;
  }
};

/* The run that begins with launches[at]; of no launches where it has too few products. */
template <typename T>
static chain_maker<T> chain_of(const hr_launch *launches, size_t at, size_t count, unsigned blocks) {
  chain_maker<T> made = {};
  const hr_desc &first = launches[at].call.in[0].desc;
  made.chain.rows_room = CHAIN_ROWS_LEAST;
  made.blocks = blocks;
  for (bool goes = true; goes && at + made.taken < count;) {
    const hr_launch *next = launches + at + made.taken;
    size_t left = count - at - made.taken;
    const hr_call *attention = call_of(next, left, 0, &hr_cuda_cache_attention);
    few_group group = attention ? few_group() : group_of(next, left);
    if (!attention && group.count == 0) break;
    const hr_desc &x = (attention ? attention : group.product)->in[0].desc;
    if (x.dtype != first.dtype || desc_rows(x) != desc_rows(first)) break;
    goes = attention ? made.attention_add(attention) : made.product_add(group);
  }
  few_chain<T> &chain = made.chain;
  chain.rows_room = (chain.rows_room + 127) / 128 * 128;
  chain.deep = (unsigned)((CHAIN_SHARED - CHAIN_ROOM<T> - chain.rows_room) / CHAIN_PIECE_BYTES);
  if (chain.deep > CHAIN_MOST_DEEP) chain.deep = CHAIN_MOST_DEEP;
  chain.early = true;
  for (size_t i = 0; i < made.products; i++) {
    if (written_by(launches + at, made.taken, *made.weights[i])) made.taken = 0;
    if (written_by(launches, at, *made.weights[i])) chain.early = false;
  }
  for (size_t i = 0; i < made.attentions; i++)
    if (written_by(launches + at, made.taken, *made.positions[i])) made.taken = 0;
  if (made.products < CHAIN_FEWEST) made.taken = 0;
  return made;
}

template <typename T, int M> static hr_status chain_launch(const hr_call *call, const few_chain<T> &chain) {
  auto kernel = few_chain_kernel<T, M>;
  if (cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, CHAIN_SHARED) !=
      cudaSuccess)
    return HR_FAILURE;
  return launch_early(call, kernel, dim3((unsigned)device_state(call)->meeting),
                      dim3(CHAIN_THREADS + CHAIN_ASKERS * WARP), CHAIN_SHARED, chain);
}

/* The run that begins with launches[at], in one launch; *taken: how many, 0: there is none, or not on this device. */
static hr_status chain_take(const hr_launch *launches, size_t at, size_t count, size_t *taken) {
  const hr_call *call = &launches[at].call;
  const hr_desc &x = call->in[0].desc;
  *taken = 0;
  if (!device_state(call)->early || x.dtype == HR_F32 || desc_rows(x) > CHAIN_ROWS) return HR_OK;
  auto of_type = [&](auto t) {
    using T = decltype(t);
    chain_maker<T> made = chain_of<T>(launches, at, count, (unsigned)device_state(call)->meeting);
    *taken = made.taken;
    if (made.taken == 0) return HR_OK;
    return desc_rows(x) == 1 ? chain_launch<T, 1>(call, made.chain) : chain_launch<T, CHAIN_ROWS>(call, made.chain);
  };
  return x.dtype == HR_BF16 ? of_type(bf16()) : of_type(f16());
}

#define CHAIN_KERNELS(T) (const void *)few_chain_kernel<T, 1>, (const void *)few_chain_kernel<T, CHAIN_ROWS>

#endif
