/* The settings of data: data.*, all of them. */
#ifndef HR_DATA_KEYS_H
#define HR_DATA_KEYS_H

#include "recipe/recipe.h"

extern const hr_key_table hr_clips_keys;    /* clips.c: data.clips.* */
extern const hr_key_table hr_data_keys;     /* source.c */
extern const hr_key_table hr_events_keys;   /* events_settings.c: data.events.* */
extern const hr_key_table hr_masking_keys;  /* masking.c: data.masking.* */
extern const hr_key_table hr_scenes_keys;   /* scenes.c: data.scenes.* */
extern const hr_key_table hr_sensors_keys;  /* sensors_settings.c: data.sensors.* */
extern const hr_key_table hr_taxonomy_keys; /* taxonomy_draw.c: data.taxonomy.* */
extern const hr_key_table hr_video_keys;    /* video_settings.c: data.max_frames, data.video.* */

/* Whether what a frozen part of the model makes of samples is made once: false, true, auto, or make, and nothing else
 * is (model/features.h). */
#define HR_CACHE_FEATURES "data.cache_features"

#endif
