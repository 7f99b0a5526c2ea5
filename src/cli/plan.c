/* headroom plan: what will use how much memory, how long a step takes, whether it fits, and what would. */
#include <inttypes.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "cli/checkpoint_flags.h"
#include "cli/cli.h"
#include "cli/fit.h"
#include "cli/guide_flags.h"
#include "cli/jobs.h"
#include "cli/plan.h"
#include "cli/plan_trace.h"
#include "cli/table.h"
#include "cli/waiting.h"
#include "dev/gpus.h"
#include "job/answer.h"
#include "job/engine.h"

static void idle_tell(const hr_cli *cli, const hr_recipe *recipe) {
  hr_error idle = {0};
  if (cli->quiet || cli->json || !hr__engine_idle(recipe, &idle)) return;
  char text[sizeof idle.place + sizeof idle.message + sizeof idle.remedy + 8];
  snprintf(text, sizeof text, "%s: %s; %s", idle.place, idle.message, idle.remedy);
  fputc('\n', stderr);
  hr__cli_tell(cli, stderr, "", "remark:", text);
}

void hr__plan_remark(const hr_cli *cli, const hr_job *job) {
  if (cli->quiet || cli->json || job->facts.kind != HR_CPU) return;
  if (!hr__cli_value(cli, "gpu-memory") || hr__recipe_given(job->recipe, "memory.device")) return;
  fputc('\n', stderr);
  hr__cli_tell(cli, stderr, "",
               "remark:", "planned for this machine's processor; --gpu NAME or --gpu any is for a GPU");
}

/* What explains a plan: found by planning changes of the recipe, which may take as long as the plan itself. */
typedef struct explanation {
  hr_change changes[HR_SUGGESTIONS]; /* that would fit, where it does not */
  int n_changes;
  /* for people */
  hr_technique techniques[HR_TECHNIQUES];
  int n_techniques;
  hr_module_owner *owners;
  size_t n_owners;
  hr_ladder ladder; /* where it fits */
} explanation;

static hr_status job_explain(const hr_job *job, bool for_people, hr_arena *arena, explanation *out, hr_error *err) {
  bool fits = job->verdict.fits;
  *out = (explanation){0};
  if (!fits) HR_TRY(hr__job_suggest(job, out->changes, &out->n_changes, err));
  if (!for_people) return HR_OK;
  HR_TRY(hr__job_techniques(job, out->techniques, &out->n_techniques, err));
  HR_TRY(hr__owners(job->plan, job->verdict.tier, arena, &out->owners, &out->n_owners, err));
  return fits ? hr__job_ladder(job, arena, &out->ladder, err) : HR_OK;
}

/* All of the text: the table, then what explains it. */
static hr_status job_print(const hr_cli *cli, const hr_job *job, const explanation *e, hr_error *err) {
  hr__table_plan(cli, job, hr__fit_cheapest(e->changes, e->n_changes), stdout);
  hr__table_owners(cli, &job->plan->tiers[job->verdict.tier], e->owners, e->n_owners, stdout);
  hr__fit_owners(hr__job_over(job), stdout);
  hr__table_techniques(cli, e->techniques, e->n_techniques, stdout);
  if (job->verdict.fits)
    hr__table_ladder(cli, job, &e->ladder, stdout);
  else
    hr__fit_changes(job, e->changes, e->n_changes, stdout);
  return hr__cli_flush(err);
}

hr_status hr__plan_show(hr_cli *cli, const hr_job *job, json_t **answer, hr_error *err) {
  bool fits = job->verdict.fits;
  if (cli->quiet && !cli->json) return fits ? HR_OK : hr__fit_check(cli, job, err);
  explanation e;
  hr_waiting waiting;
  hr__waiting_begin(&waiting, cli, "planning changes of it");
  hr_status status = job_explain(job, !cli->json, &cli->arena, &e, err);
  hr__waiting_end(&waiting);
  HR_TRY(status);
  if (cli->json && answer) {
    *answer = hr__answer_plan(job, e.changes, e.n_changes);
    if (!*answer) return hr__nomem(err);
  } else if (cli->json) {
    HR_TRY(hr__cli_put_json(hr__answer_plan(job, e.changes, e.n_changes), err));
  } else {
    HR_TRY(job_print(cli, job, &e, err));
    hr_error folder = {0}; /* a plan may be for another machine: only a run needs the folder */
    if (fits && hr__job_check(job, &folder) != HR_OK) {
      char text[sizeof folder.message + sizeof folder.remedy + 2];
      snprintf(text, sizeof text, "%s; %s", folder.message, folder.remedy);
      fputc('\n', stderr);
      hr__cli_tell(cli, stderr, "", "remark:", text);
    }
    hr__plan_remark(cli, job);
    idle_tell(cli, job->recipe);
  }
  cli->answered = !fits; /* the table or the object has said it */
  return fits ? HR_OK : HR_NO_FIT;
}

static bool is_share(const char *text) {
  size_t digits = strspn(text, "0123456789.");
  return digits > 0 && strcmp(text + digits, "%") == 0;
}

/* A size or a share of the budget, and 0 for none of it. */
static hr_status margin_override(hr_cli *cli, hr_error *err) {
  const char *value = hr__cli_value(cli, "margin");
  if (value == NULL) return HR_OK;
  if (is_share(value) || strcmp(value, "0") == 0) return hr__cli_override(cli, err, "memory.margin=%s", value);
  uint64_t bytes;
  if (!hr__size_parse(value, &bytes))
    return hr__fail(err, HR_USAGE, "--margin", "write it as 512MiB, 15% or 0", "'%s' is not a size or a share", value);
  return hr__cli_size_override(cli, "margin", "memory.margin", err);
}

/* A GPU of the catalogue, by any name that it goes by. */
static hr_status gpu_override(hr_cli *cli, hr_error *err) {
  const char *name = hr__cli_value(cli, "gpu");
  if (name == NULL) return HR_OK;
  const hr_gpu *gpu = hr__gpu_find(name);
  bool any = strcmp(name, "any") == 0;
  if (gpu == NULL && !any) {
    hr_gpu_refusal why;
    hr__gpu_refuse(name, &why);
    char remedy[sizeof why.remedy + 96];
    snprintf(remedy, sizeof remedy, "%s%s", why.remedy,
             why.unknown ? "; for any other: --gpu any --gpu-memory SIZE" : "");
    return hr__fail(err, HR_USAGE, "--gpu", remedy, "%s", why.message);
  }
  const char *flag = hr__cli_value(cli, "max-gpu-mem") ? "--max-gpu-mem" : "--gpu-memory";
  const char *memory = hr__cli_value(cli, flag + strlen("--"));
  uint64_t bytes;
  if (any && memory == NULL)
    return hr__fail(err, HR_USAGE, "--gpu", "add --gpu-memory SIZE", "how much memory any GPU has is not known");
  if (gpu && memory && hr__size_parse(memory, &bytes) && bytes > gpu->usable_bytes) {
    char all[HR_SIZE_TEXT], usable[HR_SIZE_TEXT];
    return hr__fail(err, HR_USAGE, flag, "give less, or leave it out for all that the card has",
                    "%.32s is more than the %s has: %s, of which programs can have %s", memory, gpu->label,
                    hr__size_text(gpu->memory_bytes, all), hr__size_text(gpu->usable_bytes, usable));
  }
  bool budgeted = memory != NULL;
  for (size_t i = 0; i < cli->n_overrides; i++)
    budgeted |= strncmp(cli->overrides[i], "memory.budget=", strlen("memory.budget=")) == 0;
  /* the recipe's own budget is that of the device it was written for */
  if (!budgeted) HR_TRY(hr__cli_override(cli, err, "memory.budget=auto"));
  HR_TRY(hr__cli_override(cli, err, "memory.device=cuda"));
  return hr__cli_override(cli, err, "memory.gpu=%s", any ? name : gpu->name);
}

/* The options of this command are settings under a shorter name. */
hr_status hr__plan_flags(hr_cli *cli, hr_error *err) {
  HR_TRY(hr__cli_stage_override(cli, err));
  HR_TRY(gpu_override(cli, err));
  HR_TRY(hr__cli_size_override(cli, "gpu-memory", "memory.budget", err));
  HR_TRY(hr__checkpoint_flags(cli, err));
  HR_TRY(hr__guide_flags(cli, err));
  HR_TRY(margin_override(cli, err));
  const char *engine = hr__cli_value(cli, "engine");
  if (engine) HR_TRY(hr__cli_override(cli, err, "engine.kind=%s", engine));
  const char *conf = hr__cli_value(cli, "alloc-conf");
  if (conf) HR_TRY(hr__cli_override(cli, err, "engine.alloc_conf=%s", conf));
  int64_t samples;
  HR_TRY(hr__cli_int(cli, "target-effective-batch", 1, 0, &samples, err));
  if (samples == 0) return HR_OK;
  HR_TRY(hr__cli_override(cli, err, "training.gradient_accumulation=null"));
  return hr__cli_override(cli, err, "training.effective_batch=%" PRId64, samples);
}

hr_status hr__plan_overrides(hr_cli *cli, hr_error *err) {
  HR_TRY(hr__plan_flags(cli, err));
  return hr__checkpoint_defaults(cli, err);
}

/* Plans are made and thrown away by the dozen: giving their pages back each time takes a tenth of the whole. */
static void heap_keep(void) {
#ifdef __GLIBC__
  enum { KEPT_BYTES = 256 << 20 };
  mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
  mallopt(M_MMAP_THRESHOLD, KEPT_BYTES);
#endif
}

/* One answer at a time. */
static hr_status tables_check(const hr_cli *cli, hr_error *err) {
  static const char *const tables[] = {"compare", "sweep", "smallest-gpu", "largest"};
  const char *first = NULL;
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
    if (!hr__cli_flag(cli, tables[i])) continue;
    if (first)
      return hr__fail(err, HR_USAGE, NULL, "give one of them", "--%s and --%s are two tables", first, tables[i]);
    first = tables[i];
  }
  return HR_OK;
}

/* Only traces come in numbers, and only PyTorch has its allocator. */
static hr_status recipe_check(const hr_cli *cli, hr_error *err) {
  if (cli->n_arguments > 1)
    return hr__fail(err, HR_USAGE, NULL, "--compare puts another recipe beside it; several traces are one plan",
                    "unexpected argument '%.200s': one recipe is planned at a time", cli->arguments[1]);
  const char *engine = hr__cli_value(cli, "engine");
  if (hr__cli_value(cli, "alloc-conf") && !(engine && strcmp(engine, "pytorch") == 0))
    return hr__fail(err, HR_USAGE, "--alloc-conf", "add --engine pytorch, or leave it out",
                    "the allocator's settings are PyTorch's, and headroom is to train");
  return HR_OK;
}

static hr_status plan_run(hr_cli *cli, hr_error *err) {
  heap_keep();
  if (hr__torch_trace_is(cli->arguments[0])) return hr__plan_trace(cli, err);
  HR_TRY(recipe_check(cli, err));
  HR_TRY(tables_check(cli, err));
  if (hr__cli_value(cli, "sweep")) return hr__sweep(cli, err);
  if (hr__cli_flag(cli, "smallest-gpu")) return hr__smallest_gpu(cli, err);
  if (hr__cli_value(cli, "largest")) return hr__plan_largest(cli, err);
  HR_TRY(hr__plan_overrides(cli, err));
  if (hr__cli_value(cli, "compare")) return hr__compare(cli, err);
  hr_job_source source = {cli->arguments[0], cli->overrides, cli->n_overrides};
  hr_stage *stages;
  size_t count;
  HR_TRY(hr__stages_list(&source, &cli->arena, &stages, &count, err));
  if (count > 0) return hr__plan_stages(cli, stages, count, err);
  hr_job *job = NULL;
  HR_TRY(hr__cli_job_open(cli, &source, HR_CLI_RATES_NODES, &job, err));
  hr_status status = hr__plan_show(cli, job, NULL, err);
  hr__job_close(job);
  return status;
}

static const hr_cli_option options[] = {
    HR_STAGE_OPTION,
    HR_CHECKPOINT_OPTIONS,
    {"gpu", "NAME", "for a GPU that need not be here (headroom devices --gpus)"},
    {"gpu-memory", "SIZE", "instead of memory.budget, on whatever device: 24GiB"},
    {"margin", "SIZE", "instead of memory.margin: a size, or such as 15%"},
    {"target-effective-batch", "N", "instead of training.effective_batch"},
    {"engine", "WHO", "pytorch: what it will hold with transformers"},
    {"auto", NULL, "the fastest that fits, of what the recipe leaves out"},
    {"compare", "OTHER", "beside another recipe, or with KEY=VALUE[,KEY=VALUE]"},
    {"sweep", "KEY=V1,V2,..", "a line per value: a setting, gpu (or gpu=all), seq, batch"},
    {"smallest-gpu", NULL, "least GPU of the catalogue that fits, and two more"},
    {"largest", "KEY", "largest batch, seq, rank or numeric KEY that fits"},
    {"alloc-conf", "TEXT", "for PyTorch: what PYTORCH_ALLOC_CONF is"},
    HR_GUIDE_OPTIONS,
};

const hr_cli_command hr_cli_plan = {
    .name = "plan",
    .usage = "RECIPE | TRACE...",
    .summary = "whether it fits, memory by owner, time of a step, what to change",
    .details = "RECIPE: a file, or a folder with config.json. TRACE: of PyTorch (docs/torch.md).\n"
               "Exit code 3: does not fit; the output says why, and what is cheapest to change.\n" HR_GUIDE_DETAILS,
    .examples = "plan recipes/llama-3.2-1b.yaml --gpu 4090\n"
                "plan test/model/configs/Llama-3.1-8B --method qlora --seq 2048 --gpu 4090\n"
                "plan recipes/demo.yaml --gpu-memory 120MiB --auto\n"
                "plan recipes/llama-3.2-1b.yaml --gpu 4090 --engine pytorch",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .min_arguments = 1,
    .max_arguments = HR_CLI_ARGUMENTS,
    .run = plan_run,
};
