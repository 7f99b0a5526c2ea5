/* Questions about recordings of sensors. Recordings are read from a manifest (sensors_manifest.c) and a CSV file for
 * each stream (sensors_signal.c), questions from JSON lines (sensors_questions.c); recordings become patches
 * (sensors_recordings.c, sensors_patches.c), questions tokens (sensors_prompt.c); which of them are held out is
 * sensors_split.c's. The source is sensors.c.
 *
 * A folder holds
 *   manifest.csv   a row for each recording: subject, split, activity_index, activity_name, and for each stream
 *                  NAME_csv, NAME_rate_hz, NAME_channels
 *   NAME.csv       time_s and a column of numbers for each channel
 *   *.jsonl        question_type, subject, split, activity_indices, activity_names, question, answer
 *
 * Streams lie side by side in the order of their names: D channels in all. A recording is cut into patches of
 * patch_duration_s seconds, each stream at its own rate, from its end on: what is left over at the beginning is
 * dropped; a recording of less than one patch has zeros before it; of streams with more patches than others the last
 * ones count. A question about several recordings has the patches of all, one recording behind the other.
 */
#ifndef HR_DATA_SENSORS_H
#define HR_DATA_SENSORS_H

#include "data/asked.h"
#include "data/bad_rows.h"
#include "data/source.h"
#include "text/tokenizer.h"

enum {
  HR_STATISTICS = 6, /* of a patch of a channel: min, max, mean, standard deviation, root mean square, log energy */
  HR_STREAMS = 64,
  HR_PATCH_SIZE_MOST = 4095
};

/* What data.sensors says. */
typedef struct hr_sensors_settings {
  const char *folder;   /* of data.path */
  const char *manifest; /* paths of its files */
  const char *questions;
  double patch_seconds;
  int64_t patches;          /* of a sample: the last ones count, unless all are to */
  bool all;                 /* a sample with more patches is no good */
  bool by_question;         /* questions are held out, whatever recordings they are about */
  bool unanswered;          /* answers may be missing */
  const char *const *names; /* of streams; NULL: all of the manifest */
  size_t n_names;
} hr_sensors_settings;

/* A stream of a recording, as the manifest names it. */
typedef struct hr_recorded {
  const char *path;
  double rate; /* 1/s */
} hr_recorded;

typedef struct hr_recording {
  const char *subject, *split, *name;
  int64_t activity;
  uint64_t line;              /* of the manifest */
  const hr_recorded *streams; /* in order */
  bool asked;                 /* by a question */
  bool bad;                   /* and left out */
  int32_t patch_size;         /* samples of a patch of the first stream, at most HR_PATCH_SIZE_MOST */
  int64_t patches;
  float *values;      /* [patches, D, T] */
  double *statistics; /* [patches, D, 6], as they are */
} hr_recording;

typedef struct hr_question {
  const char *type, *text, *answer; /* answer NULL: none is given */
  uint64_t line;
  const int32_t *recordings;
  size_t n_recordings;
  int64_t patches;        /* that count, of all its recordings */
  size_t ids, answer_ids; /* where its tokens begin, and those of its answer; the next one's follow */
  bool bad;               /* and left out */
} hr_question;

typedef struct hr_sensors {
  hr_arena arena;
  hr_sensors_settings settings;
  hr_asked_stream *streams;
  int n_streams;
  int64_t channels, points; /* D, T */
  hr_recording *recordings; /* by subject, split and activity */
  size_t n_recordings;
  hr_question *questions;
  size_t n_questions;
  hr_bad_rows bad_recordings, bad_questions;
  uint64_t dropped;                   /* questions about recordings that are left out */
  hr_data_file files[2];              /* manifest and questions; fd -1: not open */
  hr_trace trace;                     /* of all files that were read */
  uint64_t patch_bytes, signal_bytes; /* of all recordings; of streams while they are read */
  hr_ids ids;                         /* of all questions and answers */
  hr_ids answer_mark;                 /* what stands before an answer */
  int32_t sensor, end;                /* tokens */
  uint32_t *order;                    /* of samples: number of the question; those held out last */
  size_t n_samples, n_held;
} hr_sensors;

hr_status hr__sensors_settings(const hr_recipe *recipe, const char *key, hr_arena *arena, hr_sensors_settings *out,
                               hr_error *err);
/* Patches of a sample, at most, by the recipe: data.sensors.context_size, or max_patches where that is -1. Where
 * neither says it, HR_BAD_INPUT with what the data has. */
hr_status hr__sensors_patches(const hr_recipe *recipe, int64_t *out, hr_error *err);

/* Reading: what was taken is left to hr__sensors_close, also where it fails half-way. `settings` are there between
 * begin and read. Reads manifest and questions, and makes patches of all recordings that are asked about, with `points`
 * points for each channel, by several threads, with the same result whatever their number. */
void hr__sensors_begin(hr_sensors *s, double bad_rows);
void hr__sensors_close(hr_sensors *s);
hr_status hr__sensors_read(hr_sensors *s, int64_t points, int threads, hr_error *err);
hr_status hr__sensors_manifest(hr_sensors *s, hr_error *err);
hr_status hr__sensors_questions(hr_sensors *s, hr_error *err);
/* Tokens of all questions; those that are longer than a sample are bad. */
hr_status hr__sensors_tokens(hr_sensors *s, const hr_source_request *request, hr_error *err);
hr_status hr__sensors_split(hr_sensors *s, const hr_source_request *request, hr_error *err);

/* The recording of a subject's activity; -1: there is none. */
int64_t hr__recording_find(const hr_sensors *s, const char *subject, const char *split, int64_t activity);

/* sensors_signal.c: samples of a stream, f64 [rows, channels]. Memory is kept for the next one. */
typedef struct hr_signal {
  double *values;
  size_t rows, capacity; /* of values: numbers */
} hr_signal;
hr_status hr__signal_read(const char *path, double rate, int64_t channels, hr_signal *out, hr_error *err);

/* sensors_patches.c. Samples of a patch: int(seconds x rate). */
int64_t hr__patch_samples(double seconds, double rate);
int64_t hr__patch_count(int64_t rows, int64_t samples); /* of a stream with as many rows; at least 1 */
/* A patch of one channel, of `samples` samples, the first `missing` of which are 0; x has the others, `stride` apart.
 * Interpolated linearly to `points` (as torch's interpolate does with align_corners=False), and its statistics. All in
 * f64. */
typedef struct hr_patch {
  const double *x;
  size_t stride;
  int64_t samples, missing;
} hr_patch;
void hr__patch_resample(const hr_patch *patch, int64_t points, float *out);
void hr__patch_statistics(const hr_patch *patch, double out[HR_STATISTICS]);

/* sensors_questions.c: the type of questions that is called so; NULL: there is none. */
const char *hr__question_type_named(const char *name);

/* sensors_prompt.c: positions of a question's sample, those before its answer, and those that have a target. */
int64_t hr__question_length(const hr_sensors *s, const hr_question *question);
int64_t hr__question_prompt(const hr_sensors *s, const hr_question *question);
int64_t hr__question_targets(const hr_sensors *s, const hr_question *question);
/* A sample of `length` positions, each NULL where nobody reads it; of the prompt alone unless `answered`. */
typedef struct hr_question_room {
  int32_t *tokens, *targets, *placement;
} hr_question_room;
void hr__question_fill(const hr_sensors *s, const hr_question *question, bool answered, int64_t length,
                       const hr_question_room *to);

#endif
