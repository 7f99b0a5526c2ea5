/* job: see job.h. */
#include "job/job.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "data/codec.h"
#include "data/masking.h"
#include "data/packing.h"
#include "data/tokens.h"
#include "fit/traffic.h"
#include "job/engine_plan.h"
#include "job/loadable.h"
#include "job/settings.h"
#include "model/features.h"
#include "model/generation.h"
#include "plan/memory.h"

/* A GPU that is not here can still be planned for. */
static hr_status cuda_open(hr_device **out, hr_error *err) {
  hr_status status = hr__cuda_open(out, err);
  if (status != HR_UNSUPPORTED || !err) return status;
  hr_error why = *err;
  char remedy[sizeof why.remedy + 96];
  snprintf(remedy, sizeof remedy, "%s%sheadroom plan --gpu NAME plans for a GPU that is not here", why.remedy,
           *why.remedy ? "; " : "");
  return hr__fail(err, status, why.place, remedy, "%s", why.message);
}

/* Facts of the CPU and of the catalogue need no open device; those of a GPU that is here come from the plug-in, unless
 * they are `known` (NULL: not): what it holds before a run is to be the same for a recipe and for changes of it. */
static hr_status job_facts(hr_job *job, const hr_facts *known, hr_error *err) {
  if (known && known->kind == hr__memory_device(job->recipe)) {
    job->facts = *known;
    return HR_OK;
  }
  if (hr__memory_gpu(job->recipe)) return hr__memory_gpu_facts(job->recipe, &job->facts, err);
  if (hr__memory_device(job->recipe) == HR_CPU) {
    hr_generation generation;
    hr__cpu_facts(&job->facts);
    job->facts.fixed_bytes += hr__tokens_threads_bytes(job->recipe);
    HR_TRY(hr__generation_read(job->recipe, &generation, err));
    if (generation.any) job->facts.fixed_bytes += hr__codec_bytes(job->recipe).open; /* it stays open */
    return HR_OK;
  }
  hr_device *device;
  HR_TRY(cuda_open(&device, err));
  job->facts = device->facts;
  hr__device_close(device);
  return HR_OK;
}

static hr_status job_rates(hr_job *job, hr_error *err) {
  if (job->facts.absent)
    hr__rates_default(&job->facts, &job->rates);
  else
    HR_TRY(hr__rates_load(&job->facts, &job->rates, err));
  if (job->facts.kind == HR_CPU) return HR_OK;
  hr_facts host;
  hr__cpu_facts(&host);
  HR_TRY(hr__rates_load(&host, &job->host_rates, err));
  job->rates.host = &job->host_rates;
  return HR_OK;
}

/* With `more` overrides behind its own. */
static hr_status source_copy(hr_job *job, const hr_job_source *source, const char *const *more, size_t n_more,
                             hr_error *err) {
  size_t count = source->n_overrides + n_more;
  const char **overrides = hr__arena_array(&job->arena, count, sizeof *overrides);
  const char *path = hr__arena_text(&job->arena, source->path);
  if (!path || !overrides) return hr__nomem(err);
  for (size_t i = 0; i < count; i++) {
    const char *text = i < source->n_overrides ? source->overrides[i] : more[i - source->n_overrides];
    overrides[i] = hr__arena_text(&job->arena, text);
    if (!overrides[i]) return hr__nomem(err);
  }
  job->source = (hr_job_source){path, overrides, count};
  return HR_OK;
}

/* Loads a setting of the space that the recipe leaves open. Job and source are only read: several threads do this. */
static hr_status setting_load(void *user, const char *const *overrides, size_t count, hr_recipe **recipe, hr_open *open,
                              hr_error *err) {
  const hr_job *job = user;
  const hr_job_source *source = &job->source;
  hr_arena arena;
  hr__arena_init(&arena);
  const char **all = hr__arena_array(&arena, source->n_overrides + count + 1, sizeof *all);
  hr_status status = all ? HR_OK : hr__nomem(err);
  if (status == HR_OK) {
    memcpy(all, source->overrides, source->n_overrides * sizeof *all);
    memcpy(all + source->n_overrides, overrides, count * sizeof *all);
    status = hr__settings_load(source->path, all, source->n_overrides + count, recipe, err);
  }
  hr__arena_fini(&arena);
  HR_TRY(status);
  hr_training_shape shape;
  hr_budget budget;
  HR_TRY(hr__training_shape(*recipe, &shape, err));
  HR_TRY(hr__memory_budget(*recipe, &job->facts, &budget, err));
  *open = (hr_open){.recipe = *recipe,
                    .facts = &job->facts,
                    .rates = &job->rates,
                    .accumulation = (int)shape.accumulation,
                    .budget_bytes = budget.budget_bytes - budget.margin_bytes,
                    .host_bytes = budget.host_bytes,
                    .disk_bytes = budget.disk_bytes};
  return HR_OK;
}

static void search_watched(void *user, const hr_search_state *state) {
  const hr_job *job = user;
  job->watch.search(job->watch.user, state);
}

/* Threads for planning: more do not help spaces of common sizes. */
static int planning_threads(void) {
  hr_facts host;
  hr__cpu_facts(&host);
  return host.threads < 4 ? host.threads : 4;
}

static hr_space job_space(hr_job *job, const hr_recipe *recipe, hr_effort effort) {
  return (hr_space){.recipe = recipe,
                    .all = job->open_all,
                    .effort = effort,
                    .threads = planning_threads(),
                    .user = job,
                    .load = setting_load,
                    .progress = job->watch.search ? search_watched : NULL};
}

static hr_status job_stages(hr_job *job, hr_effort effort, const hr_facts *known, hr_error *err) {
  HR_TRY(job_facts(job, known, err));
  HR_TRY(job_rates(job, err));
  hr_space space = job_space(job, job->recipe, effort);
  hr_recipe *closed = NULL;
  job->torch = hr__engine_is_torch(job->recipe);
  HR_TRY(job->torch ? hr__engine_search(&space, &job->search, &closed, &job->chosen, &job->run, err)
                    : hr__search(&space, &job->search, &closed, &job->chosen, err));
  hr__recipe_destroy(job->recipe);
  job->recipe = closed;
  HR_TRY(source_copy(job, &job->source, job->search.chosen.overrides, job->search.chosen.n_overrides, err));
  job->graph = job->chosen.graph;
  job->plan = job->chosen.plan;
  if (effort != HR_EFFORT_RUN) return HR_OK; /* job->search.chosen has it */
  HR_TRY(hr__loadable(job->recipe, job->graph, err));
  hr_budget budget;
  HR_TRY(hr__training_shape(job->recipe, &job->shape, err));
  HR_TRY(job->torch ? hr__engine_budget(job->recipe, &job->facts, &budget, err)
                    : hr__memory_budget(job->recipe, &job->facts, &budget, err));
  return hr__verdict(job->plan, job->recipe, &budget, &job->verdict, err);
}

/* Settings of masking by themselves, for their errors: whether the model masks is the family's. */
static hr_status masking_check(const hr_recipe *recipe, hr_error *err) {
  hr_masking masking;
  hr_model_part whole = hr__model_whole(recipe);
  return hr__masking_read(recipe, whole.model->masked, hr__model_vocabulary(recipe), 0, &masking, err);
}

static hr_status epochs_check(const hr_recipe *recipe, hr_error *err) {
  static const char epochs[] = "training.epochs";
  if (!hr__recipe_has(recipe, epochs)) return HR_OK;
  if (hr__recipe_given(recipe, "training.steps"))
    return hr__recipe_fail(recipe, epochs, "leave one of them out, or set it to null", err,
                           "training.steps and training.epochs are two answers to one question");
  if (!hr__source_of(recipe)->endless) return HR_OK;
  return hr__recipe_fail(recipe, epochs, "set training.steps", err, "synthetic data has no end, and so has no epochs");
}

static hr_status warmup_check(const hr_recipe *recipe, hr_error *err) {
  static const char ratio[] = "training.schedule.warmup_ratio";
  if (!hr__recipe_has(recipe, ratio) || !hr__recipe_given(recipe, "training.schedule.warmup_steps")) return HR_OK;
  return hr__recipe_fail(recipe, ratio, "leave one of them out, or set it to null", err,
                         "warmup_steps and warmup_ratio are two answers to one question");
}

/* A plan is of one stage. */
static hr_status stage_check(const hr_recipe *recipe, hr_error *err) {
  const hr_doc_node *stages = hr__recipe_tree(recipe, HR_STAGES);
  if (!stages || hr__recipe_has(recipe, HR_STAGE)) return HR_OK;
  char remedy[128];
  snprintf(remedy, sizeof remedy, "choose one: --set %s=%s (plan and train go through all of them)", HR_STAGE,
           stages->child->key);
  return hr__recipe_fail(recipe, HR_STAGES, remedy, err, "this recipe has stages, and none is chosen");
}

static hr_status job_open(const hr_job_source *source, bool all, hr_effort effort, const hr_facts *known,
                          const hr_job_watch *watch, hr_job **out, hr_error *err) {
  hr_job *job = hr__alloc_zero(1, sizeof *job);
  if (!job) return hr__nomem(err);
  job->open_all = all;
  if (watch) job->watch = *watch;
  hr_status status = source_copy(job, source, NULL, 0, err);
  job->given = job->source;
  if (status == HR_OK)
    status = hr__settings_load(source->path, source->overrides, source->n_overrides, &job->recipe, err);
  if (status == HR_OK) status = stage_check(job->recipe, err);
  if (status == HR_OK) status = epochs_check(job->recipe, err);
  if (status == HR_OK) status = warmup_check(job->recipe, err);
  if (status == HR_OK) status = hr__settings_evaluated(job->recipe, err);
  if (status == HR_OK) status = hr__packing_check(job->recipe, hr__model_whole(job->recipe).model->masked, err);
  if (status == HR_OK) status = masking_check(job->recipe, err);
  if (status == HR_OK) status = job_stages(job, effort, known, err);
  if (status != HR_OK) {
    hr__job_close(job);
    return status;
  }
  job->watch = (hr_job_watch){0};
  *out = job;
  return HR_OK;
}

/* The job that makes features: frames of the source's data, as many at a time as is fastest and fits. */
static hr_status features_open(hr_job *job, hr_error *err) {
  static const char *const own[] = {"data.cache_features=make",
                                    "training.batch_size=[64, 32, 16, 8, 4, 2, 1]",
                                    "training.gradient_accumulation=null",
                                    "training.effective_batch=null",
                                    "data.buckets=null",
                                    "memory.checkpoint=none",
                                    "memory.split=null",
                                    "memory.offload=null"};
  enum { OWN = sizeof own / sizeof *own };
  const hr_job_source *source = &job->source;
  if (job->torch || !hr__source_of(job->recipe)->features || !hr__features_cached(job->recipe)) return HR_OK;
  const char **all = hr__arena_array(&job->arena, source->n_overrides + OWN, sizeof *all);
  if (!all) return hr__nomem(err);
  memcpy(all, source->overrides, source->n_overrides * sizeof *all);
  memcpy(all + source->n_overrides, own, sizeof own);
  hr_job_source making = {source->path, all, source->n_overrides + OWN};
  HR_TRY(job_open(&making, false, HR_EFFORT_RUN, &job->facts, NULL, &job->features, err));
  if (!job->verdict.fits || job->features->verdict.fits) return HR_OK;
  job->verdict.fits = false;
  job->verdict.preparing = true;
  return HR_OK;
}

hr_status hr__job_open(const hr_job_source *source, hr_job **out, hr_error *err) {
  return hr__job_open_watched(source, false, NULL, out, err);
}

hr_status hr__job_open_all(const hr_job_source *source, hr_job **out, hr_error *err) {
  return hr__job_open_watched(source, true, NULL, out, err);
}

hr_status hr__job_open_watched(const hr_job_source *source, bool all, const hr_job_watch *watch, hr_job **out,
                               hr_error *err) {
  hr_job *job;
  HR_TRY(job_open(source, all, HR_EFFORT_RUN, NULL, watch, &job, err));
  hr_status status = features_open(job, err);
  if (status != HR_OK) {
    hr__job_close(job);
    return status;
  }
  *out = job;
  return HR_OK;
}

void hr__job_close(hr_job *job) {
  if (!job) return;
  hr__job_close(job->features);
  hr__chosen_fini(&job->chosen);
  hr__search_fini(&job->search);
  hr__engine_fini(&job->run);
  hr__rates_fini(&job->rates);
  hr__rates_fini(&job->host_rates);
  hr__recipe_destroy(job->recipe);
  hr__arena_fini(&job->arena);
  hr__free(job);
}

void hr__job_host_least(const hr_job *job, char out[HR_HOST_LEAST]) {
  const uint64_t *categories = job->plan->tiers[HR_TIER_HOST].categories;
  char batches[HR_SIZE_TEXT], pieces[HR_SIZE_TEXT];
  int used = snprintf(out, HR_HOST_LEAST, "%s for two batches", hr__size_text(categories[HR_CAT_INPUTS], batches));
  if (categories[HR_CAT_FIXED] > 0)
    snprintf(out + used, HR_HOST_LEAST - (size_t)used, " and %s to copy through",
             hr__size_text(categories[HR_CAT_FIXED], pieces));
}

static hr_status host_least_fail(const hr_job *job, hr_error *err) {
  char least[HR_HOST_LEAST], budget[HR_SIZE_TEXT];
  hr__job_host_least(job, least);
  return hr__fail(err, HR_NO_FIT, hr__recipe_name(job->recipe),
                  "give it more or leave it out; memory.offload keeps everything on the device unless told otherwise",
                  "every run holds %s on the host, but memory.host_budget is %s", least,
                  hr__size_text(job->verdict.below_bytes[HR_TIER_HOST], budget));
}

static hr_status preparing_fail(const hr_job *job, hr_error *err) {
  char needs[HR_SIZE_TEXT], budget[HR_SIZE_TEXT];
  return hr__fail(err, HR_NO_FIT, hr__recipe_name(job->recipe),
                  "raise memory.host_budget, or name a smaller data.tokenizer",
                  "reading the tokenizer takes %s on the host, but memory.host_budget is %s",
                  hr__size_text(hr__verdict_needs(&job->verdict, job->plan), needs),
                  hr__size_text(job->verdict.below_bytes[HR_TIER_HOST], budget));
}

const hr_job *hr__job_over(const hr_job *job) {
  bool itself = job->verdict.missing_bytes > 0;
  return !itself && job->features && !job->features->verdict.fits ? job->features : job;
}

static hr_status features_fail(const hr_job *making, hr_error *err) {
  const hr_verdict *verdict = &making->verdict;
  bool device = verdict->tier == HR_TIER_DEVICE;
  char needs[HR_SIZE_TEXT], budget[HR_SIZE_TEXT], remedy[96];
  snprintf(remedy, sizeof remedy, "raise memory.%s, or leave data.cache_features out",
           device ? "budget" : "host_budget");
  return hr__fail(err, HR_NO_FIT, hr__recipe_name(making->recipe), remedy,
                  "making features, of one frame at a time, needs %s on the %s, more than the budget of %s",
                  hr__size_text(making->plan->tiers[verdict->tier].peak_bytes, needs), hr_tier_name(verdict->tier),
                  hr__size_text(device ? verdict->budget_bytes : verdict->below_bytes[verdict->tier], budget));
}

hr_status hr__job_check(const hr_job *job, hr_error *err) {
  const hr_verdict *verdict = &job->verdict;
  bool disk = job->plan->tiers[HR_TIER_DISK].peak_bytes > 0;
  const hr_job *over = hr__job_over(job);
  if (over != job) return features_fail(over, err);
  if (verdict->fits) return disk ? hr__memory_folder_check(job->recipe, err) : HR_OK;
  if (hr__verdict_below_least(verdict, job->plan)) return host_least_fail(job, err);
  if (verdict->preparing) return preparing_fail(job, err);
  bool device = verdict->tier == HR_TIER_DEVICE;
  static const char *const remedies[HR_TIER_COUNT] = {
      [HR_TIER_DEVICE] = "raise memory.budget, or take one of the changes that headroom plan names",
      [HR_TIER_HOST] = "raise memory.host_budget, or offload less",
      [HR_TIER_DISK] =
          "raise memory.disk_budget, name a folder with more space (memory.offload_folder), or offload less",
  };
  char peak[HR_SIZE_TEXT], budget[HR_SIZE_TEXT], missing[HR_SIZE_TEXT];
  return hr__fail(err, HR_NO_FIT, hr__recipe_name(job->recipe), remedies[verdict->tier],
                  "needs %s on the %s, %s more than the budget of %s%s",
                  hr__size_text(job->plan->tiers[verdict->tier].peak_bytes, peak), hr_tier_name(verdict->tier),
                  hr__size_text(verdict->missing_bytes, missing),
                  hr__size_text(device ? verdict->budget_bytes : verdict->below_bytes[verdict->tier], budget),
                  device && verdict->margin_bytes > 0 ? " allows with its margin" : "");
}

/* What changes of a job begin with, and what is to be known of them. */
typedef struct changing {
  const hr_job *job;
  hr_effort effort;
} changing;

static hr_status changed_plan(void *user, const char *const *overrides, size_t count, hr_planned *out, hr_error *err) {
  const changing *from = user;
  const hr_job_source *source = &from->job->source;
  hr_arena arena;
  hr__arena_init(&arena);
  const char **all = hr__arena_array(&arena, source->n_overrides + count + 1, sizeof *all);
  if (!all) {
    hr__arena_fini(&arena);
    return hr__nomem(err);
  }
  for (size_t i = 0; i < source->n_overrides; i++)
    all[i] = source->overrides[i];
  for (size_t i = 0; i < count; i++)
    all[source->n_overrides + i] = overrides[i];
  hr_job_source changed = {source->path, all, source->n_overrides + count};
  hr_job *job = NULL;
  hr_status status = job_open(&changed, false, from->effort, &from->job->facts, NULL, &job, err);
  if (status == HR_OK) {
    const hr_found *found = &job->search.chosen;
    *out = (hr_planned){.step_seconds = found->step_seconds, .fits = found->fits};
    memcpy(out->peak_bytes, found->peak_bytes, sizeof out->peak_bytes);
  }
  hr__job_close(job);
  hr__arena_fini(&arena);
  return status;
}

hr_status hr__job_suggest(const hr_job *job, hr_change changes[HR_SUGGESTIONS], int *count, hr_error *err) {
  changing from = {job, HR_EFFORT_VERDICT};
  *count = 0;
  if (job->verdict.preparing) return HR_OK;
  return hr__suggest(job->recipe, job->verdict.tier, changed_plan, &from, changes, count, err);
}

/* The job's own plan in terms of what changes of it come to: peaks are lower bounds. */
static hr_planned job_costs(const hr_job *job) {
  hr_planned here = {.step_seconds = job->plan->step_seconds, .fits = job->verdict.fits};
  for (int t = 0; t < HR_TIER_COUNT; t++)
    here.peak_bytes[t] = job->plan->tiers[t].lower_bound_bytes + job->plan->tiers[t].fixed_bytes;
  return here;
}

hr_status hr__job_techniques(const hr_job *job, hr_technique techniques[HR_TECHNIQUES], int *count, hr_error *err) {
  changing from = {job, HR_EFFORT_COSTS};
  hr_planned here = job_costs(job);
  return hr__techniques(job->recipe, &job->chosen, here.peak_bytes[HR_TIER_DEVICE], here.step_seconds, changed_plan,
                        &from, techniques, count, err);
}

/* What share of the offloaded bytes other precisions and optimizers might do without, at most: the optimizer's
 * state, and as much again for weights and gradients in f32. */
static double other_share(const hr_plan *plan) {
  const hr_graph *g = plan->graph;
  double state = 0, below = 0;
  for (int tier = HR_TIER_DEVICE + 1; tier < HR_TIER_COUNT; tier++)
    below += (double)plan->tiers[tier].peak_bytes;
  for (size_t b = 0; b < g->n_buffers; b++)
    if (g->buffers[b].role == HR_ROLE_OPTIMIZER) state += (double)g->buffers[b].bytes;
  return state == 0 || 2 * state > below ? 1 : 2 * state / below; /* without state: weights alone, all of them */
}

/* Whether memory is paid for with time that other precisions or optimizers might save: they could take away a good part
 * of what a step waits for offloaded values, or updates them. */
static bool other_wanted(const hr_job *job) {
  static const bool none[HR_OFFLOAD_KINDS] = {false};
  static const double good_part = 1.3;
  hr_traffic traffic;
  if (!job->open_all || !job->verdict.fits || job->search.chosen.changes_results || job->torch) return false;
  hr__traffic_read(job->plan, (int)job->shape.accumulation, none, false, &traffic);
  double step = job->plan->step_seconds, saved = (step - traffic.pass_seconds) * other_share(job->plan);
  return step > good_part * (step - saved);
}

/* The given recipe, with bf16 weights open beside the precision it has. */
static hr_status other_source(const hr_job *job, hr_arena *arena, hr_job_source *out, hr_error *err) {
  const hr_job_source *given = &job->given;
  const char **overrides = hr__arena_array(arena, given->n_overrides + 1, sizeof *overrides);
  if (!overrides) return hr__nomem(err);
  memcpy(overrides, given->overrides, given->n_overrides * sizeof *overrides);
  *out = (hr_job_source){given->path, overrides, given->n_overrides};
  if (!hr__recipe_given(job->recipe, "model.precision") ||
      hr__recipe_word_is(job->recipe, "model.precision", "bf16-true"))
    return HR_OK;
  overrides[out->n_overrides++] =
      hr__arena_format(arena, "model.precision=[%s, bf16-true]", hr__recipe_text(job->recipe, "model.precision"));
  return overrides[out->n_overrides - 1] ? HR_OK : hr__nomem(err);
}

/* A rung that a search has only judged says what planning it comes to; it is none where that is of no use. */
static hr_status other_plan(const hr_job *job, hr_rung *rung, hr_error *err) {
  changing from = {job, HR_EFFORT_DRAFT};
  if (rung->n_overrides == 0) return HR_OK;
  hr_error why = {0};
  hr_status status = changed_plan(&from, rung->overrides, rung->n_overrides, &rung->planned, &why);
  if (status == HR_NOMEM) return hr__nomem(err);
  bool of_use = status == HR_OK && rung->planned.fits && rung->planned.step_seconds < job->plan->step_seconds;
  if (!of_use) *rung = (hr_rung){0};
  return HR_OK;
}

/* The fastest setting that fits where those that change the result are allowed, if it is faster than the one chosen. */
static hr_status other_find(const hr_job *job, hr_arena *arena, hr_rung *out, hr_error *err) {
  if (!other_wanted(job)) return HR_OK;
  hr_job given = *job; /* only read */
  hr_recipe *open, *closed = NULL;
  hr_search search;
  hr_chosen chosen = {0};
  HR_TRY(other_source(job, arena, &given.source, err));
  HR_TRY(hr__settings_load(given.source.path, given.source.overrides, given.source.n_overrides, &open, err));
  hr_space space = job_space(&given, open, HR_EFFORT_COSTS);
  space.any_result = true;
  space.limit_token_seconds = 0.99 * job->search.chosen.token_seconds;
  hr_status status = hr__search(&space, &search, &closed, &chosen, err);
  if (status == HR_OK) {
    if (search.chosen.fits && search.chosen.changes_results)
      status = hr__rung_found(job->recipe, &job->search.chosen, &search.chosen, arena, out, err);
    hr__search_fini(&search);
    hr__chosen_fini(&chosen);
    hr__recipe_destroy(closed);
  }
  hr__recipe_destroy(open);
  return status == HR_OK ? other_plan(job, out, err) : status;
}

hr_status hr__job_ladder(const hr_job *job, hr_arena *arena, hr_ladder *out, hr_error *err) {
  changing from = {job, HR_EFFORT_COSTS};
  hr_planned here = job_costs(job);
  HR_TRY(hr__ladder(job->recipe, &job->search, &here, changed_plan, &from, arena, out, err));
  return other_find(job, arena, &out->other, err);
}

hr_status hr__job_runnable(const hr_job *job, hr_error *err) {
  if (!job->torch) return HR_OK;
  return hr__recipe_fail(job->recipe, "engine.kind", "leave engine.kind out, or set it to headroom", err,
                         "what PyTorch is to run can be planned here, not run");
}

hr_status hr__job_device(const hr_job *job, hr_device **out, hr_error *err) {
  HR_TRY(hr__job_runnable(job, err));
  if (job->facts.absent)
    return hr__recipe_fail(job->recipe, "memory.gpu", "remove memory.gpu to run on the GPU of this machine", err,
                           "a plan for a GPU of the catalogue cannot be run");
  return job->facts.kind == HR_CUDA ? cuda_open(out, err) : hr__cpu_open(out, err);
}
