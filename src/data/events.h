/* Vectors of event cameras. A camera of this kind gives no frames but events: pixel x, y, time t, polarity p. In every
 * interval of a recording some events get a vector that tells what happened around them (events_vectors.c, after VecKM:
 * random Fourier features); which ones is events_choose.c's. A sample of training is a recording with its class: some
 * of its vectors, drawn anew in every epoch (events_sample.c), with the six orders that a model reads them in and the
 * weights that it pools them by (events_orders.c, pooling.h). The source is events.c.
 *
 * Where they come from (events_read.c): files that `headroom prepare` has written, HDF5 files in the layout of
 * GestureRecognitionNew (events_hdf5.c), recordings listed in a manifest (events_manifest.c), or streams that are made
 * up (events_streams.c).
 *
 * A row is a vector with its place: 64 real parts, 64 imaginary parts, x, y, t, p. Times are milliseconds from the
 * beginning of the recording.
 */
#ifndef HR_DATA_EVENTS_H
#define HR_DATA_EVENTS_H

#include "base/random.h"
#include "data/source.h"
#include "format/hdf5.h"
#include "format/safetensors.h"

enum {
  HR_EVENT_DIM = 64,                 /* complex numbers of a vector */
  HR_EVENT_WIDTH = 2 * HR_EVENT_DIM, /* numbers that a model reads */
  HR_EVENT_ROW = HR_EVENT_WIDTH + 4, /* with x, y, t, p behind them */
  HR_EVENT_RADIUS = 8,               /* pixels: a neighbourhood is 17 x 17 */
  HR_EVENT_SIDE = 2 * HR_EVENT_RADIUS + 1,
  HR_EVENT_ORDERS = 6,
  HR_EVENT_PIXELS = 1 << 12,    /* of a side of a camera, at most */
  HR_EVENT_INTERVALS = 1 << 16, /* of a recording, at most */
  HR_EVENT_MOTIONS = 8,         /* of made-up streams */
};

typedef struct hr_event {
  int32_t x, y, p; /* p: 0 or 1 */
  double t;        /* ms */
} hr_event;

typedef struct hr_event_list {
  hr_event *list;
  size_t count, capacity;
} hr_event_list;
hr_status hr__event_add(hr_event_list *events, hr_event event, hr_error *err);

/* What data.events says. */
typedef struct hr_events_settings {
  int64_t generate; /* samples that are made up; 0: files are read */
  double unit_ms;   /* of times in files of raw events */
  double interval_ms;
  double ratio;       /* of events that get a vector */
  double train_ratio; /* of the vectors of an interval that a sample of training has */
  double eval_ratio;  /* and one that is held out */
  bool augment;
  double time_scale, jitter, drop;
  double encoding_scale; /* deviation of the random frequencies */
  uint64_t seed;
} hr_events_settings;
void hr__events_settings(const hr_recipe *recipe, uint64_t seed, hr_events_settings *out);

/* --- events -> vectors ------------------------------------------------------------------------------------------- */

/* The random frequencies, and exp(i (dx X + dy Y)) of every place of a neighbourhood, dx and dy from -1 to 1. */
typedef struct hr_event_code {
  float t[HR_EVENT_DIM], x[HR_EVENT_DIM], y[HR_EVENT_DIM];
  double interval_ms;
  float place[HR_EVENT_SIDE * HR_EVENT_SIDE][HR_EVENT_WIDTH];
} hr_event_code;
void hr__event_code(const hr_events_settings *settings, hr_event_code *out);
void hr__event_places(hr_event_code *code); /* `place`, from x and y */

/* Rows of chosen events of one interval; memory is kept for the next one. */
typedef struct hr_event_grid hr_event_grid;
hr_event_grid *hr__event_grid_create(void);       /* NULL: out of memory */
void hr__event_grid_destroy(hr_event_grid *grid); /* NULL is fine */
/* Counts events of an interval by pixel. */
hr_status hr__event_grid_fill(hr_event_grid *grid, const hr_event *events, size_t count, hr_error *err);
uint32_t hr__event_grid_count(const hr_event_grid *grid, int64_t x, int64_t y); /* of a pixel; 0 outside */
/* Rows [chosen, HR_EVENT_ROW] of the interval that begins at `begin_ms`. The grid holds its events. */
hr_status hr__event_vectors(hr_event_grid *grid, const hr_event_code *code, double begin_ms, const hr_event *events,
                            size_t count, const uint32_t *chosen, size_t n_chosen, float *out, hr_error *err);

/* events_choose.c: how many of `count` events get a vector, and which: their numbers, ascending. Of ten, four go by
 * activity (events of the pixel), four by its gradient, two by space (all pixels alike). Draws are keyed by `at`. */
size_t hr__events_to_choose(size_t count, double ratio);
hr_status hr__events_choose(const hr_event_grid *grid, const hr_event *events, size_t count, size_t n_chosen,
                            hr_random_key key, uint64_t at, uint32_t *chosen, hr_error *err);

/* events_streams.c: made-up stream `number`: motion number % 8 of a blob or bar in front of noise. */
hr_status hr__event_stream(uint64_t seed, uint64_t number, hr_event_list *out, hr_error *err);
extern const char *const hr_event_motions[HR_EVENT_MOTIONS];

/* --- samples ----------------------------------------------------------------------------------------------------- */

typedef struct hr_event_interval {
  uint64_t first; /* its first row, of all in memory or in the file */
  uint32_t rows;
} hr_event_interval;

typedef struct hr_event_sample {
  int32_t label;   /* from 0 */
  uint32_t file;   /* of files; of raw events the line of the manifest */
  uint32_t number; /* in its file */
  uint32_t n_intervals;
  uint64_t intervals; /* number of the first */
  bool held;
} hr_event_sample;

/* A file that vectors are read from when they are asked for: one of the two. */
typedef struct hr_event_file {
  hr_safetensors *prepared;
  const hr_safetensor *rows;
  hr_hdf5 *hdf5;
} hr_event_file;

typedef struct hr_events {
  hr_arena arena;
  hr_events_settings settings;
  hr_data_files files;   /* as data.path has them; fd -1: not open */
  hr_event_file *opened; /* of each */
  const char **classes;
  size_t n_classes;         /* names there are; 0: none */
  hr_event_sample *samples; /* those held out last */
  size_t n_samples, n_held, cap_samples;
  hr_event_interval *intervals;
  size_t n_intervals, cap_intervals;
  float *rows; /* of all intervals, where they lie in memory */
  uint64_t n_rows, cap_rows;
  int spill;          /* a file without a name that rows of raw events go to after each recording; -1: they stay */
  uint64_t spilled;   /* rows in it */
  uint32_t most_rows; /* of an interval */
  hr_trace trace;
} hr_events;

void hr__events_begin(hr_events *events);
void hr__events_close(hr_events *events);
/* Finds out what samples there are, by files of `key` or made up; makes vectors where there are raw events. `classes`:
 * labels are below it; 0: any. */
hr_status hr__events_read(hr_events *events, const hr_recipe *recipe, const char *key, int64_t classes, hr_error *err);
/* Those held out last, in their own order. */
void hr__events_order(hr_events *events);
/* Rows of an interval of a sample, in room of hr__events_room numbers, at its beginning. By several threads at once. */
size_t hr__events_room(const hr_events *events);
hr_status hr__events_rows(const hr_events *events, const hr_event_sample *sample, uint32_t interval, float *room,
                          hr_error *err);
/* HR_BAD_INPUT where rows are not finite numbers; `place` says whose they are. */
hr_status hr__event_rows_check(const float *rows, size_t count, const char *place, hr_error *err);
hr_status hr__event_sample_add(hr_events *events, hr_event_sample sample, hr_error *err);
hr_status hr__event_interval_add(hr_events *events, hr_event_interval interval, hr_error *err);

/* events_manifest.c: recordings of a manifest. */
hr_status hr__events_manifest(hr_events *events, const char *path, hr_error *err);
/* events_make.c: vectors of one recording, into memory. `number` keys its draws. */
hr_status hr__events_make(hr_events *events, const hr_event_code *code, hr_event_grid *grid, const hr_event_list *raw,
                          uint64_t number, hr_event_sample *sample, hr_error *err);
/* events_raw.c: events of a .npy or CSV file. */
hr_status hr__events_raw(const char *path, double unit_ms, hr_event_list *out, hr_error *err);
hr_status hr__events_hdf5(hr_events *events, uint32_t file, int64_t classes, hr_error *err);
/* `columns` has room for [rows, 64]. */
hr_status hr__events_hdf5_rows(hr_hdf5 *file, uint32_t sample, uint32_t interval, uint32_t rows, float *out,
                               float *columns, hr_error *err);
/* events_prepared.c: what `headroom prepare` writes, and reads again. Written are samples with `held` as given; an old
 * file stays whole on any failure. */
hr_status hr__events_prepared(hr_events *events, uint32_t file, int64_t classes, hr_error *err);
hr_status hr__events_write(const hr_events *events, bool held, const char *path, hr_error *err);

/* events_prepare.c: vectors of data.path and data.eval_path into FOLDER/train.safetensors and validation.safetensors;
 * paths in `arena`. */
typedef struct hr_prepared_part {
  const char *path; /* NULL: there were no such samples */
  uint64_t samples, vectors;
} hr_prepared_part;
typedef struct hr_prepared {
  hr_prepared_part train, held;
} hr_prepared;
hr_status hr__events_prepare(const hr_recipe *recipe, uint64_t seed, const char *folder, hr_prepared *out,
                             hr_arena *arena, hr_error *err);

/* events_sample.c: one sample of L positions. `high` keys the draws. */
typedef struct hr_event_draw {
  const hr_events *events;
  const hr_event_sample *sample;
  hr_random_key key;
  uint64_t high;
  bool training;
  int64_t length; /* L */
} hr_event_draw;
/* How many vectors it has: pure, and the same in every epoch. */
int64_t hr__event_draw_length(const hr_event_draw *draw);
/* Vectors [L, 128], those behind the sample 0, and x, y, t of each, [3, L]. `room` has hr__events_room numbers. */
hr_status hr__event_draw(const hr_event_draw *draw, float *room, float *vectors, float *places, hr_error *err);

/* events_orders.c. Six stable orders of n vectors by x, y, t [3, L - first]: XYT TYX XTY YTX YXT TXY, the first letter
 * being what counts first; row i of an order is the number of the vector that stands there, an inverse has where vector
 * i stands. The vectors are rows `first` to `first` + n; rows behind them are their own, those before are let be. */
void hr__event_orders(const float *places, int64_t n, int64_t first, int64_t length, int32_t *orders,
                      int32_t *inverses);

/* events_judge.c: by logits [held, classes]: accuracy, and what was taken for what. */
void hr__events_judge(const hr_events *events, const float *logits, int64_t classes, hr_confusion *confusion,
                      hr_judged *out);

#endif
