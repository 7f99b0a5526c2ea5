/* Pieces of the video model, each from builder calls: what stands between the features of frames and the decoder that
 * writes captions. The model itself puts them together.
 *
 * Shapes in comments: B samples, T frames of each, the first n of which are valid (`lengths`, i32 [B]), F features, D
 * width of the encoder, H width of the decoder. Rows behind the valid frames hold anything finite, and no valid row
 * depends on them.
 */
#ifndef HR_MODEL_VIDEO_PIECES_H
#define HR_MODEL_VIDEO_PIECES_H

#include "model/model.h"

typedef struct hr_video_sizes {
  int64_t frames;                    /* T */
  int64_t feature;                   /* F: 512 */
  int64_t trigger;                   /* width of the trigger detector: 256 */
  int64_t width, layers, heads, mlp; /* of the encoder: D 768, 4, 8, 3072 */
  int64_t lstm, lstm_layers;         /* units in each direction: 512; 2 */
  float dropout, trigger_dropout;    /* 0.1, 0.2 */
} hr_video_sizes;

/* Modules that compute in f32 in every precision, for hr_model.wide: times in seconds and where frames stand. */
#define HR_VIDEO_WIDE "time_encoder.time_proj", "time_encoder.positions"

/* x [rows, columns] of a backbone -> [rows, F]. visual_encoder.projection: Linear, ReLU, dropout, Linear. */
hr_id hr__video_features(hr_builder *b, const hr_video_sizes *m, hr_id x, int64_t columns);

/* x [B, T, F] -> logits [B, T, 2]: nothing, trigger. trigger_detector: two linears, an LSTM over the frames, two
 * linears.
 */
hr_id hr__video_trigger(hr_builder *b, const hr_video_sizes *m, hr_id x, hr_id lengths);

/* x [B, T, F], timestamps f32 [B, T] in seconds -> [B, T, D]. time_encoder: layers that attend over all valid frames,
 * of features with their time and place. */
hr_id hr__video_encode(hr_builder *b, const hr_scope *scope, const hr_video_sizes *m, hr_id x, hr_id timestamps,
                       hr_id lengths);

/* x [B, T, D] -> [B, T, D]: LSTMs in both directions (temporal.lstm), and a linear (temporal.proj). */
hr_id hr__video_temporal(hr_builder *b, const hr_video_sizes *m, hr_id x, hr_id lengths);

/* x [B, T, D] -> [B, T, H]: llm_projection: Linear, LayerNorm, GELU, dropout. */
hr_id hr__video_project(hr_builder *b, const hr_video_sizes *m, hr_id x, int64_t columns);

#endif
