/* Checkpointing: which forward values stay for backward, and which are made again. */
#ifndef HR_PASS_CHECKPOINT_H
#define HR_PASS_CHECKPOINT_H

#include "pass/compile.h"

extern const hr_key_table hr_checkpoint_keys; /* memory.checkpoint */

#endif
