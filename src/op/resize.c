/* resize and its adjoint, in f32 whatever the storage. */
#include "op/resize.h"

#include <stddef.h>

#include "graph/adjoint.h"
#include "op/shapes.h"
#include "op/stream.h"

enum { SIZE_MOST = 1 << 24 };

hr_id hr__resize(hr_builder *b, hr_id x, const int64_t *size) {
  hr_resize_args args = {.size = {0}};
  if (b->status != HR_OK) return HR_NONE;
  for (int d = 0; d < b->graph->values[x].desc.rank - 2 && d < HR_RESIZE_AXES; d++)
    args.size[d] = size[d];
  return hr__emit(b, &hr_op_resize, (hr_id[]){x}, 1, &args);
}

/* `like` with the sizes of the arguments. */
static hr_status with_sizes(const hr_desc *like, const hr_resize_args *args, hr_desc *out, hr_error *err) {
  if (like->rank < 3 || like->rank > 2 + HR_RESIZE_AXES)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "x has rank %d, expected 3 to %d", like->rank, 2 + HR_RESIZE_AXES);
  *out = *like;
  for (int d = 2; d < like->rank; d++) {
    out->dim[d] = args->size[d - 2];
    if (out->dim[d] < 1 || out->dim[d] > SIZE_MOST || like->dim[d] > SIZE_MOST)
      return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "resize from %lld to %lld along axis %d, expected 1 to %d",
                      (long long)like->dim[d], (long long)out->dim[d], d, SIZE_MOST);
  }
  return HR_OK;
}

static hr_status resize_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, 1, 0, err));
  HR_TRY(hr__shape_float(view, 0, err));
  return with_sizes(&view->in[0], view->args, &out[0], err);
}

static hr_status resize_bwd_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, 2, 1u << 1, err));
  HR_TRY(hr__shape_float(view, 0, err));
  HR_TRY(with_sizes(&view->in[0], view->args, &out[0], err));
  return hr__shape_like(view, 1, &out[0], err);
}

static void resize_grad(hr_adjoint *a, const hr_node *node) {
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dy = hr__out_grad(a, 0);
  if (dy == HR_NONE || !hr__wants_grad(a, 0)) return;
  const hr_desc x = b->graph->values[node->in[0]].desc;
  hr_resize_args args = *(const hr_resize_args *)node->args;
  for (int d = 2; d < x.rank; d++)
    args.size[d - 2] = x.dim[d];
  hr__grad_set(a, 0, hr__emit(b, &hr_op_resize_bwd, (hr_id[]){dy, hr__grad_partial(a, 0)}, 2, &args));
}

/* Of rows of x between which those lie: as parts of the whole. */
static bool resize_cut(const hr_op_view *view, int axis, hr_rows rows, hr_rows *in, hr_rows *made, void *args) {
  hr_resize_args *a = args;
  if (axis < 2) return false;
  hr_resize_sizes s = hr__resize_sizes(&view->in[0], &view->out[0], a);
  int d = HR_RESIZE_AXES - view->in[0].rank + axis;
  hr_between first = hr__resize_between_of(&s, d, rows.first),
             last = hr__resize_between_of(&s, d, rows.first + rows.count - 1);
  in[0] = (hr_rows){first.place, last.place + (last.part > 0) - first.place + 1};
  *made = rows;
  a->size[axis - 2] = rows.count;
  a->part[axis - 2] = s.part[d];
  a->part[axis - 2].from_first += in[0].first;
  a->part[axis - 2].to_first += rows.first;
  return true;
}

static void resize_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 24.0 * (double)hr_desc_count(&view->out[0]), cost);
}

static void resize_bwd_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 24.0 * (double)hr_desc_count(&view->in[0]), cost);
}

static size_t resize_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  hr_resize_sizes s = hr__resize_sizes(&view->in[0], &view->out[0], view->args);
  (void)kind, (void)threads;
  return (size_t)hr__resize_entries(&s, false) * sizeof(hr_between);
}

static size_t resize_bwd_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  hr_resize_sizes s = hr__resize_sizes(&view->out[0], &view->in[0], view->args);
  (void)kind, (void)threads;
  return (size_t)hr__resize_entries(&s, true) * sizeof(hr_between);
}

/* ---- kernels ---- */

typedef struct resize_call {
  const hr_call *call;
  hr_resize_sizes s;
  hr_between *between[HR_RESIZE_AXES];
  hr_reached *reached[HR_RESIZE_AXES];
} resize_call;

static resize_call tables_fill(const hr_call *call, const hr_desc *x, const hr_desc *y, bool backward) {
  resize_call r = {.call = call, .s = hr__resize_sizes(x, y, call->args)};
  hr_between *at = call->workspace;
  for (int d = 0; d < HR_RESIZE_AXES; at += r.s.to[d++]) {
    r.between[d] = at;
    for (int64_t i = 0; i < r.s.to[d]; i++)
      at[i] = hr__resize_between_of(&r.s, d, i);
  }
  hr_reached *behind = (hr_reached *)at;
  for (int d = 0; backward && d < HR_RESIZE_AXES; behind += r.s.from[d++]) {
    r.reached[d] = behind;
    for (int64_t p = 0; p < r.s.from[d]; p++)
      behind[p] = hr__resize_reached_of(&r.s, d, p);
  }
  return r;
}

/* Rows along the last axis: as many to a task. */
static int64_t task_rows(int64_t columns) {
  return 1 + HR_CHUNK / columns;
}

HR_INLINE float element(const hr_tensor *tensor, int64_t at) {
  float scratch;
  return *hr__load(tensor, at, 1, &scratch);
}

HR_INLINE void element_put(const hr_tensor *tensor, int64_t at, float value) {
  float scratch;
  float *to = hr__target(tensor, at, &scratch);
  *to = value;
  hr__store(tensor, at, 1, to);
}

/* One row of y: between four rows of x. */
static void resize_row(const resize_call *r, int64_t row) {
  const hr_resize_sizes *s = &r->s;
  const hr_tensor *x = &r->call->in[0], *y = &r->call->out[0];
  hr_between up = r->between[0][row / s->to[1] % s->to[0]], along = r->between[1][row % s->to[1]];
  int64_t plane = row / (s->to[0] * s->to[1]), begin[4];
  float share[4];
  for (int corner = 0; corner < 4; corner++) {
    int64_t i = hr__min(up.place + corner / 2, s->from[0] - 1), j = hr__min(along.place + corner % 2, s->from[1] - 1);
    begin[corner] = ((plane * s->from[0] + i) * s->from[1] + j) * s->from[2];
    share[corner] = (corner / 2 ? up.part : 1.0f - up.part) * (corner % 2 ? along.part : 1.0f - along.part);
  }
  for (int64_t k = 0; k < s->to[2]; k++) {
    hr_between at = r->between[2][k];
    int64_t next = hr__min(at.place + 1, s->from[2] - 1);
    float sum = 0.0f;
    for (int corner = 0; corner < 4; corner++) {
      float left = element(x, begin[corner] + at.place), right = element(x, begin[corner] + next);
      sum += share[corner] * (left * (1.0f - at.part) + right * at.part);
    }
    element_put(y, row * s->to[2] + k, sum);
  }
}

static void resize_task(void *arg, int64_t task, int worker) {
  const resize_call *r = arg;
  hr_range rows = hr__chunk(r->s.planes * r->s.to[0] * r->s.to[1], task_rows(r->s.to[2]), task);
  (void)worker;
  for (int64_t row = rows.first; row < rows.end; row++)
    resize_row(r, row);
}

static hr_status resize_run(const hr_call *call) {
  resize_call r = tables_fill(call, &call->in[0].desc, &call->out[0].desc, false);
  int64_t tasks = hr__chunks(r.s.planes * r.s.to[0] * r.s.to[1], task_rows(r.s.to[2]));
  hr__pool_run(call->device->pool, call->threads, tasks, resize_task, &r);
  return HR_OK;
}

/* One element of dx: the sum over the elements of dy that it has a share in. */
static float gathered(const resize_call *r, int64_t plane, const int64_t *p) {
  const hr_resize_sizes *s = &r->s;
  hr_reached over[HR_RESIZE_AXES];
  float sum = 0.0f;
  for (int d = 0; d < HR_RESIZE_AXES; d++)
    over[d] = r->reached[d][p[d]];
  for (int64_t i = over[0].first; i < over[0].end; i++) {
    float up = hr__resize_share(r->between[0][i], p[0]);
    if (up == 0.0f) continue;
    for (int64_t j = over[1].first; j < over[1].end; j++) {
      float share = up * hr__resize_share(r->between[1][j], p[1]), row = 0.0f;
      if (share == 0.0f) continue;
      int64_t begin = ((plane * s->to[0] + i) * s->to[1] + j) * s->to[2];
      for (int64_t k = over[2].first; k < over[2].end; k++)
        row += hr__resize_share(r->between[2][k], p[2]) * element(&r->call->in[0], begin + k);
      sum += share * row;
    }
  }
  return sum;
}

static void resize_bwd_task(void *arg, int64_t task, int worker) {
  const resize_call *r = arg;
  const hr_resize_sizes *s = &r->s;
  const hr_tensor *dx = &r->call->out[0], *partial = &r->call->in[1];
  hr_range rows = hr__chunk(s->planes * s->from[0] * s->from[1], task_rows(s->from[2]), task);
  (void)worker;
  for (int64_t row = rows.first; row < rows.end; row++)
    for (int64_t k = 0; k < s->from[2]; k++) {
      int64_t at = row * s->from[2] + k, plane = row / (s->from[0] * s->from[1]);
      float before = partial->data ? element(partial, at) : 0.0f;
      int64_t p[HR_RESIZE_AXES] = {row / s->from[1] % s->from[0], row % s->from[1], k};
      element_put(dx, at, before + gathered(r, plane, p));
    }
}

static hr_status resize_bwd_run(const hr_call *call) {
  resize_call r = tables_fill(call, &call->out[0].desc, &call->in[0].desc, true);
  int64_t tasks = hr__chunks(r.s.planes * r.s.from[0] * r.s.from[1], task_rows(r.s.from[2]));
  hr__pool_run(call->device->pool, call->threads, tasks, resize_bwd_task, &r);
  return HR_OK;
}

/* ---- samples: one, two and three axes; larger, smaller, barely different, the same ---- */

static const hr_resize_args line = {.size = {31}}, plane = {.size = {7, 3}}, volume = {.size = {4, 9, 18}},
                            shorter = {.size = {2, 5, 37}},
                            part = {.size = {3, 9, 18}, .part = {{7, 12, 1, 3}, {0}, {20, 41, 3, 9}}},
                            part_bwd = {.size = {2, 9, 17}, .part = {{7, 12, 1, 3}, {0}, {20, 41, 3, 9}}};
static const hr_sample resize_samples[] = {
    {.n_in = 1, .in = {{HR_F32, 3, {3, 2, 10}}}, .args = &line},
    {.n_in = 1, .in = {{HR_F32, 4, {2, 3, 3, 11}}}, .args = &plane},
    {.n_in = 1, .in = {{HR_F32, 5, {2, 2, 2, 9, 17}}}, .args = &volume},
    {.n_in = 1, .in = {{HR_F32, 5, {1, 3, 5, 1, 19}}}, .args = &shorter},
    {.n_in = 1, .in = {{HR_F32, 5, {2, 2, 3, 9, 11}}}, .args = &part},
};
static const hr_sample resize_bwd_samples[] = {
    {.n_in = 2, .in = {{HR_F32, 3, {3, 2, 10}}, {HR_F32, 3, {3, 2, 31}}}, .args = &line},
    {.n_in = 2, .in = {{HR_F32, 4, {2, 3, 3, 11}}}, .args = &plane},
    {.n_in = 2, .in = {{HR_F32, 5, {2, 2, 2, 9, 17}}, {HR_F32, 5, {2, 2, 4, 9, 18}}}, .args = &volume},
    {.n_in = 2, .in = {{HR_F32, 5, {1, 3, 5, 1, 19}}}, .args = &shorter},
    {.n_in = 2, .in = {{HR_F32, 5, {2, 2, 3, 9, 17}}, {HR_F32, 5, {2, 2, 2, 9, 17}}}, .args = &part_bwd},
};

const hr_op hr_op_resize = {
    .name = "resize",
    .n_in = 1,
    .n_out = 1,
    .light = true,
    .args_bytes = sizeof(hr_resize_args),
    .computes = 1u << 0,
    .axes = HR_AXES_BATCH,
    .cut = resize_cut,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = resize_shape,
    .grad = resize_grad,
    .cost = resize_cost,
    .workspace = resize_workspace,
    .cpu = {.run = resize_run},
    .samples = resize_samples,
    .n_samples = sizeof resize_samples / sizeof *resize_samples,
};

const hr_op hr_op_resize_bwd = {
    .name = "resize_bwd",
    .n_in = 2,
    .n_out = 1,
    .optional = 1u << 1,
    .args_bytes = sizeof(hr_resize_args),
    .alias = {{1, 0, HR_ALIAS_ACCUMULATE}},
    .n_alias = 1,
    .axes = HR_AXES_BATCH,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = resize_bwd_shape,
    .cost = resize_bwd_cost,
    .workspace = resize_bwd_workspace,
    .cpu = {.run = resize_bwd_run},
    .samples = resize_bwd_samples,
    .n_samples = sizeof resize_bwd_samples / sizeof *resize_bwd_samples,
};
