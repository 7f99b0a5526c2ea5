/* See log.h. */
#include "train/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "format/doc.h"
#include "format/file.h"

enum { WINDOW = 4096 };

static const char beginning[] = "{\"schema\":1,\"recipe\":\""; /* of a header */

enum { NAME_BYTES = 256 };

/* The last part of the recipe's path. A file name may hold anything: what JSON cannot take as it is becomes an
 * underscore. */
static const char *name_text(const char *recipe, char out[NAME_BYTES]) {
  size_t used = 0;
  for (const char *c = recipe; *c && used + 1 < NAME_BYTES; c++)
    out[used++] = (unsigned char)*c < 0x20 || *c == '"' || *c == '\\' || (unsigned char)*c > 0x7e ? '_' : *c;
  out[used] = 0;
  return out;
}

static const char *path_last(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* Where a log that is read line by line stands. */
typedef struct log_scan {
  const hr_log_header *now; /* of the run that opens it */
  int64_t step;
  char *line; /* HR_LOG_WAITING bytes: longer lines are not ours */
  size_t bytes;
  char fingerprint[HR_XXH_HEX]; /* of the last header; empty: there is none */
  bool owned;                   /* a header says that the log is of this run */
  off_t keep;                   /* bytes of the file that stay */
} log_scan;

static void header_note(log_scan *scan, const char *plan, const hr_doc_node *recipe) {
  char name[NAME_BYTES];
  snprintf(scan->fingerprint, sizeof scan->fingerprint, "%s", plan);
  if (scan->step > 0)
    scan->owned |= strcmp(plan, scan->now->resumed) == 0;
  else
    scan->owned |= strcmp(plan, scan->now->fingerprint) == 0 ||
                   strcmp(path_last(recipe->text), path_last(name_text(scan->now->recipe, name))) == 0;
}

/* Whether a whole line belongs to the run up to its step; the first line has to be a header. Lack of memory is no
 * verdict on the line. */
static hr_status line_judge(log_scan *scan, bool *stays, hr_error *err) {
  hr_arena arena = {0};
  hr_doc_node *root = NULL;
  hr_error fault = {0};
  *stays = false;
  hr_status status = hr__json_parse("log", scan->line, scan->bytes, &arena, &root, &fault);
  if (status == HR_OK && root->kind == HR_DOC_MAP) {
    const hr_doc_node *number = hr__doc_get(root, "step"), *plan = hr__doc_get(root, "fingerprint"),
                      *recipe = hr__doc_get(root, "recipe");
    bool header = plan && plan->kind == HR_DOC_SCALAR && recipe && recipe->kind == HR_DOC_SCALAR;
    int64_t at;
    *stays = scan->keep == 0 ? header : number && hr__doc_int(number, &at) && at <= scan->step;
    if (*stays && header) header_note(scan, plan->text, recipe);
  }
  hr__arena_fini(&arena);
  return status == HR_NOMEM ? hr__nomem(err) : HR_OK;
}

/* Whether a file without a whole line is a header that was cut off, or nothing yet. */
static bool header_is_torn(const log_scan *scan) {
  size_t bytes = scan->bytes < sizeof beginning - 1 ? scan->bytes : sizeof beginning - 1;
  return memcmp(scan->line, beginning, bytes) == 0;
}

/* Finds how much of the file stays: all lines up to the first that is torn, foreign or of a later step. *ended: it was
 * read to its end, and what is in `line` was cut off there. */
static hr_status log_scan_run(const hr_log *log, log_scan *scan, bool *ended, hr_error *err) {
  char window[WINDOW];
  off_t at = 0;
  for (;;) {
    ssize_t n = pread(log->fd, window, sizeof window, at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return hr__fail_errno(err, log->path, "read", errno);
    *ended = n == 0;
    if (n == 0) return HR_OK;
    for (ssize_t i = 0; i < n; i++) {
      if (window[i] != '\n') {
        if (scan->bytes == HR_LOG_WAITING) return HR_OK;
        scan->line[scan->bytes++] = window[i];
        continue;
      }
      bool stays;
      HR_TRY(line_judge(scan, &stays, err));
      if (!stays) return HR_OK;
      scan->keep = at + i + 1;
      scan->bytes = 0;
    }
    at += n;
  }
}

/* Writes what waits. Without room, nothing of it stays in the file, and it goes on waiting. */
static hr_status log_flush(hr_log *log, hr_error *err) {
  hr_error why = {0};
  if (log->waiting_bytes == 0) return HR_OK;
  hr_status status = hr__file_write_all(log->fd, log->path, log->waiting, log->waiting_bytes, &why);
  if (status == HR_OK) {
    log->end += (int64_t)log->waiting_bytes;
    log->waiting_bytes = 0;
    return HR_OK;
  }
  if (ftruncate(log->fd, (off_t)log->end) != 0) return hr__fail_errno(err, log->path, "truncate", errno);
  if (status != HR_NO_SPACE && err) *err = why;
  return status == HR_NO_SPACE ? HR_OK : status;
}

hr_status hr__log_put(hr_log *log, const char *line, size_t bytes, hr_error *err) {
  bool waited = log->waiting_bytes > 0;
  if (bytes > HR_LOG_WAITING - log->waiting_bytes) {
    log->dropped++;
    return log_flush(log, err);
  }
  memcpy(log->waiting + log->waiting_bytes, line, bytes);
  log->waiting_bytes += bytes;
  HR_TRY(log_flush(log, err));
  if (waited || log->waiting_bytes == 0) return HR_OK;
  log->telling = true;
  hr__store_tell(log->store, HR_MESSAGE_WARNING,
                 "there is no room for a line of %s: training goes on, and lines wait until there is", log->path);
  log->telling = false;
  return HR_OK;
}

/* What the plan says of memory and time, as members of a header. */
static void promise_text(const hr_log_header *header, char *out, size_t capacity) {
  static const char *const names[HR_TIER_COUNT] = {"device", "host", "disk"};
  char device[NAME_BYTES];
  if (!header->device) return;
  size_t used = (size_t)snprintf(out, capacity,
                                 ",\"device\":\"%s\",\"device_kind\":\"%s\",\"planned_step_seconds\":%.9g,\"tiers\":{",
                                 name_text(header->device, device), header->kind, header->step_seconds);
  for (int t = 0; t < HR_TIER_COUNT && used < capacity; t++) {
    uint64_t most = header->tiers[t].budget_bytes;
    char budget[32] = "null";
    if (most <= INT64_MAX)
      snprintf(budget, sizeof budget, "%" PRIu64, most); /* more is no limit, and no number of JSON */
    used +=
        (size_t)snprintf(out + used, capacity - used, "%s\"%s\":{\"planned_bytes\":%" PRIu64 ",\"budget_bytes\":%s}",
                         t ? "," : "", names[t], header->tiers[t].planned_bytes, budget);
  }
  if (used < capacity) snprintf(out + used, capacity - used, "}");
}

static hr_status header_write(hr_log *log, int64_t step, const hr_log_header *header, hr_error *err) {
  char name[NAME_BYTES], promise[768] = "", line[2048];
  promise_text(header, promise, sizeof promise);
  int n = snprintf(line, sizeof line,
                   "%s%s\",\"fingerprint\":\"%s\",\"planned_peak_bytes\":%" PRIu64 "%s,\"steps\":%" PRId64
                   ",\"step\":%" PRId64 "}\n",
                   beginning, name_text(header->recipe, name), header->fingerprint, header->planned_bytes, promise,
                   header->steps, step);
  return hr__log_put(log, line, (size_t)n, err);
}

static hr_status log_begin(hr_log *log, int64_t step, const hr_log_header *header, hr_error *err) {
  log_scan scan = {.now = header, .step = step, .line = log->waiting}; /* nothing waits yet */
  bool ended = false;
  HR_TRY(log_scan_run(log, &scan, &ended, err));
  if (!scan.owned && !(ended && scan.keep == 0 && header_is_torn(&scan)))
    return hr__fail(err, HR_USAGE, log->path, "move it away, or train into another --out",
                    "this file is not the log of this run, which would write over it");
  if (step == 0) { /* begun again, with a header of its own */
    scan.keep = 0;
    scan.fingerprint[0] = 0;
  }
  if (ftruncate(log->fd, scan.keep) != 0) return hr__fail_errno(err, log->path, "truncate", errno);
  if (lseek(log->fd, 0, SEEK_END) < 0) return hr__fail_errno(err, log->path, "seek", errno);
  log->end = scan.keep;
  return strcmp(scan.fingerprint, header->fingerprint) == 0 ? HR_OK : header_write(log, step, header, err);
}

hr_status hr__log_open(hr_log *log, const hr_store *store, int64_t step, const hr_log_header *header, hr_error *err) {
  *log = (hr_log){.store = store, .fd = -1, .waiting = hr__alloc(HR_LOG_WAITING)};
  if (!log->waiting) return hr__nomem(err);
  snprintf(log->path, sizeof log->path, "%s/log.jsonl", store->out);
  log->fd = hr__file_calls.open(log->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log->fd < 0) return hr__fail_errno(err, log->path, "open", errno);
  return log_begin(log, step, header, err);
}

void hr__log_close(hr_log *log) {
  int64_t missing = log->dropped;
  log->telling = true;
  for (size_t i = 0; i < log->waiting_bytes; i++)
    missing += log->waiting[i] == '\n';
  if (missing > 0)
    hr__store_tell(log->store, HR_MESSAGE_WARNING, "%s lacks %" PRId64 " lines, for which there was no room", log->path,
                   missing);
  if (log->fd >= 0) (void)hr__file_calls.close(log->fd);
  hr__free(log->waiting);
  *log = (hr_log){.fd = -1};
}

hr_status hr__log_sync(hr_log *log, hr_error *err) {
  if (log->fd < 0) return HR_OK;
  if (log->board) hr__board_flush(log->board);
  HR_TRY(log_flush(log, err));
  if (hr__file_calls.fdatasync(log->fd) == 0) return HR_OK;
  hr_error why = {0};
  hr_status status = hr__fail_errno(&why, log->path, "sync", errno);
  if (status == HR_NO_SPACE) return HR_OK; /* a checkpoint is worth more than the lines before it */
  if (err) *err = why;
  return status;
}
