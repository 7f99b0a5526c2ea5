/* Tables for people, 80 columns wide: the plan, what explains it, planned beside measured, and how the loss went. */
#ifndef HR_CLI_TABLE_H
#define HR_CLI_TABLE_H

#include "cli/cli.h"
#include "data/confusion.h"
#include "job/job.h"
#include "plan/owners.h"
#include "train/train.h"

/* Name, model, device: the lines above the tables of runs. */
void hr__table_head(const hr_cli *cli, const hr_job *job, FILE *to);

/* What is read first: verdict, speed, settings, and the peak of each tier by category. `change` (may be NULL): for a
 * plan that does not fit, what is cheapest to change. */
void hr__table_plan(const hr_cli *cli, const hr_job *job, const hr_change *change, FILE *to);

/* What a run is about to keep to, in a few lines: device, peak of each tier in its budget, seconds a step, settings. */
void hr__table_promise(const hr_cli *cli, const hr_job *job, FILE *to);

/* torch.c: what PyTorch will hold, and where its peak is, in two lines. */
void hr__table_torch(const hr_job *job, FILE *to);

/* Who owns the peak, by module. */
void hr__table_owners(const hr_cli *cli, const hr_tier_plan *tier, const hr_module_owner *owners, size_t count,
                      FILE *to);
/* What each technique saves and costs; nothing where there are none. */
void hr__table_techniques(const hr_cli *cli, const hr_technique *techniques, int count, FILE *to);
/* The next cheaper and the next faster settings around the plan's own. */
void hr__table_ladder(const hr_cli *cli, const hr_job *job, const hr_ladder *ladder, FILE *to);

/* What was measured; 0 where it was not. */
typedef struct hr_measured {
  uint64_t resident[HR_TIER_COUNT][HR_CAT_COUNT]; /* of the arenas, by category live at the peak (hr__run_resident) */
  uint64_t process_bytes;
  double step_seconds;
} hr_measured;
void hr__table_measured(const hr_cli *cli, const hr_job *job, const hr_measured *measured, FILE *to);

/* "5413 tokens/s, 21.1 samples/s"; tokens of 0 are left out. */
void hr__table_speed(double tokens, double samples, FILE *to);

/* The losses of DIR/log.jsonl as one line of bars with first and last. Shows nothing where there is no log. */
void hr__table_losses(const char *folder, FILE *to);
/* What was taken for what, where there was a classification of as many classes as there is room for. */
void hr__table_confusion(const hr_confusion *confusion, FILE *to);

#endif
