/* headroom embed: the points that a run's model gives to the items of its data, or of another file. */
#include <inttypes.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/fit.h"
#include "cli/jobs.h"
#include "data/nearest.h"
#include "format/file.h"
#include "format/json.h"
#include "format/npy.h"
#include "text/tokenizer.h"
#include "train/session.h"

enum { NEAREST = 10, NEAREST_MOST = 1000 };

typedef struct embedding {
  hr_cli *cli;
  const char *run;    /* folder */
  const char *folder; /* of its newest checkpoint */
  hr_job *job;
  hr_device *device;
  hr_train_options options;
  hr_session session;
  uint64_t items;
  int64_t width;
} embedding;

/* --- what was trained --------------------------------------------------------------------------------------------- */

/* Settings of a run that say what its model is, how its data is read, and where it is computed. Others are of training.
 */
static bool is_kept(const char *path) {
  static const char *const kept[] = {"model.",       "data.", "memory.device", "memory.budget", "training.batch_size",
                                     "training.seed"};
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
    if (strncmp(path, kept[i], strlen(kept[i])) == 0) return true;
  return false;
}

static hr_status settings_read(embedding *e, const hr_manifest *manifest, hr_job_source *out, hr_error *err) {
  static const char *const own[] = {"training.optimizer={kind: sgd, momentum: 0, lr: 1e-9}",
                                    "training.steps=1",
                                    "training.eval_every=1",
                                    "memory.checkpoint=every-layer",
                                    "data.taxonomy.codes_only=true",
                                    "data.buckets=null"};
  enum { OWN = sizeof own / sizeof *own };
  hr_cli *cli = e->cli;
  const char **all = hr__arena_array(&cli->arena, manifest->n_settings + OWN + cli->n_overrides + 2, sizeof *all);
  const char *data = hr__cli_value(cli, "data");
  size_t count = 0;
  if (!all) return hr__nomem(err);
  for (size_t i = 0; i < manifest->n_settings; i++)
    if (is_kept(manifest->settings[i].path))
      all[count++] = hr__arena_format(&cli->arena, "%s=%s", manifest->settings[i].path, manifest->settings[i].value);
  for (size_t i = 0; i < OWN; i++)
    all[count++] = own[i];
  if (data) all[count++] = hr__arena_format(&cli->arena, "data.path=%s", data);
  if (hr__tokenizer_is_there(e->folder)) /* as it was then, wherever the original is now */
    all[count++] = hr__arena_format(&cli->arena, "data.tokenizer=%s", e->folder);
  for (size_t i = 0; i < count; i++)
    if (!all[i]) return hr__nomem(err);
  for (size_t i = 0; i < cli->n_overrides; i++)
    all[count++] = cli->overrides[i];
  *out = (hr_job_source){"", all, count};
  return HR_OK;
}

static hr_status embedding_open(embedding *e, hr_error *err) {
  hr_manifest *manifest = hr__arena_alloc(&e->cli->arena, sizeof *manifest);
  hr_job_source source = {0};
  if (!manifest) return hr__nomem(err);
  HR_TRY(hr__generation_newest(e->run, &e->cli->arena, &e->folder, manifest, err));
  if (!e->folder)
    return hr__fail(err, HR_BAD_INPUT, e->run, "give the folder that train was given as --out",
                    "there is no checkpoint of a run in this folder");
  HR_TRY(settings_read(e, manifest, &source, err));
  HR_TRY(hr__cli_job_open(e->cli, &source, HR_CLI_RATES_PLAN, &e->job, err));
  if (hr__graph_find_kind(e->job->graph, HR_PROGRAM_EVAL) == HR_NONE ||
      hr__program_output(e->job->graph, hr__graph_find_kind(e->job->graph, HR_PROGRAM_EVAL), HR_OUTPUT_POINTS) ==
          HR_NONE)
    return hr__fail(err, HR_USAGE, e->run, "give a run of a model that does, such as recipes/004-small.yaml",
                    "the model of this run makes no points of its data");
  HR_TRY(hr__fit_check(e->cli, e->job, err));
  HR_TRY(hr__job_device(e->job, &e->device, err));
  e->options = (hr_train_options){
      .recipe = e->job->recipe, .plan = e->job->plan, .device = e->device, .begin = e->run, .check_peak = true};
  HR_TRY(hr__session_create(&e->options, false, &e->session, err));
  HR_TRY(hr__session_begin(&e->session, err));
  int64_t of_a_row;
  e->items = hr__data_items(e->session.data, &of_a_row);
  return hr__session_points(&e->session, &e->width, err);
}

static void embedding_close(embedding *e) {
  if (e->session.run) hr__session_destroy(&e->session);
  if (e->device) hr__device_close(e->device);
  hr__job_close(e->job);
}

/* --- what is shown and written ------------------------------------------------------------------------------------ */

static json_t *point_json(const embedding *e, uint64_t item) {
  json_t *list = json_array();
  for (int64_t i = 0; list && i < e->width; i++)
    json_array_append_new(list, json_real((double)e->session.points[item * (uint64_t)e->width + (uint64_t)i]));
  return list;
}

/* A line for each item: {"code": ..., "point": [...]}. */
static hr_status lines_write(const embedding *e, const char *path, hr_error *err) {
  hr_string text = {0};
  hr_status status = HR_OK;
  for (uint64_t i = 0; i < e->items && status == HR_OK; i++) {
    json_t *line =
        json_pack("{s:o, s:o}", "code", hr__json_string(hr__data_item(e->session.data, i)), "point", point_json(e, i));
    char *one = line ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    status = one ? hr__string_add(&text, one, strlen(one), err) : hr__nomem(err);
    if (status == HR_OK) status = hr__string_add(&text, "\n", 1, err);
    hr__free(one);
    json_decref(line);
  }
  if (status == HR_OK) status = hr__file_replace(path, text.data, text.count, err);
  hr__string_fini(&text);
  return status;
}

static hr_status points_write(const embedding *e, const char *path, hr_error *err) {
  if (hr__data_ends_as(path, ".jsonl|.ndjson")) return lines_write(e, path, err);
  if (hr__data_ends_as(path, ".npy")) return hr__npy_write(path, e->session.points, (int64_t)e->items, e->width, err);
  return hr__fail(err, HR_USAGE, path, "name it FILE.npy or FILE.jsonl", "points are written as .npy or .jsonl");
}

/* The items nearest to one: shown, or with --json in *list. */
static hr_status nearest_find(const embedding *e, const char *name, json_t **list, hr_error *err) {
  int64_t count;
  uint64_t item = 0;
  HR_TRY(hr__cli_int(e->cli, "count", 1, NEAREST, &count, err));
  if (count > NEAREST_MOST) count = NEAREST_MOST;
  while (item < e->items && strcmp(hr__data_item(e->session.data, item), name) != 0)
    item++;
  if (item == e->items)
    return hr__fail(err, HR_BAD_INPUT, "--nearest", "give a code of the data", "there is no code %.80s", name);
  int32_t numbers[NEAREST_MOST];
  double distances[NEAREST_MOST];
  size_t found = hr__points_nearest(e->session.points, e->items, e->width, item, (size_t)count, numbers, distances);
  if (e->cli->json && !(*list = json_array())) return hr__nomem(err);
  for (size_t i = 0; i < found; i++) {
    const char *other = hr__data_item(e->session.data, (uint64_t)numbers[i]);
    if (!*list)
      printf("%10.4f  %s\n", distances[i], other);
    else if (json_array_append_new(
                 *list, json_pack("{s:o, s:f}", "code", hr__json_string(other), "distance", distances[i])) != 0)
      return hr__nomem(err);
  }
  return HR_OK;
}

static hr_status embedding_run(embedding *e, hr_error *err) {
  const char *out = hr__cli_value(e->cli, "out"), *nearest = hr__cli_value(e->cli, "nearest");
  json_t *list = NULL;
  if (!out && !nearest)
    return hr__fail(err, HR_USAGE, NULL, "add --out FILE.npy, or --nearest CODE", "there is nothing to do with points");
  HR_TRY(embedding_open(e, err));
  if (out) HR_TRY(points_write(e, out, err));
  if (out && !e->cli->quiet && !e->cli->json)
    fprintf(stderr, "%s: %" PRIu64 " points of %" PRId64 " numbers\n", out, e->items, e->width);
  hr_status status = nearest ? nearest_find(e, nearest, &list, err) : HR_OK;
  if (status == HR_OK && e->cli->json)
    return hr__cli_put_json(json_pack("{s:i, s:I, s:I, s:o, s:o}", "schema", 1, "points", (json_int_t)e->items, "width",
                                      (json_int_t)e->width, "out", out ? hr__json_string(out) : json_null(), "nearest",
                                      list ? list : json_null()),
                            err);
  json_decref(list);
  return status == HR_OK ? hr__cli_flush(err) : status;
}

static hr_status embed_run(hr_cli *cli, hr_error *err) {
  embedding *e = hr__alloc_zero(1, sizeof *e);
  if (!e) return hr__nomem(err);
  e->cli = cli;
  e->run = cli->arguments[0];
  hr_status status = embedding_run(e, err);
  embedding_close(e);
  hr__free(e);
  return status;
}

static const hr_cli_option options[] = {
    {"data", "FILE", "what to make points of (default: what the run was trained on)"},
    {"out", "FILE", "writes all points: FILE.npy, or FILE.jsonl with their codes"},
    {"nearest", "CODE", "shows the codes that are nearest to this one"},
    {"count", "N", "how many of them (default: 10)"},
};

const hr_cli_command hr_cli_embed = {
    .name = "embed",
    .usage = "RUN",
    .summary = "makes points of data by the model of a run",
    .details = "RUN: the folder of a run whose model makes points, such as recipes/004-small.yaml.",
    .subject = "the folder of a run",
    .examples = "train recipes/004-small.yaml --steps 2 --out out/004-two --quiet\n"
                "embed out/004-two --nearest 111 --count 3",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .min_arguments = 1,
    .max_arguments = 1,
    .run = embed_run,
};
