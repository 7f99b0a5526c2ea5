/* Recordings: their streams, read and made into patches. See sensors.h. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/threads.h"
#include "data/row_text.h"
#include "data/sensors.h"

/* What became of a recording. */
typedef struct outcome {
  hr_status status;
  hr_error *why; /* NULL: nothing is wrong, or there is no memory to say it */
  hr_trace trace;
} outcome;

/* Recordings are read by several threads, and judged in their order. */
typedef struct making {
  hr_sensors *s;
  hr_signal (*signals)[HR_STREAMS]; /* of each thread: streams of one recording; memory is kept for the next */
  outcome *outcomes;
  _Atomic int64_t stop; /* recordings from this one on need not be read: it is bad, and none may be */
} making;

/* A recording on its way into patches. */
typedef struct one {
  const hr_sensors *s;
  hr_recording *recording;
  hr_signal *signal; /* of each stream */
  hr_trace trace;
} one;

static hr_status traced(const hr_data_file *file, hr_trace *all, hr_error *err) {
  hr_trace of_file;
  HR_TRY(hr__trace_file(file, &of_file, err));
  hr__trace_add(all, &of_file);
  return HR_OK;
}

static hr_status stream_read(one *o, int number, hr_error *err) {
  const hr_recorded *stream = &o->recording->streams[number];
  hr_data_file file;
  hr_error why = {0};
  hr_status status = hr__data_file_at(stream->path, &file, &why);
  if (status == HR_BAD_INPUT) {
    char place[HR_ROW_PLACE];
    hr__row_place(o->s->settings.manifest, o->recording->line, place);
    status = hr__fail(err, HR_BAD_INPUT, place, "paths of the manifest begin at its folder", "%s_csv: %s: %s",
                      o->s->streams[number].name, stream->path, why.message);
  }
  file.read_whole = true;
  if (status == HR_OK) status = traced(&file, &o->trace, err);
  hr__data_file_close(&file);
  HR_TRY(status);
  return hr__signal_read(stream->path, stream->rate, o->s->streams[number].channels, &o->signal[number], err);
}

/* The last `recording->patches` patches of a stream, into its channels. */
static void patches_make(const one *o, int number, int64_t channel) {
  const hr_sensors *s = o->s;
  const hr_recording *recording = o->recording;
  const hr_signal *signal = &o->signal[number];
  int64_t channels = s->streams[number].channels, rows = (int64_t)signal->rows;
  int64_t samples = hr__patch_samples(s->settings.patch_seconds, recording->streams[number].rate);
  for (int64_t p = 0; p < recording->patches; p++) {
    int64_t first = rows - (recording->patches - p) * samples;
    int64_t missing = first < 0 ? -first : 0;
    for (int64_t c = 0; c < channels; c++) {
      hr_patch patch = {.x = signal->values + (first + missing) * channels + c,
                        .stride = (size_t)channels,
                        .samples = samples,
                        .missing = missing};
      int64_t at = p * s->channels + channel + c;
      hr__patch_resample(&patch, s->points, recording->values + at * s->points);
      hr__patch_statistics(&patch, recording->statistics + at * HR_STATISTICS);
    }
  }
}

static size_t patch_rows(const hr_sensors *s, const hr_recording *recording) {
  return (size_t)(recording->patches * s->channels);
}

static hr_status recording_make(one *o, hr_error *err) {
  const hr_sensors *s = o->s;
  hr_recording *recording = o->recording;
  for (int i = 0; i < s->n_streams; i++) {
    HR_TRY(stream_read(o, i, err));
    int64_t samples = hr__patch_samples(s->settings.patch_seconds, recording->streams[i].rate);
    int64_t patches = hr__patch_count((int64_t)o->signal[i].rows, samples);
    if (i == 0 || patches < recording->patches) recording->patches = patches;
  }
  size_t rows = patch_rows(s, recording);
  recording->values = hr__alloc_zero(rows, (size_t)s->points * sizeof *recording->values);
  recording->statistics = hr__alloc_zero(rows, HR_STATISTICS * sizeof *recording->statistics);
  if (!recording->values || !recording->statistics) return hr__nomem(err);
  for (int i = 0, channel = 0; i < s->n_streams; channel += (int)s->streams[i++].channels)
    patches_make(o, i, channel);
  return HR_OK;
}

/* Recordings are taken up in their order, so all before the first bad one are read whatever the number of threads. */
static void recording_task(void *arg, int64_t number, int worker) {
  making *m = arg;
  one o = {.s = m->s, .recording = &m->s->recordings[number], .signal = m->signals[worker], .trace.whole = true};
  outcome *out = &m->outcomes[number];
  hr_error why = {0};
  if (!o.recording->asked || number > m->stop) return;
  out->status = recording_make(&o, &why);
  out->trace = o.trace;
  o.recording->bad = out->status != HR_OK;
  if (out->status == HR_OK) return;
  out->why = hr__alloc(sizeof *out->why);
  if (out->why) *out->why = why;
  int64_t stop = m->stop;
  while (m->s->bad_recordings.allowed == 0 && number < stop)
    if (atomic_compare_exchange_weak(&m->stop, &stop, number)) break;
}

/* In order: what was read, and what is bad. */
static hr_status recordings_judge(making *m, hr_error *err) {
  hr_sensors *s = m->s;
  for (size_t i = 0; i < s->n_recordings; i++) {
    const outcome *out = &m->outcomes[i];
    if (out->status != HR_OK && !out->why) return hr__nomem(err);
    if (out->status == HR_BAD_INPUT || out->status == HR_UNSUPPORTED)
      HR_TRY(hr__bad_row(&s->bad_recordings, out->why, err));
    else if (out->status != HR_OK) {
      if (err) *err = *out->why;
      return out->status;
    }
    if (!s->recordings[i].values) continue;
    hr__trace_add(&s->trace, &out->trace);
    s->patch_bytes +=
        patch_rows(s, &s->recordings[i]) * ((size_t)s->points * sizeof(float) + HR_STATISTICS * sizeof(double));
  }
  return hr__bad_rows_judge(&s->bad_recordings, err);
}

static hr_status recordings_read(making *m, int threads, hr_error *err) {
  hr_sensors *s = m->s;
  hr_pool *pool = NULL;
  m->signals = hr__alloc_zero((size_t)threads, sizeof *m->signals);
  m->outcomes = hr__alloc_zero(s->n_recordings + 1, sizeof *m->outcomes);
  if (!m->signals || !m->outcomes) return hr__nomem(err);
  if (threads > 1) HR_TRY(hr__pool_create(threads, &pool, err));
  hr__pool_run(pool, threads, (int64_t)s->n_recordings, recording_task, m);
  if (pool) hr__pool_destroy(pool);
  return recordings_judge(m, err);
}

static hr_status signals_read(hr_sensors *s, int threads, hr_error *err) {
  making m = {.s = s, .stop = INT64_MAX};
  hr_status status = recordings_read(&m, threads, err);
  for (int k = 0; k < threads && m.signals; k++)
    for (int i = 0; i < HR_STREAMS; i++) {
      s->signal_bytes += m.signals[k][i].capacity * sizeof(double);
      hr__free(m.signals[k][i].values);
    }
  for (size_t i = 0; i < s->n_recordings && m.outcomes; i++)
    hr__free(m.outcomes[i].why);
  hr__free(m.signals);
  hr__free(m.outcomes);
  return status;
}

/* Patches of each question; those about recordings that are left out are left out too. */
static hr_status patches_count(hr_sensors *s, hr_error *err) {
  for (size_t i = 0; i < s->n_questions; i++) {
    hr_question *question = &s->questions[i];
    int64_t patches = 0;
    for (size_t k = 0; k < question->n_recordings; k++) {
      const hr_recording *recording = &s->recordings[question->recordings[k]];
      question->bad |= recording->bad;
      patches += recording->patches;
    }
    s->dropped += question->bad;
    if (!question->bad && s->settings.all && patches > s->settings.patches) {
      hr_error why = {0};
      char place[HR_ROW_PLACE], remedy[96];
      question->bad = true;
      hr__row_place(s->settings.questions, question->line, place);
      snprintf(remedy, sizeof remedy, "raise data.sensors.max_patches to %" PRId64 ", or give a context_size", patches);
      hr__fail(&why, HR_BAD_INPUT, place, remedy, "it is about %" PRId64 " patches, more than data.sensors.max_patches",
               patches);
      HR_TRY(hr__bad_row(&s->bad_questions, &why, err));
    }
    question->patches = patches < s->settings.patches ? patches : s->settings.patches;
  }
  return hr__bad_rows_judge(&s->bad_questions, err);
}

static hr_status file_open(hr_sensors *s, int number, const char *path, hr_error *err) {
  hr_status status = hr__data_file_at(path, &s->files[number], err);
  s->files[number].read_whole = true;
  return status == HR_OK ? traced(&s->files[number], &s->trace, err) : status;
}

hr_status hr__sensors_read(hr_sensors *s, int64_t points, int threads, hr_error *err) {
  s->points = points;
  HR_TRY(file_open(s, 0, s->settings.manifest, err));
  HR_TRY(file_open(s, 1, s->settings.questions, err));
  HR_TRY(hr__sensors_manifest(s, err));
  HR_TRY(hr__sensors_questions(s, err));
  HR_TRY(signals_read(s, threads > 1 ? threads : 1, err));
  return patches_count(s, err);
}

void hr__sensors_begin(hr_sensors *s, double bad_rows) {
  *s = (hr_sensors){.files = {{.fd = -1}, {.fd = -1}},
                    .bad_recordings.allowed = bad_rows,
                    .bad_questions.allowed = bad_rows,
                    .trace.whole = true};
  hr__arena_init(&s->arena);
}

void hr__sensors_close(hr_sensors *s) {
  for (size_t i = 0; i < s->n_recordings; i++) {
    hr__free(s->recordings[i].values);
    hr__free(s->recordings[i].statistics);
  }
  for (int i = 0; i < 2; i++)
    hr__data_file_close(&s->files[i]);
  hr__ids_fini(&s->ids);
  hr__ids_fini(&s->answer_mark);
  hr__arena_fini(&s->arena);
}
