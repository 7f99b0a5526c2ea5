/* headroom log: prints and filters what a run has written down, as it is written; CSV, and events for TensorBoard. */
#include "cli/log.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "format/file.h"
#include "train/board.h"
#include "watch/find.h"

typedef struct reading {
  hr_cli *cli;
  hr_arena arena;
  hr_history *history;
  hr_log_format format;
  hr_log_keys keys;
  int64_t first, last, every, tail; /* steps; tail: lines, 0: all */
  bool kinds[HR_RECORD_EVENT + 1];
  uint64_t printed, skip; /* lines; skip: that come before the tail */
  bool ended;             /* the newest event of start and end is an end */
} reading;

/* "100", "100-200", "100-", "-200" */
static hr_status steps_read(reading *r, const char *text, hr_error *err) {
  char *end;
  r->first = 0;
  r->last = INT64_MAX;
  if (!text) return HR_OK;
  bool good = *text != 0 && strcmp(text, "-") != 0;
  const char *at = text;
  if (*at != '-') {
    r->first = strtoll(at, &end, 10);
    good = good && end != at;
    at = end;
    if (*at == 0) r->last = r->first;
  }
  if (good && *at == '-' && at[1]) {
    r->last = strtoll(at + 1, &end, 10);
    good = end != at + 1;
    at = end;
  } else if (good && *at == '-') {
    at++;
  }
  if (good && *at == 0 && r->first <= r->last) return HR_OK;
  return hr__fail(err, HR_USAGE, "--steps", "write 100, 100-200, 100- or -200", "'%s' is not a range of steps", text);
}

static hr_status kinds_read(reading *r, const char *text, hr_error *err) {
  static const struct {
    const char *name;
    hr_record_kind kind;
  } names[] = {{"steps", HR_RECORD_STEP},
               {"evals", HR_RECORD_EVAL},
               {"samples", HR_RECORD_SAMPLES},
               {"events", HR_RECORD_EVENT},
               {"plans", HR_RECORD_HEADER}};
  enum { NAMES = sizeof names / sizeof *names };
  for (size_t i = 0; i < NAMES && !text; i++)
    r->kinds[names[i].kind] = r->format != HR_LOG_CSV || i < 2;
  if (!text) return HR_OK;
  char copy[256], *rest = NULL;
  snprintf(copy, sizeof copy, "%s", text);
  for (char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
    size_t i = 0;
    while (i < NAMES && strcmp(names[i].name, word) != 0)
      i++;
    if (i == NAMES)
      return hr__fail(err, HR_USAGE, "--only", "use steps, evals, samples, events or plans, with commas between",
                      "'%s' is no kind of line", word);
    r->kinds[names[i].kind] = true;
  }
  return HR_OK;
}

static hr_status keys_read(reading *r, const char *text, hr_error *err) {
  char *copy = text ? hr__arena_text(&r->arena, text) : NULL, *rest = NULL;
  if (!text) return HR_OK;
  if (!copy) return hr__nomem(err);
  for (char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
    if (hr__arena_grow(&r->arena, (void **)&r->keys.list, &r->keys.capacity, r->keys.count, sizeof *r->keys.list) != 0)
      return hr__nomem(err);
    r->keys.list[r->keys.count++] = word;
  }
  if (r->keys.count > 0) return HR_OK;
  return hr__fail(err, HR_USAGE, "--keys", "write --keys loss,lr", "there are no keys");
}

/* Whether a record is asked for. Lines that have none of the keys are not. */
static bool is_wanted(const reading *r, const hr_record *record) {
  if (record->kind == HR_RECORD_AGAIN || !r->kinds[record->kind]) return false;
  if (record->step < r->first || record->step > r->last) return false;
  if (record->kind == HR_RECORD_STEP && record->step % r->every != 0) return false;
  bool any = r->keys.count == 0;
  for (size_t i = 0; i < r->keys.count && !any; i++)
    any = strcmp(r->keys.list[i], HR_LOG_STEP) != 0 && hr__log_value(record->fields, r->keys.list[i]) != NULL;
  return any;
}

static void record_note(reading *r, const hr_record *record) {
  if (record->kind != HR_RECORD_EVENT) return;
  if (strcmp(record->event, "started") == 0) r->ended = false;
  if (strcmp(record->event, "ended") == 0) r->ended = true;
}

static void record_print(reading *r, const hr_record *record) {
  record_note(r, record);
  if (!is_wanted(r, record)) return;
  if (r->skip > 0) {
    r->skip--;
    return;
  }
  if (r->format == HR_LOG_CSV) hr__log_print_csv(record, &r->keys, stdout);
  if (r->format == HR_LOG_PLAIN) hr__log_print_plain(record, &r->keys, stdout);
  if (r->format == HR_LOG_JSON) {
    if (r->printed > 0) fputs(",\n", stdout);
    hr__log_print_json(record, &r->keys, stdout);
  }
  r->printed++;
}

/* Everything that is there now. */
static hr_status records_print(reading *r, hr_error *err) {
  for (;;) {
    hr_record record;
    bool there;
    HR_TRY(hr__history_next(r->history, &record, &there, err));
    if (!there) return hr__cli_flush(err);
    record_print(r, &record);
  }
}

/* A look at the whole log before it is printed: for columns of CSV, and for the last lines. */
static hr_status log_survey(reading *r, const char *path, hr_error *err) {
  bool names = r->format == HR_LOG_CSV && r->keys.count == 0;
  if (!names && r->tail == 0) return HR_OK;
  hr_log_keys found = {0};
  uint64_t lines = 0;
  hr_history *history;
  HR_TRY(hr__history_open(path, &history, err));
  hr_status status = HR_OK;
  for (bool there = true; there && status == HR_OK;) {
    hr_record record;
    status = hr__history_next(history, &record, &there, err);
    if (status != HR_OK || !there || !is_wanted(r, &record)) continue;
    lines++;
    if (names && !hr__log_keys_add(&found, &record, &r->arena)) status = hr__nomem(err);
  }
  hr__history_close(history);
  if (names) r->keys = found;
  if (r->tail > 0 && lines > (uint64_t)r->tail) r->skip = lines - (uint64_t)r->tail;
  return status;
}

/* As long as the run goes on: until it says that it ended. One that was killed may be resumed. */
static hr_status follow(reading *r, hr_error *err) {
  static const struct timespec pause = {.tv_nsec = 200000000};
  while (!r->ended) {
    nanosleep(&pause, NULL);
    HR_TRY(records_print(r, err));
  }
  return HR_OK;
}

static hr_status log_print(reading *r, const char *path, hr_error *err) {
  HR_TRY(log_survey(r, path, err));
  HR_TRY(hr__history_open(path, &r->history, err));
  if (r->format == HR_LOG_CSV) hr__log_print_csv_head(&r->keys, stdout);
  if (r->format == HR_LOG_JSON) fputs("{\"schema\":1,\"lines\":[", stdout);
  HR_TRY(records_print(r, err));
  if (hr__cli_flag(r->cli, "follow")) HR_TRY(follow(r, err));
  uint64_t broken = hr__history_broken(r->history);
  if (r->format == HR_LOG_JSON)
    printf("],\"broken_lines\":%llu}\n", (unsigned long long)broken);
  else if (broken > 0 && !r->cli->quiet)
    fprintf(stderr, "%llu lines of %s cannot be read\n", (unsigned long long)broken, path);
  return hr__cli_flush(err);
}

/* --- TensorBoard -------------------------------------------------------------------------------------------------- */

static void events_lost(void *user, const char *path, const char *why) {
  (void)hr__fail(user, HR_IO, path, NULL, "%s", why);
}

static hr_status events_make(const reading *r, const char *path, const char *folder, hr_error *err) {
  hr_error lost = {0};
  hr_history *history;
  if (hr__find_is_run(folder))
    return hr__fail(err, HR_USAGE, folder, "give another folder; training.tensorboard writes them into the run's own",
                    "this is the folder of a run, which may have event files of its own");
  HR_TRY(hr__file_make_folders(folder, err));
  HR_TRY(hr__history_open(path, &history, err));
  hr_board *board = hr__board_open(folder, 0, events_lost, &lost);
  hr_status status = HR_OK;
  uint64_t lines = 0, old = 0;
  for (bool there = true; board && there && status == HR_OK;) {
    hr_record record;
    status = hr__history_next(history, &record, &there, err);
    if (status != HR_OK || !there || !is_wanted(r, &record)) continue;
    old += !isfinite(record.time) && record.kind != HR_RECORD_HEADER;
    hr__board_record(board, &record);
    lines++;
  }
  hr__board_close(board);
  hr__history_close(history);
  if (status == HR_OK && !board && lost.status == HR_OK) return hr__nomem(err);
  if (lost.status != HR_OK) *err = lost;
  if (lost.status != HR_OK) return lost.status;
  if (status == HR_OK && old > 0)
    return hr__fail(err, HR_BAD_INPUT, path, NULL, "%llu of %llu lines are of an older version and have no time",
                    (unsigned long long)old, (unsigned long long)lines);
  if (status == HR_OK && !r->cli->quiet)
    fprintf(stderr, "events of %llu lines are in %s\n", (unsigned long long)lines, folder);
  return status;
}

/* A run's folder, or a log itself. */
static hr_status path_find(const char *run, char path[PATH_MAX], hr_error *err) {
  struct stat facts;
  bool folder = stat(run, &facts) == 0 && S_ISDIR(facts.st_mode);
  snprintf(path, PATH_MAX, "%s%s", run, folder ? "/log.jsonl" : "");
  if (!folder || access(path, F_OK) == 0) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, run, "give the folder of a run: --out of headroom train",
                  "there is no run here: no log.jsonl");
}

static hr_status options_read(reading *r, hr_error *err) {
  hr_cli *cli = r->cli;
  bool csv = hr__cli_flag(cli, "csv");
  if (csv && cli->json)
    return hr__fail(err, HR_USAGE, "--csv", "leave one of them out", "--csv and --json exclude each other");
  r->format = csv ? HR_LOG_CSV : cli->json ? HR_LOG_JSON : HR_LOG_PLAIN;
  HR_TRY(steps_read(r, hr__cli_value(cli, "steps"), err));
  HR_TRY(kinds_read(r, hr__cli_value(cli, "only"), err));
  HR_TRY(keys_read(r, hr__cli_value(cli, "keys"), err));
  HR_TRY(hr__cli_int(cli, "every", 1, 1, &r->every, err));
  return hr__cli_int(cli, "last", 1, 0, &r->tail, err);
}

static hr_status log_run(hr_cli *cli, hr_error *err) {
  reading r = {.cli = cli};
  char path[PATH_MAX];
  const char *events = hr__cli_value(cli, "tensorboard");
  hr_status status = options_read(&r, err);
  if (status == HR_OK) status = path_find(cli->arguments[0], path, err);
  if (status == HR_OK) status = events ? events_make(&r, path, events, err) : log_print(&r, path, err);
  hr__history_close(r.history);
  hr__arena_fini(&r.arena);
  return status;
}

static const hr_cli_option options[] = {
    {"steps", "RANGE", "100, 100-200, 100- or -200"},
    {"every", "N", "of steps only those that N divides"},
    {"last", "N", "the last N lines"},
    {"only", "KINDS", "steps, evals, samples, events, plans; with commas between"},
    {"keys", "KEYS", "members of lines: loss,lr,losses.NAME,tiers.device.held_bytes"},
    {"csv", NULL, "as CSV: steps and evaluations, or what --only says"},
    {"follow", NULL, "(-f) go on as lines come, until the run ends"},
    {"tensorboard", "DIR", "event files for TensorBoard, in DIR, instead"},
};

const hr_cli_command hr_cli_log = {
    .name = "log",
    .usage = "RUN",
    .summary = "prints and filters what a run has logged",
    .details = "RUN is the folder of a run, or a log.jsonl. With --json: the lines as they are.",
    .subject = "the folder of a run",
    .examples = "train recipes/demo.yaml --steps 3 --out out/logged\n"
                "log out/logged --keys loss,seconds\n"
                "log out/logged --csv\n"
                "log out/logged --only events --last 2\n"
                "log out/logged --tensorboard out/events",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .min_arguments = 1,
    .max_arguments = 1,
    .run = log_run,
};
