/* Sorting of pointer arrays: stable, never worse than n log n (names from files are hostile), no allocation of its own.
 */
#ifndef HR_BASE_SORT_H
#define HR_BASE_SORT_H

#include <stddef.h>

/* Negative, zero or positive, as with qsort. */
typedef int (*hr_compare)(const void *a, const void *b);

/* Sorts items[0..count) by what they point to; `scratch` has room for count pointers. */
void hr__sort(const void **items, size_t count, const void **scratch, hr_compare compare);

#endif
