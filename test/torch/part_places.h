/* Where the driver puts segments once more, as a map of units that is looked through one by one: what addresses.c is
 * compared with. Places are units of 2 MiB from the bottom of the map. */
#ifndef HR_TEST_TORCH_PLACES_H
#define HR_TEST_TORCH_PLACES_H

#include <stdint.h>

enum { PLACES = 1 << 14 }; /* 32 GiB */

typedef struct places {
  uint16_t chunk[PLACES]; /* which one the unit is in; 0: none */
  uint8_t taken[PLACES];
  int chunks;
} places;

void places_begin(places *p);
void places_kernel(places *p);
int places_take(places *p, uint64_t bytes);
void places_give(places *p, int place, uint64_t bytes);

#endif
