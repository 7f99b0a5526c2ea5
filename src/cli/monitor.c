/* headroom monitor: runs as they go. Nothing is written but what `s` saves, into a folder that is no run's. */
#include "cli/monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/screen.h"
#include "watch/find.h"

enum { RUNS_MOST = 256 };

typedef struct session {
  hr_cli *cli;
  hr_monitor monitor;
  hr_monitor_choice choice;
  double interval;
  double next_find; /* hr__seconds_now() of the next search for runs */
  char note[PATH_MAX + 64];
  double note_until;
} session;

static void now_look(hr_monitor *m) {
  m->now = (hr_watch_now){.time = hr__calendar_now(),
                          .clock = hr__seconds_now(),
                          .machine = m->machine,
                          .processors = (int)sysconf(_SC_NPROCESSORS_ONLN),
                          .gpus = m->gpus,
                          .n_gpus = hr__nvml_count(m->nvml)};
  for (size_t g = 0; g < m->now.n_gpus; g++)
    if (!hr__nvml_look(m->nvml, g, &m->gpus[g])) m->gpus[g] = (hr_nvml_gpu){.use = -1};
}

static bool is_watched(const hr_monitor *m, const char *folder) {
  for (size_t i = 0; i < m->count; i++)
    if (strcmp(m->runs[i]->folder, folder) == 0) return true;
  return false;
}

static hr_status run_add(session *s, const char *folder, hr_error *err) {
  hr_monitor *m = &s->monitor;
  if (m->count == RUNS_MOST || is_watched(m, folder)) return HR_OK;
  if (m->count == m->capacity) {
    size_t capacity = m->capacity > 0 ? 2 * m->capacity : 16;
    hr_watched **runs = hr__realloc(m->runs, capacity * sizeof(hr_watched *));
    if (!runs) return hr__nomem(err);
    m->runs = runs;
    m->capacity = capacity;
  }
  hr_error why = {0};
  hr_status status = hr__watched_open(folder, &m->runs[m->count], &why);
  if (status == HR_OK) m->count++;
  return status == HR_NOMEM ? hr__nomem(err) : HR_OK; /* one that has just been taken away is none */
}

/* Runs that were named, or that are below the folders that were, or below the current one. A search that takes long is
 * done seldom. */
static hr_status runs_find(session *s, bool first, hr_error *err) {
  static const char *const here[] = {"."};
  const hr_cli *cli = s->cli;
  const char *const *from = cli->n_arguments > 0 ? cli->arguments : here;
  int count = cli->n_arguments > 0 ? cli->n_arguments : 1;
  double begin = hr__seconds_now();
  hr_arena arena = {0};
  hr_run_folders found = {0};
  hr_status status = HR_OK;
  if (!first && begin < s->next_find) return HR_OK;
  for (int i = 0; i < count && status == HR_OK; i++) {
    size_t before = found.count;
    status = hr__find_runs(from[i], &arena, &found, err);
    if (status == HR_OK && first && cli->n_arguments > 0 && found.count == before)
      status =
          hr__fail(err, HR_BAD_INPUT, from[i], "give the folder of a run (--out of headroom train), or one above it",
                   "there is no run here: no log.jsonl");
  }
  for (size_t i = 0; i < found.count && status == HR_OK; i++)
    status = run_add(s, found.folders[i], err);
  hr__arena_fini(&arena);
  double took = hr__seconds_now() - begin;
  s->next_find = begin + (1000 * took > 5 ? 1000 * took : 5);
  return status;
}

/* Runs that go on before those that ended, the newest first; the selected one stays selected. */
static int by_life(const void *a, const void *b) {
  const hr_watched *x = *(hr_watched *const *)a, *y = *(hr_watched *const *)b;
  bool alive[2] = {hr__watch_is_alive(x->state), hr__watch_is_alive(y->state)};
  if (alive[0] != alive[1]) return alive[0] ? -1 : 1;
  if (!alive[0] && x->time != y->time) return x->time > y->time ? -1 : 1;
  return strcmp(x->folder, y->folder);
}

static void runs_sort(session *s) {
  hr_monitor *m = &s->monitor;
  if (m->count == 0) return;
  const hr_watched *selected = m->runs[s->choice.selected];
  qsort(m->runs, m->count, sizeof(hr_watched *), by_life);
  for (size_t i = 0; i < m->count; i++)
    if (m->runs[i] == selected && s->choice.selected > 0) {
      s->choice.selected = i;
      break;
    }
}

/* `seconds`: most that is read for. */
static hr_status runs_look(session *s, double seconds, hr_error *err) {
  hr_monitor *m = &s->monitor;
  double until = hr__seconds_now() + seconds;
  m->reading = false;
  now_look(m);
  for (size_t i = 0; i < m->count; i++) {
    double left = until - hr__seconds_now();
    bool more;
    HR_TRY(hr__watched_read(m->runs[i], left > 0 ? left : 0, &more, err));
    m->reading = m->reading || more;
    hr__watched_look(m->runs[i], &m->now);
  }
  runs_sort(s);
  return HR_OK;
}

/* --- as text ------------------------------------------------------------------------------------------------------ */

static bool any_alive(const hr_monitor *m) {
  for (size_t i = 0; i < m->count; i++)
    if (hr__watch_is_alive(m->runs[i]->state)) return true;
  return false;
}

static void pause_for(double seconds) {
  struct timespec span = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&span, NULL);
}

/* Everything at once; use of processors takes two looks. */
static hr_status look_twice(session *s, hr_error *err) {
  HR_TRY(runs_look(s, INFINITY, err));
  if (!any_alive(&s->monitor)) return HR_OK;
  pause_for(0.3);
  return runs_look(s, INFINITY, err);
}

static hr_status once(session *s, hr_error *err) {
  HR_TRY(look_twice(s, err));
  if (s->cli->json) return hr__cli_put_json(hr__monitor_json(&s->monitor), err);
  const hr_monitor *m = &s->monitor;
  if (m->count == 0 && !s->cli->quiet) fprintf(stderr, "no runs below this folder\n");
  if (m->count == 1) { /* all of it: nothing has to fit a screen */
    hr_page page;
    if (!hr__page_init(&page, 48, 100)) return hr__nomem(err);
    hr__monitor_run(m->runs[0], m, &page);
    hr__page_print(&page, stdout);
    hr__page_fini(&page);
  }
  for (size_t i = 0; i < m->count && m->count > 1; i++)
    hr__monitor_line(m->runs[i], stdout);
  return hr__cli_flush(err);
}

/* For pipes: lines of all runs again and again, as long as one of them goes on. */
static hr_status lines(session *s, hr_error *err) {
  HR_TRY(look_twice(s, err));
  for (;;) {
    for (size_t i = 0; i < s->monitor.count; i++)
      hr__monitor_line(s->monitor.runs[i], stdout);
    HR_TRY(hr__cli_flush(err));
    if (!any_alive(&s->monitor)) return HR_OK;
    pause_for(s->interval);
    HR_TRY(runs_find(s, false, err));
    HR_TRY(runs_look(s, INFINITY, err));
  }
}

/* --- on a terminal ------------------------------------------------------------------------------------------------ */

__attribute__((format(printf, 2, 3))) static void note(session *s, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(s->note, sizeof s->note, format, list);
  va_end(list);
  s->note_until = hr__seconds_now() + 5;
}

/* Whether the current folder belongs to a run, in which nothing is to be written. */
static bool in_run(void) {
  char path[PATH_MAX];
  if (!getcwd(path, sizeof path)) return false;
  for (char *slash = path + strlen(path); slash && slash > path; slash = strrchr(path, '/')) {
    *slash = 0;
    if (*path && hr__find_is_run(path)) return true;
  }
  return hr__find_is_run(".");
}

/* What is on the screen, as a file of its own name: an older one is never written over. */
static void picture_save(session *s, const hr_page *page) {
  char path[PATH_MAX], stamp[32];
  const char *folder = getenv("TMPDIR");
  time_t at = (time_t)s->monitor.now.time;
  struct tm parts;
  if (!localtime_r(&at, &parts)) return;
  strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &parts);
  if (!in_run())
    snprintf(path, sizeof path, "headroom-monitor-%s.txt", stamp);
  else
    snprintf(path, sizeof path, "%s/headroom-monitor-%s.txt", folder && *folder ? folder : "/tmp", stamp);
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
  if (!file) {
    note(s, "not saved: %s: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    return;
  }
  hr_page whole = *page;
  whole.count -= whole.count > 0; /* without the keys */
  hr__page_print(&whole, file);
  if (fclose(file) == 0)
    note(s, "saved as %s", path);
  else
    note(s, "not saved: %s: %s", path, strerror(errno));
}

static hr_status page_make(session *s, hr_page *page, hr_error *err) {
  size_t rows, columns;
  hr__screen_size(&rows, &columns);
  if (!hr__page_init(page, rows, columns)) return hr__nomem(err);
  s->choice.note = hr__seconds_now() < s->note_until ? s->note : NULL;
  hr__monitor_view(&s->monitor, &s->choice, page);
  return HR_OK;
}

/* False: it asks to leave. */
static bool key_take(session *s, int key, const hr_page *page) {
  hr_monitor_choice *c = &s->choice;
  size_t last = s->monitor.count > 0 ? s->monitor.count - 1 : 0;
  if (key == 'q' || key == 'Q') return false;
  if (key == '?' || key == 'h') c->help = !c->help;
  if (key == 's') picture_save(s, page);
  if ((key == HR_KEY_UP || key == 'k') && c->selected > 0) c->selected--;
  if ((key == HR_KEY_DOWN || key == 'j') && c->selected < last) c->selected++;
  if (key == HR_KEY_HOME || key == 'g') c->selected = 0;
  if (key == HR_KEY_END || key == 'G') c->selected = last;
  if (key == HR_KEY_RIGHT || key == '\n' || key == '\r' || key == 'l') c->alone = true;
  if (key == HR_KEY_LEFT || key == HR_KEY_ESCAPE) c->alone = c->help = false;
  return true;
}

static hr_status status_of(int number) {
  return number == SIGINT ? HR_INTERRUPTED : number == SIGTERM ? HR_TERMINATED : HR_HUNG_UP;
}

static hr_status loop(session *s, hr_screen *screen, hr_error *err) {
  double next = 0; /* time of the next look */
  for (;;) {
    if (hr__seconds_now() >= next) {
      HR_TRY(runs_find(s, false, err));
      HR_TRY(runs_look(s, 0.1, err));
      next = hr__seconds_now() + (s->monitor.reading ? 0 : s->interval);
    }
    hr_page page;
    HR_TRY(page_make(s, &page, err));
    hr__screen_draw(screen, &page);
    double wait = next - hr__seconds_now();
    hr_screen_event event = hr__screen_wait(screen, wait > 0 ? wait : 0);
    bool stays = event.key == 0 || key_take(s, event.key, &page);
    hr__page_fini(&page);
    if (!stays) return HR_OK;
    if (event.signal != 0 || event.gone) {
      s->cli->answered = true; /* whoever sent it knows */
      return event.gone ? HR_HUNG_UP : status_of(event.signal);
    }
  }
}

static hr_status interactive(session *s, hr_error *err) {
  hr_screen screen;
  HR_TRY(hr__screen_open(&screen, hr__text_colors(s->cli->color, stdout), err));
  hr_status status = loop(s, &screen, err);
  hr__screen_close(&screen);
  return status;
}

static hr_status monitor_run(hr_cli *cli, hr_error *err) {
  session *s = hr__alloc_zero(1, sizeof *s);
  if (!s) return hr__nomem(err);
  s->cli = cli;
  char name[HR_WATCH_NAME] = "";
  (void)gethostname(name, sizeof name - 1);
  hr__text_escape(name, strlen(name), s->monitor.machine, sizeof s->monitor.machine);
  hr_status status = hr__cli_float(cli, "interval", 0.1, 3600, 1, &s->interval, err);
  if (status == HR_OK) status = runs_find(s, true, err);
  if (status == HR_OK) s->monitor.nvml = hr__nvml_open();
  if (status == HR_OK) {
    if (cli->json || hr__cli_flag(cli, "once"))
      status = once(s, err);
    else
      status = hr__screen_possible() ? interactive(s, err) : lines(s, err);
  }
  for (size_t i = 0; i < s->monitor.count; i++)
    hr__watched_close(s->monitor.runs[i]);
  hr__free(s->monitor.runs);
  hr__nvml_close(s->monitor.nvml);
  hr__free(s);
  return status;
}

static const hr_cli_option options[] = {
    {"once", NULL, "one look, as plain text, and back"},
    {"interval", "SECONDS", "between two looks (default: 1)"},
};

const hr_cli_command hr_cli_monitor = {
    .name = "monitor",
    .usage = "[RUN]...",
    .summary = "shows runs as they go: progress, losses, speed, memory, warnings",
    .details = "RUN is the folder of a run, or one with runs below it (default: this folder). Runs are "
               "only read. q leaves, ? tells of the other keys. In a pipe: a line for each run every interval, "
               "as long as one of them goes on.",
    .subject = "the folder of a run",
    .examples = "monitor --once\nmonitor --json",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .min_arguments = 0,
    .max_arguments = HR_CLI_ARGUMENTS,
    .run = monitor_run,
};
