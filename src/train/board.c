/* See board.h. Numbers of fields are those of TensorFlow's event.proto, summary.proto and tensor.proto. */
#include "train/board.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "format/file.h"
#include "format/protobuf.h"
#include "format/protobuf_write.h"
#include "format/tfrecord.h"

/* Event: wall_time 1, step 2, file_version 3, summary 5, session_log 7. Summary: value 1. */
enum { WALL_TIME = 1, STEP = 2, FILE_VERSION = 3, SUMMARY = 5, SESSION_LOG = 7, SUMMARY_VALUE = 1 };
/* Value: tag 1, simple_value 2, histo 5, tensor 8, metadata 9. */
enum { TAG = 1, SIMPLE_VALUE = 2, HISTO = 5, TENSOR = 8, METADATA = 9 };

enum {
  MESSAGE = 128 << 10, /* bytes of the longest event: texts that are longer are left out */
  WAITING = 256 << 10, /* of events that are not written yet */
  TAG_BYTES = 256
};
static const char prefix[] = "events.out.tfevents.", ending[] = ".headroom";
static const double flush_seconds = 1;

struct hr_board {
  int fd; /* -1: lost */
  char path[PATH_MAX];
  hr_board_lost lost;
  void *user;
  unsigned char tensor[MESSAGE / 2], value[MESSAGE], summary[MESSAGE], event[MESSAGE], waiting[WAITING];
  size_t waiting_bytes;
  double flushed; /* hr__seconds_now() */
};

static void board_lose(hr_board *b, const char *why) {
  if (b->fd >= 0) (void)hr__file_calls.close(b->fd);
  b->fd = -1;
  if (b->lost) b->lost(b->user, b->path, why);
  b->lost = NULL;
}

void hr__board_flush(hr_board *b) {
  hr_error why = {0};
  if (b->fd < 0 || b->waiting_bytes == 0) return;
  off_t end = lseek(b->fd, 0, SEEK_END);
  if (hr__file_write_all(b->fd, b->path, b->waiting, b->waiting_bytes, &why) != HR_OK) {
    if (end >= 0) (void)!ftruncate(b->fd, end); /* whole records only */
    board_lose(b, why.message);
  }
  b->waiting_bytes = 0;
  b->flushed = hr__seconds_now();
}

static void record_put(hr_board *b, const hr_protobuf_out *event) {
  size_t all = HR_TFRECORD_HEAD + event->count + HR_TFRECORD_TAIL;
  if (b->fd < 0 || event->full) return;
  if (all > WAITING - b->waiting_bytes) hr__board_flush(b);
  unsigned char *to = b->waiting + b->waiting_bytes;
  hr__tfrecord_head(event->count, to);
  memcpy(to + HR_TFRECORD_HEAD, event->bytes, event->count);
  hr__tfrecord_tail(event->bytes, event->count, to + HR_TFRECORD_HEAD + event->count);
  b->waiting_bytes += all;
  if (hr__seconds_now() - b->flushed >= flush_seconds) hr__board_flush(b);
}

static hr_protobuf_out event_begin(hr_board *b, double time, int64_t step) {
  hr_protobuf_out event = {.bytes = b->event, .capacity = MESSAGE};
  hr__protobuf_put_double(&event, WALL_TIME, time);
  if (step != 0) hr__protobuf_put_int(&event, STEP, (uint64_t)step);
  return event;
}

/* Events with one value each: an event that cannot be read loses no more than that. */
static void value_put(hr_board *b, double time, int64_t step, const hr_protobuf_out *value) {
  hr_protobuf_out summary = {.bytes = b->summary, .capacity = MESSAGE}, event = event_begin(b, time, step);
  hr__protobuf_put_message(&summary, SUMMARY_VALUE, value);
  hr__protobuf_put_message(&event, SUMMARY, &summary);
  record_put(b, &event);
}

static hr_protobuf_out value_begin(hr_board *b, const char *tag) {
  hr_protobuf_out value = {.bytes = b->value, .capacity = MESSAGE};
  hr__protobuf_put_text(&value, TAG, tag);
  return value;
}

static void scalar_put(hr_board *b, double time, int64_t step, const char *tag, double number) {
  if (!isfinite(number)) return;
  hr_protobuf_out value = value_begin(b, tag);
  hr__protobuf_put_float(&value, SIMPLE_VALUE, (float)number);
  value_put(b, time, step, &value);
}

static void scalars_put(hr_board *b, const hr_record *r, const char *group, const hr_record_values *values) {
  for (size_t i = 0; i < values->count; i++) {
    char tag[TAG_BYTES];
    snprintf(tag, sizeof tag, "%s/%s", group, values->list[i].name);
    scalar_put(b, r->time, r->step, tag, values->list[i].value);
  }
}

/* A list of strings, as the plug-in for texts shows them. */
static void samples_put(hr_board *b, const hr_record *r) {
  enum { DTYPE = 1, SHAPE = 2, STRING_VAL = 8, DT_STRING = 7, DIM = 2, SIZE = 1, PLUGIN_DATA = 1, PLUGIN_NAME = 1 };
  unsigned char dim_bytes[16], shape_bytes[32], plugin_bytes[16], metadata_bytes[32];
  hr_protobuf_out tensor = {.bytes = b->tensor, .capacity = sizeof b->tensor},
                  dim = {.bytes = dim_bytes, .capacity = sizeof dim_bytes},
                  shape = {.bytes = shape_bytes, .capacity = sizeof shape_bytes},
                  plugin = {.bytes = plugin_bytes, .capacity = sizeof plugin_bytes},
                  metadata = {.bytes = metadata_bytes, .capacity = sizeof metadata_bytes};
  hr__protobuf_put_int(&tensor, DTYPE, DT_STRING);
  hr__protobuf_put_int(&dim, SIZE, r->n_generated);
  hr__protobuf_put_message(&shape, DIM, &dim);
  hr__protobuf_put_message(&tensor, SHAPE, &shape);
  for (size_t i = 0; i < r->n_generated; i++) {
    char text[4096]; /* a longer answer is cut off here, and whole in the log */
    const hr_record_sample *s = &r->generated[i];
    snprintf(text, sizeof text, "%s|%s%s%s", s->prompt, s->text, s->expected ? " (expected) " : "",
             s->expected ? s->expected : "");
    hr__protobuf_put_text(&tensor, STRING_VAL, text);
  }
  hr__protobuf_put_text(&plugin, PLUGIN_NAME, "text");
  hr__protobuf_put_message(&metadata, PLUGIN_DATA, &plugin);
  hr_protobuf_out value = value_begin(b, "samples");
  hr__protobuf_put_message(&value, TENSOR, &tensor);
  hr__protobuf_put_message(&value, METADATA, &metadata);
  value_put(b, r->time, r->step, &value);
}

static void step_put(hr_board *b, const hr_record *r) {
  const struct {
    const char *tag;
    double number;
  } scalars[] = {{"train/loss", r->loss},
                 {"train/lr", r->lr},
                 {"train/grad_norm", r->grad_norm},
                 {"train/loss_scale", r->loss_scale},
                 {"speed/step_seconds", r->seconds},
                 {"speed/tokens_per_second", r->tokens > 0 ? (double)r->tokens / r->seconds : (double)NAN},
                 {"speed/samples_per_second", r->samples > 0 ? (double)r->samples / r->seconds : (double)NAN}};
  for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++)
    scalar_put(b, r->time, r->step, scalars[i].tag, scalars[i].number);
  scalars_put(b, r, "train", &r->losses);
  scalars_put(b, r, "train", &r->metrics);
}

static void memory_put(hr_board *b, const hr_record *r) {
  static const char *const tags[HR_TIER_COUNT] = {"memory/device_bytes", "memory/host_bytes", "memory/disk_bytes"};
  for (int t = 0; t < HR_TIER_COUNT; t++)
    if (r->tiers[t].held_bytes > 0) scalar_put(b, r->time, r->step, tags[t], (double)r->tiers[t].held_bytes);
}

void hr__board_record(hr_board *b, const hr_record *r) {
  if (!b || b->fd < 0 || !isfinite(r->time)) return;
  switch (r->kind) {
  case HR_RECORD_STEP:
    step_put(b, r);
    return;
  case HR_RECORD_EVAL:
    scalar_put(b, r->time, r->step, "eval/loss", r->loss);
    scalars_put(b, r, "eval", &r->losses);
    scalars_put(b, r, "eval", &r->metrics);
    return;
  case HR_RECORD_SAMPLES:
    samples_put(b, r);
    return;
  case HR_RECORD_EVENT:
    if (strcmp(r->event, "memory") == 0) memory_put(b, r);
    return;
  default:
    return;
  }
}

void hr__board_histogram(hr_board *b, double time, int64_t step, const char *tag, const double *values, size_t count) {
  enum { MIN = 1, MAX = 2, NUM = 3, SUM = 4, SQUARES = 5, LIMITS = 6, BUCKETS = 7, BARS = 30 };
  double least = INFINITY, most = -INFINITY, sum = 0, squares = 0, limits[BARS], buckets[BARS] = {0};
  size_t used = 0;
  for (size_t i = 0; i < count; i++) {
    if (!isfinite(values[i])) continue;
    least = values[i] < least ? values[i] : least;
    most = values[i] > most ? values[i] : most;
    sum += values[i];
    squares += values[i] * values[i];
    used++;
  }
  if (!b || b->fd < 0 || used == 0) return;
  double width = most > least ? (most - least) / BARS : 1;
  for (int i = 0; i < BARS; i++)
    limits[i] = i + 1 < BARS || most == least ? least + (i + 1) * width : most;
  for (size_t i = 0; i < count; i++) {
    if (!isfinite(values[i])) continue;
    int bar = (int)((values[i] - least) / width);
    buckets[bar < BARS ? bar : BARS - 1] += 1;
  }
  unsigned char bytes[64 + 2 * sizeof limits];
  hr_protobuf_out histo = {.bytes = bytes, .capacity = sizeof bytes};
  hr__protobuf_put_double(&histo, MIN, least);
  hr__protobuf_put_double(&histo, MAX, most);
  hr__protobuf_put_double(&histo, NUM, (double)used);
  hr__protobuf_put_double(&histo, SUM, sum);
  hr__protobuf_put_double(&histo, SQUARES, squares);
  hr__protobuf_put_bytes(&histo, LIMITS, limits, sizeof limits); /* packed doubles, little-endian as all of ours are */
  hr__protobuf_put_bytes(&histo, BUCKETS, buckets, sizeof buckets);
  hr_protobuf_out value = value_begin(b, tag);
  hr__protobuf_put_message(&value, HISTO, &histo);
  value_put(b, time, step, &value);
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static bool step_stays(void *user, const unsigned char *data, size_t bytes) {
  hr_protobuf message = hr__protobuf(data, bytes);
  hr_protobuf_field field;
  while (hr__protobuf_next(&message, &field))
    if (field.number == STEP && field.type == 0) return (int64_t)field.value <= *(int64_t *)user;
  return true;
}

/* Cuts off what an older file has of later steps, and a torn end. */
static hr_status file_cut(const char *path, int64_t step, hr_error *err) {
  int fd = hr__file_calls.open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
  if (fd < 0) return hr__fail_errno(err, path, "open", errno);
  uint64_t good;
  hr_status status = hr__tfrecord_scan(fd, path, MESSAGE, step_stays, &step, &good, err);
  if (status == HR_OK && ftruncate(fd, (off_t)good) != 0) status = hr__fail_errno(err, path, "truncate", errno);
  (void)hr__file_calls.close(fd);
  return status;
}

/* Files of other programs, which may have written to the same folder, are left alone. */
static bool is_ours(const char *name) {
  size_t length = strlen(name);
  return length > sizeof prefix + sizeof ending && strncmp(name, prefix, sizeof prefix - 1) == 0 &&
         strcmp(name + length - (sizeof ending - 1), ending) == 0;
}

/* Older files of the run; *last is the latest time that one of them is named by. A run that begins again has none. */
static hr_status files_cut(const char *folder, int64_t step, int64_t *last, hr_error *err) {
  DIR *list = opendir(folder);
  hr_status status = HR_OK;
  if (!list) return hr__fail_errno(err, folder, "open", errno);
  for (struct dirent *entry; status == HR_OK && (entry = readdir(list)) != NULL;) {
    char path[PATH_MAX];
    if (!is_ours(entry->d_name)) continue;
    int64_t time = strtoll(entry->d_name + sizeof prefix - 1, NULL, 10);
    *last = time > *last ? time : *last;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (step > 0)
      status = file_cut(path, step, err);
    else if (hr__file_calls.unlink(path) != 0)
      status = hr__fail_errno(err, path, "remove", errno);
  }
  closedir(list);
  return status;
}

/* What a file begins with: its version, and where the run goes on, so that readers that have seen later steps of the
 * process before forget them. */
static void beginning_put(hr_board *b, int64_t step) {
  enum { STATUS = 1, START = 1 };
  double now = hr__calendar_now();
  hr_protobuf_out event = event_begin(b, now, 0);
  hr__protobuf_put_text(&event, FILE_VERSION, "brain.Event:2");
  record_put(b, &event);
  if (step == 0) return;
  unsigned char bytes[8];
  hr_protobuf_out session = {.bytes = bytes, .capacity = sizeof bytes};
  hr__protobuf_put_int(&session, STATUS, START);
  event = event_begin(b, now, step + 1);
  hr__protobuf_put_message(&event, SESSION_LOG, &session);
  record_put(b, &event);
}

/* TensorBoard reads the files of a folder in order of name: times that differ keep it. */
static hr_status file_begin(hr_board *b, const char *folder, int64_t step, hr_error *err) {
  char machine[128] = "";
  int64_t last = 0, now = (int64_t)time(NULL);
  (void)gethostname(machine, sizeof machine - 1);
  for (char *c = machine; *c; c++)
    if ((unsigned char)*c <= ' ' || *c == '/' || (unsigned char)*c > '~') *c = '_';
  snprintf(b->path, sizeof b->path, "%s", folder);
  HR_TRY(files_cut(folder, step, &last, err));
  snprintf(b->path, sizeof b->path, "%s/%s%010" PRId64 ".%s.%ld%s", folder, prefix, now > last ? now : last + 1,
           machine, (long)getpid(), ending);
  b->fd = hr__file_calls.open(b->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
  if (b->fd < 0) return hr__fail_errno(err, b->path, "create", errno);
  beginning_put(b, step);
  hr__board_flush(b);
  return HR_OK;
}

hr_board *hr__board_open(const char *folder, int64_t step, hr_board_lost lost, void *user) {
  hr_board *b = hr__alloc_zero(1, sizeof *b);
  hr_error why = {0};
  if (!b) return NULL;
  b->fd = -1;
  b->lost = lost;
  b->user = user;
  if (file_begin(b, folder, step, &why) != HR_OK) board_lose(b, why.message);
  if (b->fd >= 0) return b;
  hr__free(b);
  return NULL;
}

void hr__board_close(hr_board *b) {
  if (!b) return;
  hr__board_flush(b);
  if (b->fd >= 0) (void)hr__file_calls.close(b->fd);
  hr__free(b);
}
