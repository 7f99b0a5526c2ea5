/* What the tests of source sensors share: folders of recordings, and batches with all fields. */
#ifndef TEST_DATA_PART_SENSORS_H
#define TEST_DATA_PART_SENSORS_H

#include "part_data.h"

/* A batch as a model of sensors takes it: patches of 3 channels with 16 points. */
enum { SENSORS_BATCH = 2, SENSORS_PATCHES = 5, SENSORS_CHANNELS = 3, SENSORS_POINTS = 16, SENSORS_LENGTH = 200 };
typedef struct sensors_batch {
  float patches[SENSORS_BATCH][SENSORS_PATCHES][SENSORS_CHANNELS][SENSORS_POINTS];
  float statistics[SENSORS_BATCH][SENSORS_PATCHES][SENSORS_CHANNELS][6];
  int32_t patch_counts[SENSORS_BATCH];
  uint8_t patch_mask[SENSORS_BATCH][SENSORS_PATCHES];
  int32_t patch_positions[SENSORS_BATCH][SENSORS_PATCHES];
  int32_t patch_size[SENSORS_BATCH];
  int32_t tokens[SENSORS_BATCH][SENSORS_LENGTH], targets[SENSORS_BATCH][SENSORS_LENGTH];
  int32_t placement[SENSORS_BATCH][SENSORS_LENGTH];
} sensors_batch;

hr_fields sensors_fields(int64_t length);
/* Where each field of a batch, or of the one sample of a batch, lies. */
void sensors_places(sensors_batch *b, void *at[HR_FIELDS]);

typedef struct sensors_data {
  hr_recipe *recipe;
  hr_data *data;
} sensors_data;
/* Opens a folder; settings ("data.bad_rows=0.5", ended by NULL) may be NULL. Patches are of half a second, bytes are
 * tokens, 0 ends an answer. */
hr_status sensors_recipe(sensors_data *o, const char *folder, const char *const *settings, hr_error *err);
hr_status sensors_open(sensors_data *o, const char *folder, const char *const *settings, bool eval, hr_error *err);
void sensors_close(sensors_data *o);
/* hr__data_ask, which is to succeed. */
hr_asked asked_of(const hr_data *data, bool eval, uint64_t number, void *const at[HR_FIELDS]);

/* A folder of the test's own: two recordings of each of two subjects, with a stream at 10 Hz and one at 20 Hz, and a
 * question about each recording. */
void folder_begin(void);
void folder_put(const char *file, const char *text);
void folder_put_bytes(const char *file, const void *bytes, size_t count);
void folder_remove(const char *file);
const char *folder_path(void);
void folder_end(void);
extern const char folder_manifest[], folder_questions[], folder_arm[], folder_ear[];

#endif
