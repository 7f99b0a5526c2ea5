/* See features.h. */
#include "train/features.h"

#include <string.h>

#include "base/half.h"
#include "base/mem.h"
#include "base/work.h"
#include "model/features.h"
#include "model/parts.h"
#include "train/signals.h"

typedef struct making {
  hr_session session; /* of the program that makes them */
  hr_train_options options;
  hr_features_maker maker;
  hr_id program, input, output;
  int64_t batch;
  size_t input_bytes; /* of a row */
  hr_dtype dtype;     /* of what is made */
  void *made;         /* room for a batch of it */
  float *rows;        /* the same as floats */
} making;

/* ---- what makes them ---- */

static bool is_stored(const hr_graph *graph, hr_id v) {
  hr_role role = graph->buffers[graph->values[v].buffer].role;
  return graph->values[v].base == HR_NONE && (role == HR_ROLE_PARAMETER || role == HR_ROLE_STATE);
}

static hr_status value_hash(making *m, hr_id v, hr_hash *hash, hr_error *err) {
  const hr_value *value = &hr__run_graph(m->session.run)->values[v];
  unsigned char *window = m->session.tensors.window;
  size_t all = hr_desc_bytes(&value->desc);
  HR_TRY(hr__hash_update(hash, value->name, strlen(value->name) + 1, err));
  for (size_t at = 0; at < all; at += HR_WINDOW_BYTES) {
    size_t bytes = all - at < HR_WINDOW_BYTES ? all - at : HR_WINDOW_BYTES;
    HR_TRY(hr__run_read(m->session.run, v, at, window, bytes, err));
    HR_TRY(hr__hash_update(hash, window, bytes, err));
  }
  return HR_OK;
}

/* Weights as they are computed with, and in which precision. Which device does it is left out: rows that one has made
 * serve another. */
static hr_status weights_hash(making *m, hr_hash *hash, hr_error *err) {
  const hr_graph *graph = hr__run_graph(m->session.run);
  const hr_model_part *whole = &m->session.model;
  hr_model_part part = hr__part_find(whole, whole->model->features->part);
  const char *precision = hr__scope_precision(&part.scope);
  HR_TRY(hr__hash_update(hash, part.model->family, strlen(part.model->family) + 1, err));
  HR_TRY(hr__hash_update(hash, precision, strlen(precision) + 1, err));
  for (hr_id v = 0; v < graph->n_values; v++)
    if (is_stored(graph, v)) HR_TRY(value_hash(m, v, hash, err));
  return HR_OK;
}

static hr_status maker_tell(making *m, hr_error *err) {
  hr_hash *hash;
  char hex[HR_SHA256_HEX];
  HR_TRY(hr__hash_create(HR_HASH_XXH128, &hash, err));
  hr_status status = weights_hash(m, hash, err);
  if (status == HR_OK) status = hr__hash_hex(hash, hex, err);
  hr__hash_destroy(hash);
  if (status == HR_OK) memcpy(m->maker.hash, hex, sizeof m->maker.hash);
  return status;
}

static hr_status program_find(making *m, hr_error *err) {
  const hr_graph *graph = hr__run_graph(m->session.run);
  hr_fields fields = hr__features_fields(&m->session.model, 1);
  m->program = hr__graph_find_kind(graph, HR_PROGRAM_FEATURES);
  m->input = m->program == HR_NONE ? HR_NONE : hr__program_input(graph, m->program, fields.list[0].name);
  m->output = m->program == HR_NONE ? HR_NONE : hr__program_output(graph, m->program, HR_OUTPUT_FEATURES);
  if (m->input == HR_NONE || m->output == HR_NONE)
    return hr__fail(err, HR_FAILURE, NULL, NULL, "the plan does not hold the program that makes features");
  const hr_desc *made = &graph->values[m->output].desc;
  m->batch = made->dim[0];
  m->maker.width = made->dim[1];
  m->dtype = made->dtype;
  m->input_bytes = hr__field_sample_bytes(&fields.list[0]);
  m->rows = hr__alloc((size_t)hr_desc_count(made) * sizeof *m->rows);
  m->made = m->dtype == HR_F32 ? m->rows : hr__alloc(hr_desc_bytes(made));
  return m->rows && m->made ? HR_OK : hr__nomem(err);
}

/* ---- making them ---- */

/* Inputs of the rows from `first` on, in the slot of their batch. */
static hr_status batch_read(making *m, const hr_featured *data, void *state, uint64_t first, uint64_t missing,
                            hr_error *err) {
  uint64_t left = missing - first, batch = (uint64_t)m->batch, count = left < batch ? left : batch;
  hr__run_feed(m->session.run, (int)(first / batch % HR_BATCH_SLOTS));
  char *to = hr__run_fed(m->session.run, m->input);
  memset(to + count * m->input_bytes, 0, (size_t)(batch - count) * m->input_bytes);
  return data->inputs(state, first, count, to, err);
}

static hr_status batch_put(making *m, const hr_featured *data, void *state, uint64_t count, hr_error *err) {
  size_t numbers = (size_t)count * (size_t)m->maker.width;
  HR_TRY(hr__run_read(m->session.run, m->output, 0, m->made, numbers * hr_dtype_bytes(m->dtype), err));
  const uint16_t *narrow = m->made;
  for (size_t i = 0; m->dtype != HR_F32 && i < numbers; i++)
    m->rows[i] = m->dtype == HR_BF16 ? hr__bf16_to_f32(narrow[i]) : hr__f16_to_f32(narrow[i]);
  return data->put(state, count, m->rows, err);
}

/* A signal ends it at once: there is no run yet that could be saved, and files that are whole stay. */
static hr_status stop_check(const making *m, hr_error *err) {
  int number = m->options.handle_signals ? hr__signals_caught() : 0;
  if (number == 0) return HR_OK;
  hr_stop_signal signal = hr__signal_meaning(number);
  return hr__fail(err, signal.status, NULL, "start it again", "stopped by %s while features were made", signal.name);
}

/* While a batch is computed on, the next is read. */
static hr_status rows_make(making *m, const hr_featured *data, void *state, uint64_t missing, hr_error *err) {
  uint64_t batch = (uint64_t)m->batch;
  HR_TRY(batch_read(m, data, state, 0, missing, err));
  for (uint64_t first = 0; first < missing; first += batch) {
    uint64_t count = missing - first < batch ? missing - first : batch;
    hr_error why = {0};
    HR_TRY(hr__run_begin(m->session.run, m->program, err));
    hr_status read = first + batch < missing ? batch_read(m, data, state, first + batch, missing, &why) : HR_OK;
    hr_status put = batch_put(m, data, state, count, err);
    HR_TRY(hr__run_end(m->session.run, put == HR_OK ? err : NULL));
    HR_TRY(put);
    if (read != HR_OK) {
      if (err) *err = why;
      return read;
    }
    hr__work_advance(count * m->input_bytes);
    HR_TRY(stop_check(m, err));
  }
  return HR_OK;
}

static hr_status data_make(making *m, const hr_session *of, hr_error *err) {
  for (int eval = 0; eval < 1 + (int)hr__data_own_eval(of->data); eval++) {
    void *state;
    uint64_t missing;
    const hr_featured *data = hr__data_featured(of->data, eval, &state);
    HR_TRY(data->find(state, &m->maker, &missing, err));
    if (missing == 0) continue;
    hr_work work;
    hr__work_begin(&work, of->options->progress, "making features", missing * m->input_bytes);
    hr_status status = rows_make(m, data, state, missing, err);
    hr__work_end(&work);
    HR_TRY(status);
  }
  return HR_OK;
}

static hr_status features_make(making *m, const hr_session *of, hr_error *err) {
  HR_TRY(hr__session_create_untrained(&m->options, &m->session, err));
  HR_TRY(maker_tell(m, err));
  HR_TRY(program_find(m, err));
  return data_make(m, of, err);
}

hr_status hr__features_make(hr_session *s, hr_error *err) {
  void *state;
  const hr_train_options *o = s->options;
  if (!hr__data_featured(s->data, false, &state)) return HR_OK;
  if (!o->features_recipe)
    return hr__fail(err, HR_FAILURE, NULL, NULL, "there is no plan of what makes the features that training reads");
  making m = {.options = *o};
  m.options.recipe = o->features_recipe;
  m.options.plan = o->features_plan;
  m.options.begin = NULL;
  hr_status status = features_make(&m, s, err);
  memcpy(s->features, m.maker.hash, sizeof s->features);
  if (m.session.options) hr__session_destroy(&m.session);
  if (m.made != m.rows) hr__free(m.made);
  hr__free(m.rows);
  return status;
}
