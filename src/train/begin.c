/* The first values of a run: drawn from the seed, or read from the checkpoint of model.path. */
#include "model/weights.h"
#include "train/session.h"

/* One parameter from an open checkpoint, in pieces of a window. */
static hr_status weight_load(hr_session *s, hr_weights *weights, hr_id parameter, hr_error *err) {
  const hr_desc *desc = &hr__run_graph(s->run)->values[parameter].desc;
  size_t element = hr_dtype_bytes(desc->dtype);
  int64_t all = hr_desc_count(desc), piece = (int64_t)(HR_WINDOW_BYTES / element);
  char *address = hr__run_address(s->run, parameter);
  for (int64_t first = 0; first < all; first += piece) {
    int64_t count = all - first < piece ? all - first : piece;
    size_t at = (size_t)first * element;
    HR_TRY(hr__weights_read(weights, parameter, first, count, address ? address + at : (char *)s->tensors.window, err));
    if (!address) HR_TRY(hr__run_write(s->run, parameter, at, s->tensors.window, (size_t)count * element, err));
  }
  return HR_OK;
}

typedef struct packed_source {
  hr_weights *weights;
  size_t number;
} packed_source;

static hr_status packed_read(void *user, int64_t first, int64_t count, float *to, hr_error *err) {
  const packed_source *source = user;
  return hr__weights_read_packed(source->weights, source->number, first, count, to, err);
}

static hr_status weights_load(hr_session *s, hr_weights *weights, bool frozen_only, hr_error *err) {
  const hr_graph *graph = hr__run_graph(s->run);
  for (hr_id v = 0; v < graph->n_values; v++)
    if (hr__weights_has(weights, v) && !(frozen_only && graph->values[v].trained))
      HR_TRY(weight_load(s, weights, v, err));
  for (size_t i = 0; i < graph->n_packed; i++) {
    packed_source source = {weights, i};
    HR_TRY(hr__run_pack(s->run, &graph->packed[i], packed_read, &source, err));
  }
  return HR_OK;
}

static hr_status values_begin(hr_session *s, bool frozen_only, hr_error *err) {
  const hr_recipe *recipe = s->options->recipe;
  hr_weights *weights = NULL;
  if (hr__recipe_has(recipe, "model.path"))
    HR_TRY(hr__weights_open(hr__recipe_text(recipe, "model.path"), s->options->plan->graph, &weights, err));
  hr_status status = HR_OK;
  if (!frozen_only) status = hr__run_init_half(s->run, HR_INIT_OTHERS, s->seed, err);
  if (status == HR_OK && !weights) status = hr__run_init_half(s->run, HR_INIT_FROZEN, s->seed, err);
  if (status == HR_OK && weights) status = weights_load(s, weights, frozen_only, err);
  hr__weights_close(weights);
  return status;
}

hr_status hr__session_begin(hr_session *s, hr_error *err) {
  return values_begin(s, false, err);
}

hr_status hr__session_begin_frozen(hr_session *s, hr_error *err) {
  return values_begin(s, true, err);
}
