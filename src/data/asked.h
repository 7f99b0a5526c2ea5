/* Questions about measurements: what is asked of a sample, for whoever generates the answer, judges it, or draws it. */
#ifndef HR_DATA_ASKED_H
#define HR_DATA_ASKED_H

#include <stdint.h>

/* One of several streams that lie side by side in the channels of a sample. */
typedef struct hr_asked_stream {
  const char *name;
  int64_t channels;
} hr_asked_stream;

typedef struct hr_asked {
  const char *type;     /* of the question */
  const char *question; /* as it is written */
  const char *expected; /* the answer; NULL: none is known */
  const char *subject;  /* whose recordings they are */
  int64_t positions;    /* of the prompt, which ends where the answer begins */
  int64_t patches;      /* pieces of the recordings, one after the other */
  double patch_seconds;
  double first_seconds;           /* when the first piece is */
  const hr_asked_stream *streams; /* in the order of channels */
  int n_streams;
} hr_asked;

#endif
