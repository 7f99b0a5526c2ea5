/* A question with its answer and the streams it is about, as an SVG picture: well-formed XML whatever the texts hold.
 */
#ifndef HR_DATA_PICTURE_H
#define HR_DATA_PICTURE_H

#include "data/asked.h"
#include "text/grow.h"

typedef struct hr_picture {
  const hr_asked *asked;
  const char *answer;   /* that was given */
  const float *patches; /* [asked->patches, channels of all streams, points] */
  int64_t points;
} hr_picture;

/* Appends the whole file. */
hr_status hr__picture(const hr_picture *picture, hr_string *out, hr_error *err);

#endif
