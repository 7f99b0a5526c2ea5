/* See session.h. */
#include "train/session.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/work.h"
#include "data/codec.h"
#include "data/keys.h"
#include "model/features.h"
#include "model/generation.h"
#include "pass/update.h"
#include "plan/memory.h"
#include "train/features.h"

/* Whether a program's inputs lie in a slot as its fields do. */
static bool inputs_match(const hr_graph *graph, const hr_fields *fields, hr_id program) {
  size_t begin[HR_FIELDS];
  hr__fields_place(fields, begin);
  bool match = graph->programs[program].n_inputs == fields->count;
  for (int i = 0; match && i < fields->count; i++) {
    hr_id input = hr__program_input(graph, program, fields->list[i].name);
    match = input != HR_NONE && graph->values[input].offset == begin[i];
  }
  return match;
}

static hr_driven driven_find(const hr_graph *graph, const hr_fields *fields, const hr_reports *reports,
                             hr_program_key key) {
  hr_driven d = {.program = hr__graph_find_program(graph, key),
                 .reported = {HR_NONE},
                 .grad_norm = HR_NONE,
                 .grad_squares = HR_NONE};
  if (d.program == HR_NONE || !inputs_match(graph, fields, d.program)) return d;
  for (int i = 0; i < reports->count; i++)
    d.reported[i] = hr__program_output(graph, d.program, reports->list[i].name);
  d.grad_norm = hr__program_output(graph, d.program, "grad_norm");
  d.grad_squares = hr__program_output(graph, d.program, "grad_squares");
  return d;
}

static bool reports_all(const hr_session *s, const hr_driven *d) {
  for (int i = 0; i < s->reports.count; i++)
    if (d->reported[i] == HR_NONE &&
        (d == &s->eval ? hr__reported_by_evaluation : hr__reported_by_training)(&s->reports.list[i]))
      return false;
  return true;
}

static hr_status programs_find(hr_session *s, hr_error *err) {
  const hr_fields *fields = s->fields;
  const hr_reports *reports = &s->reports;
  const hr_graph *graph = s->options->plan->graph;
  bool whole = hr__training_whole(&s->shape), there = true;
  for (int b = 0; b < s->shape.n_buckets; b++) {
    hr_program_kind first = whole ? HR_PROGRAM_STEP : HR_PROGRAM_MICRO_FIRST;
    s->micro[b].first = driven_find(graph, &fields[b], reports, hr__bucket_program(&s->shape, b, first));
    s->micro[b].next = driven_find(graph, &fields[b], reports, hr__bucket_program(&s->shape, b, HR_PROGRAM_MICRO_NEXT));
    there = there && reports_all(s, &s->micro[b].first) &&
            (s->shape.accumulation_max == 1 || reports_all(s, &s->micro[b].next));
  }
  s->update = driven_find(graph, &(hr_fields){.count = 0}, reports, (hr_program_key){.kind = HR_PROGRAM_UPDATE});
  s->eval = driven_find(graph, &fields[s->shape.n_buckets - 1], reports, (hr_program_key){.kind = HR_PROGRAM_EVAL});
  s->control = hr__graph_find_value(graph, "control");
  there = there && s->control != HR_NONE && whole == (s->update.program == HR_NONE);
  if (!there || (s->shape.eval && !reports_all(s, &s->eval)))
    return hr__fail(err, HR_FAILURE, NULL, NULL, "the plan does not hold the programs that this recipe trains with");
  return HR_OK;
}

/* Batches are read into the slots that the plan has for them. */
static hr_status reader_open(hr_session *s, int workers, hr_error *err) {
  hr_id batch = hr__graph_find_value(s->options->plan->graph, HR_BATCH);
  if (batch == HR_NONE) return hr__fail(err, HR_FAILURE, NULL, NULL, "the plan has no room for batches");
  size_t bytes = hr_desc_bytes(&s->options->plan->graph->values[batch].desc) / HR_BATCH_SLOTS;
  char **slots = s->slots;
  for (int i = 0; i < HR_BATCH_SLOTS; i++)
    slots[i] = (char *)hr__run_address(s->run, batch) + (size_t)i * bytes;
  return hr__reader_create(s->data, s->shape.batch, workers, slots, &s->reader, err);
}

static bool masks_any(const hr_session *s) {
  for (int i = 0; i < s->reports.count; i++)
    if (s->reports.list[i].over == HR_OVER_MASK) return true;
  return false;
}

/* Steps of the run, by count or by epochs (job.c has seen that there are such). */
static void schedule_read(hr_session *s) {
  const hr_recipe *recipe = s->options->recipe;
  int64_t steps = s->options->steps;
  if (steps == 0 && hr__recipe_has(recipe, "training.epochs"))
    steps = hr__batches_steps(&s->batches, hr__recipe_float(recipe, "training.epochs"));
  hr__schedule_read(recipe, steps, &s->schedule);
}

/* What the process holds while it reads the tokenizer that generating, or making tokens, takes. A tokenizer that stays
 * open is part of the fixed bytes. */
static uint64_t reading_bytes_of(const hr_train_options *o, bool stays_open) {
  hr_codec_bytes bytes = hr__codec_bytes(o->recipe);
  return bytes.reading == 0 ? 0 : bytes.reading + o->plan->facts.fixed_bytes - (stays_open ? bytes.open : 0);
}

/* Width of the points that evaluations make of every item of the data; 0: they make none. */
static int64_t points_width(const hr_session *s) {
  const hr_graph *graph = s->options->plan->graph;
  hr_id points = s->eval.program == HR_NONE ? HR_NONE : hr__program_output(graph, s->eval.program, HR_OUTPUT_POINTS);
  return points == HR_NONE ? 0 : graph->values[points].desc.dim[1];
}

/* Points of all items, and the distances of one of them to all; groups that are made of them. */
static uint64_t points_bytes(const hr_session *s) {
  int64_t of_a_row, width = points_width(s);
  if (width == 0) return 0;
  const hr_groups *groups = hr__data_groups(s->data);
  return hr__data_items(s->data, &of_a_row) * ((uint64_t)width * sizeof(float) + sizeof(double)) +
         (groups ? hr__groups_bytes(groups, width) : 0);
}

/* How many samples there are, and so what finding them again takes on the host, is known only now: it comes on top of
 * the plan. What is less than the accuracy of plans is not refused. */
static hr_status data_bytes_check(hr_session *s, hr_error *err) {
  const hr_train_options *o = s->options;
  hr_data_bytes bytes = hr__data_bytes(s->data);
  bytes.held += points_bytes(s);
  uint64_t planned = o->plan->tiers[HR_TIER_HOST].peak_bytes,
           making = o->plan->facts.fixed_bytes + bytes.held + bytes.making;
  hr_budget budget;
  s->data_bytes = bytes.held;
  if (making > s->reading_bytes) s->reading_bytes = making;
  HR_TRY(hr__memory_budget(o->recipe, &o->plan->facts, &budget, err));
  if (hr__within_plan(budget.host_bytes, planned + bytes.held)) return HR_OK;
  char held[HR_SIZE_TEXT], all[HR_SIZE_TEXT], most[HR_SIZE_TEXT];
  return hr__fail(err, HR_NO_FIT, "memory.host_budget", "raise it, offload less, or train on fewer samples",
                  "where the samples are takes %s on the host, beside %s that are planned: more than its %s",
                  hr__size_text(bytes.held, held), hr__size_text(planned, all), hr__size_text(budget.host_bytes, most));
}

/* All memory of the run, touched at once: of a large plan that takes a while. */
static hr_status memory_take(hr_session *s, const hr_run_options *options, hr_error *err) {
  hr_work taking;
  hr__work_begin(&taking, s->options->progress, "taking memory", 0);
  hr_status status = hr__run_create(s->options->plan, s->options->device, options, &s->run, err);
  hr__work_end(&taking);
  return status;
}

/* What makes features takes its memory first, and gives it back. */
static hr_status features_ready(hr_session *s, hr_error *err) {
  const hr_plan *plan = s->options->features_plan;
  if (plan) {
    s->features_bytes = plan->tiers[HR_TIER_DEVICE].peak_bytes;
    if (plan->facts.kind == HR_CPU) s->features_bytes += plan->tiers[HR_TIER_HOST].peak_bytes + s->data_bytes;
  }
  return hr__features_make(s, err);
}

static void tokens_made(void *user, uint64_t done, uint64_t all) {
  hr__work_bytes(user, "making tokens", done, all);
}

static hr_status session_build(hr_session *s, bool time_nodes, hr_error *err) {
  const hr_train_options *o = s->options;
  s->model = hr__model_whole(o->recipe);
  if (hr__features_alone(o->recipe))
    return hr__recipe_fail(o->recipe, HR_CACHE_FEATURES, "set it to true: they are made before training", err,
                           "nothing is trained with data.cache_features: make, by which features alone are planned");
  HR_TRY(hr__training_shape(o->recipe, &s->shape, err));
  s->seed = (uint64_t)hr__recipe_int(o->recipe, "training.seed");
  bool generates = hr__recipe_has(o->recipe, "training.generation_every");
  if (generates || hr__data_reads_tokenizer(o->recipe)) s->reading_bytes = reading_bytes_of(o, generates);
  s->eval_batches = hr__recipe_int(o->recipe, "training.eval_batches");
  s->reports.list = hr__model_reported(s->model.model, &s->reports.count);
  s->eval_reports = s->reports;
  HR_TRY(hr__best_read(o->recipe, &s->reports, &s->best_rule, err));
  hr_fields *fields = s->fields;
  for (int b = 0; b < s->shape.n_buckets; b++)
    fields[b] = hr__model_fields(&s->model, &(hr_field_shape){.batch = s->shape.batch,
                                                              .length = s->shape.buckets[b],
                                                              .lengths = s->shape.ragged,
                                                              .documents = s->shape.documents});
  HR_TRY(programs_find(s, err));
  s->scales = hr__update_scaled(o->plan->graph);
  hr__scaling_read(o->recipe, &s->scaling);
  s->scaler = hr__scaler_begin(&s->scaling);
  int workers = (int)hr__recipe_int(o->recipe, "data.workers");
  hr_data_shape shape = {.seed = s->seed,
                         .eval = s->shape.eval,
                         .batch = s->shape.batch,
                         .buckets = s->shape.buckets,
                         .fields = fields,
                         .n_buckets = s->shape.n_buckets,
                         .fillers = workers > 0 ? workers : 1,
                         .counts = masks_any(s)};
  HR_TRY(hr__masking_read(o->recipe, s->model.model->masked, hr__model_vocabulary(o->recipe), s->seed, &shape.masking,
                          err));
  hr_work reading;
  hr__work_begin(&reading, o->progress, "reading data", 0);
  shape.watch = (hr_data_watch){tokens_made, &reading};
  hr_status opened = hr__data_open(o->recipe, &shape, &s->data, err);
  hr__work_end(&reading);
  HR_TRY(opened);
  HR_TRY(data_bytes_check(s, err));
  hr_groups *groups = hr__data_groups(s->data);
  if (groups) HR_TRY(hr__groups_open(groups, points_width(s), err));
  HR_TRY(features_ready(s, err));
  s->batches = (hr_batches){.shape = &s->shape, .epoch_rows = hr__data_epoch_rows(s->data)};
  schedule_read(s);
  hr_run_options options = {
      .check_numerics = o->check_numerics, .time_nodes = time_nodes, .folder = hr__memory_folder(o->recipe)};
  HR_TRY(memory_take(s, &options, err));
  if (o->begin) HR_TRY(hr__handover_open(o->begin, o->begin_also, o->recipe, hr__run_graph(s->run), &s->handover, err));
  HR_TRY(hr__tensors_create(s->run, s->handover.carried, &s->tensors, err));
  return reader_open(s, workers, err);
}

hr_status hr__session_create(const hr_train_options *options, bool time_nodes, hr_session *session, hr_error *err) {
  *session = (hr_session){.options = options};
  hr_status status = session_build(session, time_nodes, err);
  if (status != HR_OK) hr__session_destroy(session);
  return status;
}

static hr_status untrained_build(hr_session *s, hr_error *err) {
  const hr_train_options *o = s->options;
  s->model = hr__model_whole(o->recipe);
  s->seed = (uint64_t)hr__recipe_int(o->recipe, "training.seed");
  if (hr__generation_alone(o->recipe)) s->reading_bytes = reading_bytes_of(o, true);
  hr_run_options options = {.folder = hr__memory_folder(o->recipe)};
  HR_TRY(memory_take(s, &options, err));
  HR_TRY(hr__tensors_create(s->run, NULL, &s->tensors, err));
  return hr__session_begin(s, err);
}

hr_status hr__session_create_untrained(const hr_train_options *options, hr_session *session, hr_error *err) {
  *session = (hr_session){.options = options};
  hr_status status = untrained_build(session, err);
  if (status != HR_OK) hr__session_destroy(session);
  return status;
}

void hr__session_destroy(hr_session *session) {
  hr__reader_destroy(session->reader);
  hr__tensors_destroy(&session->tensors);
  hr__handover_close(&session->handover);
  hr__run_destroy(session->run);
  hr__data_close(session->data);
  hr__free(session->points);
  *session = (hr_session){0};
}

hr_run_state hr__session_state(const hr_session *s) {
  hr_run_state state = {.known = true, .sample = s->sample, .scaler = s->scaler, .best = s->best};
  memcpy(state.base, s->base, sizeof state.base);
  return state;
}

void hr__session_resume(hr_session *s, int64_t step, const hr_run_state *state) {
  hr__handover_release(&s->handover); /* the run's own checkpoint has had all of it */
  s->done = step;
  s->best = state->best;
  s->sample = state->known ? state->sample : hr__batches_position(&s->batches, step);
  if (state->known)
    s->scaler = state->scaler;
  else
    s->scaler.applied_steps = step;
}

static hr_status scalar_read(hr_session *s, hr_id value, double *out, hr_error *err) {
  float number;
  HR_TRY(hr__run_read(s->run, value, 0, &number, sizeof number, err));
  *out = (double)number;
  return HR_OK;
}

/* What sums are divided by, counted over all micro-batches of a step or an evaluation. */
typedef struct totals {
  double targets, tokens, samples, masked[HR_REPORTED];
} totals;

static hr_status totals_add(const hr_session *s, const hr_micro *micro, totals *t, hr_error *err) {
  t->targets += (double)micro->targets;
  t->tokens += (double)micro->tokens;
  t->samples += (double)micro->samples;
  for (int i = 0; i < s->reports.count; i++) {
    const hr_reported *reported = &s->reports.list[i];
    const hr_fields *fields = &s->fields[micro->bucket];
    int64_t count;
    int field = 0;
    if (reported->over != HR_OVER_MASK) continue;
    while (field < fields->count && strcmp(fields->list[field].name, reported->mask) != 0)
      field++;
    if (field == fields->count)
      return hr__fail(err, HR_FAILURE, reported->mask, NULL, "%s is over a field that there is not", reported->name);
    HR_TRY(hr__data_count(s->data, micro, field, &count, err));
    t->masked[i] += (double)count;
  }
  return HR_OK;
}

/* Factor on the sum of a loss or metric: of nothing, there is nothing to report. */
static float factor_of(const hr_session *s, int i, const totals *t) {
  const double by[] = {[HR_OVER_TARGETS] = 1,
                       [HR_OVER_DATA] = 1,
                       [HR_OVER_TOKENS] = t->tokens,
                       [HR_OVER_SAMPLES] = t->samples,
                       [HR_OVER_MASK] = t->masked[i]};
  double denominator = by[s->reports.list[i].over];
  return denominator > 0 ? (float)(1 / denominator) : 0;
}

/* Writes the factors into the batch of a slot. */
static void factors_put(const hr_session *s, const hr_micro *micro, int slot, const totals *t) {
  const hr_fields *fields = &s->fields[micro->bucket];
  size_t begin[HR_FIELDS];
  hr__fields_place(fields, begin);
  for (int f = 0; f < fields->count; f++)
    for (int i = 0; fields->list[f].purpose == HR_FOR_FACTOR && i < s->reports.count; i++)
      if (strcmp(fields->list[f].name, s->reports.list[i].name) == 0)
        *(float *)(s->slots[slot] + begin[f]) = factor_of(s, i, t);
}

/* Runs one batch and adds what it reports, while the one behind it (or NULL) is read. */
static hr_status batch_run(hr_session *s, const hr_driven *d, const hr_micro *micro, const hr_micro *behind,
                           hr_control *control, const totals *t, double values[HR_REPORTED], hr_error *err) {
  int slot = 0;
  hr_status filled = hr__reader_get(s->reader, micro, &slot, err);
  s->input_failed = filled != HR_OK; /* an update comes after the last batch of a step */
  HR_TRY(filled);
  if (behind) hr__reader_ahead(s->reader, behind);
  factors_put(s, micro, slot, t);
  hr__run_feed(s->run, slot);
  control->sample = micro->sample;
  control->valid_rows = (uint32_t)micro->rows;
  HR_TRY(hr__run_write(s->run, s->control, 0, control, sizeof *control, err));
  HR_TRY(hr__run_program(s->run, d->program, err));
  for (int i = 0; i < s->reports.count; i++) {
    double part;
    if (d->reported[i] == HR_NONE) continue;
    HR_TRY(scalar_read(s, d->reported[i], &part, err));
    values[i] += part * (double)factor_of(s, i, t);
  }
  return HR_OK;
}

/* Steps that were skipped do not count for the optimizer, so its corrections go by those that were applied. */
static hr_control control_at(const hr_session *s, int64_t step, double lr, double targets) {
  double applied = s->scales ? (double)(s->scaler.applied_steps + 1) : (double)step;
  return (hr_control){.seed = s->seed,
                      .step = (uint64_t)step,
                      .learning_rate = (float)lr,
                      .bias_correction1 = (float)(1 - pow(s->schedule.beta1, applied)),
                      .bias_correction2 = (float)(1 - pow(s->schedule.beta2, applied)),
                      .loss_weight = (float)(1 / targets),
                      .loss_scale = s->scales ? s->scaler.scale : 1};
}

static hr_status numbers_check(int64_t step, const hr_step_result *r, hr_error *err) {
  if (isfinite(r->loss) && isfinite(r->grad_norm)) return HR_OK;
  bool loss = !isfinite(r->loss);
  return hr__fail(err, HR_FAILURE, NULL,
                  "lower training.optimizer.lr or set training.clip_norm; --check-numerics names the first node",
                  "the %s of step %" PRId64 " is %s: training stopped, nothing was saved after it",
                  loss ? "loss" : "gradient norm", step, isnan(loss ? r->loss : r->grad_norm) ? "NaN" : "infinite");
}

/* Micro-batches of a step one after the other, and its update. Where a loss is not finite its gradients are not
 * either: an update of its own is not run then, and in one program the device has skipped it. */
static hr_status step_run(hr_session *s, int64_t micros, hr_control *control, const totals *t, hr_step_result *result,
                          hr_error *err) {
  bool last_step = control->step >= (uint64_t)s->schedule.steps;
  const hr_driven *last = NULL;
  for (int64_t m = 0; m < micros; m++) {
    uint64_t sample = s->sample + (uint64_t)(m * s->shape.batch);
    hr_micro micro = hr__data_micro(s->data, sample, false);
    hr_micro behind = hr__data_micro(s->data, sample + (uint64_t)s->shape.batch, false);
    last = m == 0 ? &s->micro[micro.bucket].first : &s->micro[micro.bucket].next;
    HR_TRY(
        batch_run(s, last, &micro, last_step && m == micros - 1 ? NULL : &behind, control, t, s->reports.values, err));
  }
  result->loss = hr__reports_loss(&s->reports);
  bool apart = s->update.program != HR_NONE;
  if (apart) last = &s->update;
  if (apart && !isfinite(result->loss)) {
    result->skipped = s->scales;
    return HR_OK;
  }
  if (apart) HR_TRY(hr__run_program(s->run, last->program, err));
  if (last->grad_norm != HR_NONE) HR_TRY(scalar_read(s, last->grad_norm, &result->grad_norm, err));
  result->grad_squares = last->grad_squares;
  if (!s->scales) return HR_OK;
  result->grad_norm /= (double)control->loss_scale;
  HR_TRY(hr__run_read(s->run, s->control, 0, control, sizeof *control, err));
  result->skipped = control->skip != 0;
  return HR_OK;
}

static hr_status scale_fell(const hr_session *s, int64_t step, hr_error *err) {
  char saved[64] = "nothing was saved before";
  if (s->saved > 0) snprintf(saved, sizeof saved, "the newest checkpoint is that of step %" PRId64, s->saved);
  return hr__fail(err, HR_FAILURE, NULL,
                  "lower training.optimizer.lr, set training.clip_norm, or use model.precision: bf16-mixed; "
                  "--check-numerics names the first node",
                  "the gradients of step %" PRId64 " overflow, as those of %" PRId64
                  " steps before it did, and the loss scale has fallen to %g: training stopped, %s",
                  step, s->scaler.skipped_in_a_row - 1, (double)s->scaler.scale, saved);
}

/* Makes groups anew where the next step is the first of an epoch that has its own. */
static hr_status groups_follow(hr_session *s, hr_error *err) {
  hr_groups *groups = hr__data_groups(s->data);
  uint64_t epoch;
  int64_t width;
  if (!groups || !hr__groups_due(groups, s->sample / s->batches.epoch_rows, &epoch)) return HR_OK;
  hr__reader_forget(s->reader);
  HR_TRY(hr__session_points(s, &width, err));
  hr__groups_make(groups, epoch, s->points);
  return HR_OK;
}

hr_status hr__session_step(hr_session *s, int64_t step, hr_step_result *result, hr_error *err) {
  *result = (hr_step_result){.lr = hr__schedule_lr(&s->schedule, step),
                             .loss_scale = s->scales ? s->scaler.scale : 0,
                             .grad_squares = HR_NONE};
  if (s->done != step - 1) s->sample = hr__batches_position(&s->batches, step - 1);
  HR_TRY(groups_follow(s, err));
  double begin = hr__seconds_now();
  int64_t micros = hr__batches_micros(&s->batches, s->sample);
  totals all = {0};
  for (int64_t m = 0; m < micros; m++) {
    hr_micro micro = hr__data_micro(s->data, s->sample + (uint64_t)(m * s->shape.batch), false);
    hr_status counted = totals_add(s, &micro, &all, err);
    s->input_failed = counted != HR_OK;
    HR_TRY(counted);
  }
  result->tokens = (int64_t)all.tokens;
  result->samples = (int64_t)all.samples;
  hr__reports_clear(&s->reports, false);
  hr_control control = control_at(s, step, result->lr, all.targets);
  HR_TRY(step_run(s, micros, &control, &all, result, err));
  s->done = step;
  s->sample += (uint64_t)(micros * s->shape.batch);
  result->seconds = hr__seconds_now() - begin;
  if (!result->skipped) HR_TRY(numbers_check(step, result, err));
  if (s->scales && !hr__scaler_note(&s->scaling, &s->scaler, result->skipped)) return scale_fell(s, step, err);
  return HR_OK;
}

/* Runs evaluations over the items of the data and reads the points that they make. */
static hr_status points_read(hr_session *s, hr_control *control, uint64_t items, int64_t of_a_row, hr_error *err) {
  double unused[HR_REPORTED];
  totals none = {0};
  hr_id points = hr__program_output(s->options->plan->graph, s->eval.program, HR_OUTPUT_POINTS);
  int64_t width = s->options->plan->graph->values[points].desc.dim[1];
  uint64_t batch = (uint64_t)(s->shape.batch * of_a_row);
  for (uint64_t first = 0; first < items; first += batch) {
    hr_micro micro = hr__data_items_micro(s->data, first);
    uint64_t count = items - first < batch ? items - first : batch;
    HR_TRY(batch_run(s, &s->eval, &micro, NULL, control, &none, unused, err));
    HR_TRY(hr__run_read(s->run, points, 0, s->points + first * (uint64_t)width, count * (uint64_t)width * sizeof(float),
                        err));
  }
  return HR_OK;
}

hr_status hr__session_points(hr_session *s, int64_t *width, hr_error *err) {
  int64_t of_a_row = 1;
  uint64_t items = hr__data_items(s->data, &of_a_row);
  *width = items == 0 ? 0 : points_width(s);
  if (*width == 0) return HR_OK;
  if (!s->points) s->points = hr__alloc_zero(items * (uint64_t)*width, sizeof *s->points);
  if (!s->points) return hr__nomem(err);
  hr_control control = control_at(s, s->done, 0, 1);
  return points_read(s, &control, items, of_a_row, err);
}

/* Metrics of all of the data, where the model has such. */
static hr_status points_judge(hr_session *s, hr_error *err) {
  int64_t width;
  hr_judged judged;
  HR_TRY(hr__session_points(s, &width, err));
  if (width == 0) return HR_OK;
  HR_TRY(hr__data_judge(s->data, s->points, width, &judged, err));
  if (judged.confusion) s->confusion = *judged.confusion;
  for (int i = 0; i < s->eval_reports.count; i++)
    for (int k = 0; k < judged.count; k++)
      if (strcmp(s->eval_reports.list[i].name, judged.metric[k].name) == 0)
        s->eval_reports.values[i] = judged.metric[k].value;
  return HR_OK;
}

hr_status hr__session_eval(hr_session *s, int64_t step, double *loss, hr_error *err) {
  totals all = {0}; /* of all batches: a loss is the mean over them, however they are spread */
  double batches = (double)s->eval_batches, *values = s->eval_reports.values;
  for (int64_t b = 0; b < s->eval_batches; b++) {
    hr_micro micro = hr__data_micro(s->data, (uint64_t)(b * s->shape.batch), true);
    HR_TRY(totals_add(s, &micro, &all, err));
  }
  hr_control control = control_at(s, step, 0, all.targets / batches);
  all.tokens /= batches;
  all.samples /= batches;
  for (int i = 0; i < s->reports.count; i++)
    all.masked[i] /= batches;
  hr__reports_clear(&s->eval_reports, true);
  for (int64_t b = 0; b < s->eval_batches; b++) {
    hr_micro micro = hr__data_micro(s->data, (uint64_t)(b * s->shape.batch), true);
    hr_micro behind = hr__data_micro(s->data, (uint64_t)((b + 1) * s->shape.batch), true);
    if (b + 1 == s->eval_batches) behind = hr__data_micro(s->data, s->sample, false); /* training goes on there */
    HR_TRY(batch_run(s, &s->eval, &micro, &behind, &control, &all, values, err));
  }
  for (int i = 0; i < s->reports.count; i++)
    values[i] /= batches; /* those of all of the data are not there yet */
  HR_TRY(points_judge(s, err));
  *loss = hr__reports_loss(&s->eval_reports);
  hr__best_note(&s->best_rule, &s->best, step, hr__best_metric(&s->best_rule, *loss, &s->eval_reports));
  return HR_OK;
}

uint64_t hr__session_planned_bytes(const hr_session *s) {
  const hr_plan *plan = s->options->plan;
  uint64_t bytes = plan->tiers[HR_TIER_DEVICE].peak_bytes;
  if (plan->facts.kind == HR_CPU) bytes += plan->tiers[HR_TIER_HOST].peak_bytes + s->data_bytes;
  if (bytes < s->features_bytes) bytes = s->features_bytes;
  if (plan->facts.kind != HR_CPU) return bytes;
  return bytes > s->reading_bytes ? bytes : s->reading_bytes;
}

bool hr__within_plan(uint64_t planned_bytes, uint64_t measured_bytes) {
  uint64_t part = planned_bytes / 50, least = (uint64_t)16 << 20;
  return measured_bytes <= planned_bytes || measured_bytes - planned_bytes <= (part > least ? part : least);
}

hr_status hr__session_check_peak(const hr_session *s, uint64_t measured, hr_error *err) {
#ifdef HR_ASAN
  measured = 0; /* a sanitizer's own memory is nobody's plan */
#endif
  uint64_t planned = hr__session_planned_bytes(s);
  if (!s->options->check_peak || hr__within_plan(planned, measured)) return HR_OK;
  char planned_text[HR_SIZE_TEXT], measured_text[HR_SIZE_TEXT];
  return hr__fail(err, HR_ABOVE_PLAN, NULL, "please report this with the recipe; memory.margin makes room meanwhile",
                  "the process held %s, the plan said %s", hr__size_text(measured, measured_text),
                  hr__size_text(planned, planned_text));
}
