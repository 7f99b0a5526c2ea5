/* headroom apply: writes the settings of a plan into the user's own config files, and takes them back. */
#include "cli/applied.h"
#include "cli/checkpoint_flags.h"
#include "cli/cli.h"
#include "cli/fit.h"
#include "cli/jobs.h"
#include "cli/plan.h"
#include "format/diff.h"
#include "format/file.h"
#include "format/json.h"
#include "job/settings.h"

/* --- opening ------------------------------------------------------------------------------------------------------ */

static hr_status files_open(const hr_cli *cli, bool dry_run, hr_transaction **out, hr_error *err) {
  HR_TRY(hr__transaction_open(cli->listed, cli->n_listed, dry_run, out, err));
  if ((*out)->finished && !cli->quiet)
    fprintf(stderr, "remark: an earlier headroom apply that was cut off has been finished first\n");
  return HR_OK;
}

/* --- applying ----------------------------------------------------------------------------------------------------- */

/* The diff of all files, one after the other; NULL: out of memory. */
static hr_status diff_all(const hr_applied *a, const char **out, hr_error *err) {
  char *all = hr__arena_text(a->arena, "");
  for (size_t f = 0; f < a->n_files && all; f++) {
    const hr_applied_file *file = &a->files[f];
    const char *text;
    size_t bytes;
    HR_TRY(hr__diff(file->config.name, file->config.text, file->config.bytes, file->config.name, file->text,
                    file->bytes, a->arena, &text, &bytes, err));
    all = hr__arena_format(a->arena, "%s%.*s", all, (int)bytes, text);
  }
  *out = all;
  return all ? HR_OK : hr__nomem(err);
}

static hr_status refusal_find(hr_applied *a, hr_transaction *transaction, hr_error *err) {
  hr_error why = {0};
  hr_status status = hr__transaction_check(transaction, &why);
  if (status == HR_BAD_INPUT) {
    a->refusal = hr__arena_format(a->arena, "%s: %s; %s", why.place, why.message, why.remedy);
    return a->refusal ? HR_OK : hr__nomem(err);
  }
  if (status != HR_OK && err) *err = why;
  return status;
}

static hr_status files_apply(hr_cli *cli, hr_applied *a, hr_transaction *transaction, const hr_map *map, bool dry_run,
                             hr_error *err) {
  HR_TRY(hr__applied_plan(a, transaction, map, err));
  size_t changed = 0;
  for (size_t f = 0; f < a->n_files; f++) {
    if (!a->files[f].changed) continue;
    changed++;
    transaction->files[f].now = a->files[f].text;
    transaction->files[f].now_bytes = a->files[f].bytes;
  }
  const char *diff = NULL;
  if (dry_run) {
    HR_TRY(refusal_find(a, transaction, err));
    HR_TRY(diff_all(a, &diff, err));
  } else {
    HR_TRY(hr__transaction_commit(transaction, err));
  }
  if (cli->json) return hr__cli_put_json(hr__applied_json(a, dry_run, diff), err);
  if (diff) fputs(diff, stdout); /* alone on stdout, as patch would read it */
  if (!cli->quiet) {
    FILE *to = dry_run ? stderr : stdout;
    hr__applied_print(cli, a, to);
    if (dry_run || changed == 0)
      fprintf(to, "nothing is written%s\n", dry_run ? " (--dry-run)" : ": all is as it should be or left alone");
    else
      fprintf(to, "%zu file%s written, the old one%s beside as .backup; headroom apply --revert takes it back\n",
              changed, changed > 1 ? "s" : "", changed > 1 ? "s" : "");
  }
  return hr__cli_flush(err);
}

/* A name of a built-in map, or a file. */
static hr_status map_find(hr_cli *cli, const hr_map **out, hr_error *err) {
  const char *name = hr__cli_value(cli, "map");
  *out = name ? hr__map_named(name) : NULL;
  if (!name || *out) return HR_OK;
  char *text;
  size_t bytes;
  hr_error why = {0};
  hr_status status = hr__file_read(name, HR_DOC_MAX_BYTES, &cli->arena, &text, &bytes, &why);
  if (status == HR_BAD_INPUT) {
    const char *remedy = hr__arena_format(&cli->arena, "%sor a file", hr_map_names);
    if (!remedy) return hr__nomem(err);
    return hr__fail(err, HR_USAGE, "--map", remedy, "'%s' is no map that is built in, and no file: %s", name,
                    why.message);
  }
  if (status != HR_OK) {
    *err = why;
    return status;
  }
  hr_map *own;
  hr_key_table all;
  HR_TRY(hr__settings_keys(&cli->arena, &all, err));
  HR_TRY(hr__map_parse(name, text, bytes, &all, 1, &cli->arena, &own, err));
  *out = own;
  return HR_OK;
}

static hr_status job_apply(hr_cli *cli, const hr_job *job, const hr_map *map, bool dry_run, hr_error *err) {
  hr_applied *a = hr__arena_alloc(&cli->arena, sizeof *a);
  if (!a) return hr__nomem(err);
  json_t *settings = hr__recipe_json(job->recipe);
  if (!settings) return hr__nomem(err);
  a->job = job;
  a->arena = &cli->arena;
  a->insert = hr__cli_flag(cli, "insert");
  a->settings = settings;
  hr_transaction *transaction = NULL;
  hr_status status = files_open(cli, dry_run, &transaction, err);
  if (status == HR_OK) status = files_apply(cli, a, transaction, map, dry_run, err);
  hr__transaction_close(transaction);
  json_decref(settings);
  return status;
}

/* --- taking back -------------------------------------------------------------------------------------------------- */

static hr_status files_revert(hr_cli *cli, hr_transaction *transaction, bool dry_run, hr_error *err) {
  json_t *list = json_array();
  hr_status status = list ? HR_OK : hr__nomem(err);
  for (size_t f = 0; f < transaction->count && status == HR_OK; f++) {
    const hr_transaction_file *file = &transaction->files[f];
    const char *backup, *text;
    size_t backup_bytes, bytes;
    status = hr__transaction_backup(transaction, f, &backup, &backup_bytes, err);
    if (status == HR_OK && json_array_append_new(list, hr__json_string(file->path)) != 0) status = hr__nomem(err);
    if (status != HR_OK || !dry_run || cli->json) continue;
    status = hr__diff(file->path, file->text, file->bytes, file->path, backup, backup_bytes, &cli->arena, &text, &bytes,
                      err);
    if (status == HR_OK) fwrite(text, 1, bytes, stdout);
  }
  if (status == HR_OK && !dry_run) status = hr__transaction_revert(transaction, err);
  if (status == HR_OK && cli->json)
    return hr__cli_put_json(json_pack("{s:i, s:b, s:o}", "schema", 1, "dry_run", dry_run, "reverted", list), err);
  for (size_t f = 0; f < transaction->count && status == HR_OK && !dry_run && !cli->quiet; f++)
    printf("%s is as it was before\n", transaction->files[f].path);
  json_decref(list);
  return status == HR_OK ? hr__cli_flush(err) : status;
}

static hr_status revert(hr_cli *cli, bool dry_run, hr_error *err) {
  hr_transaction *transaction = NULL;
  HR_TRY(files_open(cli, dry_run, &transaction, err));
  hr_status status = files_revert(cli, transaction, dry_run, err);
  hr__transaction_close(transaction);
  return status;
}

static hr_status apply_run(hr_cli *cli, hr_error *err) {
  bool dry_run = hr__cli_flag(cli, "dry-run");
  bool back = hr__cli_flag(cli, "revert");
  if (cli->n_listed == 0)
    return hr__fail(err, HR_USAGE, "--to",
                    back ? "headroom apply --revert --to FILE..." : "headroom apply RECIPE --to conf/config.yaml",
                    "no config file is named to write to");
  if (back) return revert(cli, dry_run, err);
  if (cli->n_arguments == 0)
    return hr__fail(err, HR_USAGE, NULL, "headroom apply RECIPE --to FILE...", "headroom apply needs a recipe");
  const hr_map *map;
  HR_TRY(map_find(cli, &map, err));
  HR_TRY(hr__applied_take(cli, map, err));
  HR_TRY(hr__plan_overrides(cli, err));
  hr_job_source source = {cli->arguments[0], cli->overrides, cli->n_overrides};
  hr_job *job = NULL;
  HR_TRY(hr__cli_job_open(cli, &source, HR_CLI_RATES_NODES, &job, err));
  hr_status status = job->verdict.fits ? job_apply(cli, job, map, dry_run, err) : hr__fit_check(cli, job, err);
  hr__job_close(job);
  return status;
}

static const hr_cli_option options[] = {
    {"to", "FILE...", "YAML or JSON configs, written together or not at all"},
    {"map", "KIND|FILE", "kind of the files, or a map; else by what they hold"},
    {"dry-run", NULL, "writes nothing; a unified diff on stdout"},
    {"insert", NULL, "puts missing keys in"},
    {"revert", NULL, "puts FILE.backup back, byte for byte; needs no recipe"},
    HR_CHECKPOINT_OPTIONS,
    {"gpu", "NAME", "for a GPU that need not be here (headroom devices --gpus)"},
    {"gpu-memory", "SIZE", "instead of memory.budget: 24GiB"},
    {"margin", "SIZE", "instead of memory.margin: a size, or such as 15%"},
    {"target-effective-batch", "N", "instead of training.effective_batch"},
    {"auto", NULL, "the fastest that fits, of what the recipe leaves out"},
};

const hr_cli_command hr_cli_apply = {
    .name = "apply",
    .usage = "RECIPE --to FILE...",
    .summary = "writes the plan's settings into your own config: only values change",
    .details = "Comments and layout stay; FILE.backup is the file before; ${...} is left alone and reported. Kinds: "
#define HR_MAP(name, ...) name ", "
#include "recipe/maps.def"
#undef HR_MAP
               "or --map FILE.",
    .examples = "apply recipes/lora.yaml --to recipes/configs/lightning.yml --dry-run\n"
                "apply recipes/demo.yaml --auto --insert --to recipes/demo.yaml --dry-run",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .min_arguments = 0,
    .max_arguments = 1,
    .run = apply_run,
};
