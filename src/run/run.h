/* The run: a const plan bound to a device. Arenas are taken and touched here, addresses are bound once, and from then
 * on programs are replayed without allocation, strings or look-ups. */
#ifndef HR_RUN_RUN_H
#define HR_RUN_RUN_H

#include "plan/plan.h"

typedef struct hr_run hr_run;

typedef struct hr_run_options {
  bool check_numerics; /* after every node look for non-finite results; names the first node */
  bool time_nodes;     /* measure every node (profile) */
  const char *folder;  /* for the file of the disk tier, which exists only while it is opened; NULL: the system's */
} hr_run_options;

hr_status hr__run_create(const hr_plan *plan, hr_device *device, const hr_run_options *options, hr_run **out,
                         hr_error *err);
void hr__run_destroy(hr_run *run);

/* Fills parameters and state from their init rules, keyed by (seed, name): same bits on every device. */
hr_status hr__run_init_values(hr_run *run, uint64_t seed, hr_error *err);
/* Only some of them: parameters of the model, trained or frozen (packed ones too), or all others (adapters, state). */
typedef enum hr_init_part { HR_INIT_OTHERS = 1, HR_INIT_TRAINED = 2, HR_INIT_FROZEN = 4, HR_INIT_ALL = 7 } hr_init_part;
/* `drawn` (or NULL: all are) says by their names which trained and frozen parameters. */
hr_status hr__run_init_parts(hr_run *run, hr_init_part parts, bool (*drawn)(void *user, const char *name), void *user,
                             uint64_t seed, hr_error *err);

/* Elements [first, first + count) of a parameter as floats. */
typedef hr_status (*hr_float_source)(void *user, int64_t first, int64_t count, float *to, hr_error *err);
/* Fills the parts of a packed parameter. Elements are asked for in order, in windows of at most 1 MiB; for very large
 * tensors twice. Takes 2.2 MiB of host memory while it lasts. */
hr_status hr__run_pack(hr_run *run, const hr_packed *packed, hr_float_source source, void *user, hr_error *err);

/* Host <-> value, whole or in part (bytes from offset). */
hr_status hr__run_write(hr_run *run, hr_id value, size_t offset, const void *data, size_t bytes, hr_error *err);
hr_status hr__run_read(hr_run *run, hr_id value, size_t offset, void *data, size_t bytes, hr_error *err);
/* Address of a value where the host can reach it directly (the CPU's memory, the host tier), else NULL. */
void *hr__run_address(hr_run *run, hr_id value);

/* Which slot of HR_BATCH (data/field.h) programs fetch their batches from, from now on; the first one unless told. */
void hr__run_feed(hr_run *run, int slot);
/* Address of an input of a program in that slot. */
void *hr__run_fed(hr_run *run, hr_id input);

/* Executes one program and waits for it. */
hr_status hr__run_program(hr_run *run, hr_id program, hr_error *err);
/* The same in two: hr__run_read between them waits for the program as well, so that who reads a result waits once. What
 * was read counts only when the end is HR_OK; no other program begins before it. */
hr_status hr__run_begin(hr_run *run, hr_id program, hr_error *err);
hr_status hr__run_end(hr_run *run, hr_error *err);

/* With time_nodes: seconds spent in a node so far, and how often it ran. */
double hr__run_node_seconds(const hr_run *run, hr_id node);

size_t hr__run_arena_bytes(const hr_run *run, hr_tier tier);
/* Bytes of each tier's arena that the operating system holds now, in memory or on the disk, in the ranges of what is
 * alive at the planned peak, by category; their sum is the resident part of the arena. All zero for a tier that nobody
 * tells of: the memory of a GPU. */
void hr__run_resident(const hr_run *run, uint64_t categories[HR_TIER_COUNT][HR_CAT_COUNT]);
/* All of a tier's arena that it holds now. */
uint64_t hr__run_held(const hr_run *run, hr_tier tier);
const hr_graph *hr__run_graph(const hr_run *run);

#endif
