/* Recordings: their streams, read and made into patches. See sensors.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "data/sensors.h"

typedef struct making {
  hr_sensors *s;
  hr_signal signal[HR_STREAMS]; /* of one recording; memory is kept for the next */
} making;

static void trace_add(hr_sensors *s, const hr_data_file *file, hr_status *status, hr_error *err) {
  hr_trace one;
  if (*status == HR_OK) *status = hr__trace_file(file, &one, err);
  if (*status == HR_OK) hr__trace_add(&s->trace, &one);
}

static hr_status stream_read(making *m, const hr_recording *recording, int number, hr_error *err) {
  const hr_recorded *stream = &recording->streams[number];
  hr_data_file file;
  hr_error why = {0};
  hr_status status = hr__data_file_at(stream->path, &file, &why);
  if (status == HR_BAD_INPUT) {
    char place[4200];
    snprintf(place, sizeof place, "%.4000s:%" PRIu64, m->s->settings.manifest, recording->line);
    status = hr__fail(err, HR_BAD_INPUT, place, "paths of the manifest begin at its folder", "%s_csv: %s: %s",
                      m->s->streams[number].name, stream->path, why.message);
  }
  file.read_whole = true;
  trace_add(m->s, &file, &status, err);
  hr__data_file_close(&file);
  HR_TRY(status);
  return hr__signal_read(stream->path, stream->rate, m->s->streams[number].channels, &m->signal[number], err);
}

/* The last `recording->patches` patches of a stream, into its channels. */
static void patches_make(const making *m, const hr_recording *recording, int number, int64_t channel) {
  const hr_sensors *s = m->s;
  const hr_signal *signal = &m->signal[number];
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

static hr_status recording_make(making *m, hr_recording *recording, hr_error *err) {
  hr_sensors *s = m->s;
  for (int i = 0; i < s->n_streams; i++) {
    HR_TRY(stream_read(m, recording, i, err));
    int64_t samples = hr__patch_samples(s->settings.patch_seconds, recording->streams[i].rate);
    int64_t patches = hr__patch_count((int64_t)m->signal[i].rows, samples);
    if (i == 0 || patches < recording->patches) recording->patches = patches;
  }
  size_t rows = (size_t)(recording->patches * s->channels);
  recording->values = hr__alloc_zero(rows, (size_t)s->points * sizeof *recording->values);
  recording->statistics = hr__alloc_zero(rows, HR_STATISTICS * sizeof *recording->statistics);
  if (!recording->values || !recording->statistics) return hr__nomem(err);
  s->patch_bytes += rows * ((size_t)s->points * sizeof(float) + HR_STATISTICS * sizeof(double));
  for (int i = 0, channel = 0; i < s->n_streams; channel += (int)s->streams[i++].channels)
    patches_make(m, recording, i, channel);
  return HR_OK;
}

static hr_status recordings_make(making *m, hr_error *err) {
  hr_sensors *s = m->s;
  for (size_t i = 0; i < s->n_recordings; i++) {
    hr_error why = {0};
    if (!s->recordings[i].asked) continue;
    hr_status status = recording_make(m, &s->recordings[i], &why);
    s->recordings[i].bad = status != HR_OK;
    if (status == HR_BAD_INPUT || status == HR_UNSUPPORTED)
      HR_TRY(hr__bad_row(&s->bad_recordings, &why, err));
    else if (status != HR_OK) {
      if (err) *err = why;
      return status;
    }
  }
  return hr__bad_rows_judge(&s->bad_recordings, err);
}

static hr_status signals_read(hr_sensors *s, hr_error *err) {
  making m = {.s = s};
  hr_status status = recordings_make(&m, err);
  for (int i = 0; i < HR_STREAMS; i++) {
    s->signal_bytes += m.signal[i].capacity * sizeof(double);
    hr__free(m.signal[i].values);
  }
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
      char place[4200], remedy[96];
      question->bad = true;
      snprintf(place, sizeof place, "%.4000s:%" PRIu64, s->settings.questions, question->line);
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
  trace_add(s, &s->files[number], &status, err);
  return status;
}

hr_status hr__sensors_read(hr_sensors *s, int64_t points, hr_error *err) {
  s->points = points;
  HR_TRY(file_open(s, 0, s->settings.manifest, err));
  HR_TRY(file_open(s, 1, s->settings.questions, err));
  HR_TRY(hr__sensors_manifest(s, err));
  HR_TRY(hr__sensors_questions(s, err));
  HR_TRY(signals_read(s, err));
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
