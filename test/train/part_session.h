/* A tiny recipe with its session and the folder of a run, for tests that save and load without training as a whole. */
#ifndef HR_TEST_TRAIN_SESSION_H
#define HR_TEST_TRAIN_SESSION_H

#include "part_tiny.h"
#include "train/identity.h"
#include "train/session.h"
#include "train/store.h"

typedef struct desk {
  tiny tiny;
  hr_train_options options;
  hr_session session;
  hr_store store;
  hr_arena arena;
  hr_manifest manifest; /* settings filled in */
  int warnings;         /* counted by the store's messages */
  char last[1024];      /* text of the newest warning */
} desk;

/* Aborts the test on failure. The store is not locked. */
void desk_open(desk *d, const char *out, const char *const *overrides);
void desk_close(desk *d);
hr_status desk_save(desk *d, int64_t step, hr_error *err);
hr_status desk_load(desk *d, int64_t *step, hr_error *err);
void desk_sha256(desk *d, char hex[HR_SHA256_HEX]);
void desk_steps(desk *d, int64_t first, int64_t last); /* trains these steps */

#endif
