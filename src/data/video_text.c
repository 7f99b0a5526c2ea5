/* Captions as tokens. A sample is [frames | caption | padding]: the position of the last frame has the caption's first
 * token as its target, the last position that of the token that ends a text. See video.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "data/codec.h"
#include "data/row_text.h"
#include "data/video.h"

int64_t hr__clip_targets(const hr_videos *v, const hr_clip *clip) {
  size_t end = clip + 1 < v->clips + v->n_clips ? clip[1].ids : v->ids.count;
  return (int64_t)(end - clip->ids);
}

/* A caption that does not fit behind as many frames as its video may have is no good. */
static hr_status length_check(hr_videos *v, const hr_source_request *request, hr_clip *clip, hr_error *err) {
  int64_t targets = (int64_t)(v->ids.count - clip->ids), frames = hr__clip_window(v, clip).count;
  int64_t positions = frames + (targets > 0 ? targets - 1 : 0);
  if (positions <= request->length) return HR_OK;
  hr_error why = {0};
  char place[HR_ROW_PLACE], remedy[128];
  clip->bad = true;
  v->ids.count = clip->ids;
  hr__row_place(v->settings.captions ? v->settings.captions : clip->video, clip->line, place);
  snprintf(remedy, sizeof remedy, "raise data.sequence_length to %" PRId64 ", or lower data.max_frames", positions);
  hr__fail(&why, HR_BAD_INPUT, place, remedy,
           "%" PRId64 " frames and a caption of %" PRId64 " tokens take %" PRId64 " positions, more than the %" PRId64
           " of a sample",
           frames, targets, positions, request->length);
  return hr__bad_row(&v->bad_captions, &why, err);
}

static hr_status clip_encode(hr_videos *v, const hr_codec *codec, const hr_clip *clip, hr_error *err) {
  if (!clip->caption) return HR_OK;
  HR_TRY(hr__codec_encode(codec, clip->caption, strlen(clip->caption), false, &v->ids, err));
  return hr__ids_add(&v->ids, v->end, err);
}

static hr_status ids_check(const hr_videos *v, const hr_source_request *request, hr_error *err) {
  int64_t bound = request->fields->list[hr__field_for(request->fields, HR_FOR_TOKENS)].bound;
  for (size_t i = 0; i < v->ids.count; i++)
    if (v->ids.items[i] >= bound)
      return hr__recipe_fail(request->recipe, "data.tokenizer", "give the tokenizer that the model was made with", err,
                             "the captions have token %" PRId32 ", but the model's vocabulary has only %" PRId64,
                             v->ids.items[i], bound);
  return HR_OK;
}

static hr_status captions_encode(hr_videos *v, const hr_source_request *request, const hr_codec *codec, hr_error *err) {
  const hr_recipe *recipe = request->recipe;
  v->end = codec->tokenizer ? hr__tokenizer_role(codec->tokenizer, HR_TOKEN_END) : -1;
  if (hr__recipe_has(recipe, "data.end_id")) v->end = (int32_t)hr__recipe_int(recipe, "data.end_id");
  if (v->end < 0 && !v->settings.uncaptioned)
    return hr__recipe_fail(recipe, "data.source", "give data.end_id, or a tokenizer whose folder names an eos_token",
                           err, "which token ends a caption is not known");
  for (size_t i = 0; i < v->n_clips; i++) {
    hr_clip *clip = &v->clips[i];
    clip->ids = v->ids.count;
    if (clip->bad) continue;
    HR_TRY(clip_encode(v, codec, clip, err));
    HR_TRY(length_check(v, request, clip, err));
  }
  HR_TRY(hr__bad_rows_judge(&v->bad_captions, err));
  return ids_check(v, request, err);
}

hr_status hr__video_tokens(hr_videos *v, const hr_source_request *request, hr_error *err) {
  hr_codec codec;
  HR_TRY(hr__codec_open(request->recipe, &codec, err));
  hr_status status = captions_encode(v, request, &codec, err);
  hr__codec_close(&codec);
  return status;
}
