/* check_numerics: after every node its float outputs are searched for values that are not finite. The first node that
 * has one is named together with what its inputs looked like, because the cause is there or in the node itself.
 */
#include <math.h>
#include <string.h>

#include "run/internal.h"

enum { WINDOW_BYTES = 16384 };

typedef struct numerics {
  int64_t nans, infinities;
  int64_t first; /* element of the first one; -1: all finite */
  float largest; /* largest finite magnitude */
} numerics;

static bool is_float(hr_dtype dtype) {
  return dtype == HR_F32 || dtype == HR_BF16 || dtype == HR_F16 || dtype == HR_F64;
}

static double element_at(hr_dtype dtype, const unsigned char *data, size_t index) {
  uint16_t half;
  float single;
  double wide;
  switch (dtype) {
  case HR_BF16:
    memcpy(&half, data + 2 * index, 2);
    return (double)hr__bf16_to_f32(half);
  case HR_F16:
    memcpy(&half, data + 2 * index, 2);
    return (double)hr__f16_to_f32(half);
  case HR_F64:
    memcpy(&wide, data + 8 * index, 8);
    return wide;
  default:
    memcpy(&single, data + 4 * index, 4);
    return (double)single;
  }
}

/* Goes through a dense value in windows, so that it works on any device and takes no heap. */
static hr_status numerics_scan(hr_run *run, hr_id value, numerics *found, hr_error *err) {
  const hr_desc *desc = &run->plan->graph->values[value].desc;
  size_t element = hr_dtype_bytes(desc->dtype), all = hr_desc_bytes(desc);
  unsigned char window[WINDOW_BYTES];
  *found = (numerics){.first = -1};
  for (size_t at = 0; at < all; at += sizeof window) {
    size_t bytes = all - at < sizeof window ? all - at : sizeof window;
    HR_TRY(hr__run_read(run, value, at, window, bytes, err));
    for (size_t i = 0; i < bytes / element; i++) {
      double x = element_at(desc->dtype, window, i);
      if (isfinite(x)) {
        if (fabs(x) > (double)found->largest) found->largest = (float)fabs(x);
        continue;
      }
      if (found->first < 0) found->first = (int64_t)(at / element + i);
      if (isnan(x))
        found->nans++;
      else
        found->infinities++;
    }
  }
  return HR_OK;
}

/* Appends one operand's description. */
static hr_status input_describe(hr_run *run, const hr_node *node, int in, char *text, size_t capacity, hr_error *err) {
  const hr_graph *graph = run->plan->graph;
  size_t used = strlen(text);
  hr_id value = node->in[in];
  if (value == HR_NONE || !is_float(graph->values[value].desc.dtype) || used + 1 >= capacity) return HR_OK;
  char *end = text + used;
  size_t room = capacity - used;
  for (int j = 0; j < node->n_out; j++) {
    if (hr__plan_value_offset(run->plan, node->out[j]) == hr__plan_value_offset(run->plan, value) &&
        hr__plan_value_tier(run->plan, node->out[j]) == hr__plan_value_tier(run->plan, value)) {
      snprintf(end, room, "; input %d (%s) was overwritten in place", in, graph->values[value].name);
      return HR_OK;
    }
  }
  numerics state;
  HR_TRY(numerics_scan(run, value, &state, err));
  if (state.first < 0)
    snprintf(end, room, "; input %d (%s) is finite, up to %.3g", in, graph->values[value].name, (double)state.largest);
  else
    snprintf(end, room, "; input %d (%s) has %lld NaN and %lld infinite, first at element %lld", in,
             graph->values[value].name, (long long)state.nans, (long long)state.infinities, (long long)state.first);
  return HR_OK;
}

hr_status hr__check_node(hr_run *run, hr_id id, hr_error *err) {
  const hr_graph *graph = run->plan->graph;
  const hr_node *node = &graph->nodes[id];
  for (int j = 0; j < node->n_out; j++) {
    const hr_value *value = &graph->values[node->out[j]];
    if (!is_float(value->desc.dtype)) continue;
    numerics state;
    HR_TRY(numerics_scan(run, node->out[j], &state, err));
    if (state.first < 0) continue;
    char inputs[384] = "", place[HR_NODE_PLACE];
    for (int i = 0; i < node->n_in; i++)
      HR_TRY(input_describe(run, node, i, inputs, sizeof inputs, err));
    return hr__fail(err, HR_FAILURE, hr__node_place(graph, id, place),
                    "lower the learning rate, clip gradients (training.clip_norm) or look at the named input",
                    "module %s: output %d (%s) of %s has %lld NaN and %lld infinite, first at element %lld%s",
                    node->module, j, value->name, node->op->name, (long long)state.nans, (long long)state.infinities,
                    (long long)state.first, inputs);
  }
  return HR_OK;
}
