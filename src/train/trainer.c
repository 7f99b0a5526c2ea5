/* The training loop: steps, log lines, evaluations and checkpoints, until the end or a signal. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/work.h"
#include "plan/memory.h"
#include "train/diary.h"
#include "train/identity.h"
#include "train/log_lines.h"
#include "train/norms.h"
#include "train/progress.h"
#include "train/readme.h"
#include "train/room.h"
#include "train/samples.h"
#include "train/saving.h"
#include "train/session.h"
#include "train/signals.h"
#include "train/train.h"

typedef struct trainer {
  const hr_train_options *options;
  hr_session session;
  hr_store store;
  hr_log log;
  hr_diary diary;
  hr_progress progress;
  hr_samples samples;
  hr_norms norms;
  hr_arena arena;       /* settings and the texts of checkpoints: made once */
  hr_manifest manifest; /* all but step and files */
  hr_saving saving;
  int64_t eval_every, log_every; /* 0: never */
  int64_t step;                  /* last one done */
  int64_t saved;                 /* step of the newest checkpoint; 0: none */
  bool without_room;             /* the last save found none */
  bool data_told;                /* the data has changed meanwhile, which was told */
} trainer;

static int64_t interval_read(const hr_recipe *recipe, const char *path) {
  return hr__recipe_has(recipe, path) ? hr__recipe_int(recipe, path) : 0;
}

/* What every checkpoint of this run says about it. */
static hr_status identity_make(trainer *t, hr_error *err) {
  hr_session *s = &t->session;
  hr_manifest *m = &t->manifest;
  m->seed = (int64_t)s->seed;
  memcpy(m->fingerprint, t->options->plan->fingerprint, sizeof m->fingerprint);
  HR_TRY(hr__identity_list(t->options->recipe, s->data, &s->shape, s->handover.hash, s->features, &t->arena,
                           &m->settings, &m->n_settings, err));
  HR_TRY(hr__settings_hash(m->settings, m->n_settings, m->recipe_hash, err));
  HR_TRY(hr__run_files(t->options->recipe, &s->tensors, &t->arena, &t->store.files, err));
  hr_groups *groups = hr__data_groups(s->data);
  if (groups) hr__run_files_add(&t->store.files, HR_FILE_GROUPS, groups->saved, hr__groups_saved_bytes(groups));
  hr__run_names_add(&t->store.names, &t->store.files);
  return HR_OK;
}

/* Frozen weights come again from where they came from at first, and must be the same ones. */
static hr_status trainer_load_frozen(trainer *t, hr_error *err) {
  const char *was = t->store.state.base, *is = t->session.base;
  HR_TRY(hr__session_begin_frozen(&t->session, err));
  if (strcmp(was, is) == 0) return HR_OK;
  return hr__fail(err, HR_USAGE, t->store.out,
                  "point model.path to the weights it was begun with, or train into another --out",
                  "this run was begun with other frozen weights than %s",
                  *is ? "those in model.path now" : "those of a fresh model");
}

/* Weights and state: from the newest good checkpoint where one is to be resumed, else from the beginning. */
static hr_status trainer_load(trainer *t, hr_error *err) {
  if (t->options->out && t->options->resume) {
    hr_work loading;
    hr__work_begin(&loading, t->options->progress, "loading the checkpoint", 0);
    hr_status loaded = hr__checkpoint_load(&t->store, &t->session.tensors, t->manifest.settings, t->manifest.n_settings,
                                           &t->step, err);
    hr__work_end(&loading);
    HR_TRY(loaded);
  }
  if (t->step > t->session.schedule.steps)
    return hr__fail(err, HR_USAGE, t->store.out, "raise training.steps (--steps)",
                    "this run has done %" PRId64 " steps already, more than the %" PRId64 " of training.steps", t->step,
                    t->session.schedule.steps);
  t->saved = t->session.saved = t->step;
  if (t->step == 0) return hr__session_begin(&t->session, err);
  if (t->session.tensors.frozen) HR_TRY(trainer_load_frozen(t, err));
  hr__store_tell(&t->store, HR_MESSAGE_INFO, "resumed at step %" PRId64, t->step);
  return HR_OK;
}

/* A run that ends against its will says what is left of it, where, and how to go on. */
static hr_status tell_what_is_saved(const trainer *t, hr_status status, hr_error *err) {
  if (!err || !t->options->out) return status;
  size_t used = strlen(err->remedy);
  char *to = err->remedy + used, path[HR_STORE_PATH];
  const char *mark = used > 0 ? "; " : "";
  if (t->saved > 0)
    snprintf(to, sizeof err->remedy - used,
             "%sthe checkpoint of step %" PRId64 " is whole: go on from it with --resume (%s)", mark, t->saved,
             hr__store_path(&t->store, t->saved, NULL, path));
  else
    snprintf(to, sizeof err->remedy - used, "%snothing is saved yet", mark);
  return status;
}

static hr_status trainer_open_log(trainer *t, hr_error *err) {
  const hr_plan *plan = t->options->plan;
  hr_budget budget;
  HR_TRY(hr__memory_budget(t->options->recipe, &plan->facts, &budget, err));
  uint64_t data[HR_TIER_COUNT] = {0};
  data[plan->facts.kind == HR_CPU ? HR_TIER_DEVICE : HR_TIER_HOST] = t->session.data_bytes; /* as hr__diary_memory */
  hr_log_header header = {
      .recipe = hr__recipe_name(t->options->recipe),
      .fingerprint = plan->fingerprint,
      .resumed = t->store.fingerprint,
      .planned_bytes = hr__session_planned_bytes(&t->session),
      .steps = t->session.schedule.steps,
      .device = plan->facts.name,
      .kind = plan->facts.kind == HR_CPU ? "cpu" : "cuda",
      .step_seconds = plan->step_seconds,
      .tiers = {{plan->tiers[HR_TIER_DEVICE].peak_bytes + data[HR_TIER_DEVICE], budget.budget_bytes},
                {plan->tiers[HR_TIER_HOST].peak_bytes + data[HR_TIER_HOST], budget.host_bytes},
                {plan->tiers[HR_TIER_DISK].peak_bytes, budget.disk_bytes}},
  };
  return hr__log_open(&t->log, &t->store, t->step, &header, err);
}

static void board_lost(void *user, const char *path, const char *why) {
  const trainer *t = user;
  hr__store_tell(&t->store, HR_MESSAGE_WARNING,
                 "TensorBoard's events end here: %s: %s; log.jsonl has all, and "
                 "headroom log --tensorboard makes events of it",
                 path, why);
}

static hr_status trainer_open(trainer *t, hr_error *err) {
  const hr_train_options *o = t->options;
  HR_TRY(hr__run_names(o->recipe, &t->arena, &t->store.names, err));
  if (o->out) HR_TRY(hr__store_open(&t->store, o, err));
  HR_TRY(hr__run_files_open(o->recipe, &t->arena, &t->store.files, err));
  double begin = hr__seconds_now();
  HR_TRY(hr__session_create(o, false, &t->session, err));
  HR_TRY(identity_make(t, err));
  hr__diary_phase(&t->diary, HR_PHASE_PREPARE, begin);
  begin = hr__seconds_now();
  HR_TRY(trainer_load(t, err));
  hr__diary_phase(&t->diary, HR_PHASE_LOAD, begin);
  if (t->step > 0) hr__session_resume(&t->session, t->step, &t->store.state);
  HR_TRY(hr__samples_open(&t->session, &t->samples, err));
  HR_TRY(hr__norms_open(&t->session, &t->norms, err));
  if (hr__data_cut(t->session.data) > 0)
    hr__store_tell(&t->store, HR_MESSAGE_INFO, "%" PRId64 " samples are longer than data.sequence_length and were cut",
                   hr__data_cut(t->session.data));
  if (t->session.remark[0]) hr__store_tell(&t->store, HR_MESSAGE_WARNING, "%s", t->session.remark);
  for (int eval = 0; eval < 2; eval++) {
    const char *remark = hr__data_remark(t->session.data, eval);
    if (remark) hr__store_tell(&t->store, HR_MESSAGE_INFO, "%s%s", eval ? "data.eval_path: " : "", remark);
  }
  t->eval_every = interval_read(o->recipe, "training.eval_every");
  t->log_every = interval_read(o->recipe, "training.log_every");
  if (!o->out) return HR_OK;
  if (t->step < t->session.schedule.steps) {
    hr_status room = hr__room_check(&t->store, &t->session.tensors, err);
    if (room != HR_OK) return tell_what_is_saved(t, room, err);
  }
  HR_TRY(hr__store_create(&t->store, err));
  HR_TRY(trainer_open_log(t, err));
  if (t->step == t->session.schedule.steps) return HR_OK;
  hr__readme_write(t->store.out, hr__recipe_name(o->recipe));
  if (hr__recipe_bool(o->recipe, "training.tensorboard"))
    t->log.board = hr__board_open(t->store.out, t->step, board_lost, t);
  hr__diary_begin(&t->diary, t->step, t->session.schedule.steps);
  return HR_OK;
}

static void trainer_close(trainer *t) {
  hr__progress_end(&t->progress);
  hr__diary_close(&t->diary);
  hr__board_close(t->log.board);
  t->log.board = NULL;
  hr__log_close(&t->log);
  hr__samples_close(&t->samples);
  hr__norms_close(&t->norms);
  hr__session_destroy(&t->session);
  hr__run_files_close(&t->store.files);
  hr__store_close(&t->store);
  hr__arena_fini(&t->arena);
}

/* A save that found no room: the run goes on, and tries again. */
static void save_postponed(trainer *t, const hr_error *why) {
  char last[96] = "nothing is saved yet", size[HR_SIZE_TEXT];
  if (t->saved > 0) snprintf(last, sizeof last, "the checkpoint of step %" PRId64 " is whole", t->saved);
  t->without_room = true;
  hr__saving_postpone(&t->saving, hr__seconds_now());
  hr__store_tell(&t->store, HR_MESSAGE_WARNING,
                 "STEP %" PRId64 " IS NOT SAVED: %s: %s. Training goes on; %s. Make room for %s: saving is tried again "
                 "with the next checkpoint, in %d minutes at the latest",
                 t->step, why->place, why->message, last, hr__size_text(t->store.checkpoint_bytes, size),
                 HR_SAVE_AGAIN_MINUTES);
}

/* A run reads on in a file that was removed or replaced meanwhile; one that is resumed cannot. */
static void data_look(trainer *t) {
  const hr_data_file *file;
  const char *fate = NULL;
  for (int eval = 0; eval < 2 && !t->data_told && !fate; eval++)
    for (size_t i = 0; !fate && (file = hr__data_file(t->session.data, eval, i)); i++)
      fate = hr__data_file_fate(file);
  if (!fate) return;
  t->data_told = true;
  hr__store_tell(&t->store, HR_MESSAGE_WARNING,
                 "%s %s since this run was begun. To resume, put back what was there, or use --accept-changed-data",
                 file->path, fate);
}

/* `last`: no other save follows. */
static hr_status trainer_save(trainer *t, bool last, hr_error *err) {
  if (!t->options->out || t->saved == t->step) return HR_OK;
  hr_error why = {0};
  double begin = hr__seconds_now();
  t->manifest.step = t->step;
  t->manifest.state = hr__session_state(&t->session);
  hr_status status = hr__log_sync(&t->log, &why);
  hr_work saving;
  hr__work_begin(&saving, t->options->progress, "saving", t->store.checkpoint_bytes);
  if (status == HR_OK) status = hr__checkpoint_save(&t->store, &t->session.tensors, &t->manifest, &why);
  hr__work_end(&saving);
  if (status == HR_NO_SPACE && !last) {
    save_postponed(t, &why);
    return HR_OK;
  }
  if (status != HR_OK) {
    if (err) *err = why;
    return tell_what_is_saved(t, status, err);
  }
  hr__diary_saved(&t->diary, t->step, hr__diary_phase(&t->diary, HR_PHASE_SAVE, begin), t->store.checkpoint_bytes);
  if (t->without_room)
    hr__store_tell(&t->store, HR_MESSAGE_INFO, "there is room again: step %" PRId64 " is saved", t->step);
  t->without_room = false;
  hr__saving_done(&t->saving, hr__seconds_now());
  t->saved = t->session.saved = t->step;
  data_look(t);
  return HR_OK;
}

/* Data that can no longer be read ends a run, but loses none of it: the steps done are saved first. */
static hr_status input_failed(trainer *t, hr_status status, hr_error *err) {
  hr_error why = {0};
  hr_status saved = trainer_save(t, true, &why);
  if (saved != HR_OK)
    hr__store_tell(&t->store, HR_MESSAGE_WARNING, "step %" PRId64 " could not be saved: %s: %s", t->step, why.place,
                   why.message);
  return tell_what_is_saved(t, status, err);
}

static void trainer_draw(trainer *t, double loss, const hr_train_result *result) {
  if (!hr__progress_due(&t->progress)) return;
  hr_progress_state state = {.step = t->step, .steps = t->session.schedule.steps, .loss = loss};
  state.reports = &t->session.reports;
  if (result->seconds > 0) {
    state.tokens_per_second = (double)result->tokens / result->seconds;
    state.samples_per_second = (double)result->samples / result->seconds;
  }
  hr_error ignored;
  hr_device *device = t->options->device;
  if (device->facts.kind == HR_CPU)
    state.memory_bytes = hr__diary_resident(&t->diary);
  else if (device->functions->process_bytes(device, &state.memory_bytes, &ignored) != HR_OK)
    state.memory_bytes = 0;
  hr__progress_draw(&t->progress, &state);
}

static bool is_stopped(void *unused) {
  (void)unused;
  return hr__signals_caught() != 0;
}

static hr_status trainer_eval(trainer *t, hr_train_result *result, hr_error *err) {
  double begin = hr__seconds_now();
  HR_TRY(hr__session_eval(&t->session, t->step, &result->eval_loss, err));
  hr__reports_keep(&result->reports, &t->session.eval_reports);
  result->eval_reports = t->session.eval_reports;
  result->confusion = t->session.confusion;
  if (!isfinite(result->eval_loss))
    hr__store_tell(&t->store, HR_MESSAGE_WARNING, "the held-out loss after step %" PRId64 " is not finite", t->step);
  double seconds = hr__diary_phase(&t->diary, HR_PHASE_EVALUATE, begin);
  return hr__log_eval(&t->log, t->step, result->eval_loss, &t->session.eval_reports, seconds, err);
}

/* Whether the run ends before its last step, since no evaluation gets better. Told once. */
static bool trainer_gives_up(trainer *t) {
  const hr_best *best = &t->session.best;
  if (t->step == t->session.schedule.steps || !hr__best_over(&t->session.best_rule, best)) return false;
  if (best->step > 0)
    hr__store_tell(&t->store, HR_MESSAGE_INFO,
                   "stopped early after step %" PRId64 ": the last %" PRId64
                   " evaluations were no better than that of step %" PRId64 " (%s %.4f)",
                   t->step, best->waited, best->step, t->session.best_rule.metric, best->value);
  else
    hr__store_tell(&t->store, HR_MESSAGE_WARNING,
                   "stopped early after step %" PRId64 ": none of %" PRId64 " evaluations gave a finite %s", t->step,
                   best->waited, t->session.best_rule.metric);
  return true;
}

/* One step with all that follows from it; *stop is set when it was the last one here. */
static hr_status trainer_step(trainer *t, hr_train_result *result, bool *stop, hr_error *err) {
  hr_step_result step;
  HR_TRY(hr__session_step(&t->session, t->step + 1, &step, err));
  t->step++;
  result->steps_here++;
  if (!step.skipped) {
    result->loss = step.loss;
    hr_reports before = result->reports;
    result->reports = t->session.reports;
    hr__reports_keep(&result->reports, &before);
  }
  result->tokens += step.tokens;
  result->samples += step.samples;
  result->seconds += step.seconds;
  t->diary.phases[HR_PHASE_STEPS] += step.seconds;
  if (t->step % t->log_every == 0) {
    hr_log_step line = {.step = t->step,
                        .loss = step.loss,
                        .lr = step.lr,
                        .grad_norm = step.grad_norm,
                        .seconds = step.seconds,
                        .tokens = step.tokens,
                        .samples = step.samples,
                        .reports = &t->session.reports,
                        .loss_scale = step.loss_scale,
                        .skipped = step.skipped};
    hr_status status = hr__log_step(&t->log, &line, err);
    if (status != HR_OK) return tell_what_is_saved(t, status, err);
  }
  HR_TRY(hr__norms_put(&t->norms, &t->session, t->step, &step, t->log.board, err));
  if (t->eval_every > 0 && t->step % t->eval_every == 0) HR_TRY(trainer_eval(t, result, err));
  if (t->samples.every > 0 && t->step % t->samples.every == 0) {
    double begin = hr__seconds_now();
    HR_TRY(hr__samples_make(&t->samples, t->step, &t->store, &t->log, t->options->handle_signals ? is_stopped : NULL,
                            err));
    hr__diary_phase(&t->diary, HR_PHASE_GENERATE, begin);
  }
  hr__diary_memory(&t->diary, t->step, t->session.run, t->options->device);
  result->stopped_early = trainer_gives_up(t);
  *stop = result->stopped_early || t->step == t->session.schedule.steps || t->step == t->options->stop_at ||
          (t->options->handle_signals && hr__signals_caught() != 0);
  bool best = t->store.save_best && t->session.best.step == t->step;
  if (*stop || best || hr__saving_due(&t->saving, t->step, hr__seconds_now())) HR_TRY(trainer_save(t, *stop, err));
  trainer_draw(t, step.loss, result);
  return HR_OK;
}

static hr_status trainer_loop(trainer *t, hr_train_result *result, hr_error *err) {
  hr__progress_begin(&t->progress, t->options->progress, t->step);
  hr__saving_begin(&t->saving, t->options->recipe, hr__seconds_now());
  result->stopped_early = trainer_gives_up(t); /* resumed where it had */
  bool stop = result->stopped_early || t->step >= t->session.schedule.steps;
  if (!stop) trainer_draw(t, 0, result); /* the first step may take long */
  while (!stop) {
    hr_status status = trainer_step(t, result, &stop, err);
    if (status != HR_OK) return t->session.input_failed ? input_failed(t, status, err) : status;
  }
  hr__progress_clear(&t->progress);
  return HR_OK;
}

static hr_status result_fill(trainer *t, hr_train_result *result, hr_error *err) {
  hr_device *device = t->options->device;
  result->steps = t->step;
  result->best = t->session.best;
  result->best_metric = t->session.best_rule.metric;
  result->planned_bytes = hr__session_planned_bytes(&t->session);
  result->arena_bytes = hr__run_arena_bytes(t->session.run, HR_TIER_DEVICE);
  if (result->seconds > 0) {
    result->tokens_per_second = (double)result->tokens / result->seconds;
    result->samples_per_second = (double)result->samples / result->seconds;
  }
  HR_TRY(hr__tensors_sha256(&t->session.tensors, result->weights_sha256, err));
  hr__run_resident(t->session.run, result->resident);
  return device->functions->process_bytes(device, &result->measured_bytes, err);
}

static hr_status trainer_run(trainer *t, hr_train_result *result, hr_error *err) {
  HR_TRY(trainer_open(t, err));
  if (t->options->begins) t->options->begins(t->options->message_user);
  HR_TRY(trainer_loop(t, result, err));
  HR_TRY(result_fill(t, result, err));
  int signal_number = t->options->handle_signals ? hr__signals_caught() : 0;
  if (signal_number != 0 && t->step < t->session.schedule.steps) {
    hr_stop_signal stop = hr__signal_meaning(signal_number);
    return hr__fail(err, stop.status, t->options->out, t->options->out ? "go on with --resume" : NULL,
                    "stopped by %s after step %" PRId64 "%s", stop.name, t->step,
                    t->options->out ? ", which is saved" : "");
  }
  return hr__session_check_peak(&t->session, result->measured_bytes, err);
}

/* On a terminal the bar gives way to a message. */
static void message_pass(void *user, hr_message_kind kind, const char *text) {
  trainer *t = user;
  hr__progress_clear(&t->progress);
  hr__work_clear();
  if (kind == HR_MESSAGE_WARNING) hr__diary_warning(&t->diary, t->step, text);
  if (t->options->message) t->options->message(t->options->message_user, kind, text);
}

hr_status hr__train(const hr_train_options *options, hr_train_result *result, hr_error *err) {
  trainer *t = hr__alloc_zero(1, sizeof *t); /* paths make it too large for the stack */
  if (!t) return hr__nomem(err);
  t->options = options;
  t->store = (hr_store){.lock = -1, .message = message_pass, .message_user = t};
  hr__diary_open(&t->diary, &t->log);
  t->log.fd = -1;
  *result = (hr_train_result){.eval_loss = -1};
  if (options->handle_signals) hr__signals_begin();
  hr_status status = trainer_run(t, result, err);
  if (options->handle_signals) hr__signals_end();
  hr__diary_end(&t->diary, t->step, status,
                status != HR_OK && err  ? err->message
                : result->stopped_early ? "stopped early"
                                        : NULL,
                result->measured_bytes);
  trainer_close(t);
  hr__free(t);
  return status;
}
