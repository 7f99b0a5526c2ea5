/* The disk tier: one file per run, in a folder of the user's choice.
 *
 * The file is made anew, takes all its space at once, so that a full disk is found at the start, and loses its name as
 * soon as it is open: it is gone however the process ends. Every HR_DISK_ALIGNMENT bytes have a hash, remembered here
 * when they are written and compared when they come back.
 */
#ifndef HR_DEV_DISK_H
#define HR_DEV_DISK_H

#include "base/hash.h"
#include "base/status.h"

typedef struct hr_disk {
  int fd;            /* -1: not open */
  hr_xxh128 *hashes; /* per HR_DISK_ALIGNMENT bytes; all zero: never written */
  char *folder;      /* for messages */
} hr_disk;

/* Bytes of the file that hold one value. */
typedef struct hr_disk_range {
  const char *name;
  uint64_t begin; /* a multiple of HR_DISK_ALIGNMENT */
  uint64_t end;   /* of the whole buffer that the value lies in */
} hr_disk_range;

/* `folder` NULL: TMPDIR, or /tmp. */
hr_status hr__disk_open(hr_disk *disk, const char *folder, uint64_t bytes, hr_error *err);
void hr__disk_close(hr_disk *disk); /* also of one that is not open */

/* Bytes [at, at + bytes) of a range. Calls on ranges that do not touch may run side by side. */
hr_status hr__disk_write(hr_disk *disk, const hr_disk_range *range, uint64_t at, const void *data, size_t bytes,
                         hr_error *err);
hr_status hr__disk_read(hr_disk *disk, const hr_disk_range *range, uint64_t at, void *data, size_t bytes,
                        hr_error *err);

#endif
