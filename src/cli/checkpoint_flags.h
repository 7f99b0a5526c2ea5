/* Flags that plan or train a public checkpoint without a recipe: headroom plan DIR --method qlora --seq 2048.
 *
 * They are settings under shorter names, and with a recipe file change it. --method makes the choices that people make
 * with it:
 *
 *   full    every weight is trained: no adapters, no quantization
 *   lora    adapters beside frozen weights
 *   qlora   the same with the frozen weights in NF4
 *
 * A folder writes nothing itself, so that there --method also gives bf16-mixed, adapters of rank 16 on every linear
 * layer, and checkpointing as far as the budget asks for it. What --set gives goes before what --method chooses.
 */
#ifndef HR_CLI_CHECKPOINT_FLAGS_H
#define HR_CLI_CHECKPOINT_FLAGS_H

#include "cli/cli.h"

/* Entries of a command's options. */
#define HR_CHECKPOINT_OPTIONS                                                                                          \
  {"method", "HOW", "full, lora or qlora; for a folder, a whole recipe"},                                              \
      {"seq", "N", "instead of data.sequence_length"}, {"batch", "N", "instead of training.batch_size"}, {             \
    "rank", "N", "instead of model.adapters.rank"                                                                      \
  }

/* Adds what the flags stand for to the overrides, behind those of --set. */
hr_status hr__checkpoint_flags(hr_cli *cli, hr_error *err);
/* And behind these what --method gives a folder of what no override has given so far. */
hr_status hr__checkpoint_defaults(hr_cli *cli, hr_error *err);

#endif
