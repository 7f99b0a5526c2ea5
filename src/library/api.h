/* What the files of the public library share: how results and texts are handed out. */
#ifndef HR_LIBRARY_API_H
#define HR_LIBRARY_API_H

#include <jansson.h>

#include "base/status.h"
#include "headroom.h"

/* The result of a call that ended with `status`. */
hr_result hr__api_result(hr_status status);

/* A copy for hr_text_destroy; NULL: out of memory. */
char *hr__api_copy(const char *text);
/* The object as text for hr_text_destroy; takes the object over (NULL: out of memory). */
hr_status hr__api_text(json_t *object, char **text, hr_error *error);

#endif
