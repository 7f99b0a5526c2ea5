/* What the two halves of the public library (train/headroom.c and train/net.c) share. */
#ifndef HR_TRAIN_API_H
#define HR_TRAIN_API_H

#include <jansson.h>

#include "base/status.h"
#include "headroom.h"

/* The result of a call that ended with `status`. */
hr_result hr__api_result(hr_status status);

/* The object as text for hr_text_destroy; takes the object over (NULL: out of memory). */
hr_status hr__api_text(json_t *object, char **text, hr_error *error);

#endif
