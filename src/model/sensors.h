/* Questions about recordings of sensors, answered by a decoder. Settings (sensors_settings.c), what becomes of
 * recordings (sensors_encoder.c, sensors_pooling.c), and the forward pass (sensors.c).
 *
 * Shapes in comments: B samples, P patches of each (n of them valid, the rest 0), D channels, T points of a patch, F
 * width of the encoder, E width of encodings, L positions of text, H width of the decoder.
 */
#ifndef HR_MODEL_SENSORS_H
#define HR_MODEL_SENSORS_H

#include "model/model.h"

/* The settings as a recipe has them. */
typedef struct hr_sensor_model {
  int64_t patches, channels, points;      /* P, D, T */
  int64_t hidden, conv_out;               /* channels of the convolutions, and of the last one */
  int64_t width, encoding, layers, heads; /* F, E */
  int64_t mlp;                            /* width inside of an MLP */
  int64_t channel_rows, size_rows;        /* of the tables of embeddings */
  int64_t decoder;                        /* H */
  float dropout, pooling_dropout;
} hr_sensor_model;

#define HR_SENSORS_DECODER "llm" /* name of the part */

extern const hr_key_table hr_sensor_model_keys;
hr_sensor_model hr__sensor_model_read(const hr_model_part *whole);
hr_status hr__sensor_model_check(const hr_model_part *whole, hr_error *err);

/* A linear with bias, PATH.NAME, whose fresh weights have the deviation that PyTorch draws; on top of `add`, or
 * HR_NONE. */
hr_id hr__sensors_linear(hr_builder *b, const char *path, const char *name, int64_t in, int64_t rows, hr_id x,
                         hr_id add);
hr_id hr__sensors_norm(hr_builder *b, const hr_sensor_model *m, const char *path, const char *name, hr_id x);
float hr__sensors_deviation(int64_t in); /* of the fresh weights of such a linear */

/* Patches of the batch -> tokens [B, P, D, F]: rows of patches that are not valid hold anything finite. */
hr_id hr__sensors_encode(hr_builder *b, const hr_scope *scope, const hr_sensor_model *m, const hr_model_batch *batch);

/* tokens [B, P, D, F] -> one vector of each patch, [B, P, F]; 0 where a patch is not valid. */
hr_id hr__sensors_pool(hr_builder *b, const hr_sensor_model *m, hr_id tokens, const hr_model_batch *batch);

/* patch_mask [B, P] as [B, P, 1...] of a rank. */
hr_id hr__sensors_mask(hr_builder *b, const hr_sensor_model *m, const hr_model_batch *batch, int rank);

#endif
