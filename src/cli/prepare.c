/* headroom prepare: vectors of raw events, made once. */
#include <inttypes.h>
#include <string.h>

#include "base/work.h"
#include "cli/cli.h"
#include "data/events.h"
#include "format/json.h"
#include "job/settings.h"

static json_t *part_json(const hr_prepared_part *part) {
  if (!part->path) return json_null();
  return json_pack("{s:o, s:I, s:I}", "path", hr__json_string(part->path), "samples", (json_int_t)part->samples,
                   "vectors", (json_int_t)part->vectors);
}

static void part_print(const char *name, const hr_prepared_part *part) {
  if (part->path)
    printf("%s: %" PRIu64 " samples, %" PRIu64 " vectors, in %s\n", name, part->samples, part->vectors, part->path);
}

static hr_status source_check(const hr_recipe *recipe, hr_error *err) {
  const char *source = hr__recipe_text(recipe, "data.source");
  if (strcmp(source, "events") == 0) return HR_OK;
  return hr__recipe_fail(recipe, "data.source", "train with it as it is", err,
                         "source %s needs no preparing: prepare makes vectors of events", source);
}

static hr_status prepare(hr_cli *cli, const hr_recipe *recipe, const char *folder, hr_error *err) {
  hr_prepared prepared;
  HR_TRY(source_check(recipe, err));
  hr_work work;
  hr__work_begin(&work, hr__cli_progress(cli), "making vectors", 0);
  hr_status status = hr__events_prepare(recipe, (uint64_t)hr__recipe_int(recipe, "training.seed"), folder, &prepared,
                                        &cli->arena, err);
  hr__work_end(&work);
  HR_TRY(status);
  if (cli->json)
    return hr__cli_put_json(json_pack("{s:{s:o, s:o}}", "prepared", "train", part_json(&prepared.train), "validation",
                                      part_json(&prepared.held)),
                            err);
  if (!cli->quiet) {
    part_print("train", &prepared.train);
    part_print("validation", &prepared.held);
    printf("train on them with data.path: %s%s%s\n", prepared.train.path ? prepared.train.path : "(nothing)",
           prepared.held.path ? ", data.eval_path: " : "", prepared.held.path ? prepared.held.path : "");
  }
  return hr__cli_flush(err);
}

static hr_status prepare_run(hr_cli *cli, hr_error *err) {
  const char *folder = hr__cli_value(cli, "out");
  hr_recipe *recipe = NULL;
  if (!folder)
    return hr__fail(err, HR_USAGE, NULL, "headroom prepare RECIPE --out DIR", "--out is missing: where the files go");
  HR_TRY(hr__settings_load(cli->arguments[0], cli->overrides, cli->n_overrides, &recipe, err));
  hr_status status = prepare(cli, recipe, folder, err);
  hr__recipe_destroy(recipe);
  return status;
}

static const hr_cli_option options[] = {
    {"out", "DIR", "folder of the files: train.safetensors, validation.safetensors"},
};

const hr_cli_command hr_cli_prepare = {
    .name = "prepare",
    .usage = "RECIPE",
    .summary = "vectors of an event camera's recordings, made once",
    .details = "Reads what data.path of the recipe names (a manifest of raw events, or HDF5) and writes "
               "vectors that training reads quickly. Old files stay whole until new ones are.",
    .examples = "prepare recipes/002-small.yaml --set data.events.generate=16 --out out/events",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .min_arguments = 1,
    .max_arguments = 1,
    .run = prepare_run,
};
