/* headroom log: how lines of a run's log are printed. */
#ifndef HR_CLI_LOG_H
#define HR_CLI_LOG_H

#include "base/mem.h"
#include "train/history.h"

typedef enum hr_log_format { HR_LOG_PLAIN, HR_LOG_CSV, HR_LOG_JSON } hr_log_format;

/* Which members of lines are shown, by their paths ("loss", "losses.a", "tiers.device.held_bytes"). */
typedef struct hr_log_keys {
  const char **list;
  size_t count, capacity;
} hr_log_keys;

#define HR_LOG_STEP "step" /* the key that every line has */

/* The value at a path of a line; NULL: it has none. */
const json_t *hr__log_value(const json_t *line, const char *path);
/* Adds the paths of what a step or an evaluation has, where they are not there yet. False: out of memory. */
bool hr__log_keys_add(hr_log_keys *keys, const hr_record *record, hr_arena *arena);

/* A record in words; only its keys, where there are some. */
void hr__log_print_plain(const hr_record *record, const hr_log_keys *keys, FILE *to);
void hr__log_print_csv_head(const hr_log_keys *keys, FILE *to);
void hr__log_print_csv(const hr_record *record, const hr_log_keys *keys, FILE *to);
/* The line itself, or an object of its keys. */
void hr__log_print_json(const hr_record *record, const hr_log_keys *keys, FILE *to);

#endif
