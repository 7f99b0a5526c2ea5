/* What the files of run/ share: the run itself and the few calls between them. */
#ifndef HR_RUN_INTERNAL_H
#define HR_RUN_INTERNAL_H

#include "dev/disk.h"
#include "run/run.h"

typedef struct hr_copier hr_copier;

/* A segment of a program, recorded once and replayed; a copy between tiers that the copier makes, the wait for one, and
 * a copy that feeds in line are segments of their own. */
typedef struct run_segment {
  hr_id first, count;      /* nodes of the graph */
  bool copies;             /* one such node */
  hr_recording *recording; /* NULL where nodes are launched singly */
} run_segment;

typedef struct run_program {
  run_segment *segments;
  size_t n_segments;
} run_program;

struct hr_run {
  hr_arena arena; /* storage of the bound arrays below */
  const hr_plan *plan;
  hr_device *device;
  hr_run_options options;
  void *base[HR_TIER_COUNT]; /* one block per tier; NULL when the tier is empty, and for the disk */
  hr_disk disk;              /* the file of the disk tier */
  hr_copier *copier;         /* NULL when it has nothing to do */
  hr_launch *launches;       /* per graph node: final for the whole run */
  run_program *programs;     /* per graph program */
  double *node_seconds;      /* with time_nodes: per graph node */
  size_t *slot_bytes;        /* per slot: bytes in use, without the rounding (poisoning leaves the rest dead) */
  size_t fed_bytes;          /* where the slot begins that batches are fetched from */
  bool node_by_node;         /* launches are issued one at a time and looked at in between */
  bool poisoned;             /* dead slots are poisoned */
  bool state_fresh;          /* nobody has written state of the optimizer: it is zeros, as arenas begin */
};

/* bind.c: launches with final addresses, prepared kernels, recorded segments. */
hr_status hr__bind(hr_run *run, hr_error *err);
void hr__unbind(hr_run *run); /* also after a bind that failed half-way */

/* transfer.c: copies between tiers, beside the computing, that the device does not make itself. */
bool hr__copier_takes(const hr_run *run, hr_id node); /* the start of such a copy, or its end */
/* The start of a copy of a short field of a batch: launched in the order of nodes, from the slot that is fed. */
bool hr__feeds_in_line(const hr_run *run, hr_id node);
hr_status hr__copier_create(hr_run *run, hr_error *err);
void hr__copier_destroy(hr_run *run); /* what is under way is finished first */
hr_status hr__copier_start(hr_run *run, hr_id node, hr_error *err);
hr_status hr__copier_wait(hr_run *run, hr_id node, hr_error *err); /* node: a wait */
void hr__copier_drain(hr_run *run);                                /* after a failure: nothing is under way any more */

/* check.c: HR_FAILURE with node, op, module, output and the state of the inputs when a float output of `node` holds a
 * value that is not finite. */
hr_status hr__check_node(hr_run *run, hr_id node, hr_error *err);

/* poison.c. No-ops unless built for ASan and run->poisoned. */
void hr__poison_create(hr_run *run);                                   /* everything but persistent slots is dead */
void hr__poison_destroy(hr_run *run);                                  /* everything is alive again */
void hr__poison_begin(hr_run *run, hr_id program);                     /* all transients dead */
void hr__poison_before(hr_run *run, hr_id program, uint32_t position); /* slots born here come alive */
void hr__poison_after(hr_run *run, hr_id program, uint32_t position);  /* slots with their last use here die */
void hr__poison_host(hr_run *run, hr_id value);                        /* the host writes this value: alive */
/* Before a launch: HR_FAILURE when an operand lies in a dead slot (libraries are not instrumented, so we look). */
hr_status hr__poison_operands(hr_run *run, hr_id node, hr_error *err);

/* Address of a value in the arena of its tier, which must not be the disk. */
char *hr__run_place(const hr_run *run, hr_id value);
/* Whether a value is state of the optimizer. */
bool hr__run_is_state(const hr_run *run, hr_id value);
/* Where a value of the disk tier lies in the file. */
hr_disk_range hr__run_disk_range(const hr_run *run, hr_id value);

/* "node 14 (linear)" into a place buffer. */
enum { HR_NODE_PLACE = 96 };
const char *hr__node_place(const hr_graph *graph, hr_id node, char out[HR_NODE_PLACE]);

#endif
