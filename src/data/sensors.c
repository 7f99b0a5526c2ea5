/* Source sensors: a sample is a question with the patches of its recordings. See sensors.h.
 *
 * Fields, of B samples with up to P patches of D channels, n of which a sample has (what lies behind those is 0), and L
 * positions of text:
 *
 *   patches          f32 [B, P, D, T]   resampled to T points
 *   statistics       f32 [B, P, D, 6]   standardised over the patches and channels of the sample
 *   patch_counts     i32 [B]            n
 *   patch_mask       u8  [B, P]         1 for the first n
 *   patch_positions  i32 [B, P]         P - n + i: as if padding stood before the patches
 *   patch_size       i32 [B]            samples of a patch of the first stream, at most 4095
 *   tokens, targets  i32 [B, L]         sensors_prompt.c
 *   placement        i32 [B, L]         of position t: t, or L + j where patch j stands
 *   TYPE             u8  [B]            of each type of question that the model asks for: 1 where it is of that type
 *
 * All of it lies in memory: patches as they go into batches, statistics before they are standardised.
 */
#include "data/sensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PATCHES_AXIS = 1, CHANNELS_AXIS = 2, POINTS_AXIS = 3 };

typedef struct sensors {
  hr_sensors of;
  char remark[1024];
} sensors;

static void sensors_close(void *state) {
  hr__sensors_close(&((sensors *)state)->of);
  hr__free(state);
}

static const hr_field *field_named(const hr_fields *fields, const char *name) {
  for (int i = 0; i < fields->count; i++)
    if (strcmp(fields->list[i].name, name) == 0) return &fields->list[i];
  return NULL;
}

/* What of the request's fields the data must agree with. */
static hr_status fields_check(const hr_source_request *request, const hr_desc **patches, hr_error *err) {
  const hr_field *field = field_named(request->fields, "patches");
  if (!field || field->desc.rank != 4 || field->desc.dtype != HR_F32 ||
      hr__field_for(request->fields, HR_FOR_TOKENS) < 0 || hr__field_for(request->fields, HR_FOR_TARGETS) < 0)
    return hr__recipe_fail(request->recipe, "data.source", "choose another data.source", err,
                           "source sensors gives patches of signals and tokens, which this model does not take");
  *patches = &field->desc;
  return HR_OK;
}

static hr_status channels_check(const hr_sensors *s, const hr_source_request *request, int64_t taken, hr_error *err) {
  if (s->channels == taken) return HR_OK;
  static const char setting[] = "model.config.channels";
  char streams[160] = "", remedy[160];
  size_t used = 0;
  for (int i = 0; i < s->n_streams && used < sizeof streams; i++)
    used += (size_t)snprintf(streams + used, sizeof streams - used, "%s%s %" PRId64, i > 0 ? ", " : "",
                             s->streams[i].name, s->streams[i].channels);
  snprintf(remedy, sizeof remedy, "set %s to %" PRId64 ", or choose others in data.sensors.streams", setting,
           s->channels);
  return hr__recipe_fail(request->recipe, hr__recipe_key(request->recipe, setting) ? setting : request->key, remedy,
                         err, "the data has %" PRId64 " channels (%s), but the model takes %" PRId64, s->channels,
                         streams, taken);
}

static void remark_make(sensors *t) {
  const hr_sensors *s = &t->of;
  int used = 0;
  if (s->bad_recordings.bad > 0)
    used = snprintf(t->remark, sizeof t->remark,
                    "%" PRIu64 " of %" PRIu64 " recordings are bad and left out, and questions about them (%" PRIu64
                    "): %s%s",
                    s->bad_recordings.bad, s->bad_recordings.rows, s->dropped, s->bad_recordings.shown,
                    s->bad_questions.bad > 0 ? "; " : "");
  if (s->bad_questions.bad > 0)
    snprintf(t->remark + used, sizeof t->remark - (size_t)used,
             "%" PRIu64 " of %" PRIu64 " questions are bad and left out: %s", s->bad_questions.bad,
             s->bad_questions.rows, s->bad_questions.shown);
}

static hr_status sensors_read(sensors *t, const hr_source_request *request, hr_error *err) {
  hr_sensors *s = &t->of;
  const hr_desc *patches = NULL;
  HR_TRY(fields_check(request, &patches, err));
  HR_TRY(hr__sensors_settings(request->recipe, request->key, &s->arena, &s->settings, err));
  if (s->settings.patches > patches->dim[PATCHES_AXIS]) s->settings.patches = patches->dim[PATCHES_AXIS];
  HR_TRY(hr__sensors_read(s, patches->dim[POINTS_AXIS], (int)hr__recipe_int(request->recipe, "data.workers"), err));
  HR_TRY(channels_check(s, request, patches->dim[CHANNELS_AXIS], err));
  HR_TRY(hr__sensors_tokens(s, request, err));
  HR_TRY(hr__sensors_split(s, request, err));
  remark_make(t);
  return HR_OK;
}

static hr_status sensors_open(const hr_source_request *request, void **state, hr_error *err) {
  sensors *t = hr__alloc_zero(1, sizeof *t);
  if (!t) return hr__nomem(err);
  hr__sensors_begin(&t->of, hr__recipe_float(request->recipe, "data.bad_rows"));
  hr_status status = sensors_read(t, request, err);
  if (status != HR_OK) {
    sensors_close(t);
    return status;
  }
  *state = t;
  return HR_OK;
}

static const hr_question *question_of(const hr_sensors *s, uint64_t entry) {
  return &s->questions[s->order[entry]];
}

static uint64_t sensors_samples(const void *state) {
  return ((const sensors *)state)->of.n_samples;
}

static uint64_t sensors_held(const void *state) {
  return ((const sensors *)state)->of.n_held;
}

static int64_t sensors_length(const void *state, uint64_t entry) {
  const hr_sensors *s = &((const sensors *)state)->of;
  return hr__question_length(s, question_of(s, entry));
}

static int64_t sensors_targets(const void *state, uint64_t entry) {
  const hr_sensors *s = &((const sensors *)state)->of;
  return hr__question_targets(s, question_of(s, entry));
}

static hr_status sensors_scan(const void *state, hr_each_sample each, void *user, hr_error *err) {
  (void)err;
  for (uint64_t i = 0; i < sensors_samples(state); i++)
    each(user, i, sensors_length(state, i));
  return HR_OK;
}

/* Goes through the patches of a question that count, from the first on. */
typedef struct walk {
  const hr_sensors *s;
  const hr_question *question;
  size_t recording;
  int64_t patch; /* of the recording */
} walk;

static walk walk_begin(const hr_sensors *s, const hr_question *question) {
  walk w = {.s = s, .question = question};
  int64_t all = 0;
  for (size_t i = 0; i < question->n_recordings; i++)
    all += s->recordings[question->recordings[i]].patches;
  w.patch = all - question->patches; /* as many are passed over */
  return w;
}

static const hr_recording *walk_next(walk *w, int64_t *patch) {
  const hr_recording *recording = &w->s->recordings[w->question->recordings[w->recording]];
  while (w->patch >= recording->patches) {
    w->patch -= recording->patches;
    recording = &w->s->recordings[w->question->recordings[++w->recording]];
  }
  *patch = w->patch++;
  return recording;
}

static void patches_put(const hr_sensors *s, const hr_question *question, int64_t room, float *to) {
  walk w = walk_begin(s, question);
  size_t count = (size_t)(s->channels * s->points);
  for (int64_t i = 0, patch; i < question->patches; i++) {
    const hr_recording *recording = walk_next(&w, &patch);
    memcpy(to + (size_t)i * count, recording->values + (size_t)patch * count, count * sizeof *to);
  }
  memset(to + (size_t)question->patches * count, 0, (size_t)(room - question->patches) * count * sizeof *to);
}

/* Adds up f(statistic) of all patches and channels of a question. */
static void statistics_sum(const hr_sensors *s, const hr_question *question, const double *mean,
                           double sum[HR_STATISTICS]) {
  walk w = walk_begin(s, question);
  memset(sum, 0, HR_STATISTICS * sizeof *sum);
  for (int64_t i = 0, patch; i < question->patches; i++) {
    const hr_recording *recording = walk_next(&w, &patch);
    const double *from = recording->statistics + patch * s->channels * HR_STATISTICS;
    for (int64_t k = 0; k < s->channels * HR_STATISTICS; k++) {
      double d = mean ? from[k] - mean[k % HR_STATISTICS] : 0;
      sum[k % HR_STATISTICS] += mean ? d * d : from[k];
    }
  }
}

static void statistics_put(const hr_sensors *s, const hr_question *question, int64_t room, float *to) {
  double mean[HR_STATISTICS], deviation[HR_STATISTICS], count = (double)(question->patches * s->channels);
  statistics_sum(s, question, NULL, mean);
  for (int i = 0; i < HR_STATISTICS; i++)
    mean[i] /= count;
  statistics_sum(s, question, mean, deviation);
  for (int i = 0; i < HR_STATISTICS; i++)
    deviation[i] = fmax(sqrt(deviation[i] / count), 1e-6);
  walk w = walk_begin(s, question);
  int64_t numbers = s->channels * HR_STATISTICS;
  for (int64_t i = 0, patch; i < question->patches; i++) {
    const hr_recording *recording = walk_next(&w, &patch);
    for (int64_t k = 0; k < numbers; k++)
      to[i * numbers + k] = (float)((recording->statistics[patch * numbers + k] - mean[k % HR_STATISTICS]) /
                                    deviation[k % HR_STATISTICS]);
  }
  memset(to + question->patches * numbers, 0, (size_t)((room - question->patches) * numbers) * sizeof *to);
}

static void mask_put(const hr_question *question, int64_t room, uint8_t *to) {
  for (int64_t i = 0; i < room; i++)
    to[i] = i < question->patches;
}

static void positions_put(const hr_question *question, int64_t room, int32_t *to) {
  for (int64_t i = 0; i < room; i++)
    to[i] = i < question->patches ? (int32_t)(room - question->patches + i) : 0;
}

static void sample_fill(const hr_sensors *s, const hr_question *question, bool answered, const hr_room *room) {
  hr_question_room text = {0};
  for (int i = 0; i < room->fields->count; i++) {
    const hr_field *field = &room->fields->list[i];
    int64_t patches = field->desc.rank > PATCHES_AXIS ? field->desc.dim[PATCHES_AXIS] : 1;
    void *to = room->at[i];
    if (field->purpose == HR_FOR_TOKENS)
      text.tokens = to;
    else if (field->purpose == HR_FOR_TARGETS)
      text.targets = to;
    else if (strcmp(field->name, "placement") == 0)
      text.placement = to;
    else if (strcmp(field->name, "patches") == 0)
      patches_put(s, question, patches, to);
    else if (strcmp(field->name, "statistics") == 0)
      statistics_put(s, question, patches, to);
    else if (strcmp(field->name, "patch_mask") == 0)
      mask_put(question, patches, to);
    else if (strcmp(field->name, "patch_positions") == 0)
      positions_put(question, patches, to);
    else if (strcmp(field->name, "patch_counts") == 0)
      *(int32_t *)to = (int32_t)question->patches;
    else if (strcmp(field->name, "patch_size") == 0)
      *(int32_t *)to = s->recordings[question->recordings[0]].patch_size;
    else if (hr__question_type_named(field->name))
      *(uint8_t *)to = strcmp(field->name, question->type) == 0;
  }
  hr__question_fill(s, question, answered, room->length, &text);
}

static hr_status sensors_fill(const void *state, bool eval, uint64_t entry, const hr_room *room, hr_error *err) {
  (void)eval;
  (void)err;
  const hr_sensors *s = &((const sensors *)state)->of;
  sample_fill(s, question_of(s, entry), true, room);
  return HR_OK;
}

static hr_status sensors_ask(const void *state, uint64_t entry, const hr_room *room, hr_asked *out, hr_error *err) {
  (void)err;
  const hr_sensors *s = &((const sensors *)state)->of;
  const hr_question *question = question_of(s, entry);
  const hr_recording *first = &s->recordings[question->recordings[0]];
  sample_fill(s, question, false, room);
  *out = (hr_asked){.type = question->type,
                    .question = question->text,
                    .expected = question->answer,
                    .subject = first->subject,
                    .positions = hr__question_prompt(s, question),
                    .patches = question->patches,
                    .patch_seconds = s->settings.patch_seconds,
                    .streams = s->streams,
                    .n_streams = s->n_streams};
  return HR_OK;
}

static const char *sensors_remark(const void *state) {
  const sensors *t = state;
  return t->remark[0] ? t->remark : NULL;
}

static const hr_data_file *sensors_file(const void *state, size_t number) {
  return number < 2 ? &((const sensors *)state)->of.files[number] : NULL;
}

static const hr_trace *sensors_trace(const void *state) {
  return &((const sensors *)state)->of.trace;
}

/* Patches, texts and their tokens; the streams of one recording while it is read, once more while they grow. */
static hr_data_bytes sensors_bytes(const void *state) {
  const hr_sensors *s = &((const sensors *)state)->of;
  uint64_t held = s->patch_bytes + s->arena.used_bytes + (s->ids.capacity + s->answer_mark.capacity) * sizeof(int32_t);
  return (hr_data_bytes){.held = held, .making = 2 * s->signal_bytes + s->ids.capacity * sizeof(int32_t)};
}

#define COMMON                                                                                                         \
  .name = "sensors", .tokenizes = true, .threaded = true, .tokenizer = "model.parts.llm.path",                         \
  .purposes = 1u << HR_FOR_TOKENS | 1u << HR_FOR_TARGETS | 1u << HR_FOR_VALUES, .open = sensors_open,                  \
  .close = sensors_close, .held = sensors_held, .length = sensors_length, .targets = sensors_targets,                  \
  .remark = sensors_remark, .fill = sensors_fill, .ask = sensors_ask, .file = sensors_file, .bytes = sensors_bytes,    \
  .trace = sensors_trace

/* Each sample goes into the bucket of its positions of text. */
static const hr_source in_buckets = {COMMON, .scan = sensors_scan};

const hr_source hr_source_sensors = {COMMON, .in_buckets = &in_buckets, .samples = sensors_samples};
