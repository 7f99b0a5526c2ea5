/* Flags that train a model on a file without a recipe: headroom train --model DIR --data chat.jsonl --epochs 1.
 *
 * Like those of checkpoint_flags.h they are settings under shorter names, and change a recipe where there is one.
 */
#ifndef HR_CLI_ONE_LINE_H
#define HR_CLI_ONE_LINE_H

#include "cli/cli.h"

/* Entries of a command's options. */
#define HR_ONE_LINE_OPTIONS                                                                                            \
  {"model", "DIR", "folder or GGUF file of a model; with a recipe, its model.path"},                                   \
      {"data", "PATH", "instead of data.path; its ending chooses data.source"},                                        \
      {"epochs", "N", "instead of training.epochs"}, {                                                                 \
    "gpu-memory", "SIZE", "instead of memory.budget: 8GiB"                                                             \
  }

/* Adds what the flags stand for to the overrides, behind those of --set; --model without a recipe becomes the command's
 * argument. */
hr_status hr__one_line_flags(hr_cli *cli, hr_error *err);

#endif
