/* Tables for people, 80 columns wide: who owns the memory, planned beside measured, and how the loss went. */
#ifndef HR_CLI_TABLE_H
#define HR_CLI_TABLE_H

#include "cli/cli.h"
#include "train/job.h"

/* Name, model, device: the lines above every table. */
void hr__table_head(const hr_cli *cli, const hr_job *job, FILE *to);

/* Owners of the peak with bars, and the verdict. */
void hr__table_plan(const hr_cli *cli, const hr_job *job, FILE *to);

/* What each technique saves and costs; nothing where there are none. */
void hr__table_techniques(const hr_cli *cli, const hr_technique *techniques, int count, FILE *to);

/* What was measured; 0 where it was not. */
typedef struct hr_measured {
  uint64_t categories[HR_CAT_COUNT]; /* resident bytes of the arena, by category live at the peak (hr__run_resident) */
  uint64_t process_bytes;
  double step_seconds;
} hr_measured;
void hr__table_measured(const hr_cli *cli, const hr_job *job, const hr_measured *measured, FILE *to);

/* The losses of DIR/log.jsonl as one line of bars with first and last. Shows nothing where there is no log. */
void hr__table_losses(const char *folder, FILE *to);

/* Whether bars may use block characters: the terminal's locale says so. */
bool hr__table_utf8(void);

#endif
