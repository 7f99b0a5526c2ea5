/* Base64, strictly: the standard alphabet, padded or not, nothing else in between. */
#ifndef HR_FORMAT_BASE64_H
#define HR_FORMAT_BASE64_H

#include <stddef.h>

#include "base/status.h"

/* `out` has room for 3 bytes of every 4 digits that were begun. HR_BAD_INPUT without place. */
hr_status hr__base64_read(const char *text, size_t bytes, char *out, size_t *count, hr_error *err);

/* Digits of `count` bytes, padded, and a NUL: room for 4 * ((count + 2) / 3) + 1. Returns how many digits. */
size_t hr__base64_write(const void *data, size_t count, char *out);

#endif
