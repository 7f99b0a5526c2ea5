/* The caching allocator once more, as plainly as can be: one array of pieces in the order of addresses, looked through
 * from end to end for everything. Slow; what test_allocator.c compares with. */
#ifndef HR_TEST_TORCH_PLAIN_H
#define HR_TEST_TORCH_PLAIN_H

#include "part_places.h"
#include "torch/allocator.h"

enum { PLAIN_FULL = -1, PLAIN_NOTHING = 0 }; /* out of memory; the handle of no bytes */

typedef struct plain plain;
struct plain {
  uint64_t allocated, reserved;
  hr_torch_rules rules;
  struct piece *pieces;
  size_t count;
  int handles, segments;
  uint64_t searches[2];
  places places;
};

plain *plain_create(const hr_torch_rules *rules);
void plain_destroy(plain *model);
int plain_take(plain *model, uint64_t bytes, uint8_t stream); /* a handle */
void plain_give(plain *model, int handle);
void plain_empty(plain *model);
uint64_t plain_bytes(const plain *model, int handle);

#endif
