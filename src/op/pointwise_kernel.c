/* Programs on the CPU: how operands are read, where values lie, and the run over tiles. */
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/mem.h"
#include "op/pointwise_parts.h"
#include "op/stream.h"

enum {
  VECTOR_BYTES = 64,
  STREAMED_BYTES = 8 << 20
}; /* of a result: more than is likely to stay in a cache until it is read */

/* ---- places: values that are alive at once have different ones ---- */

/* The step behind which a value is not read again; the number of steps: it is a result, or never read. */
static void last_uses(const hr_pointwise_args *args, int8_t last[HR_PROGRAM_VALUES]) {
  memset(last, args->n_steps, HR_PROGRAM_VALUES);
  for (int s = 0; s < args->n_steps; s++)
    for (int i = 0; i < 3; i++)
      if (hr__step_reads(&args->step[s], i)) last[args->step[s].from[i]] = (int8_t)s;
  for (int j = 0; j < args->n_out; j++)
    last[args->result[j].from] = args->n_steps;
}

/* Gives every value a place when it is made (an operand: when it is first read), and returns how many there are. A
 * step's own operands keep theirs while it runs. */
static int places_find(const hr_pointwise_args *args, int8_t place[HR_PROGRAM_VALUES]) {
  int8_t last[HR_PROGRAM_VALUES], holder[HR_PROGRAM_VALUES];
  int count = 0;
  last_uses(args, last);
  memset(place, -1, HR_PROGRAM_VALUES);
  memset(holder, -1, sizeof holder);
  for (int s = 0; s <= args->n_steps; s++) {
    int8_t made[3 + HR_PROGRAM_RESULTS];
    int n_made = 0;
    for (int i = 0; s < args->n_steps && i < 3; i++)
      if (hr__step_reads(&args->step[s], i)) made[n_made++] = args->step[s].from[i];
    if (s < args->n_steps) made[n_made++] = (int8_t)(args->n_in + s);
    for (int j = 0; s == args->n_steps && j < args->n_out; j++)
      made[n_made++] = args->result[j].from;
    for (int k = 0; k < n_made; k++) {
      if (place[made[k]] >= 0) continue;
      int at = 0;
      while (at < count && holder[at] >= 0 && last[holder[at]] >= s)
        at++;
      if (at == count) count++;
      holder[at] = made[k];
      place[made[k]] = (int8_t)at;
    }
  }
  return count;
}

size_t hr__program_scratch_bytes(const hr_pointwise_args *args) {
  int8_t place[HR_PROGRAM_VALUES];
  return (size_t)places_find(args, place) * HR_TILE * sizeof(float);
}

/* ---- rounding ---- */

static bool is_bf16(float value) {
  return hr__bf16_to_f32(hr__f32_to_bf16(value)) == value;
}

/* Whether a formula gives one of its operands, or a small integer: there is nothing to round where operands are bf16.
 */
static bool step_picks(const hr_step *step) {
  if (step->part != HR_PART_VALUE) return false;
  switch ((hr_formula)step->formula) {
  case HR_FORMULA_abs:
  case HR_FORMULA_relu:
  case HR_FORMULA_sign:
  case HR_FORMULA_max:
  case HR_FORMULA_min:
  case HR_FORMULA_less:
  case HR_FORMULA_equal:
  case HR_FORMULA_keep:
  case HR_FORMULA_drop:
    return true;
  case HR_FORMULA_clamp:
    return is_bf16(step->p) && is_bf16(step->q);
  default:
    return false;
  }
}

/* What a step is rounded to in fact: not, where that changes nothing, or the store of the result does it. */
static int8_t round_needed(const hr_pointwise_args *args, const hr_tensor *in, const hr_tensor *out, int s) {
  const hr_step *step = &args->step[s];
  bool rounded = step_picks(step), read = false, stored = false;
  for (int i = 0; i < 3; i++) {
    if (!hr__step_reads(step, i)) continue;
    int from = step->from[i];
    rounded &= (from < args->n_in ? (int)in[from].desc.dtype : args->step[from - args->n_in].round) == step->round;
  }
  for (int t = s + 1; t < args->n_steps; t++)
    for (int i = 0; i < 3; i++)
      read |= hr__step_reads(&args->step[t], i) && args->step[t].from[i] == args->n_in + s;
  for (int j = 0; out && j < args->n_out; j++) {
    if (args->result[j].from != args->n_in + s) continue;
    stored = (int)out[j].desc.dtype == step->round;
    read |= !stored;
  }
  bool bf16 = step->round == HR_BF16; /* whose NaNs stay as they are */
  return bf16 && (rounded || (stored && !read)) ? HR_SAME_TYPE : step->round;
}

/* ---- operands ---- */

size_t hr__ready_bytes(const hr_pointwise_args *args) {
  return sizeof(hr_ready) + (size_t)args->n_in * sizeof(hr_reading) + (size_t)args->n_steps * sizeof(hr_link);
}

void hr__ready_make(const hr_pointwise_args *args, const hr_tensor *in, const hr_desc *result, const int *order,
                    const hr_tensor *out, hr_ready *ready) {
  memset(ready, 0, hr__ready_bytes(args));
  ready->args = args;
  ready->reading = (hr_reading *)(ready + 1);
  ready->link = (hr_link *)(ready->reading + args->n_in);
  places_find(args, ready->place);
  for (int i = 0; i < args->n_in; i++) {
    const hr_reading *r = &ready->reading[i];
    hr__reading_make(args, i, &in[i], result, order, &ready->reading[i]);
    bool whole = out && !r->windowed && r->stride[r->axes - 1] == 1 && r->size[r->axes - 1] % HR_TILE == 0;
    bool read = in[i].desc.dtype == HR_F32 || in[i].desc.dtype == HR_BF16; /* by chains, as it lies */
    ready->in_order[i] = read && (r->plain || whole);                      /* tiles begin at multiples of HR_TILE */
  }
  ready->narrow = true;
  for (int i = 0; i < args->n_in; i++)
    ready->narrow &= in[i].desc.dtype == HR_BF16;
  for (int s = 0; s < args->n_steps; s++) {
    ready->round[s] = ready->narrow ? round_needed(args, in, out, s) : args->step[s].round;
    for (int i = 0; i < 3; i++)
      ready->reads[s] |= (uint8_t)(hr__step_reads(&args->step[s], i) << i);
  }
  ready->vector_bytes = hr__chain_vector_bytes();
  if (ready->vector_bytes > 0) hr__chains_find(ready);
  ready->straight = args->n_steps > 0 && ready->chain[0] == args->n_steps;
  for (int i = 0; i < args->n_in; i++)
    ready->straight &= ready->in_order[i];
  for (int s = 0; s < args->n_steps; s++)
    ready->straight &= !ready->kept[s];
}

/* `n` elements that lie `stride` apart, as floats; a single one that is repeated for stride 0. */
HR_INLINE void run_read(const hr_tensor *x, int64_t at, int64_t stride, int64_t n, float *to) {
  if (stride == 1) {
    const float *from = hr__load(x, at, n, to);
    if (from != to) memcpy(to, from, (size_t)n * sizeof *to);
    return;
  }
  float cell;
  if (stride == 0) {
    float value = *hr__load(x, at, 1, &cell);
    for (int64_t i = 0; i < n; i++)
      to[i] = value;
  } else if (x->desc.dtype == HR_F32) {
    const float *from = (const float *)x->data + at;
    for (int64_t i = 0; i < n; i++)
      to[i] = from[i * stride];
  } else {
    for (int64_t i = 0; i < n; i++)
      to[i] = *hr__load(x, at + i * stride, 1, &cell);
  }
}

/* The part of a run along the last axis that lies inside of the operand is read, the rest is 0. */
HR_INLINE void window_read(const hr_reading *r, const hr_tensor *x, int64_t at, int64_t index, int64_t n, float *to) {
  int d = r->axes - 1;
  int64_t from = index + r->first[d], skipped = from < 0 ? hr__min(-from, n) : 0;
  int64_t rest = r->limit[d] - (from + skipped), inside = rest < 0 ? 0 : hr__min(rest, n - skipped);
  memset(to, 0, (size_t)n * sizeof *to);
  if (inside > 0) run_read(x, at + (from + skipped) * r->stride[d], r->stride[d], inside, to + skipped);
}

/* The operand's element from which on elements [at, at + n) of the walked space lie in order; -1: they do not. */
static int64_t operand_run(const hr_reading *r, int64_t at, int64_t n) {
  if (r->plain) return at;
  int inner = r->axes - 1;
  int64_t base = 0, left = at / r->size[inner], index = at % r->size[inner];
  if (r->windowed || r->stride[inner] != 1 || r->size[inner] - index < n) return -1;
  for (int d = inner - 1; d >= 0; d--) {
    base += left % r->size[d] * r->stride[d];
    left /= r->size[d];
  }
  return base + index;
}

/* For how many elements from `at` on all operands of a straight program lie in order. */
static int64_t straight_run(const hr_ready *ready, int64_t at) {
  int64_t n = INT64_MAX;
  for (int i = 0; i < ready->args->n_in; i++) {
    const hr_reading *r = &ready->reading[i];
    int64_t size = r->size[r->axes - 1];
    if (!r->plain) n = hr__min(n, size - at % size);
  }
  return n;
}

/* Elements [at, at + n) of the walked space: the operand itself where they are neighbours in f32, else a copy. */
HR_CLONES static const float *operand_read(const hr_reading *r, const hr_tensor *x, int64_t at, int64_t n, float *to) {
  int64_t lies = operand_run(r, at, n);
  if (lies >= 0) return hr__load(x, lies, n, to);
  int64_t index[HR_RANK], left = at;
  for (int d = r->axes - 1; d >= 0; d--) {
    index[d] = left % r->size[d];
    left /= r->size[d];
  }
  int inner = r->axes - 1;
  for (int64_t done = 0; done < n;) {
    int64_t run = hr__min(n - done, r->size[inner] - index[inner]), base = 0;
    bool inside = true;
    for (int d = 0; d < inner; d++) {
      int64_t own = index[d] + r->first[d];
      inside &= own >= 0 && own < r->limit[d];
      base += own * r->stride[d];
    }
    if (r->windowed) {
      if (inside)
        window_read(r, x, base, index[inner], run, to + done);
      else
        memset(to + done, 0, (size_t)run * sizeof *to);
    } else {
      base += index[inner] * r->stride[inner];
      run_read(x, base, r->stride[inner], run, to + done);
    }
    done += run;
    index[inner] += run;
    for (int d = inner; d > 0 && index[d] == r->size[d]; d--) {
      index[d] = 0;
      index[d - 1]++;
    }
  }
  return to;
}

/* ---- tiles ---- */

/* Steps read memory only when they begin with an operand. What the next tile needs of those that are read in order
 * comes meanwhile, a part with every step: all at once there would be no room for it on the way. */
static void ahead_fetch(const hr_ready *ready, const hr_tensor *in, int64_t at, int64_t n, int step) {
  enum { LINE = 64 };
  int64_t steps = ready->args->n_steps, first = at + n * step / steps, end = at + n * (step + 1) / steps;
  for (int i = 0; i < ready->args->n_in; i++) {
    if (!ready->reading[i].plain) continue;
    int64_t size = (int64_t)hr_dtype_bytes(in[i].desc.dtype);
    const char *data = in[i].data;
    for (int64_t byte = first * size; byte < end * size; byte += LINE)
      __builtin_prefetch(data + byte); /* beyond the end it does nothing */
  }
}

static const float *value_get(const hr_ready *ready, const hr_tensor *in, int value, int64_t at, int64_t n,
                              float *scratch, const float **values) {
  if (!values[value])
    values[value] =
        operand_read(&ready->reading[value], &in[value], at, n, scratch + (size_t)ready->place[value] * HR_TILE);
  return values[value];
}

/* A value as a chain reads it: operands in bf16 as they lie, unless they are there already. */
static hr_elements elements_get(const hr_ready *ready, const hr_tensor *in, int value, int64_t at, int64_t n,
                                float *scratch, const float **values) {
  bool narrow = value < ready->args->n_in && !values[value] && in[value].desc.dtype == HR_BF16;
  int64_t lies = narrow ? operand_run(&ready->reading[value], at, n) : -1;
  if (lies >= 0) return (hr_elements){(const uint16_t *)in[value].data + lies, true};
  return (hr_elements){value_get(ready, in, value, at, n, scratch, values), false};
}

/* The chain that begins with step s; its last result goes to `target`, or to its place in the scratch (NULL). */
static void chain_run(const hr_ready *ready, const hr_tensor *in, int s, int64_t at, int64_t n, float *scratch,
                      const float **values, const hr_target *target) {
  const hr_pointwise_args *args = ready->args;
  hr_chain chain;
  float *place = NULL;
  chain.count = ready->chain[s];
  chain.first = elements_get(ready, in, args->step[s].from[0], at, n, scratch, values);
  for (int l = 0; l < chain.count; l++, s++) {
    hr_link *link = &chain.link[l];
    *link = ready->link[s];
    place = scratch + (size_t)ready->place[args->n_in + s] * HR_TILE;
    if (ready->other[s] >= 0) link->other = elements_get(ready, in, ready->other[s], at, n, scratch, values);
    if (ready->kept[s]) link->keep = place;
    values[args->n_in + s] = place;
  }
  chain.to = target ? target->to : place;
  chain.narrow = target && target->narrow;
  chain.past = target && target->past;
  hr__chain_run(&chain, n, ready->vector_bytes);
}

bool hr__tile_run(const hr_ready *ready, const hr_tensor *in, int64_t at, int64_t n, float *scratch,
                  const float **values, const hr_target *target) {
  const hr_pointwise_args *args = ready->args;
  bool there = false;
  for (int i = 0; i < args->n_in; i++)
    values[i] = NULL;
  for (int s = 0; s < args->n_steps; s++) {
    if (ready->chain[s] > 0) {
      bool ends = s + ready->chain[s] == args->n_steps;
      chain_run(ready, in, s, at, n, scratch, values, ends ? target : NULL);
      there = ends && target;
      s += ready->chain[s] - 1;
      continue;
    }
    const hr_step *step = &args->step[s];
    const float *from[3] = {NULL, NULL, NULL};
    for (int i = 0; i < 3; i++) /* what is not read is anything that is there */
      from[i] = ready->reads[s] >> i & 1 ? value_get(ready, in, step->from[i], at, n, scratch, values) : from[0];
    float *to = scratch + (size_t)ready->place[args->n_in + s] * HR_TILE;
    if (target && s == args->n_steps - 1 && !target->narrow && !target->past) {
      to = target->to;
      there = true;
    }
    ahead_fetch(ready, in, at + n, n, s);
    hr__step_run(step, ready->round[s], ready->narrow, n, from, to);
    values[args->n_in + s] = to;
  }
  for (int j = 0; j < args->n_out; j++)
    value_get(ready, in, args->result[j].from, at, n, scratch, values);
  return there;
}

/* ---- pointwise ---- */

hr_status hr__pointwise_prepare(const hr_call *call, void **prepared, hr_error *err) {
  hr_ready *ready = hr__alloc(hr__ready_bytes(call->args));
  if (!ready) return hr__nomem(err);
  hr__ready_make(call->args, call->in, &call->out[0].desc, NULL, call->out, ready);
  *prepared = ready;
  return HR_OK;
}

void hr__pointwise_release(void *prepared) {
  hr__free(prepared);
}

/* Results that are too large to be still in the cache when they are read go past it: a line that is written in whole
 * need not be fetched first. */
static void bytes_stream(void *to, const void *from, size_t bytes) {
#ifdef __SSE2__
  size_t done = 0;
  if (((uintptr_t)to & 15) == 0)
    for (; done + 16 <= bytes; done += 16)
      _mm_stream_si128((__m128i *)((char *)to + done), _mm_loadu_si128((const __m128i *)((const char *)from + done)));
  memcpy((char *)to + done, (const char *)from + done, bytes - done);
#else
  memcpy(to, from, bytes);
#endif
}

static void streams_end(void) {
#ifdef __SSE2__
  _mm_sfence(); /* streamed bytes are there for whoever comes behind this task */
#endif
}

/* As hr__store, of values with nothing in the lower half of NaNs. */
HR_INLINE void narrow_store(int64_t n, const float *value, uint16_t *to) {
#pragma omp simd
  for (int64_t i = 0; i < n; i++) {
    uint32_t word;
    memcpy(&word, &value[i], sizeof word);
    to[i] = (uint16_t)((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
  }
}

HR_INLINE void result_store(const hr_tensor *out, int64_t at, int64_t n, const float *value, bool streams,
                            bool narrow) {
  if (out->desc.dtype == HR_F32) {
    float *to = (float *)out->data + at;
    if (streams)
      bytes_stream(to, value, (size_t)n * sizeof *to);
    else if (to != value)
      memcpy(to, value, (size_t)n * sizeof *to);
    return;
  }
  uint16_t half[HR_TILE], *to = (uint16_t *)out->data + at;
  hr_tensor tile = *out;
  tile.data = streams ? half : to;
  if (narrow && out->desc.dtype == HR_BF16)
    narrow_store(n, value, tile.data);
  else
    hr__store(&tile, 0, n, value);
  if (streams) bytes_stream(to, half, (size_t)n * sizeof *half);
}

/* Whether results go past the cache: they are large, and none lies on an operand, whose lines are there already. */
static bool call_streams(const hr_call *call) {
  for (int j = 0; j < call->n_out; j++)
    for (int i = 0; i < call->n_in; i++)
      if (call->out[j].data == call->in[i].data) return false;
  for (int j = 0; j < call->n_out; j++)
    if ((uintptr_t)call->out[j].data % VECTOR_BYTES != 0) return false;
  return hr_desc_bytes(&call->out[0].desc) >= STREAMED_BYTES;
}

/* A tile is read whole before any result of it is written, but for the last step, which writes what it has just read.
 */
HR_CLONES static void pointwise_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_ready *ready = call->prepared;
  const hr_pointwise_args *args = ready->args;
  hr_range chunk = hr__chunk(hr_desc_count(&call->out[0].desc), HR_CHUNK, task);
  bool streams = call_streams(call);
  float *scratch =
      (float *)call->workspace + (size_t)worker * (call->workspace_bytes / (size_t)call->threads / sizeof(float));
  bool narrow = ready->narrow && call->out[0].desc.dtype == HR_BF16;
  bool direct = args->n_out == 1 && (narrow || call->out[0].desc.dtype == HR_F32) && args->n_steps > 0 &&
                args->result[0].from == args->n_in + args->n_steps - 1;
  size_t size = narrow ? sizeof(uint16_t) : sizeof(float);
  for (int64_t at = chunk.first, n; at < chunk.end; at += n) {
    n = hr__min(direct && ready->straight ? straight_run(ready, at) : HR_TILE, chunk.end - at);
    const float *values[HR_PROGRAM_VALUES];
    hr_target target = {(char *)call->out[0].data + (size_t)at * size, narrow, streams};
    if (hr__tile_run(ready, call->in, at, n, scratch, values, direct ? &target : NULL)) continue;
    for (int j = 0; j < args->n_out; j++)
      result_store(&call->out[j], at, n, values[args->result[j].from], streams, ready->narrow);
  }
  if (streams) streams_end();
}

hr_status hr__pointwise_run(const hr_call *call) {
  hr__run_chunks(call, hr_desc_count(&call->out[0].desc), pointwise_task);
  return HR_OK;
}
