/* See session.h. */
#include "train/session.h"

#include <inttypes.h>
#include <math.h>
#include <time.h>

#include "base/text.h"
#include "model/weights.h"
#include "plan/memory.h"

double hr__seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static hr_driven driven_find(const hr_graph *graph, const char *name) {
  hr_driven d = {HR_NONE, HR_NONE, HR_NONE, HR_NONE, HR_NONE};
  d.program = hr__graph_find_program(graph, name);
  if (d.program == HR_NONE) return d;
  d.tokens = hr__program_input(graph, d.program, "tokens");
  d.targets = hr__program_input(graph, d.program, "targets");
  d.loss = hr__program_output(graph, d.program, "loss");
  d.grad_norm = hr__program_output(graph, d.program, "grad_norm");
  return d;
}

static hr_status programs_find(hr_session *s, hr_error *err) {
  const hr_graph *graph = s->options->plan->graph;
  s->step = driven_find(graph, "step");
  s->first = driven_find(graph, "micro_first");
  s->next = driven_find(graph, "micro_next");
  s->update = driven_find(graph, "update");
  s->eval = driven_find(graph, "eval");
  s->control = hr__graph_find_value(graph, "control");
  bool whole = s->shape.accumulation == 1 && s->step.loss != HR_NONE;
  bool parts =
      s->shape.accumulation > 1 && s->first.loss != HR_NONE && s->next.loss != HR_NONE && s->update.program != HR_NONE;
  if (s->control == HR_NONE || !(whole || parts) || (s->shape.eval && s->eval.loss == HR_NONE))
    return hr__fail(err, HR_FAILURE, NULL, NULL, "the plan does not hold the programs that this recipe trains with");
  return HR_OK;
}

static hr_status session_build(hr_session *s, bool time_nodes, hr_error *err) {
  const hr_train_options *o = s->options;
  HR_TRY(hr__model_find(o->recipe, &s->model, err));
  HR_TRY(hr__training_shape(o->recipe, &s->shape, err));
  s->seed = (uint64_t)hr__recipe_int(o->recipe, "training.seed");
  s->eval_batches = hr__recipe_int(o->recipe, "training.eval_batches");
  hr__schedule_read(o->recipe, o->steps, &s->schedule);
  HR_TRY(programs_find(s, err));
  hr_data_shape shape = {
      .length = s->shape.length, .vocabulary = s->model->vocabulary(o->recipe), .seed = s->seed, .eval = s->shape.eval};
  HR_TRY(hr__data_open(o->recipe, &shape, &s->data, err));
  hr_run_options options = {
      .check_numerics = o->check_numerics, .time_nodes = time_nodes, .folder = hr__memory_folder(o->recipe)};
  HR_TRY(hr__run_create(o->plan, o->device, &options, &s->run, err));
  HR_TRY(hr__tensors_create(s->run, &s->tensors, err));
  if (o->device->facts.kind != HR_CPU) {
    s->staging = hr__alloc_zero(2 * (size_t)(s->shape.batch * s->shape.length), sizeof *s->staging);
    if (!s->staging) return hr__nomem(err);
  }
  return HR_OK;
}

hr_status hr__session_create(const hr_train_options *options, bool time_nodes, hr_session *session, hr_error *err) {
  *session = (hr_session){.options = options};
  hr_status status = session_build(session, time_nodes, err);
  if (status != HR_OK) hr__session_destroy(session);
  return status;
}

void hr__session_destroy(hr_session *session) {
  hr__free(session->staging);
  hr__tensors_destroy(&session->tensors);
  hr__run_destroy(session->run);
  hr__data_close(session->data);
  *session = (hr_session){0};
}

int64_t hr__session_step_tokens(const hr_session *s) {
  return s->shape.batch * s->shape.length * s->shape.accumulation;
}

/* Fills one batch of a program: samples [sample, sample + batch). */
static hr_status batch_fill(hr_session *s, const hr_driven *d, uint64_t sample, bool eval, hr_error *err) {
  size_t length = (size_t)s->shape.length, rows = (size_t)s->shape.batch, bytes = rows * length * sizeof(int32_t);
  int32_t *tokens = s->staging ? s->staging : hr__run_address(s->run, d->tokens);
  int32_t *targets = s->staging ? s->staging + rows * length : hr__run_address(s->run, d->targets);
  for (size_t row = 0; row < rows; row++)
    HR_TRY((eval ? hr__data_eval_row : hr__data_train_row)(s->data, sample + row, tokens + row * length,
                                                           targets + row * length, err));
  if (!s->staging) return HR_OK;
  HR_TRY(hr__run_write(s->run, d->tokens, 0, tokens, bytes, err));
  return hr__run_write(s->run, d->targets, 0, targets, bytes, err);
}

static hr_status scalar_read(hr_session *s, hr_id value, double *out, hr_error *err) {
  float number;
  HR_TRY(hr__run_read(s->run, value, 0, &number, sizeof number, err));
  *out = (double)number;
  return HR_OK;
}

/* Fills, runs and reads the loss of one batch. */
static hr_status batch_run(hr_session *s, const hr_driven *d, hr_control *control, bool eval, double *loss,
                           hr_error *err) {
  HR_TRY(batch_fill(s, d, control->sample, eval, err));
  HR_TRY(hr__run_write(s->run, s->control, 0, control, sizeof *control, err));
  HR_TRY(hr__run_program(s->run, d->program, err));
  return scalar_read(s, d->loss, loss, err);
}

static hr_control control_at(const hr_session *s, int64_t step, double lr, int64_t tokens) {
  return (hr_control){.seed = s->seed,
                      .step = (uint64_t)step,
                      .learning_rate = (float)lr,
                      .bias_correction1 = (float)(1 - pow(s->schedule.beta1, (double)step)),
                      .bias_correction2 = (float)(1 - pow(s->schedule.beta2, (double)step)),
                      .loss_weight = (float)(1 / (double)tokens),
                      .loss_scale = 1,
                      .valid_rows = (uint32_t)s->shape.batch};
}

static hr_status numbers_check(int64_t step, const hr_step_result *r, hr_error *err) {
  if (isfinite(r->loss) && isfinite(r->grad_norm)) return HR_OK;
  bool loss = !isfinite(r->loss);
  return hr__fail(err, HR_FAILURE, NULL,
                  "lower training.optimizer.lr or set training.clip_norm; --check-numerics names the first node",
                  "the %s of step %" PRId64 " is %s: training stopped, nothing was saved after it",
                  loss ? "loss" : "gradient norm", step, isnan(loss ? r->loss : r->grad_norm) ? "NaN" : "infinite");
}

hr_status hr__session_step(hr_session *s, int64_t step, hr_step_result *result, hr_error *err) {
  double begin = hr__seconds_now();
  *result = (hr_step_result){.lr = hr__schedule_lr(&s->schedule, step)};
  hr_control control = control_at(s, step, result->lr, hr__session_step_tokens(s));
  uint64_t effective = (uint64_t)(s->shape.batch * s->shape.accumulation);
  control.sample = (uint64_t)(step - 1) * effective;
  const hr_driven *last = &s->step;
  if (s->shape.accumulation == 1) {
    HR_TRY(batch_run(s, &s->step, &control, false, &result->loss, err));
  } else {
    for (int64_t micro = 0; micro < s->shape.accumulation; micro++) {
      double part;
      HR_TRY(batch_run(s, micro == 0 ? &s->first : &s->next, &control, false, &part, err));
      result->loss += part;
      control.sample += (uint64_t)s->shape.batch;
    }
    last = &s->update;
    if (isfinite(result->loss)) HR_TRY(hr__run_program(s->run, last->program, err));
  }
  if (isfinite(result->loss) && last->grad_norm != HR_NONE)
    HR_TRY(scalar_read(s, last->grad_norm, &result->grad_norm, err));
  result->seconds = hr__seconds_now() - begin;
  return numbers_check(step, result, err);
}

hr_status hr__session_eval(hr_session *s, int64_t step, double *loss, hr_error *err) {
  hr_control control = control_at(s, step, 0, s->shape.batch * s->shape.length);
  double sum = 0;
  for (int64_t b = 0; b < s->eval_batches; b++) {
    double part;
    HR_TRY(batch_run(s, &s->eval, &control, true, &part, err));
    sum += part;
    control.sample += (uint64_t)s->shape.batch;
  }
  *loss = sum / (double)s->eval_batches;
  return HR_OK;
}

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

hr_status hr__session_begin(hr_session *s, hr_error *err) {
  const hr_recipe *recipe = s->options->recipe;
  hr_weights *weights = NULL;
  if (hr__recipe_has(recipe, "model.path"))
    HR_TRY(hr__weights_open(hr__recipe_text(recipe, "model.path"), s->options->plan->graph, &weights, err));
  hr_status status = hr__run_init_values(s->run, s->seed, err);
  for (size_t i = 0; status == HR_OK && weights && i < s->tensors.n_parameters; i++)
    status = weight_load(s, weights, s->tensors.parameters[i], err);
  hr__weights_close(weights);
  return status;
}

uint64_t hr__session_planned_bytes(const hr_session *s) {
  const hr_plan *plan = s->options->plan;
  uint64_t bytes = plan->tiers[HR_TIER_DEVICE].peak_bytes;
  if (plan->facts.kind == HR_CPU) bytes += plan->tiers[HR_TIER_HOST].peak_bytes;
  return bytes;
}

bool hr__within_plan(uint64_t planned_bytes, uint64_t measured_bytes) {
  uint64_t part = planned_bytes / 50, least = (uint64_t)16 << 20;
  return measured_bytes <= planned_bytes + (part > least ? part : least);
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
