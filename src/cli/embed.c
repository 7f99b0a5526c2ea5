/* headroom embed: the points that a run's model gives to the items of its data, or of another file. */
#include <inttypes.h>
#include <string.h>

#include "cli/ran.h"
#include "data/nearest.h"
#include "format/file.h"
#include "format/json.h"
#include "format/npy.h"
#include "text/grow.h"

enum { NEAREST = 10, NEAREST_MOST = 1000 };

typedef struct embedding {
  hr_cli *cli;
  hr_ran ran;
  uint64_t items;
  int64_t width;
} embedding;

static hr_status embedding_open(embedding *e, hr_error *err) {
  static const char *const own[] = {"training.eval_every=1", "data.taxonomy.codes_only=true"};
  hr_ran *r = &e->ran;
  HR_TRY(hr__ran_plan(r, own, sizeof own / sizeof *own, err));
  if (hr__graph_find_kind(r->job->graph, HR_PROGRAM_EVAL) == HR_NONE ||
      hr__program_output(r->job->graph, hr__graph_find_kind(r->job->graph, HR_PROGRAM_EVAL), HR_OUTPUT_POINTS) ==
          HR_NONE)
    return hr__fail(err, HR_USAGE, r->run, "give a run of a model that does, such as recipes/004-small.yaml",
                    "the model of this run makes no points of its data");
  if (hr__cli_value(e->cli, "nearest") && hr__source_of(r->job->recipe)->items_held)
    return hr__fail(err, HR_USAGE, "--nearest", "write them with --out FILE.npy",
                    "what this model makes are scores of classes, between which there is no distance");
  HR_TRY(hr__ran_load(r, err));
  int64_t of_a_row;
  e->items = hr__data_items(r->session.data, &of_a_row);
  return hr__session_points(&r->session, &e->width, err);
}

/* --- what is shown and written ------------------------------------------------------------------------------------ */

static json_t *point_json(const embedding *e, uint64_t item) {
  json_t *list = json_array();
  for (int64_t i = 0; list && i < e->width; i++)
    json_array_append_new(list, json_real((double)e->ran.session.points[item * (uint64_t)e->width + (uint64_t)i]));
  return list;
}

/* A line for each item: {"code": ..., "point": [...]}. */
static hr_status lines_write(const embedding *e, const char *path, hr_error *err) {
  hr_string text = {0};
  hr_status status = HR_OK;
  for (uint64_t i = 0; i < e->items && status == HR_OK; i++) {
    json_t *line = json_pack("{s:o, s:o}", "code", hr__json_string(hr__data_item(e->ran.session.data, i)), "point",
                             point_json(e, i));
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
  if (hr__data_ends_as(path, ".npy"))
    return hr__npy_write(path, e->ran.session.points, (int64_t)e->items, e->width, err);
  return hr__fail(err, HR_USAGE, path, "name it FILE.npy or FILE.jsonl", "points are written as .npy or .jsonl");
}

/* The items nearest to one: shown, or with --json in *list. */
static hr_status nearest_find(const embedding *e, const char *name, json_t **list, hr_error *err) {
  int64_t count;
  uint64_t item = 0;
  HR_TRY(hr__cli_int(e->cli, "count", 1, NEAREST, &count, err));
  if (count > NEAREST_MOST) count = NEAREST_MOST;
  while (item < e->items && strcmp(hr__data_item(e->ran.session.data, item), name) != 0)
    item++;
  if (item == e->items)
    return hr__fail(err, HR_BAD_INPUT, "--nearest", "give a code of the data", "there is no code %.80s", name);
  int32_t numbers[NEAREST_MOST];
  double distances[NEAREST_MOST];
  size_t found = hr__points_nearest(e->ran.session.points, e->items, e->width, item, (size_t)count, numbers, distances);
  if (e->cli->json && !(*list = json_array())) return hr__nomem(err);
  for (size_t i = 0; i < found; i++) {
    const char *other = hr__data_item(e->ran.session.data, (uint64_t)numbers[i]);
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
  e->cli = e->ran.cli = cli;
  hr_status status = embedding_run(e, err);
  hr__ran_close(&e->ran);
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
