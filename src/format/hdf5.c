/* See hdf5.h. */
#include "format/hdf5.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "format/file.h"

typedef int64_t hid; /* of anything open; below 0: it failed */

enum { CLASS_INTEGER = 0, CLASS_FLOAT = 1, CLASS_STRING = 3 }; /* H5T_class_t */

/* name, result, parameters */
#define FUNCTIONS(X)                                                                                                   \
  X(H5open, int, (void))                                                                                               \
  X(H5get_libversion, int, (unsigned *, unsigned *, unsigned *))                                                       \
  X(H5Eset_auto2, int, (hid, void *, void *))                                                                          \
  X(H5Fopen, hid, (const char *, unsigned, hid))                                                                       \
  X(H5garbage_collect, int, (void))                                                                                    \
  X(H5Fclose, int, (hid))                                                                                              \
  X(H5Lexists, int, (hid, const char *, hid))                                                                          \
  X(H5Dopen2, hid, (hid, const char *, hid))                                                                           \
  X(H5Dclose, int, (hid))                                                                                              \
  X(H5Dget_space, hid, (hid))                                                                                          \
  X(H5Dget_type, hid, (hid))                                                                                           \
  X(H5Dread, int, (hid, hid, hid, hid, hid, void *))                                                                   \
  X(H5Dvlen_reclaim, int, (hid, hid, hid, void *))                                                                     \
  X(H5Sget_simple_extent_ndims, int, (hid))                                                                            \
  X(H5Sget_simple_extent_dims, int, (hid, unsigned long long *, unsigned long long *))                                 \
  X(H5Sclose, int, (hid))                                                                                              \
  X(H5Tget_class, int, (hid))                                                                                          \
  X(H5Tget_size, size_t, (hid))                                                                                        \
  X(H5Tis_variable_str, int, (hid))                                                                                    \
  X(H5Tclose, int, (hid))

#define FIELD(name, result, parameters) result(*name) parameters;
static struct {
  FUNCTIONS(FIELD)
  hid native_float, native_int64;
} h5;
#undef FIELD

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *library; /* under the lock; NULL: not loaded yet. It is never unloaded */

static const char install[] = "install it (Debian 12: libhdf5-103-1, Debian 13: libhdf5-310), or name the file of the "
                              "library in HEADROOM_HDF5; `headroom prepare` elsewhere makes files that need no HDF5";

struct hr_hdf5 {
  hid file;
  char *path;
  int opened; /* datasets since the file was */
};

static void *library_find(void) {
  static const char *const names[] = {"libhdf5_serial.so.320", "libhdf5_serial.so.310", "libhdf5_serial.so.200",
                                      "libhdf5_serial.so.103", "libhdf5.so.320",        "libhdf5.so.310",
                                      "libhdf5.so.200",        "libhdf5.so.103",        "libhdf5.so"};
  const char *named = getenv("HEADROOM_HDF5");
  if (named && named[0]) return dlopen(named, RTLD_NOW | RTLD_LOCAL);
  void *found = NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++)
    found = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  return found;
}

static hr_status library_load(const char *path, hr_error *err) {
  if (library) return HR_OK;
  void *found = library_find();
  if (!found)
    return hr__fail(err, HR_UNSUPPORTED, path, install, "HDF5 files are read through libhdf5, which is not here");
  bool whole = true;
#define LOAD(name, result, parameters)                                                                                 \
  *(void **)&h5.name = dlsym(found, #name);                                                                            \
  whole = whole && h5.name;
  FUNCTIONS(LOAD)
#undef LOAD
  unsigned version[3] = {0};
  bool opened = whole && h5.H5open() >= 0 && h5.H5get_libversion(&version[0], &version[1], &version[2]) >= 0;
  const hid *f32 = dlsym(found, "H5T_NATIVE_FLOAT_g"), *i64 = dlsym(found, "H5T_NATIVE_INT64_g");
  if (!opened || !f32 || !i64 || (version[0] == 1 && version[1] < 10)) {
    dlclose(found);
    return hr__fail(err, HR_UNSUPPORTED, path, install, "libhdf5 is of version %u.%u.%u; 1.10 and later ones are used",
                    version[0], version[1], version[2]);
  }
  h5.native_float = *f32;
  h5.native_int64 = *i64;
  h5.H5Eset_auto2(0, NULL, NULL); /* no text of its own on stderr */
  library = found;
  return HR_OK;
}

static hr_status file_open(const char *path, hr_hdf5 *out, hr_error *err) {
  HR_TRY(library_load(path, err));
  out->file = h5.H5Fopen(path, 0 /* to read */, 0 /* as usual */);
  if (out->file >= 0) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, path, "fetch or write the file again",
                  "it is no HDF5 file, or it is cut off: libhdf5 cannot open it");
}

hr_status hr__hdf5_open(const char *path, hr_hdf5 **out, hr_error *err) {
  int fd = -1;
  uint64_t bytes;
  HR_TRY(hr__file_open(path, &fd, &bytes, err)); /* its messages for files that are missing or none */
  hr__file_calls.close(fd);
  size_t length = strlen(path) + 1;
  hr_hdf5 *file = hr__alloc_zero(1, sizeof *file);
  if (file) file->path = hr__alloc(length);
  if (!file || !file->path) {
    hr__free(file);
    return hr__nomem(err);
  }
  memcpy(file->path, path, length);
  file->file = -1;
  pthread_mutex_lock(&lock);
  hr_status status = file_open(path, file, err);
  pthread_mutex_unlock(&lock);
  if (status != HR_OK)
    hr__hdf5_close(file);
  else
    *out = file;
  return status;
}

void hr__hdf5_close(hr_hdf5 *file) {
  if (!file) return;
  pthread_mutex_lock(&lock);
  if (file->file >= 0) h5.H5Fclose(file->file);
  pthread_mutex_unlock(&lock);
  hr__free(file->path);
  hr__free(file);
}

/* Every part of the path by itself: the library takes a missing one in the middle for an error. */
static bool path_there(hid file, const char *name) {
  char part[512];
  size_t bytes = strlen(name);
  if (bytes >= sizeof part) return false;
  for (size_t i = 1; i <= bytes; i++) {
    if (name[i] != '/' && name[i] != 0) continue;
    memcpy(part, name, i);
    part[i] = 0;
    if (h5.H5Lexists(file, part, 0) <= 0) return false;
  }
  return true;
}

bool hr__hdf5_has(hr_hdf5 *file, const char *name) {
  pthread_mutex_lock(&lock);
  bool there = path_there(file->file, name);
  pthread_mutex_unlock(&lock);
  return there;
}

/* A dataset that is open, with its shape. */
typedef struct dataset {
  hid set, space, type;
  hr_hdf5_shape shape;
  int64_t count;
} dataset;

static hr_status refuse(const hr_hdf5 *file, const char *name, hr_error *err, const char *what) {
  char place[4200];
  snprintf(place, sizeof place, "%.4000s, %.150s", file->path, name);
  return hr__fail(err, HR_BAD_INPUT, place, "write the file again", "%s", what);
}

static void dataset_close(dataset *d) {
  if (d->type >= 0) h5.H5Tclose(d->type);
  if (d->space >= 0) h5.H5Sclose(d->space);
  if (d->set >= 0) h5.H5Dclose(d->set);
}

/* The library keeps what it has read of groups and datasets, up to 32 MiB, until a file is closed. */
static hr_status file_renew(hr_hdf5 *file, hr_error *err) {
  enum { DATASETS = 256 };
  if (++file->opened < DATASETS) return HR_OK;
  h5.H5Fclose(file->file);
  h5.H5garbage_collect();
  file->opened = 0;
  return file_open(file->path, file, err);
}

static hr_status dataset_open(hr_hdf5 *file, const char *name, dataset *d, hr_error *err) {
  *d = (dataset){.set = -1, .space = -1, .type = -1, .count = 1};
  HR_TRY(file_renew(file, err));
  if (!path_there(file->file, name)) return refuse(file, name, err, "there is no such dataset in the file");
  d->set = h5.H5Dopen2(file->file, name, 0);
  if (d->set >= 0) d->space = h5.H5Dget_space(d->set);
  if (d->set >= 0) d->type = h5.H5Dget_type(d->set);
  if (d->space < 0 || d->type < 0) return refuse(file, name, err, "it is no dataset, or cannot be opened");
  d->shape.rank = h5.H5Sget_simple_extent_ndims(d->space);
  if (d->shape.rank < 0 || d->shape.rank > HR_HDF5_RANK) return refuse(file, name, err, "it has more than 4 axes");
  unsigned long long dims[HR_HDF5_RANK] = {0};
  if (d->shape.rank > 0) h5.H5Sget_simple_extent_dims(d->space, dims, NULL);
  for (int i = 0; i < d->shape.rank; i++) {
    d->shape.dim[i] = (int64_t)dims[i];
    if (dims[i] > INT64_MAX || !hr__mul_i64(d->count, d->shape.dim[i], &d->count))
      return refuse(file, name, err, "it has more elements than can be counted");
  }
  return HR_OK;
}

hr_status hr__hdf5_shape(hr_hdf5 *file, const char *name, hr_hdf5_shape *out, hr_error *err) {
  dataset d;
  pthread_mutex_lock(&lock);
  hr_status status = dataset_open(file, name, &d, err);
  *out = d.shape;
  dataset_close(&d);
  pthread_mutex_unlock(&lock);
  return status;
}

static hr_status numbers_read(const hr_hdf5 *file, const char *name, dataset *d, int64_t count, bool whole, void *out,
                              hr_error *err) {
  int class = h5.H5Tget_class(d->type);
  if (class != CLASS_INTEGER && (whole || class != CLASS_FLOAT))
    return refuse(file, name, err, whole ? "it does not hold whole numbers" : "it does not hold numbers");
  if (d->count != count) return refuse(file, name, err, "it has another number of elements than before");
  if (count > 0 && h5.H5Dread(d->set, whole ? h5.native_int64 : h5.native_float, 0, 0, 0, out) < 0)
    return refuse(file, name, err, "it cannot be read: the file is damaged or cut off");
  return HR_OK;
}

static hr_status numbers(hr_hdf5 *file, const char *name, int64_t count, bool whole, void *out, hr_error *err) {
  dataset d;
  pthread_mutex_lock(&lock);
  hr_status status = dataset_open(file, name, &d, err);
  if (status == HR_OK) status = numbers_read(file, name, &d, count, whole, out, err);
  dataset_close(&d);
  pthread_mutex_unlock(&lock);
  return status;
}

hr_status hr__hdf5_floats(hr_hdf5 *file, const char *name, int64_t count, float *out, hr_error *err) {
  return numbers(file, name, count, false, out, err);
}

hr_status hr__hdf5_whole(hr_hdf5 *file, const char *name, int64_t count, int64_t *out, hr_error *err) {
  return numbers(file, name, count, true, out, err);
}

/* Texts lie in the file with lengths of their own, or all in the same number of bytes. */
static hr_status texts_read(const hr_hdf5 *file, const char *name, dataset *d, int64_t count, hr_arena *arena,
                            const char **out, hr_error *err) {
  bool own = h5.H5Tis_variable_str(d->type) > 0;
  size_t each = own ? sizeof(char *) : h5.H5Tget_size(d->type);
  if (h5.H5Tget_class(d->type) != CLASS_STRING || d->count != count || each == 0 || each > 1 << 16)
    return refuse(file, name, err, "it does not hold a text for each class");
  char *raw = hr__arena_array(arena, (size_t)count + 1, each);
  if (!raw) return hr__nomem(err);
  if (count > 0 && h5.H5Dread(d->set, d->type, 0, 0, 0, raw) < 0)
    return refuse(file, name, err, "it cannot be read: the file is damaged or cut off");
  bool enough = true;
  for (int64_t i = 0; i < count; i++) {
    const char *at = own ? ((char **)raw)[i] : raw + (size_t)i * each;
    out[i] = own ? hr__arena_text(arena, at ? at : "") : hr__arena_format(arena, "%.*s", (int)each, at);
    enough = enough && out[i];
  }
  if (own && count > 0) h5.H5Dvlen_reclaim(d->type, d->space, 0, raw);
  return enough ? HR_OK : hr__nomem(err);
}

hr_status hr__hdf5_texts(hr_hdf5 *file, const char *name, int64_t count, hr_arena *arena, const char **out,
                         hr_error *err) {
  dataset d;
  pthread_mutex_lock(&lock);
  hr_status status = dataset_open(file, name, &d, err);
  if (status == HR_OK) status = texts_read(file, name, &d, count, arena, out, err);
  dataset_close(&d);
  pthread_mutex_unlock(&lock);
  return status;
}
