/* Flags of the guides that systems come with, so that a command of theirs can be typed: settings under other names, for
 * `plan` and `train`. Help names them in one line, docs/recipe.md has what each stands for.
 */
#ifndef HR_CLI_GUIDE_FLAGS_H
#define HR_CLI_GUIDE_FLAGS_H

#include "cli/cli.h"

/* Entries of a command's options, and the line of its help. */
#define HR_GUIDE_OPTIONS                                                                                               \
  {"max-gpu-mem", "SIZE", NULL}, {"cpu-mem", "SIZE", NULL}, {"offload-folder", "DIR", NULL},                           \
      {"checkpoint-every-layer", NULL, NULL}, {"no-checkpointing", NULL, NULL}, {"grad-accum-steps", "N", NULL},       \
      {"optimizer", "KIND", NULL}, {"zero-stage", "N", NULL}, {"qlora", NULL, NULL}, {                                 \
    "synthetic", NULL, NULL                                                                                            \
  }
#define HR_GUIDE_DETAILS "Flags of guides, such as --max-gpu-mem, --zero-stage, --qlora: docs/recipe.md."

/* Adds what the flags stand for to the overrides, behind those of --set. */
hr_status hr__guide_flags(hr_cli *cli, hr_error *err);

#endif
