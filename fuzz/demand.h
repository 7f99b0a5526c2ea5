/* What a fuzz target insists on: a broken demand is a finding. */
#ifndef HR_FUZZ_DEMAND_H
#define HR_FUZZ_DEMAND_H

#include <stdint.h>
#include <stdlib.h>

#define DEMAND(condition)                                                                                              \
  do {                                                                                                                 \
    if (!(condition)) abort();                                                                                         \
  } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
