/* Features of frames in the cache folder (data/featured.h). A file holds those of all frames of a video, or of all
 * videos that are made: a header with a hash of the rest, then f32 [frames, width]. It is named after a hash of the
 * video's frames (their own file's name has it) and of what makes the rows, so one that is whole is right.
 */
#ifndef HR_DATA_VIDEO_FEATURES_H
#define HR_DATA_VIDEO_FEATURES_H

#include "data/featured.h"
#include "data/video.h"

extern const hr_featured hr_video_featured;

void hr__video_features_close(hr_videos *v);
/* The features of a clip's frames. */
hr_status hr__clip_features(const hr_videos *v, const hr_clip *clip, hr_window window, float *to, hr_error *err);

#endif
