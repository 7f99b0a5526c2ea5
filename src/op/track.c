/* track: a sample is a task, since each frame needs what the one before has left. */
#include "op/track.h"

#include <math.h>
#include <string.h>

#include "op/shapes.h"
#include "op/stream.h"

enum { SURE, PLACE_X, PLACE_Y, LEAST_COLUMNS };

hr_id hr__track(hr_builder *b, hr_id x, const hr_track_args *args) {
  return hr__emit(b, &hr_op_track, &x, 1, args);
}

static hr_status track_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_track_args *args = view->args;
  const hr_desc *x = &view->in[0];
  HR_TRY(hr__shape_operands(view, 1, 0, err));
  HR_TRY(hr__shape_float(view, 0, err));
  if (x->dtype != HR_F32 || x->rank != 4 || x->dim[3] < LEAST_COLUMNS)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "detections are f32 [B, T, n, 3 or more]");
  if (args->tracks < 1 || args->tracks > HR_TRACKS_MOST)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "%d tracks, from 1 to %d", args->tracks, HR_TRACKS_MOST);
  if (!(args->reach >= 0)) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "a reach of %g", (double)args->reach);
  out[0] = (hr_desc){HR_F32, 4, {x->dim[0], args->tracks, x->dim[1], x->dim[3]}};
  return HR_OK;
}

static void track_cost(const hr_op_view *view, hr_cost *cost) {
  const hr_track_args *args = view->args;
  hr__cost_stream(view, 4.0 * (double)hr_desc_rows(&view->in[0]) * args->tracks, cost);
}

typedef struct followed {
  float x, y;
  bool begun;
  int64_t seen; /* frame that it has last taken a detection of */
} followed;

/* The track for a detection of frame t; -1: there is none, and no room. */
static int track_for(followed *list, const hr_track_args *args, const float *one, int64_t t) {
  int nearest = -1, unused = -1;
  float best = args->reach * args->reach;
  for (int i = 0; i < args->tracks; i++) {
    if (!list[i].begun && unused < 0) unused = i;
    if (!list[i].begun || list[i].seen == t) continue;
    float x = one[PLACE_X] - list[i].x, y = one[PLACE_Y] - list[i].y, far = x * x + y * y;
    if (nearest < 0 ? far <= best : far < best) {
      nearest = i;
      best = far;
    }
  }
  return nearest >= 0 ? nearest : unused;
}

static void track_task(void *arg, int64_t sample, int worker) {
  const hr_call *call = arg;
  const hr_track_args *args = call->args;
  hr_track_sizes s = hr__track_sizes(&call->in[0].desc);
  const float *x = (const float *)call->in[0].data + sample * s.frames * s.detections * s.columns;
  float *y = (float *)call->out[0].data + sample * args->tracks * s.frames * s.columns;
  followed list[HR_TRACKS_MOST] = {0};
  (void)worker;
  memset(y, 0, (size_t)(args->tracks * s.frames * s.columns) * sizeof *y);
  for (int64_t t = 0; t < s.frames; t++)
    for (int64_t k = 0; k < s.detections; k++) {
      const float *one = x + (t * s.detections + k) * s.columns;
      if (!(one[SURE] >= args->least)) continue;
      int i = track_for(list, args, one, t);
      if (i < 0) continue;
      list[i] = (followed){one[PLACE_X], one[PLACE_Y], true, t};
      memcpy(y + (i * s.frames + t) * s.columns, one, (size_t)s.columns * sizeof *y);
    }
}

static hr_status track_run(const hr_call *call) {
  hr__pool_run(call->device->pool, call->threads, call->in[0].desc.dim[0], track_task, (void *)(uintptr_t)call);
  return HR_OK;
}

static const hr_sample track_samples[] = {
    {.n_in = 1, .in = {{HR_F32, 4, {2, 5, 7, 6}}}, .args = &(const hr_track_args){4, 0.25f, 1.5f}},
    {.n_in = 1, .in = {{HR_F32, 4, {3, 9, 24, 3}}}, .args = &(const hr_track_args){16, -0.5f, 0.75f}},
    {.n_in = 1, .in = {{HR_F32, 4, {1, 4, 1, 5}}}, .args = &(const hr_track_args){32, 0.0f, 4.0f}},
};

const hr_op hr_op_track = {
    .name = "track",
    .n_in = 1,
    .n_out = 1,
    .args_bytes = sizeof(hr_track_args),
    .axes = HR_AXES_BATCH,
    .dtypes = {[HR_CPU] = HR_DTYPE_BIT(HR_F32), [HR_CUDA] = HR_DTYPE_BIT(HR_F32)},
    .shape = track_shape,
    .cost = track_cost,
    .cpu = {.run = track_run},
    .samples = track_samples,
    .n_samples = sizeof track_samples / sizeof *track_samples,
};
