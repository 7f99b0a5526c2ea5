/* headroom apply: writes the settings of a plan into the user's own config files, and takes them back. */
#include <string.h>

#include "base/text.h"
#include "cli/applied.h"
#include "cli/apply_stages.h"
#include "cli/checkpoint_flags.h"
#include "cli/fit.h"
#include "cli/jobs.h"
#include "cli/plan.h"
#include "job/settings.h"
#include "model/parts.h"
#include "plan/memory.h"

static hr_status files_open(const hr_cli *cli, bool dry_run, hr_transaction **out, hr_error *err) {
  HR_TRY(hr__transaction_open(cli->listed, cli->n_listed, dry_run, out, err));
  if ((*out)->finished && !cli->quiet)
    fprintf(stderr, "remark: an earlier headroom apply that was cut off has been finished first\n");
  return HR_OK;
}

/* --- applying ----------------------------------------------------------------------------------------------------- */

/* The answers of all parts as one. */
static json_t *parts_json(hr_applied *const *parts, size_t count, const char *diff) {
  json_t *all = hr__apply_json(parts[0], diff);
  for (size_t i = 1; i < count && all; i++) {
    json_t *more = hr__apply_json(parts[i], NULL);
    bool failed = !more;
    for (int list = 0; list < 2 && !failed; list++) {
      const char *name = list ? "not_written" : "files";
      failed = json_array_extend(json_object_get(all, name), json_object_get(more, name)) != 0;
    }
    json_decref(more);
    if (failed) {
      json_decref(all);
      return NULL;
    }
  }
  return all;
}

static hr_status applied_show(const hr_cli *cli, hr_applied *const *parts, size_t count, const char *diff,
                              hr_error *err) {
  if (cli->json) return hr__cli_put_json(parts_json(parts, count, diff), err);
  if (diff) fputs(diff, stdout); /* alone on stdout, as patch would read it */
  if (!cli->quiet) {
    FILE *to = diff ? stderr : stdout;
    size_t changed = 0;
    for (size_t i = 0; i < count; i++) {
      changed += hr__apply_changed(parts[i]);
      hr__applied_print(cli, parts[i], to);
    }
    if (diff || changed == 0)
      fprintf(to, "nothing is written%s\n", diff ? " (--dry-run)" : ": all is as it should be or left alone");
    else
      fprintf(to, "%zu file%s written, the old one%s beside as .backup; headroom apply --revert takes it back\n",
              changed, changed > 1 ? "s" : "", changed > 1 ? "s" : "");
    hr__applied_held(parts[0], to);
  }
  return hr__cli_flush(err);
}

/* Makes the new texts of all parts before anything is written. */
static hr_status files_apply(hr_cli *cli, const hr_apply_part *parts, size_t count, hr_transaction *transaction,
                             hr_apply_options options, hr_error *err) {
  const char *diff = options.dry_run ? "" : NULL;
  hr_applied **applied = hr__arena_array(&cli->arena, count, sizeof *applied);
  if (!applied) return hr__nomem(err);
  for (size_t i = 0; i < count; i++) {
    options.files = parts[i].files;
    options.beside = parts[i].beside;
    HR_TRY(hr__apply(parts[i].job, transaction, &options, &cli->arena, &applied[i], err));
    const char *more = "";
    if (diff) HR_TRY(hr__apply_diff(applied[i], &more, err));
    if (diff && !(diff = hr__arena_format(&cli->arena, "%s%s", diff, more))) return hr__nomem(err);
  }
  if (!options.dry_run) HR_TRY(hr__transaction_commit(transaction, err));
  return applied_show(cli, applied, count, diff, err);
}

static hr_status parts_apply(hr_cli *cli, const hr_apply_part *parts, size_t count, const hr_apply_options *options,
                             hr_error *err) {
  hr_transaction *transaction = NULL;
  HR_TRY(files_open(cli, options->dry_run, &transaction, err));
  hr_status status = files_apply(cli, parts, count, transaction, *options, err);
  hr__transaction_close(transaction);
  return status;
}

/* All stages of a recipe, each for its files. */
static hr_status stages_apply(hr_cli *cli, const hr_stage *stages, size_t count, const hr_apply_options *options,
                              hr_error *err) {
  hr_apply_part *parts;
  size_t n_parts;
  hr_status status = hr__apply_stages(cli, stages, count, &parts, &n_parts, err);
  if (status == HR_OK) status = parts_apply(cli, parts, n_parts, options, err);
  for (size_t i = 0; i < n_parts; i++)
    hr__job_close(parts[i].job);
  return status;
}

static hr_apply_taking configs_of(const hr_cli *cli, const hr_map *map) {
  return (hr_apply_taking){.path = cli->arguments[0],
                           .files = cli->listed,
                           .n_files = cli->n_listed,
                           .map = map,
                           .overrides = cli->overrides,
                           .n_overrides = cli->n_overrides,
                           .all = hr__cli_flag(cli, "auto"),
                           .insert = hr__cli_flag(cli, "insert"),
                           .override = hr__cli_flag(cli, "override")};
}

/* What the configs say of the training that a folder is planned for, as overrides, with a remark. */
static hr_status configs_take(hr_cli *cli, const hr_map *map, hr_taken *taken, hr_error *err) {
  hr_apply_taking from = configs_of(cli, map);
  HR_TRY(hr__apply_take(&from, &cli->arena, taken, err));
  const char *said = "";
  bool told = !cli->quiet && !cli->json;
  for (size_t i = 0; i < taken->count; i++) {
    HR_TRY(hr__cli_override(cli, err, "%s", taken->overrides[i]));
    if (i < taken->n_said) said = hr__arena_format(&cli->arena, "%s%s%s", said, *said ? ", " : "", taken->overrides[i]);
    if (!said) return hr__nomem(err);
  }
  if (*said && told) hr__cli_tell(cli, stderr, "", "remark: planned as the config says:", said);
  for (size_t i = 0; i < taken->n_remarks && told; i++)
    hr__cli_tell(cli, stderr, "", "remark:", taken->remarks[i]);
  return HR_OK;
}

/* What is opened by name, such as the best offload for a config of DeepSpeed, is not closed for PyTorch's sake. */
static hr_status asked_for_own(const hr_recipe *recipe, hr_error *why) {
  for (int i = 0; i < HR_TECHNIQUE_KEYS; i++) {
    const char *path = hr_technique_keys[i].path;
    if (hr__engine_lacks(path) && hr__recipe_word_is(recipe, path, "auto"))
      return hr__recipe_fail(recipe, path, "leave it out to plan for PyTorch", why,
                             "%s is open, and what PyTorch holds with it cannot be said", path);
  }
  return HR_OK;
}

/* Whether PyTorch can be planned for with what is given; why not, where it is more than that there is no GPU, or
 * DeepSpeed trains. Of a folder whose family's calls are not known nothing true can be written: what headroom itself
 * needs is less. */
static hr_status torch_try(hr_cli *cli, bool *can, hr_error *why, hr_error *err) {
  hr_recipe *recipe = NULL;
  *can = false;
  /* what is wrong with the recipe itself is told where it is opened */
  if (hr__settings_load(cli->arguments[0], cli->overrides, cli->n_overrides, &recipe, why) != HR_OK) {
    *why = (hr_error){0};
    return HR_OK;
  }
  hr_status status = asked_for_own(recipe, why);
  if (status == HR_OK) status = hr__engine_check(recipe, why);
  *can = status == HR_OK;
  bool gpu = hr__memory_device(recipe) == HR_CUDA, known = hr__model_whole(recipe).model->torch;
  bool deepspeed = strcmp(hr__recipe_text(recipe, "engine.trainer"), "deepspeed") == 0;
  if (!gpu && !deepspeed) *why = (hr_error){0};
  hr__recipe_destroy(recipe);
  if (gpu && !known && hr__settings_is_checkpoint(cli->arguments[0]))
    return hr__fail(err, HR_BAD_INPUT, cli->arguments[0],
                    "--engine headroom plans headroom's own execution, which takes less than the trainer will", "%s",
                    why->message);
  return status == HR_NOMEM ? hr__nomem(err) : HR_OK;
}

static bool is_given(const hr_cli *cli, const char *override) {
  for (size_t i = 0; i < cli->n_overrides; i++)
    if (strcmp(cli->overrides[i], override) == 0) return true;
  return false;
}

/* Another trainer's config is run by PyTorch: unless --engine or --set says otherwise, that is what is planned. */
static hr_status engine_choose(hr_cli *cli, const hr_map *map, bool foreign, hr_error *err) {
  static const char kind[] = "engine.kind=", own[] = "--set engine.zero.";
  hr_apply_taking from = configs_of(cli, map);
  bool can;
  hr_error why = {0};
  for (size_t i = 0; i < cli->n_overrides; i++)
    if (strncmp(cli->overrides[i], kind, strlen(kind)) == 0) return HR_OK;
  if (!foreign) return HR_OK;
  size_t before = cli->n_overrides;
  HR_TRY(hr__cli_override(cli, err, "%spytorch", kind));
  HR_TRY(torch_try(cli, &can, &why, err));
  if (can) return hr__apply_torch_check(&from, &cli->arena, err);
  cli->n_overrides = before;
  bool whole = hr__settings_is_checkpoint(cli->arguments[0]), zero = strncmp(why.place, own, strlen(own)) == 0;
  /* what headroom takes itself says nothing of it; a recipe is also one of headroom's own */
  if (*why.message && (whole || zero) && is_given(cli, "engine.trainer=deepspeed"))
    return hr__fail(err, HR_BAD_INPUT, why.place, why.remedy, "%s", why.message);
  if (*why.message && !cli->quiet && !cli->json)
    hr__cli_tell(cli, stderr, "", "engine: planned for headroom's own execution, which may take less:", why.message);
  return HR_OK;
}

/* In one line: whose plan it is, and what it leaves. */
static void engine_tell(const hr_cli *cli, const hr_job *job) {
  char driver[HR_SIZE_TEXT], budget[HR_SIZE_TEXT], margin[HR_SIZE_TEXT], text[256];
  if (!job->torch || cli->quiet || cli->json) return;
  snprintf(text, sizeof text, "the driver will show %s of %s, margin %s (--engine headroom plans headroom's own run)",
           hr__size_text(job->verdict.peak_bytes, driver), hr__size_text(job->verdict.budget_bytes, budget),
           hr__size_text(job->verdict.margin_bytes, margin));
  hr__cli_tell(cli, stderr, "", "engine: planned for PyTorch, which runs this config:", text);
}

/* What is wrong with a value that a config gave is told where it stands there. */
static hr_status place_find(const hr_taken *taken, hr_status status, hr_error *err) {
  static const char set[] = "--set ";
  size_t length = strlen(set);
  for (size_t i = 0; i < taken->count && status == HR_BAD_INPUT; i++)
    if (taken->places[i] && strncmp(err->place, set, length) == 0 &&
        strcmp(err->place + length, taken->overrides[i]) == 0)
      snprintf(err->place, sizeof err->place, "%s", taken->places[i]);
  return status;
}

static hr_status apply(hr_cli *cli, bool dry_run, hr_error *err) {
  if (cli->n_arguments == 0)
    return hr__fail(err, HR_USAGE, NULL, "headroom apply RECIPE --to FILE...", "headroom apply needs a recipe");
  hr_apply_options options = {.insert = hr__cli_flag(cli, "insert"), .dry_run = dry_run};
  const char *map = hr__cli_value(cli, "map");
  if (map) {
    hr_status status = hr__apply_map(map, &cli->arena, &options.map, err);
    if (status == HR_USAGE) snprintf(err->place, sizeof err->place, "--map");
    HR_TRY(status);
  }
  HR_TRY(hr__plan_flags(cli, err));
  hr_taken taken;
  HR_TRY(configs_take(cli, options.map, &taken, err));
  options.keep_open = !hr__cli_flag(cli, "override") && hr__settings_is_checkpoint(cli->arguments[0]);
  HR_TRY(place_find(&taken, hr__checkpoint_defaults(cli, err), err));
  HR_TRY(place_find(&taken, engine_choose(cli, options.map, taken.foreign, err), err));
  hr_job_source source = {cli->arguments[0], cli->overrides, cli->n_overrides};
  hr_stage *stages;
  size_t n_stages;
  HR_TRY(place_find(&taken, hr__stages_list(&source, &cli->arena, &stages, &n_stages, err), err));
  if (n_stages > 0) return stages_apply(cli, stages, n_stages, &options, err);
  hr_job *job = NULL;
  HR_TRY(place_find(&taken, hr__cli_job_open(cli, &source, HR_CLI_RATES_NODES, &job, err), err));
  engine_tell(cli, job);
  hr_apply_part part = {.job = job};
  hr_status status = job->verdict.fits ? parts_apply(cli, &part, 1, &options, err) : hr__fit_check(cli, job, err);
  hr__job_close(job);
  return status;
}

/* --- taking back -------------------------------------------------------------------------------------------------- */

static hr_status files_revert(hr_cli *cli, hr_transaction *transaction, bool dry_run, hr_error *err) {
  const char *diff;
  size_t bytes;
  bool edited, force = hr__cli_flag(cli, "force");
  HR_TRY(hr__apply_revert_look(transaction, &cli->arena, &diff, &bytes, &edited, err));
  bool shown = !cli->json && (dry_run || (edited && !force)); /* what would go is shown before it is refused */
  if (shown) fwrite(diff, 1, bytes, stdout);
  if (!dry_run) HR_TRY(hr__transaction_revert(transaction, force, err));
  if (cli->json) return hr__cli_put_json(hr__apply_revert_json(transaction, dry_run), err);
  for (size_t f = 0; f < transaction->count && !dry_run && !cli->quiet; f++)
    printf("%s %s\n", transaction->files[f].path,
           transaction->files[f].bare ? "has no backup, and stays" : "is as it was before");
  return hr__cli_flush(err);
}

static hr_status revert(hr_cli *cli, bool dry_run, hr_error *err) {
  hr_transaction *transaction = NULL;
  HR_TRY(files_open(cli, dry_run, &transaction, err));
  hr_status status = files_revert(cli, transaction, dry_run, err);
  hr__transaction_close(transaction);
  return status;
}

static hr_status apply_run(hr_cli *cli, hr_error *err) {
  bool dry_run = hr__cli_flag(cli, "dry-run"), back = hr__cli_flag(cli, "revert");
  if (cli->n_listed == 0)
    return hr__fail(err, HR_USAGE, "--to",
                    back ? "headroom apply --revert --to FILE..." : "headroom apply RECIPE --to conf/config.yaml",
                    "no config file is named to write to");
  return back ? revert(cli, dry_run, err) : apply(cli, dry_run, err);
}

static const hr_cli_option options[] = {
    {"to", "FILE...", "YAML or JSON configs, written together or not at all"},
    {"map", "KIND|FILE", "kind of the files, or a map; else by what they hold"},
    {"dry-run", NULL, "writes nothing; a unified diff on stdout"},
    {"insert", NULL, "puts missing keys in"},
    {"override", NULL, "flags go before what the files say"},
    {"revert", NULL, "puts FILE.backup back, byte for byte; needs no recipe"},
    {"force", NULL, "with --revert: also over changes made since"},
    HR_STAGE_OPTION,
    HR_CHECKPOINT_OPTIONS,
    {"gpu", "NAME", "for a GPU that need not be here (headroom devices --gpus)"},
    {"gpu-memory", "SIZE", "instead of memory.budget: 24GiB"},
    {"margin", "SIZE", "instead of memory.margin: a size, or such as 15%"},
    {"target-effective-batch", "N", "instead of training.effective_batch"},
    {"engine", "WHO", "headroom or pytorch; pytorch for configs of others"},
    {"auto", NULL, "the fastest that fits, of what the recipe leaves out"},
};

const hr_cli_command hr_cli_apply = {
    .name = "apply",
    .usage = "RECIPE --to FILE...",
    .summary = "writes the plan's settings into your own config: only values change",
    .details = "Comments and layout stay; FILE.backup is the file before; ${...} stays. Kinds: "
#define HR_MAP(name, ...) name ", "
#include "recipe/maps.def"
#undef HR_MAP
               "or --map FILE.",
    .examples = "apply recipes/lora.yaml --to recipes/configs/lightning.yml --dry-run\n"
                "apply recipes/demo.yaml --to recipes/demo.yaml --dry-run",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .min_arguments = 0,
    .max_arguments = 1,
    .run = apply_run,
};
