/* The first values of a run: drawn from the seed, or read from the checkpoints of its parts. */
#include <stdio.h>
#include <string.h>

#include "base/work.h"
#include "model/features.h"
#include "model/weights.h"
#include "train/session.h"

/* One parameter from an open checkpoint, in pieces of a window. `hash` (optional) takes the bytes. */
static hr_status weight_load(hr_session *s, hr_weights *weights, hr_id parameter, hr_hash *hash, hr_error *err) {
  const hr_desc *desc = &hr__run_graph(s->run)->values[parameter].desc;
  size_t element = hr_dtype_bytes(desc->dtype);
  int64_t all = hr_desc_count(desc), piece = (int64_t)(HR_WINDOW_BYTES / element);
  char *address = hr__run_address(s->run, parameter);
  for (int64_t first = 0; first < all; first += piece) {
    int64_t count = all - first < piece ? all - first : piece;
    size_t at = (size_t)first * element;
    char *to = address ? address + at : (char *)s->tensors.window;
    HR_TRY(hr__weights_read(weights, parameter, first, count, to, err));
    if (hash) HR_TRY(hr__hash_update(hash, to, (size_t)count * element, err));
    if (!address) HR_TRY(hr__run_write(s->run, parameter, at, s->tensors.window, (size_t)count * element, err));
    hr__work_advance((size_t)count * element);
  }
  return HR_OK;
}

typedef struct packed_source {
  hr_weights *weights;
  size_t number;
  hr_hash *hash;
} packed_source;

static hr_status packed_read(void *user, int64_t first, int64_t count, float *to, hr_error *err) {
  const packed_source *source = user;
  HR_TRY(hr__weights_read_packed(source->weights, source->number, first, count, to, err));
  hr__work_advance((size_t)count * sizeof *to);
  return hr__hash_update(source->hash, to, (size_t)count * sizeof *to, err);
}

/* The checkpoints that the parts of a model come from. */
typedef struct sources {
  const hr_session *session;
  bool frozen_only;
  hr_model_parts parts;
  hr_weights *weights[1 + HR_MODEL_PARTS];  /* per part; NULL: it has none, and is drawn */
  hr_weights *adapters[1 + HR_MODEL_PARTS]; /* per part, of adapters.path; NULL: they are drawn */
} sources;

static bool name_is_drawn(void *user, const char *name) {
  const sources *from = user;
  const hr_session *s = from->session;
  if (from->frozen_only && hr__handover_carries(&s->handover, hr__graph_find_value(hr__run_graph(s->run), name)))
    return false; /* the checkpoint had it */
  const hr_weights *weights = from->weights[hr__parts_of(&from->parts, name)];
  hr_id value = hr__graph_find_value(hr__run_graph(s->run), name);
  return !weights || (value != HR_NONE && hr__weights_is_fresh(weights, value));
}

/* `hash` takes the frozen ones: a checkpoint does not hold them, but must be able to tell them from others. */
static hr_status weights_load(hr_session *s, const sources *from, bool frozen_only, hr_hash *hash, hr_error *err) {
  const hr_graph *graph = hr__run_graph(s->run);
  for (hr_id v = 0; v < graph->n_values; v++) {
    bool saved = graph->values[v].trained || graph->buffers[graph->values[v].buffer].role == HR_ROLE_STATE ||
                 hr__handover_carries(&s->handover, v);
    hr_weights *weights = from->weights[hr__parts_of(&from->parts, graph->values[v].name)];
    if (!weights || !hr__weights_has(weights, v) || (frozen_only && saved)) continue;
    HR_TRY(weight_load(s, weights, v, saved ? NULL : hash, err));
  }
  for (size_t i = 0; i < graph->n_packed; i++) {
    packed_source source = {from->weights[hr__parts_of(&from->parts, graph->packed[i].name)], i, hash};
    if (source.weights) HR_TRY(hr__run_pack(s->run, &graph->packed[i], packed_read, &source, err));
  }
  return HR_OK;
}

/* Bytes that loading will take, for whoever waits. */
static void weights_expect(const hr_session *s, const sources *from, bool frozen_only) {
  const hr_graph *graph = hr__run_graph(s->run);
  for (hr_id v = 0; v < graph->n_values; v++) {
    const hr_weights *weights = from->weights[hr__parts_of(&from->parts, graph->values[v].name)];
    bool saved = graph->values[v].trained || graph->buffers[graph->values[v].buffer].role == HR_ROLE_STATE;
    if (weights && hr__weights_has(weights, v) && !(frozen_only && saved))
      hr__work_expect(hr_desc_bytes(&graph->values[v].desc));
  }
  for (size_t i = 0; i < graph->n_packed; i++)
    if (from->weights[hr__parts_of(&from->parts, graph->packed[i].name)])
      hr__work_expect((uint64_t)hr_desc_count(&graph->packed[i].desc) * sizeof(float));
}

static hr_status weights_load_hashed(hr_session *s, const sources *from, bool frozen_only, hr_error *err) {
  hr_hash *hash;
  char hex[HR_SHA256_HEX];
  HR_TRY(hr__hash_create(HR_HASH_XXH128, &hash, err));
  hr_status status = weights_load(s, from, frozen_only, hash, err);
  if (status == HR_OK) status = hr__hash_hex(hash, hex, err);
  if (status == HR_OK && s->tensors.frozen) snprintf(s->base, sizeof s->base, "%.32s", hex);
  hr__hash_destroy(hash);
  return status;
}

/* Averages begin as what they are of. */
static hr_status averages_begin(hr_session *s, hr_error *err) {
  const hr_graph *graph = hr__run_graph(s->run);
  /* One half of the window is read into, the other converted to. */
  const int64_t piece = HR_WINDOW_BYTES / 2 / (int64_t)sizeof(float);
  float *wide = (float *)(void *)(s->tensors.window + HR_WINDOW_BYTES / 2);
  for (size_t i = 0; i < s->tensors.n_averages; i++) {
    hr_id average = s->tensors.averages[i];
    if (hr__handover_of(&s->handover, average)) continue; /* it goes on */
    hr_id of = hr__graph_find_value(graph, strchr(graph->values[average].name, '.') + 1);
    hr_desc desc = graph->values[of].desc;
    size_t element = hr_dtype_bytes(desc.dtype);
    int64_t all = hr_desc_count(&desc);
    for (int64_t first = 0; first < all; first += piece) {
      int64_t count = all - first < piece ? all - first : piece;
      HR_TRY(hr__run_read(s->run, of, (size_t)first * element, s->tensors.window, (size_t)count * element, err));
      for (int64_t k = 0; k < count; k++)
        wide[k] = desc.dtype == HR_F32 ? ((const float *)(void *)s->tensors.window)[k]
                                       : hr__bf16_to_f32(((const uint16_t *)(void *)s->tensors.window)[k]);
      HR_TRY(hr__run_write(s->run, average, (size_t)first * sizeof(float), wide, (size_t)count * sizeof(float), err));
    }
  }
  return HR_OK;
}

static hr_status sources_open(hr_session *s, sources *from, bool *any, hr_error *err) {
  for (size_t p = 0; p < from->parts.count; p++) {
    const hr_model_part *part = &from->parts.part[p];
    if (hr__part_left_out(&from->parts, p, s->options->plan->graph)) continue;
    if (!from->frozen_only) HR_TRY(hr__peft_weights_open(part, s->options->plan->graph, &from->adapters[p], err));
    if (!hr__scope_has(&part->scope, "path") || hr__parts_weights(&from->parts, p) != p) continue;
    *any = true;
    HR_TRY(
        hr__weights_open(hr__scope_text(&part->scope, "path"), s->options->plan->graph, part, &from->weights[p], err));
    hr__weights_share(from->weights[p], s->options->device->pool);
    const char *remark = hr__weights_remark(from->weights[p]);
    if (remark && !from->frozen_only) snprintf(s->remark, sizeof s->remark, "%s", remark);
  }
  return HR_OK;
}

static hr_status adapters_load(hr_session *s, const sources *from, hr_error *err) {
  const hr_graph *graph = hr__run_graph(s->run);
  for (size_t p = 0; p < from->parts.count; p++)
    for (hr_id v = 0; from->adapters[p] && v < graph->n_values; v++)
      if (hr__weights_has(from->adapters[p], v)) HR_TRY(weight_load(s, from->adapters[p], v, NULL, err));
  return HR_OK;
}

static hr_status values_begin(hr_session *s, bool frozen_only, hr_error *err) {
  sources from = {.session = s, .frozen_only = frozen_only};
  bool any = false;
  hr__parts_read(s->options->recipe, &from.parts);
  hr_status status = sources_open(s, &from, &any, err);
  hr_work loading;
  hr__work_begin(&loading, s->options->progress, any ? "loading weights" : "drawing first weights", 0);
  weights_expect(s, &from, frozen_only);
  /* A file has all parameters of its part, and nothing else. */
  int parts = HR_INIT_FROZEN | (frozen_only ? 0 : HR_INIT_OTHERS | HR_INIT_TRAINED);
  if (status == HR_OK) status = hr__run_init_parts(s->run, (hr_init_part)parts, name_is_drawn, &from, s->seed, err);
  if (status == HR_OK && any) status = weights_load_hashed(s, &from, frozen_only, err);
  if (status == HR_OK) status = adapters_load(s, &from, err);
  hr__work_end(&loading);
  for (size_t p = 0; p < from.parts.count; p++) {
    hr__weights_close(from.weights[p]);
    hr__weights_close(from.adapters[p]);
  }
  return status;
}

/* What the stage before has left. */
static hr_status handover_load(hr_session *s, hr_error *err) {
  const hr_graph *graph = hr__run_graph(s->run);
  for (hr_id v = 0; v < graph->n_values && s->handover.count > 0; v++) {
    hr_weights *weights = hr__handover_of(&s->handover, v);
    if (weights) HR_TRY(weight_load(s, weights, v, NULL, err));
  }
  return HR_OK;
}

hr_status hr__session_begin(hr_session *s, hr_error *err) {
  HR_TRY(values_begin(s, false, err));
  HR_TRY(handover_load(s, err));
  HR_TRY(averages_begin(s, err));
  hr__handover_release(&s->handover);
  return HR_OK;
}

hr_status hr__session_begin_frozen(hr_session *s, hr_error *err) {
  return values_begin(s, true, err);
}
