/* TFRecord files: records of bytes, each with its length and checksums (CRC-32C, masked). TensorBoard's event files are
 * such, with a protobuf message in each record.
 *
 *   u64 length, u32 masked crc of these 8 bytes, bytes, u32 masked crc of them; all little-endian
 */
#ifndef HR_FORMAT_TFRECORD_H
#define HR_FORMAT_TFRECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { HR_TFRECORD_HEAD = 12, HR_TFRECORD_TAIL = 4 };

uint32_t hr__crc32c(const void *data, size_t bytes);
/* What stands before and behind `bytes` of data. */
void hr__tfrecord_head(uint64_t bytes, unsigned char out[HR_TFRECORD_HEAD]);
void hr__tfrecord_tail(const void *data, size_t bytes, unsigned char out[HR_TFRECORD_TAIL]);

/* Goes through a file's records: `see` is called with each whole and undamaged one, and ends it by returning false.
 * *good: bytes of the file up to there. Records longer than `most` count as damaged. */
hr_status hr__tfrecord_scan(int fd, const char *path, size_t most,
                            bool (*see)(void *user, const unsigned char *data, size_t bytes), void *user,
                            uint64_t *good, hr_error *err);

#endif
