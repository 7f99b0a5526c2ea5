/* headroom apply: writes the settings of a plan into the user's own config files, and takes them back. */
#include <string.h>

#include "cli/applied.h"
#include "cli/checkpoint_flags.h"
#include "cli/cli.h"
#include "cli/fit.h"
#include "cli/jobs.h"
#include "cli/plan.h"
#include "format/diff.h"
#include "format/file.h"
#include "format/json.h"
#include "train/settings.h"

/* --- what was done ------------------------------------------------------------------------------------------------ */

static const char *outcome_name(hr_edit_outcome outcome) {
  static const char *const names[] = {[HR_EDIT_SAME] = "same",
                                      [HR_EDIT_WRITTEN] = "written",
                                      [HR_EDIT_INSERTED] = "inserted",
                                      [HR_EDIT_MISSING] = "missing",
                                      [HR_EDIT_LEFT] = "left"};
  return names[outcome];
}

static const char step_warning[] =
    "batch size and accumulation are not both as planned: set what is left by hand, or a "
    "step has another number of samples";

/* Appends to a list; takes the reference. */
static int put(json_t *list, json_t *item) {
  return json_array_append_new(list, item);
}

static json_t *edit_json(const hr_edit *edit) {
  return json_pack("{s:s*, s:o, s:s, s:i, s:o*, s:o*, s:o*}", "setting", edit->label, "key",
                   hr__json_string(edit->path), "outcome", outcome_name(edit->outcome), "line", edit->line, "old",
                   edit->old ? hr__json_string(edit->old) : NULL, "new", edit->now ? hr__json_string(edit->now) : NULL,
                   "reason", edit->reason ? hr__json_string(edit->reason) : NULL);
}

static json_t *file_json(const hr_applied_file *file) {
  json_t *edits = json_array();
  int failed = !edits;
  for (size_t i = 0; i < file->count && !failed; i++)
    failed = put(edits, edit_json(&file->edits[i]));
  if (failed) {
    json_decref(edits);
    return NULL;
  }
  return json_pack("{s:o, s:o, s:b, s:o}", "path", hr__json_string(file->config.name), "map",
                   hr__json_string(file->map->name), "changed", file->changed, "keys", edits);
}

static json_t *answer_json(const hr_applied *a, bool dry_run, const char *diff) {
  json_t *files = json_array(), *notes = json_array();
  int failed = !files || !notes;
  for (size_t f = 0; f < a->n_files && !failed; f++)
    failed = put(files, file_json(&a->files[f]));
  for (size_t i = 0; i < a->n_notes && !failed; i++)
    failed = put(notes, json_pack("{s:s*, s:o, s:o, s:s}", "setting", a->notes[i].setting, "value",
                                  hr__json_string(a->notes[i].value), "key", hr__json_string(a->notes[i].key), "reason",
                                  a->notes[i].reason));
  if (failed) {
    json_decref(files);
    json_decref(notes);
    return NULL;
  }
  return json_pack("{s:i, s:b, s:o, s:o, s:s*, s:o*}", "schema", 1, "dry_run", dry_run, "files", files, "not_written",
                   notes, "warning", hr__applied_step_differs(a) ? step_warning : NULL, "diff",
                   diff ? hr__json_string(diff) : NULL);
}

/* Prints what may come from a file: hostile, and may be long. At most `most` characters. */
static void print_escaped(const char *text, size_t most, FILE *to) {
  char shown[512];
  hr__text_escape(text, strlen(text), shown, most < sizeof shown ? most : sizeof shown);
  fputs(shown, to);
}

static void edit_print(const hr_edit *edit, hr_style style, FILE *to) {
  enum { VALUE = 64, LINE = 400 };
  char path[LINE];
  hr__text_escape(edit->path, strlen(edit->path), path, sizeof path);
  fprintf(to, "%6d  %-44s ", edit->line, path);
  switch (edit->outcome) {
  case HR_EDIT_WRITTEN:
  case HR_EDIT_INSERTED:
    fputs(style.bold, to);
    print_escaped(edit->old && *edit->old ? edit->old : "(none)", VALUE, to);
    fputs(" -> ", to);
    print_escaped(edit->now ? edit->now : "", VALUE, to);
    fprintf(to, "%s\n", style.end);
    break;
  case HR_EDIT_SAME:
    print_escaped(edit->old ? edit->old : "", VALUE, to);
    fputs(" already\n", to);
    break;
  case HR_EDIT_MISSING:
  case HR_EDIT_LEFT:
    fprintf(to, "%sleft alone%s: ", style.yellow, style.end);
    print_escaped(edit->reason, LINE, to);
    fputs(" (would be ", to);
    print_escaped(edit->value.text, VALUE, to);
    fputs(")\n", to);
    break;
  }
}

static void answer_print(const hr_cli *cli, const hr_applied *a, FILE *to) {
  hr_style style = hr__cli_style(cli, to);
  for (size_t f = 0; f < a->n_files; f++) {
    fputs(style.bold, to);
    print_escaped(a->files[f].config.name, SIZE_MAX, to);
    fprintf(to, "%s (", style.end);
    print_escaped(a->files[f].map->name, SIZE_MAX, to);
    fputs(")\n", to);
    for (size_t i = 0; i < a->files[f].count; i++)
      edit_print(&a->files[f].edits[i], style, to);
  }
  for (size_t i = 0; i < a->n_notes; i++) {
    const hr_applied_note *note = &a->notes[i];
    fprintf(to, "%snot written%s: ", style.yellow, style.end);
    print_escaped(note->setting ? note->setting : note->key, HR_MAP_PATH, to);
    fputs(" = ", to);
    print_escaped(note->value, HR_MAP_PATH, to);
    fputs("; ", to);
    print_escaped(note->key, HR_MAP_PATH, to);
    fprintf(to, " %s\n", note->reason);
  }
  if (hr__applied_step_differs(a)) fprintf(to, "%swarning%s: %s\n", style.red, style.end, step_warning);
}

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
  if (dry_run)
    HR_TRY(diff_all(a, &diff, err));
  else
    HR_TRY(hr__transaction_commit(transaction, err));
  if (cli->json) return hr__cli_put_json(answer_json(a, dry_run, diff), err);
  if (diff) fputs(diff, stdout); /* alone on stdout, as patch would read it */
  if (!cli->quiet) {
    FILE *to = dry_run ? stderr : stdout;
    answer_print(cli, a, to);
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
  hr_key_table tables[HR_SETTINGS_TABLES];
  hr__settings_tables(tables);
  HR_TRY(hr__map_parse(name, text, bytes, tables, HR_SETTINGS_TABLES, &cli->arena, &own, err));
  *out = own;
  return HR_OK;
}

static hr_status job_apply(hr_cli *cli, const hr_job *job, bool dry_run, hr_error *err) {
  const hr_map *map;
  HR_TRY(map_find(cli, &map, err));
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
    if (status == HR_OK && put(list, hr__json_string(file->path)) != 0) status = hr__nomem(err);
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
  if (cli->n_listed == 0)
    return hr__fail(err, HR_USAGE, "--to", "headroom apply RECIPE --to conf/config.yaml",
                    "no config file is named to write to");
  if (hr__cli_flag(cli, "revert")) return revert(cli, dry_run, err);
  if (cli->n_arguments == 0)
    return hr__fail(err, HR_USAGE, NULL, "headroom apply RECIPE --to FILE...", "headroom apply needs a recipe");
  HR_TRY(hr__plan_overrides(cli, err));
  hr_job_source source = {cli->arguments[0], cli->overrides, cli->n_overrides};
  hr_job *job = NULL;
  HR_TRY(hr__cli_job_open(cli, &source, HR_CLI_RATES_NODES, &job, err));
  hr_status status = job->verdict.fits ? job_apply(cli, job, dry_run, err) : hr__fit_check(cli, job, err);
  hr__job_close(job);
  return status;
}

static const hr_cli_option options[] = {
    {"to", "FILE...", "YAML or JSON configs, written together or not at all"},
    {"map", "KIND|FILE", "kind of the files, or a map (docs/apply.md); else by what they hold"},
    {"dry-run", NULL, "writes nothing; a unified diff on stdout"},
    {"insert", NULL, "puts missing keys in"},
    {"revert", NULL, "puts FILE.backup back, byte for byte; needs no recipe"},
    HR_CHECKPOINT_OPTIONS,
    {"gpu", "NAME", "plans for a GPU that need not be here (headroom devices --gpus)"},
    {"gpu-memory", "SIZE", "instead of memory.budget: 24GiB"},
    {"margin", "SIZE", "instead of memory.margin"},
    {"target-effective-batch", "N", "instead of training.effective_batch"},
    {"auto", NULL, "opens what the recipe does not write, for the fastest that fits"},
};

const hr_cli_command hr_cli_apply = {
    .name = "apply",
    .usage = "RECIPE --to FILE...",
    .summary = "writes the plan's settings into your own config, changing only the bytes of the values",
    .details = "Comments and layout stay; FILE.backup is the file before; ${...} is left alone and reported. Kinds:\n"
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
