/* What the tests of source video share: folders of videos with captions, and batches with all fields. */
#ifndef TEST_DATA_PART_VIDEO_H
#define TEST_DATA_PART_VIDEO_H

#include "part_data.h"

/* A batch as a model of videos takes it: 6 frames of 4 x 5 pixels. */
enum { VIDEO_BATCH = 2, VIDEO_FRAMES = 6, VIDEO_HEIGHT = 4, VIDEO_WIDTH = 5, VIDEO_LENGTH = 40 };
typedef struct video_batch {
  uint8_t frames[VIDEO_BATCH][VIDEO_FRAMES][VIDEO_HEIGHT][VIDEO_WIDTH][3];
  float timestamps[VIDEO_BATCH][VIDEO_FRAMES];
  int32_t frame_lengths[VIDEO_BATCH];
  int32_t triggers[VIDEO_BATCH][VIDEO_FRAMES];
  uint8_t frame_mask[VIDEO_BATCH][VIDEO_FRAMES], pair_mask[VIDEO_BATCH][VIDEO_FRAMES];
  int32_t tokens[VIDEO_BATCH][VIDEO_LENGTH], targets[VIDEO_BATCH][VIDEO_LENGTH];
  uint8_t caption_mask[VIDEO_BATCH][VIDEO_LENGTH];
  int32_t placement[VIDEO_BATCH][VIDEO_LENGTH];
} video_batch;

void video_places(video_batch *b, void *at[HR_FIELDS]);

typedef struct video_data {
  hr_recipe *recipe;
  hr_data *data;
} video_data;
/* Opens data.path (NULL: none); settings ("data.bad_rows=0.5", ended by NULL) may be NULL. Two frames a second; bytes
 * are tokens, 0 ends a caption. */
hr_status video_open(video_data *o, const char *path, const char *const *settings, bool eval, hr_error *err);
/* The same with other fields than these, which the batch above has. */
hr_fields video_fields(void);
hr_status video_open_fields(video_data *o, const char *path, const char *const *settings, bool eval,
                            const hr_fields *fields, hr_error *err);
void video_close(video_data *o);
/* Fills the batch that begins with a sample. */
void video_fill(const video_data *o, uint64_t sample, bool eval, video_batch *b);

/* A folder of the test's own, with two videos of 8 frames, one.npy and two.npy: pixel i of frame t is (t 10 + i) % 256,
 * plus 100 in the second; and two captions of each. */
void videos_begin(void);
const char *videos_path(void);
void videos_put(const char *file, const void *bytes, size_t count);
/* An .npy file with this dict as its header, and as many bytes of data. */
void videos_put_array(const char *file, const char *dict, size_t bytes, int first);
void videos_remove(const char *file);
void videos_end(void);
extern const char videos_captions[];

#endif
