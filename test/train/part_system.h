/* A system as they come, not shipped: three parts (text in NF4 with adapters, side frozen, head trained), three losses
 * over samples, tokens and a mask, a metric, running statistics, and inputs of three types.
 *
 *   z    = head(side(mean over tokens of text(tokens) + norm(signal)))      norm: by the batch, with running statistics
 *   fit  = |z - signal|^2 / samples,  flat = |z|^2 / elements that are seen,  words = |text(tokens)|^2 / tokens
 */
#ifndef HR_TEST_TRAIN_SYSTEM_H
#define HR_TEST_TRAIN_SYSTEM_H

#include "part_trio.h"

#define SYSTEM                                                                                                         \
  "model={family: system, parts: {text: " TRIO_TEXT ", side: {train: none, config: {width: 24}},"                      \
  " head: {config: {width: 32}}}}"

void system_register(void); /* the family "system", and those of its parts */

#endif
