/* HDF5 files, read through libhdf5, which is loaded when the first one is opened and is no part of the build. Versions
 * from 1.10 on are taken: their interface is told here again in so far as it is used.
 *
 * The library is not made for threads: calls go through one lock.
 */
#ifndef HR_FORMAT_HDF5_H
#define HR_FORMAT_HDF5_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

enum {
  HR_HDF5_RANK = 4,
  HR_HDF5_HELD_BYTES =
      12 << 20 /* by the library and what it keeps of open files: 11.5 MiB of two, whatever their size */
};

typedef struct hr_hdf5 hr_hdf5;

/* Names of files end so. */
#define HR_HDF5_ENDINGS ".h5|.hdf5"

/* HR_UNSUPPORTED where the library is missing, with what to install. HEADROOM_HDF5 may name it. */
hr_status hr__hdf5_open(const char *path, hr_hdf5 **out, hr_error *err);
void hr__hdf5_close(hr_hdf5 *file); /* NULL is fine */

bool hr__hdf5_has(hr_hdf5 *file, const char *name); /* "a/b": a group or dataset */
/* Rank and sizes of a dataset. */
typedef struct hr_hdf5_shape {
  int rank;
  int64_t dim[HR_HDF5_RANK];
} hr_hdf5_shape;
hr_status hr__hdf5_shape(hr_hdf5 *file, const char *name, hr_hdf5_shape *out, hr_error *err);
/* All numbers of a dataset, `count` of which there must be; whole numbers are not made of others. */
hr_status hr__hdf5_floats(hr_hdf5 *file, const char *name, int64_t count, float *out, hr_error *err);
hr_status hr__hdf5_whole(hr_hdf5 *file, const char *name, int64_t count, int64_t *out, hr_error *err);
/* All texts of a dataset of one axis, in `arena`. */
hr_status hr__hdf5_texts(hr_hdf5 *file, const char *name, int64_t count, hr_arena *arena, const char **out,
                         hr_error *err);

#endif
