/* The scan on a GPU; formulas are in ssd.h and ssd_kernel_bwd.c, here with a chunk in place of the CPU's tile.
 *
 * Forward: step sizes and their sums; what each chunk adds to the state; a pass over chunks, which leaves the state
 * before each; y. Backward: what each chunk adds to the gradient of the state; a pass from the last chunk to the first;
 * dx, dB and dC; gradients of steps, which need terms of all of these. Blocks own what they write, so that sums have
 * one order. 16-bit types go by ssd_states, ssd_rows and ssd_pairs, all else by ssd_any.
 *
 * What limits it, for heads of 64 with states of 128 and chunks of 256: a position has 0.4 Mflop for eight heads
 * forward and 0.9 backward, 2.6 and 4.1 KB of operands and results, and 1 KB of f32 states that are written and read.
 */
#include <type_traits>

#include "op/ssd_any.cuh"
#include "op/ssd_pairs.cuh"
#include "op/ssd_rows.cuh"
#include "op/ssd_states.cuh"
#include "op/ssd_steps.cuh"
#include "op/window.cuh"

enum { SHARED_MOST = 99 << 10 };

/* ---- where things lie ---- */

static hr_ssd_sizes sizes_of(const hr_call *call, int first) {
  return hr__ssd_sizes(&call->in[first].desc, &call->in[first + HR_SSD_STEPS].desc, (const hr_ssd_args *)call->args);
}

/* The most positions of a tile that fit; 0: not even 16. */
template <typename S> static int tile_of(const hr_ssd_sizes &s, bool backward) {
  for (int tile = 64; tile >= 16; tile /= 2)
    if (tile_rooms_of<S>(s, tile, backward).bytes <= SHARED_MOST) return tile;
  return 0;
}
template <typename S> static size_t any_sums_bytes(const hr_ssd_sizes &s, int tile) {
  return (size_t)tile * (size_t)(tile_pitch<S>(tile_padded(s.state)) + tile_pitch<S>(tile_padded(s.dim))) * sizeof(S);
}
/* The same where only sums are made: larger ones go through memory less often. */
template <typename S> static int any_sums_tile_of(const hr_ssd_sizes &s) {
  int tile = HR_SSD_CHUNK_MOST;
  while (tile > TILE_EDGE && (tile / 2 >= s.chunk || any_sums_bytes<S>(s, tile) > SHARED_MOST))
    tile /= 2;
  return tile;
}

/* A call with its operands, as all launches of both directions see it. */
template <typename T> struct ssd_run_of {
  const hr_call *call;
  cudaStream_t stream;
  hr_ssd_sizes size;
  hr_ssd_cuda_rooms rooms;
  ssd_operands<T> o;
  steps_operands<T> steps;
  unsigned chunks, lines; /* blocks: of chunks, of sequences and heads */

  float *at(size_t room) const { return (float *)call->workspace + room; }
  ssd_operands<T> tiled(int tile) const {
    ssd_operands<T> with = o;
    with.tile = tile;
    with.tiles = (int)divide_up(size.chunk, tile);
    return with;
  }
};

/* `first`: the operand that is `mixed`. Also makes steps and their sums. */
template <typename T> static ssd_run_of<T> run_begin(const hr_call *call, int first) {
  bool backward = first == HR_SSD_BWD_MIXED;
  ssd_run_of<T> r = {};
  r.call = call;
  r.stream = call_stream(call);
  hr_ssd_sizes s = r.size = sizes_of(call, first);
  r.rooms = hr__ssd_cuda_rooms(&s, call->in[first].desc.dtype, backward);
  r.chunks = (unsigned)s.chunks;
  r.lines = (unsigned)(s.sequences * s.heads);

  heads_operands h = {};
  for (int i = 0; i < PARAMETERS; i++) {
    h.from[i] = call->in[first + HR_SSD_A_LOG + i].data;
    h.dtype[i] = (int)call->in[first + HR_SSD_A_LOG + i].desc.dtype;
  }
  h.heads = (int)s.heads;
  h.to = r.at(r.rooms.parameters);

  r.o.size = r.steps.size = s;
  r.o.mixed = (const T *)call->in[first].data;
  r.o.steps = r.steps.d = r.at(r.rooms.d);
  r.o.decays = r.steps.sums = r.at(r.rooms.sums);
  r.o.decays_low = r.steps.sums_low = r.at(r.rooms.sums_low);
  r.o.skip = h.to + 2 * s.heads;
  r.steps.args = *(const hr_ssd_args *)call->args;
  r.steps.steps = (const T *)call->in[first + HR_SSD_STEPS].data;
  r.steps.a_log = h.to;
  r.steps.bias = h.to + s.heads;
  r.steps.starts = (const int *)call->in[first + HR_SSD_STARTS].data;
  if (hr__ssd_narrow(&s, call->in[first].desc.dtype)) {
    r.o.narrow_states = (T *)r.at(r.rooms.narrow_states);
    r.o.narrow_slopes = (T *)r.at(r.rooms.narrow_slopes);
    r.o.scores = (T *)r.at(r.rooms.scores);
  }
  launch(ssd_parameters_kernel, 1, 128, 0, r.stream, h);
  launch(ssd_steps_kernel<T>, dim3(r.chunks, r.lines), STEP_THREADS, 0, r.stream, r.steps);
  return r;
}

/* ---- launching ---- */

/* Calls `with` with the size of states that the kernels are made for. */
template <typename F> static void by_state(int64_t state, const F &with) {
  if (state <= 64)
    with(std::integral_constant<int, 64>());
  else
    with(std::integral_constant<int, 128>());
}

template <bool BACK, typename T> static void pass_run(const ssd_run_of<T> &r) {
  pass_operands<T> p = {};
  p.size = r.size;
  p.decays = r.o.decays;
  p.states = BACK ? r.o.slopes : r.o.states;
  p.narrow = BACK ? r.o.narrow_slopes : r.o.narrow_states;
  p.saved = BACK ? r.o.states : nullptr;
  p.narrow_saved = BACK ? r.o.narrow_states : nullptr;
  p.products = BACK ? r.at(r.rooms.products) : nullptr;
  dim3 grid((unsigned)divide_up(r.size.state_floats, PASS_THREADS * r.rooms.each), r.lines);
  launch(r.rooms.each == 2 ? ssd_pass_kernel<T, 2, BACK> : ssd_pass_kernel<T, 1, BACK>, grid, PASS_THREADS, 0, r.stream,
         p);
}

template <int N, bool BACK, typename T> static void states_run(const ssd_run_of<T> &r) {
  launch(ssd_states_kernel<T, N, BACK>, dim3(r.chunks, r.lines), SCAN_THREADS, states_bytes<N>, r.stream, r.o);
}
template <int N, bool BACK, typename T> static void rows_run(const ssd_run_of<T> &r) {
  dim3 grid(r.chunks * (unsigned)divide_up(r.size.chunk, SIDE),
            (unsigned)(r.size.sequences * r.size.groups * rows_parts(r.size)));
  launch(ssd_rows_kernel<T, N, BACK>, grid, SCAN_THREADS, rows_bytes<N>, r.stream, r.o);
}
template <int N, typename T> static void pairs_run(const ssd_run_of<T> &r) {
  unsigned tiles = (unsigned)divide_up(r.size.chunk, SIDE), groups = (unsigned)(r.size.sequences * r.size.groups);
  launch(ssd_pairs_kernel<T, N>, dim3(r.chunks * (unsigned)pairs_of(tiles), groups), SCAN_THREADS, pairs_bytes<N>,
         r.stream, r.o);
  launch(ssd_pair_sums_kernel<T, N>, dim3(r.chunks * tiles, groups, 2), SCAN_THREADS, sums_bytes<N>, r.stream, r.o);
}

template <bool BACK, typename T> static void any_sums_run(const ssd_run_of<T> &r) {
  int tile = any_sums_tile_of<T>(r.size);
  launch(ssd_any_sums_kernel<T, T, BACK>, dim3(r.chunks, r.lines), TILE_THREADS, any_sums_bytes<T>(r.size, tile),
         r.stream, r.tiled(tile));
}

template <typename T> static hr_status forward_launch(const hr_call *call) {
  ssd_run_of<T> r = run_begin<T>(call, 0);
  r.o.y = (T *)call->out[0].data;
  r.o.states = (float *)call->out[1].data;
  if constexpr (sizeof(T) == 2)
    if (r.o.narrow_states) {
      by_state(r.size.state, [&](auto n) {
        states_run<decltype(n)::value, false>(r);
        pass_run<false>(r);
        rows_run<decltype(n)::value, false>(r);
      });
      return launched();
    }
  any_sums_run<false>(r);
  pass_run<false>(r);
  ssd_operands<T> o = r.tiled(tile_of<T>(r.size, false));
  launch(ssd_any_rows_kernel<T, T>, dim3(r.chunks * (unsigned)o.tiles, r.lines), TILE_THREADS,
         tile_rooms_of<T>(r.size, o.tile, false).bytes, r.stream, o);
  return launched();
}

template <typename T> static hr_status backward_launch(const hr_call *call) {
  ssd_run_of<T> r = run_begin<T>(call, HR_SSD_BWD_MIXED);
  const T *partial = (const T *)call->in[HR_SSD_BWD_PARTIAL].data;
  T *dsteps = (T *)call->out[1].data;
  r.o.dy = (const T *)call->in[HR_SSD_DY].data;
  r.o.states = (float *)call->in[HR_SSD_BWD_STATES].data;
  r.o.slopes = r.at(r.rooms.slopes);
  r.o.dmixed = (T *)call->out[0].data;
  r.o.terms = {r.at(r.rooms.rows), r.at(r.rooms.columns), r.at(r.rooms.spread),  r.at(r.rooms.through),
               r.at(r.rooms.q),    r.at(r.rooms.own),     r.at(r.rooms.diagonal)};
  window_fill(call, dsteps, partial, r.size.sequences * r.size.length * r.size.steps);
  if (r.o.narrow_states) {
    if constexpr (sizeof(T) == 2)
      by_state(r.size.state, [&](auto n) {
        states_run<decltype(n)::value, true>(r);
        pass_run<true>(r);
        rows_run<decltype(n)::value, true>(r);
        pairs_run<decltype(n)::value>(r);
      });
  } else {
    any_sums_run<true>(r);
    pass_run<true>(r);
    ssd_operands<T> o = r.tiled(tile_of<T>(r.size, true));
    size_t bytes = tile_rooms_of<T>(r.size, o.tile, true).bytes;
    dim3 tiles(r.chunks * (unsigned)o.tiles, (unsigned)(r.size.sequences * r.size.groups));
    launch(ssd_any_columns_kernel<T, T>, tiles, TILE_THREADS, bytes, r.stream, o);
    launch(ssd_any_rows_bwd_kernel<T, T>, tiles, TILE_THREADS, bytes, r.stream, o);
  }
  ssd_operands<T> o = r.tiled(r.o.narrow_states ? SIDE : (int)r.size.chunk); /* by which terms come in parts */
  const float *products = r.at(r.rooms.products);
  float *partials = r.at(r.rooms.partials);
  launch(ssd_finish_kernel<T>, dim3(r.chunks, r.lines), STEP_THREADS, 0, r.stream, o, r.steps, products,
         (int)r.rooms.warps, partial, dsteps, partials);
  launch(ssd_heads_kernel, dim3((unsigned)r.size.heads, PARAMETERS), SUM_THREADS, 0, r.stream, r.size,
         (const float *)partials, (float *)call->out[2].data);
  return launched();
}

/* ---- binding ---- */

/* Tiles may take more shared memory than a kernel has without asking. */
template <typename F> static hr_status shared_ask(F *kernel) {
  return cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_MOST) ==
                 cudaSuccess
             ? HR_OK
             : HR_FAILURE;
}
template <typename F, typename... Others> static hr_status shared_ask(F *kernel, Others *...others) {
  hr_status asked = shared_ask(kernel);
  return asked == HR_OK ? shared_ask(others...) : asked;
}

template <typename T> static hr_status shared_ask_all(const hr_ssd_sizes &s, hr_dtype dtype, bool backward) {
  hr_status asked = HR_OK;
  if constexpr (sizeof(T) == 2)
    if (hr__ssd_narrow(&s, dtype)) {
      by_state(s.state, [&](auto n) {
        constexpr int N = decltype(n)::value;
        asked = shared_ask(ssd_states_kernel<T, N, false>, ssd_states_kernel<T, N, true>, ssd_rows_kernel<T, N, false>,
                           ssd_rows_kernel<T, N, true>, ssd_pairs_kernel<T, N>, ssd_pair_sums_kernel<T, N>);
      });
      return asked;
    }
  if (tile_of<T>(s, backward) == 0) return HR_BAD_INPUT;
  return shared_ask(ssd_any_sums_kernel<T, T, false>, ssd_any_sums_kernel<T, T, true>, ssd_any_rows_kernel<T, T>,
                    ssd_any_columns_kernel<T, T>, ssd_any_rows_bwd_kernel<T, T>);
}

static hr_status prepare_any(const hr_call *call, int first, void **prepared, hr_error *err) {
  hr_ssd_sizes s = sizes_of(call, first);
  hr_dtype dtype = call->in[first].desc.dtype;
  *prepared = nullptr;
  hr_status status =
      by_dtype(dtype, [&](auto t) { return shared_ask_all<decltype(t)>(s, dtype, first == HR_SSD_BWD_MIXED); });
  if (status == HR_OK) return HR_OK;
  if (status == HR_BAD_INPUT)
    return device_state(call)->host.fail(err, HR_BAD_INPUT, NULL, "use a 16-bit precision, or smaller states",
                                         "states of %lld x %lld do not fit the GPU's shared memory", (long long)s.state,
                                         (long long)s.dim);
  return device_state(call)->host.fail(err, HR_FAILURE, NULL, NULL, "the GPU refuses %d bytes of shared memory",
                                       (int)SHARED_MOST);
}
static hr_status ssd_prepare(const hr_call *call, void **prepared, hr_error *err) {
  return prepare_any(call, HR_SSD_MIXED, prepared, err);
}
static hr_status ssd_bwd_prepare(const hr_call *call, void **prepared, hr_error *err) {
  return prepare_any(call, HR_SSD_BWD_MIXED, prepared, err);
}

static hr_status ssd_run(const hr_call *call) {
  return by_dtype(call->in[HR_SSD_MIXED].desc.dtype, [&](auto t) { return forward_launch<decltype(t)>(call); });
}
static hr_status ssd_bwd_run(const hr_call *call) {
  return by_dtype(call->in[HR_SSD_BWD_MIXED].desc.dtype, [&](auto t) { return backward_launch<decltype(t)>(call); });
}

#define OF_TYPES(F)     (const void *)F(float), (const void *)F(bf16), (const void *)F(f16)
#define STEPS(T)        ssd_steps_kernel<T>
#define PASS_1(T)       ssd_pass_kernel<T, 1, false>
#define PASS_2(T)       ssd_pass_kernel<T, 2, false>
#define PASS_BWD_1(T)   ssd_pass_kernel<T, 1, true>
#define PASS_BWD_2(T)   ssd_pass_kernel<T, 2, true>
#define FINISH(T)       ssd_finish_kernel<T>
#define ANY_SUMS(T)     ssd_any_sums_kernel<T, T, false>
#define ANY_ROWS(T)     ssd_any_rows_kernel<T, T>
#define ANY_SUMS_BWD(T) ssd_any_sums_kernel<T, T, true>
#define ANY_COLUMNS(T)  ssd_any_columns_kernel<T, T>
#define ANY_ROWS_BWD(T) ssd_any_rows_bwd_kernel<T, T>
#define OF_STATES(F)    F(bf16, 64), F(bf16, 128), F(f16, 64), F(f16, 128)
#define FORWARD(T, N)   (const void *)ssd_states_kernel<T, N, false>, (const void *)ssd_rows_kernel<T, N, false>
#define BACKWARD(T, N)                                                                                                 \
  (const void *)ssd_states_kernel<T, N, true>, (const void *)ssd_rows_kernel<T, N, true>,                              \
      (const void *)ssd_pairs_kernel<T, N>, (const void *)ssd_pair_sums_kernel<T, N>

extern "C" const hr_cuda_launcher hr_cuda_ssd = {{ssd_prepare, nullptr, ssd_run},
                                                 {(const void *)ssd_parameters_kernel, OF_TYPES(STEPS),
                                                  OF_TYPES(PASS_1), OF_TYPES(PASS_2), OF_TYPES(ANY_SUMS),
                                                  OF_TYPES(ANY_ROWS), OF_STATES(FORWARD)}};

extern "C" const hr_cuda_launcher hr_cuda_ssd_bwd = {
    {ssd_bwd_prepare, nullptr, ssd_bwd_run},
    {(const void *)ssd_parameters_kernel, (const void *)ssd_heads_kernel, OF_TYPES(STEPS), OF_TYPES(PASS_BWD_1),
     OF_TYPES(PASS_BWD_2), OF_TYPES(ANY_SUMS_BWD), OF_TYPES(ANY_COLUMNS), OF_TYPES(ANY_ROWS_BWD), OF_TYPES(FINISH),
     OF_STATES(BACKWARD), WINDOW_FILL_FUNCTIONS}};
