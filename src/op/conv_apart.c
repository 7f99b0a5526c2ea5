/* Convolutions whose channels stay apart, one of x to one of y, on the CPU: products would have a single column. Rows
 * of the last axis go straight from source to result, an element of the kernel at a time, so that neighbouring places
 * are one vector. Sums of a place have the order of the kernel. Small maps without a stride are taken whole, with their
 * padding around them: then all of a map is one vector, and short rows cost nothing.
 */
#include <string.h>

#include "op/conv_parts.h"
#include "op/stream.h"

bool hr__conv_is_apart(const hr_conv_sizes *s) {
  return s->in == 1 && s->out == 1 && s->groups > 1 && hr__conv_volume(s->kernel) <= HR_BLOCK;
}

HR_INLINE float element(const void *data, hr_dtype dtype, int64_t i) {
  if (dtype == HR_F32) return ((const float *)data)[i];
  uint16_t bits = ((const uint16_t *)data)[i];
  return dtype == HR_BF16 ? hr__bf16_to_f32(bits) : hr__f16_to_f32(bits);
}

/* Windows [first, end) along an axis for which `tap` reads one of the places [from, to) of x. */
HR_INLINE hr_range windows_reading(const hr_conv_sizes *s, int axis, int64_t tap, int64_t from, int64_t to) {
  int64_t shift = s->padding[axis] - tap * s->dilation[axis], stride = s->stride[axis];
  int64_t least = from + shift, last = to - 1 + shift;
  if (stride == 1) { /* most are: divisions would take longer than short rows do */
    int64_t begin = least > 0 ? least : 0, stop = hr__min(s->y[axis], last + 1);
    return (hr_range){begin, stop > begin ? stop : begin};
  }
  int64_t first = least > 0 ? (least + stride - 1) / stride : 0;
  int64_t end = last < 0 ? 0 : hr__min(s->y[axis], last / stride + 1);
  return (hr_range){first, end > first ? end : first};
}

/* The place of x that a window reads for a tap; it may lie outside. */
HR_INLINE int64_t place(const hr_conv_sizes *s, int axis, int64_t window, int64_t tap) {
  return window * s->stride[axis] + tap * s->dilation[axis] - s->padding[axis];
}

typedef struct job {
  const hr_call *call;
  hr_conv_sizes s;
} job;

/* The weights of a channel as floats. */
HR_INLINE const float *weights_of(const job *j, int64_t channel, float *scratch) {
  int64_t taps = hr__conv_volume(j->s.kernel);
  return hr__load(&j->call->in[1], channel * taps, taps, scratch);
}

/* ---- small maps, whole ---- */

enum { MAP_MOST = 4096 }; /* elements with padding, in f32: two of them stay in the first-level cache */

/* A map that is filtered: `from` with `padding` around it gives `to`. */
typedef struct map {
  int64_t from[2], padding[2], to[2];
} map;

/* dx is dy, with what reaches beyond it around, by the kernel turned around. */
static bool map_of(const hr_conv_sizes *s, bool dx, map *m) {
  if (s->x[0] != 1 || s->kernel[0] != 1 || s->padding[0] != 0) return false;
  int64_t area = 1;
  for (int d = 0; d < 2; d++) {
    int64_t reach = (s->kernel[1 + d] - 1) * s->dilation[1 + d], padding = s->padding[1 + d];
    m->from[d] = dx ? s->y[1 + d] : s->x[1 + d];
    m->to[d] = dx ? s->x[1 + d] : s->y[1 + d];
    m->padding[d] = dx ? reach - padding : padding;
    if (s->stride[1 + d] != 1 || m->padding[d] < 0 || m->from[d] + 2 * m->padding[d] > MAP_MOST) return false;
    area *= m->from[d] + 2 * m->padding[d];
  }
  return area <= MAP_MOST;
}

/* Map number `plane` of in[0] to that of out[0], with a shift and what is added (or its `data` is NULL). */
HR_CLONES static void map_filter(const job *j, const map *m, bool dx, int64_t plane, float shift,
                                 const hr_tensor *add) {
  const hr_conv_sizes *s = &j->s;
  const hr_tensor *x = &j->call->in[0], *y = &j->call->out[0];
  int64_t pitch = m->from[1] + 2 * m->padding[1], n = (m->to[0] - 1) * pitch + m->to[1];
  int64_t taps = hr__conv_volume(s->kernel);
  float padded[MAP_MOST], sum[MAP_MOST], scratch[HR_BLOCK], block[HR_BLOCK], made[HR_BLOCK];
  const float *w = weights_of(j, plane % s->groups, scratch);
  memset(padded, 0, (size_t)(pitch * (m->from[0] + 2 * m->padding[0])) * sizeof *padded);
  for (int64_t row = 0; row < m->from[0]; row++)
    for (int64_t first = 0; first < m->from[1]; first += HR_BLOCK) {
      int64_t count = hr__min(HR_BLOCK, m->from[1] - first);
      const float *from = hr__load(x, (plane * m->from[0] + row) * m->from[1] + first, count, block);
      memcpy(padded + (row + m->padding[0]) * pitch + m->padding[1] + first, from, (size_t)count * sizeof *from);
    }
  memset(sum, 0, (size_t)n * sizeof *sum);
  for (int64_t tap = 0; tap < taps; tap++) {
    int64_t a = tap / s->kernel[2], b = tap % s->kernel[2];
    const float weight = w[dx ? taps - 1 - tap : tap], *from = padded + a * s->dilation[1] * pitch + b * s->dilation[2];
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      sum[i] += weight * from[i];
  }
  for (int64_t row = 0; row < m->to[0]; row++)
    for (int64_t first = 0; first < m->to[1]; first += HR_BLOCK) {
      int64_t count = hr__min(HR_BLOCK, m->to[1] - first), at = (plane * m->to[0] + row) * m->to[1] + first;
      const float *before = add->data ? hr__load(add, at, count, block) : NULL;
      float *to = hr__target(y, at, made);
      for (int64_t i = 0; i < count; i++)
        to[i] = sum[row * pitch + first + i] + shift + (before ? before[i] : 0.0f);
      hr__store(y, at, count, to);
    }
}

static int64_t maps_per_task(const hr_conv_sizes *s) {
  return 1 + HR_CHUNK / (hr__conv_volume(s->x) * hr__conv_volume(s->kernel));
}

static void map_forward_task(void *arg, int64_t task, int worker) {
  const job *j = arg;
  const hr_tensor *bias = &j->call->in[2];
  hr_range planes = hr__chunk(j->s.samples * j->s.groups, maps_per_task(&j->s), task);
  float one[1];
  map m;
  (void)worker;
  map_of(&j->s, false, &m);
  for (int64_t plane = planes.first; plane < planes.end; plane++) {
    float shift = bias->data ? hr__load(bias, plane % j->s.groups, 1, one)[0] : 0.0f;
    map_filter(j, &m, false, plane, shift, &j->call->in[3]);
  }
}

static void map_dx_task(void *arg, int64_t task, int worker) {
  const job *j = arg;
  hr_range planes = hr__chunk(j->s.samples * j->s.groups, maps_per_task(&j->s), task);
  map m;
  (void)worker;
  map_of(&j->s, true, &m);
  for (int64_t plane = planes.first; plane < planes.end; plane++)
    map_filter(j, &m, true, plane, 0.0f, &j->call->in[2]);
}

static void maps_run(job *j, hr_task task) {
  int64_t tasks = hr__chunks(j->s.samples * j->s.groups, maps_per_task(&j->s));
  hr__pool_run(j->call->device->pool, j->call->threads, tasks, task, j);
}

/* ---- forward ---- */

HR_INLINE void taps_add(const hr_conv_sizes *s, const void *x, hr_dtype dtype, int64_t row, const float *w,
                        hr_range windows, float *sum) {
  for (int64_t tap = 0; tap < s->kernel[2]; tap++) {
    hr_range inside = windows_reading(s, 2, tap, 0, s->x[2]);
    int64_t first = inside.first > windows.first ? inside.first : windows.first, end = hr__min(inside.end, windows.end);
    int64_t from = row * s->x[2] + place(s, 2, first, tap), stride = s->stride[2], n = end - first;
    float weight = w[tap], *to = sum + (first - windows.first);
    if (stride == 1) {
#pragma omp simd
      for (int64_t i = 0; i < n; i++)
        to[i] += weight * element(x, dtype, from + i);
    } else {
#pragma omp simd
      for (int64_t i = 0; i < n; i++)
        to[i] += weight * element(x, dtype, from + i * stride);
    }
  }
}

/* Windows [windows) of one row of y, whose number among all rows is `row`. */
HR_CLONES static void windows_sum(const job *j, int64_t row, hr_range windows) {
  const hr_conv_sizes *s = &j->s;
  const hr_tensor *x = &j->call->in[0], *bias = &j->call->in[2], *add = &j->call->in[3], *y = &j->call->out[0];
  int64_t plane = row / s->y[1] / s->y[0], channel = plane % s->groups, n = windows.end - windows.first;
  int64_t at[2] = {row / s->y[1] % s->y[0], row % s->y[1]}, first = row * s->y[2] + windows.first;
  float scratch[HR_BLOCK], sum[HR_BLOCK], one[1], before_block[HR_BLOCK], made[HR_BLOCK];
  const float *w = weights_of(j, channel, scratch);
  for (int64_t i = 0; i < n; i++)
    sum[i] = 0.0f;
  for (int64_t a = 0; a < s->kernel[0]; a++)
    for (int64_t b = 0; b < s->kernel[1]; b++) {
      int64_t along = place(s, 0, at[0], a), across = place(s, 1, at[1], b);
      if (along < 0 || along >= s->x[0] || across < 0 || across >= s->x[1]) continue;
      int64_t from = (plane * s->x[0] + along) * s->x[1] + across;
      const float *line = w + (a * s->kernel[1] + b) * s->kernel[2];
      if (x->desc.dtype == HR_F32)
        taps_add(s, x->data, HR_F32, from, line, windows, sum);
      else
        taps_add(s, x->data, x->desc.dtype, from, line, windows, sum);
    }
  float shift = bias->data ? hr__load(bias, channel, 1, one)[0] : 0.0f;
  const float *before = add->data ? hr__load(add, first, n, before_block) : NULL;
  float *to = hr__target(y, first, made);
  for (int64_t i = 0; i < n; i++)
    to[i] = sum[i] + shift + (before ? before[i] : 0.0f);
  hr__store(y, first, n, to);
}

/* Rows that one task takes, of `row` elements each. */
static int64_t rows_per_task(const hr_conv_sizes *s, int64_t row) {
  int64_t work = row * hr__conv_volume(s->kernel);
  return 1 + HR_CHUNK / (work > 0 ? work : 1);
}

static void forward_task(void *arg, int64_t task, int worker) {
  const job *j = arg;
  const hr_conv_sizes *s = &j->s;
  hr_range rows = hr__chunk(s->samples * s->groups * s->y[0] * s->y[1], rows_per_task(s, s->y[2]), task);
  (void)worker;
  for (int64_t row = rows.first; row < rows.end; row++)
    for (int64_t first = 0; first < s->y[2]; first += HR_BLOCK)
      windows_sum(j, row, (hr_range){first, hr__min(s->y[2], first + HR_BLOCK)});
}

hr_status hr__conv_apart_run(const hr_call *call) {
  job j = {call, hr__conv_sizes(&call->in[0].desc, &call->in[1].desc, &call->out[0].desc, call->args)};
  map m;
  if (map_of(&j.s, false, &m)) {
    maps_run(&j, map_forward_task);
    return HR_OK;
  }
  int64_t tasks = hr__chunks(j.s.samples * j.s.groups * j.s.y[0] * j.s.y[1], rows_per_task(&j.s, j.s.y[2]));
  hr__pool_run(call->device->pool, call->threads, tasks, forward_task, &j);
  return HR_OK;
}

/* ---- dx ---- */

/* Adds to places [piece) of a row of dx what a row of windows has from them. */
HR_INLINE void taps_spread(const hr_conv_sizes *s, const void *dy, hr_dtype dtype, int64_t row, const float *w,
                           hr_range piece, float *sum) {
  for (int64_t tap = 0; tap < s->kernel[2]; tap++) {
    hr_range windows = windows_reading(s, 2, tap, piece.first, piece.end);
    int64_t from = row * s->y[2] + windows.first, stride = s->stride[2], n = windows.end - windows.first;
    float weight = w[tap], *to = sum + (place(s, 2, windows.first, tap) - piece.first);
    if (stride == 1) {
#pragma omp simd
      for (int64_t i = 0; i < n; i++)
        to[i] += weight * element(dy, dtype, from + i);
    } else {
#pragma omp simd
      for (int64_t i = 0; i < n; i++)
        to[i * stride] += weight * element(dy, dtype, from + i);
    }
  }
}

/* The window along an axis whose tap reads a place; -1: there is none. */
HR_INLINE int64_t window_over(const hr_conv_sizes *s, int axis, int64_t at, int64_t tap) {
  int64_t from = at + s->padding[axis] - tap * s->dilation[axis];
  if (from < 0 || from % s->stride[axis] != 0) return -1;
  return from / s->stride[axis] < s->y[axis] ? from / s->stride[axis] : -1;
}

HR_CLONES static void places_sum(const job *j, int64_t row, hr_range piece) {
  const hr_conv_sizes *s = &j->s;
  const hr_tensor *dy = &j->call->in[0], *partial = &j->call->in[2], *dx = &j->call->out[0];
  int64_t plane = row / s->x[1] / s->x[0], n = piece.end - piece.first, first = row * s->x[2] + piece.first;
  int64_t at[2] = {row / s->x[1] % s->x[0], row % s->x[1]};
  float scratch[HR_BLOCK], sum[HR_BLOCK], before_block[HR_BLOCK], made[HR_BLOCK];
  const float *w = weights_of(j, plane % s->groups, scratch);
  for (int64_t i = 0; i < n; i++)
    sum[i] = 0.0f;
  for (int64_t a = 0; a < s->kernel[0]; a++)
    for (int64_t b = 0; b < s->kernel[1]; b++) {
      int64_t along = window_over(s, 0, at[0], a), across = window_over(s, 1, at[1], b);
      if (along < 0 || across < 0) continue;
      int64_t from = (plane * s->y[0] + along) * s->y[1] + across;
      const float *line = w + (a * s->kernel[1] + b) * s->kernel[2];
      if (dy->desc.dtype == HR_F32)
        taps_spread(s, dy->data, HR_F32, from, line, piece, sum);
      else
        taps_spread(s, dy->data, dy->desc.dtype, from, line, piece, sum);
    }
  const float *before = partial->data ? hr__load(partial, first, n, before_block) : NULL;
  float *to = hr__target(dx, first, made);
  for (int64_t i = 0; i < n; i++)
    to[i] = sum[i] + (before ? before[i] : 0.0f);
  hr__store(dx, first, n, to);
}

static void dx_task(void *arg, int64_t task, int worker) {
  const job *j = arg;
  const hr_conv_sizes *s = &j->s;
  hr_range rows = hr__chunk(s->samples * s->groups * s->x[0] * s->x[1], rows_per_task(s, s->x[2]), task);
  (void)worker;
  for (int64_t row = rows.first; row < rows.end; row++)
    for (int64_t first = 0; first < s->x[2]; first += HR_BLOCK)
      places_sum(j, row, (hr_range){first, hr__min(s->x[2], first + HR_BLOCK)});
}

hr_status hr__conv_apart_dx_run(const hr_call *call) {
  const hr_conv_dx_args *args = call->args;
  job j = {call, hr__conv_sizes(&call->out[0].desc, &call->in[1].desc, &call->in[0].desc, &args->conv)};
  map m;
  if (map_of(&j.s, true, &m)) {
    maps_run(&j, map_dx_task);
    return HR_OK;
  }
  int64_t tasks = hr__chunks(j.s.samples * j.s.groups * j.s.x[0] * j.s.x[1], rows_per_task(&j.s, j.s.x[2]));
  hr__pool_run(call->device->pool, call->threads, tasks, dx_task, &j);
  return HR_OK;
}

/* ---- dW ---- */

HR_INLINE float row_dot(const hr_conv_sizes *s, const void *x, const void *dy, hr_dtype dtype, int64_t x_row,
                        int64_t y_row, int64_t tap) {
  hr_range windows = windows_reading(s, 2, tap, 0, s->x[2]);
  int64_t from = x_row * s->x[2] + place(s, 2, windows.first, tap), at = y_row * s->y[2] + windows.first;
  int64_t stride = s->stride[2], n = windows.end - windows.first;
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; i++)
    sum += element(x, dtype, from + i * stride) * element(dy, dtype, at + i);
  return sum;
}

/* The kernel of one channel: rows are summed in f32, sums of rows in f64. */
HR_CLONES static void dw_task(void *arg, int64_t channel, int worker) {
  const job *j = arg;
  const hr_conv_sizes *s = &j->s;
  const hr_tensor *dy = &j->call->in[0], *x = &j->call->in[1], *partial = &j->call->in[2], *dw = &j->call->out[0];
  int64_t taps = hr__conv_volume(s->kernel);
  double total[HR_BLOCK];
  float scratch[HR_BLOCK], made[HR_BLOCK];
  (void)worker;
  const float *before = partial->data ? hr__load(partial, channel * taps, taps, scratch) : NULL;
  for (int64_t t = 0; t < taps; t++)
    total[t] = before ? (double)before[t] : 0.0;
  for (int64_t sample = 0; sample < s->samples; sample++)
    for (int64_t row = 0; row < s->y[0] * s->y[1]; row++)
      for (int64_t line = 0; line < s->kernel[0] * s->kernel[1]; line++) {
        int64_t along = place(s, 0, row / s->y[1], line / s->kernel[1]);
        int64_t across = place(s, 1, row % s->y[1], line % s->kernel[1]), plane = sample * s->groups + channel;
        if (along < 0 || along >= s->x[0] || across < 0 || across >= s->x[1]) continue;
        int64_t from = (plane * s->x[0] + along) * s->x[1] + across, at = plane * s->y[0] * s->y[1] + row;
        for (int64_t tap = 0; tap < s->kernel[2]; tap++)
          total[line * s->kernel[2] + tap] +=
              (double)(x->desc.dtype == HR_F32 ? row_dot(s, x->data, dy->data, HR_F32, from, at, tap)
                                               : row_dot(s, x->data, dy->data, x->desc.dtype, from, at, tap));
      }
  float *to = hr__target(dw, channel * taps, made);
  for (int64_t t = 0; t < taps; t++)
    to[t] = (float)total[t];
  hr__store(dw, channel * taps, taps, to);
}

hr_status hr__conv_apart_dw_run(const hr_call *call) {
  const hr_conv_dw_args *args = call->args;
  job j = {call, hr__conv_sizes(&call->in[1].desc, &call->out[0].desc, &call->in[0].desc, &args->conv)};
  hr__pool_run(call->device->pool, call->threads, j.s.groups, dw_task, &j);
  return HR_OK;
}
