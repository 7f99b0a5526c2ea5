/* What configs say, as the trainers that they are written for read them: the maps' rows (recipe/maps.h) from the right
 * to the left. Nothing is decided here: values that cannot be read are among the answers, with the reason. */
#ifndef HR_APPLY_READING_H
#define HR_APPLY_READING_H

#include "apply/applied.h"

typedef struct hr_said {
  const char *setting;
  const char *value;  /* for a recipe; NULL: it cannot be read, because of `reason` */
  const char *key;    /* of the config */
  const char *shown;  /* what stands there; NULL: nothing, and `value` is what that means */
  const char *place;  /* file, line and column */
  const char *reason; /* NULL where there is a value */
  bool unlimited;     /* there is no value because there is no limit */
} hr_said;

/* A trait that a config has. */
typedef struct hr_trait {
  const hr_map_trait *of;
  const char *key, *shown, *place;
} hr_trait;

typedef struct hr_reading {
  hr_said *said; /* one for a setting, the first file that has a key for it before others */
  size_t count, capacity;
  hr_trait *traits;
  size_t n_traits, cap_traits;
} hr_reading;

/* Reads files whose configs are parsed and whose maps are known; recipes of headroom's own say nothing here.
 * DeepSpeed's config that one of them names is read with them, unless one of it is among them; what it says goes
 * before. */
hr_status hr__reading_make(const hr_applied_file *files, size_t count, hr_arena *arena, hr_reading *out, hr_error *err);
/* HR_BAD_INPUT where such a config has another batch or accumulation than the files, which alone are written to. */
hr_status hr__reading_agree(const hr_applied_file *files, size_t count, hr_arena *arena, hr_error *err);
const hr_said *hr__reading_find(const hr_reading *reading, const char *setting); /* NULL: nothing is said */
/* The samples of a micro-batch and their number in a step, as far as they can be read. */
bool hr__reading_batch(const hr_reading *reading, int64_t *out);
bool hr__reading_accumulation(const hr_reading *reading, int64_t *out);
/* The settings that stay as configs say them, whatever is open. */
bool hr__reading_pinned(const hr_reading *reading, const char *setting);

/* Whether a file of the map can be given a value for the setting: it has the key as a plain value, or (`insert`) could
 * get it. */
bool hr__reading_writable(const hr_applied_file *files, size_t count, const char *setting, bool insert);

/* HR_BAD_INPUT where a config is for something else than training as headroom plans it, or (`torch`) has what PyTorch's
 * memory is not known with. */
hr_status hr__reading_refuse(const hr_reading *reading, bool torch, hr_error *err);

/* Of the steps above: what one file says and has, and a trait more. */
hr_status hr__reading_file(const hr_applied_file *file, hr_arena *arena, hr_reading *out, hr_error *err);
hr_status hr__reading_trait(hr_reading *reading, hr_trait trait, hr_arena *arena, hr_error *err);
/* named.c. What the configs of DeepSpeed's say that files name, unless one of it is among these. */
hr_status hr__reading_named(const hr_applied_file *files, size_t count, hr_arena *arena, hr_reading *out,
                            hr_error *err);
/* A file as a config, whose map is not looked for. False: `why` tells. */
bool hr__reading_open(const char *name, hr_arena *arena, hr_applied_file *out, hr_error *why);

#endif
