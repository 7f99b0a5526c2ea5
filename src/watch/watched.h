/* A run as somebody sees it who watches: what its log says so far, what its process and its GPU do now, and signs of
 * something that is not as it should be. Everything is read; nothing of the run is written, locked or waited for.
 *
 * Texts are shown ones already (hr__text_escape): they can be printed anywhere. */
#ifndef HR_WATCH_WATCHED_H
#define HR_WATCH_WATCHED_H

#include "dev/nvml.h"
#include "train/history.h"
#include "watch/curve.h"
#include "watch/process.h"

typedef enum hr_watch_state {
  HR_WATCH_STARTING, /* no step is done yet */
  HR_WATCH_RUNNING,
  HR_WATCH_PAUSED,  /* its process is stopped by a signal */
  HR_WATCH_SILENT,  /* it may run elsewhere, but has written nothing for long */
  HR_WATCH_DEAD,    /* its process is gone, and had no time to say so */
  HR_WATCH_STOPPED, /* by a signal, and saved */
  HR_WATCH_FAILED,
  HR_WATCH_DONE
} hr_watch_state;
const char *hr__watch_state_name(hr_watch_state state);
bool hr__watch_is_alive(hr_watch_state state); /* it may go on by itself */

enum {
  HR_WATCH_EVENTS = 16,
  HR_WATCH_RECENT = 64, /* steps that rates go by */
  HR_WATCH_MEMORY = 8,  /* looks at memory that creeping goes by */
  HR_WATCH_USES = 32,   /* looks at use */
  HR_WATCH_SIGNS = 12,
  HR_WATCH_NAME = 256,
  HR_WATCH_TEXT = 320
};

typedef struct hr_watch_event {
  double time; /* since 1970; NaN: not known */
  int64_t step;
  char name[32];
  char text[HR_WATCH_TEXT]; /* for people */
} hr_watch_event;

typedef struct hr_watch_sign {
  const char *name;         /* "creeping": one word for programs */
  char text[HR_WATCH_TEXT]; /* for people: what, and what to do */
} hr_watch_sign;

typedef struct hr_watch_step {
  double time, seconds, loss;
  int64_t step, tokens, samples;
  bool skipped;
} hr_watch_step;

/* The last values of something, the newest last. */
typedef struct hr_watch_ring {
  double value[HR_WATCH_USES];
  size_t count;
} hr_watch_ring;

typedef struct hr_watched {
  char *folder; /* as it was given or found */
  char name[HR_WATCH_NAME];
  hr_history *history;

  /* From the log. */
  char recipe[HR_WATCH_NAME], device[HR_WATCH_NAME], machine[HR_WATCH_NAME];
  bool on_gpu;
  int64_t step, steps, first_step; /* first_step: at which this process began */
  double time, started;            /* of the newest line, and of the newest start; NaN: not known */
  double loss, lr, grad_norm, loss_scale;
  double eval_loss, best_loss;
  int64_t eval_step, best_step, skipped; /* 0: none */
  hr_curve curve;
  hr_watch_step recent[HR_WATCH_RECENT]; /* the newest last */
  size_t n_recent;
  double lowest_mean, first_mean; /* of HR_WATCH_RECENT losses in a row; NaN: not so many yet */
  struct {
    uint64_t planned_bytes, budget_bytes, held_bytes;
  } tiers[HR_TIER_COUNT];
  double held_time;               /* of the look at memory; NaN: there was none */
  double memory[HR_WATCH_MEMORY]; /* held of the device's tier, the newest last */
  size_t n_memory;
  double planned_step_seconds;
  int64_t pid;
  uint64_t process_start;
  bool has_started, has_ended;
  bool early;                             /* it ended since no evaluation got better */
  char status[32];                        /* of the end */
  int64_t saved;                          /* step of the newest checkpoint; 0: none */
  hr_watch_event events[HR_WATCH_EVENTS]; /* the newest last */
  size_t n_events;

  /* As it is now. */
  hr_watch_state state;
  bool local; /* its process is of this machine */
  hr_process process;
  double processors;  /* used since the look before; NaN: not known */
  double looked;      /* hr__seconds_now() of that look; 0: none */
  hr_watch_ring uses; /* of processors or of the GPU, 0 to 1 of what it may have */
  int gpu;            /* that the process is on, or -1 */
  uint64_t gpu_bytes; /* that it holds there; 0: not known */
  hr_watch_sign signs[HR_WATCH_SIGNS];
  size_t n_signs;
} hr_watched;

/* What is looked at together for all runs. */
typedef struct hr_watch_now {
  double time;         /* since 1970 */
  double clock;        /* hr__seconds_now() */
  const char *machine; /* name of this one, as shown */
  int processors;      /* of this machine */
  const hr_nvml_gpu *gpus;
  size_t n_gpus;
} hr_watch_now;

/* What a record tells, in words for people: an event, an evaluation, the first of some samples; "" of others. */
const char *hr__watch_text(const hr_record *record, char out[HR_WATCH_TEXT]);

/* `folder` has a log.jsonl. */
hr_status hr__watched_open(const char *folder, hr_watched **out, hr_error *err);
void hr__watched_close(hr_watched *watched); /* NULL is fine */

/* Takes what has come to the log since, for about so many seconds; *more: there is still some. */
hr_status hr__watched_read(hr_watched *watched, double seconds, bool *more, hr_error *err);
/* Looks at process and GPU; then `state` and `signs` are those of now. */
void hr__watched_look(hr_watched *watched, const hr_watch_now *now);

/* Of recent steps, by the time that passed: with evaluations and saves. NaN: not known. */
double hr__watched_step_seconds(const hr_watched *watched);
double hr__watched_tokens_per_second(const hr_watched *watched); /* 0: the model has no tokens */
double hr__watched_samples_per_second(const hr_watched *watched);
double hr__watched_left_seconds(const hr_watched *watched);

/* signs.c: fills `signs` from the rest. */
void hr__signs_find(hr_watched *watched, const hr_watch_now *now);

#endif
