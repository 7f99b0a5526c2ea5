/* What videos show, told by a decoder, and when. Settings (video_caption_settings.c), the pieces between frames and
 * decoder (video_pieces.h), and the forward pass (video_caption.c).
 *
 * Shapes in comments: B samples, T frames of each (n of them valid), L positions of text, H width of the decoder.
 */
#ifndef HR_MODEL_VIDEO_CAPTION_H
#define HR_MODEL_VIDEO_CAPTION_H

#include "model/video_pieces.h"

#define HR_VIDEO_BACKBONE "visual" /* names of the parts */
#define HR_VIDEO_DECODER  "llm"

/* The settings as a recipe has them. */
typedef struct hr_video_caption {
  hr_video_sizes sizes;
  int64_t height, image_width;                             /* pixels of a frame */
  float trigger_weight, caption_weight, smoothness_weight; /* of the losses */
  float trigger_threshold;                                 /* probability from which on a frame triggers */
} hr_video_caption;

extern const hr_key_table hr_video_caption_keys;
hr_video_caption hr__video_caption_read(const hr_model_part *whole);
/* The same for samples of so many positions (data.buckets). */
hr_video_caption hr__video_caption_of(const hr_model_part *whole, int64_t length);
/* Whether features of frames come from the cache (data.cache_features). */
bool hr__video_features_cached(const hr_model_part *whole);
hr_status hr__video_caption_check(const hr_model_part *whole, hr_error *err);

#endif
