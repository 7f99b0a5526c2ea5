/* Settings of the sensor model under model.config, and their checks. */
#include <inttypes.h>

#include "data/sensors.h"
#include "model/parts.h"
#include "model/sensors.h"

enum { SIZE_MOST = 1 << 20, LAYERS_MOST = 1 << 12 };

#define SIZE(name, preset, text)                                                                                       \
  {                                                                                                                    \
    .path = "*.config." name, .type = HR_KEY_INT, .fallback = preset, .min = 1, .max = SIZE_MOST,                      \
    .meaning = "sensors: " text                                                                                        \
  }

static const hr_key keys[] = {
    SIZE("channels", "84", "channels of all streams together"),
    SIZE("t_fixed", "32", "points that patches of a channel are interpolated to: 16, 32, 64 or 128"),
    SIZE("hidden_dim", "128", "channels of the convolutions"),
    SIZE("conv_out_dim", "256", "channels of the last convolution"),
    SIZE("encoder_feature_dim", "512", "width of the encoder"),
    SIZE("encoding_dim", "512", "width of the encodings of patch, channel and patch size; even"),
    {.path = "*.config.encoder_layers",
     .type = HR_KEY_INT,
     .fallback = "6",
     .min = 1,
     .max = LAYERS_MOST,
     .meaning = "sensors: layers of the encoder, each of which attends over patches, then over channels"},
    SIZE("encoder_heads", "8", "heads of each attention of the encoder"),
    SIZE("encoder_mlp_dim", NULL, "width inside of the encoder's MLPs (default: 4 x encoder_feature_dim)"),
    SIZE("max_channels", "512", "rows of the table of channels"),
    SIZE("max_patch_sizes", "4096", "rows of the table of patch sizes"),
    {.path = "*.config.encoder_dropout",
     .type = HR_KEY_FLOAT,
     .fallback = "0.05",
     .min = 0,
     .max = 0.99,
     .meaning = "sensors: part that is dropped in the encoder's attention and MLPs in training"},
    {.path = "*.config.pooling_dropout",
     .type = HR_KEY_FLOAT,
     .fallback = "0.1",
     .min = 0,
     .max = 0.99,
     .meaning = "sensors: part of the weights that is dropped where channels are pooled, in training"},
};
const hr_key_table hr_sensor_model_keys = {keys, sizeof keys / sizeof *keys};

hr_sensor_model hr__sensor_model_read(const hr_model_part *whole) {
  const hr_scope *r = &whole->scope;
  hr_model_part decoder = hr__part_find(whole, HR_SENSORS_DECODER);
  hr_sensor_model m = {
      .channels = hr__scope_int(r, "config.channels"),
      .points = hr__scope_int(r, "config.t_fixed"),
      .hidden = hr__scope_int(r, "config.hidden_dim"),
      .conv_out = hr__scope_int(r, "config.conv_out_dim"),
      .width = hr__scope_int(r, "config.encoder_feature_dim"),
      .encoding = hr__scope_int(r, "config.encoding_dim"),
      .layers = hr__scope_int(r, "config.encoder_layers"),
      .heads = hr__scope_int(r, "config.encoder_heads"),
      .channel_rows = hr__scope_int(r, "config.max_channels"),
      .size_rows = hr__scope_int(r, "config.max_patch_sizes"),
      .decoder = hr__scope_int(&decoder.scope, "config.hidden_size"),
      .dropout = (float)hr__scope_float(r, "config.encoder_dropout"),
      .pooling_dropout = (float)hr__scope_float(r, "config.pooling_dropout"),
  };
  hr_error ignored; /* it has been checked */
  m.mlp = hr__scope_has(r, "config.encoder_mlp_dim") ? hr__scope_int(r, "config.encoder_mlp_dim") : 4 * m.width;
  if (hr__sensors_patches(r->recipe, &m.patches, &ignored) != HR_OK) m.patches = 1;
  return m;
}

hr_status hr__sensor_model_check(const hr_model_part *whole, hr_error *err) {
  const hr_scope *r = &whole->scope;
  int64_t patches;
  HR_TRY(hr__part_writes(whole, HR_SENSORS_DECODER, err));
  HR_TRY(hr__sensors_patches(r->recipe, &patches, err));
  hr_sensor_model m = hr__sensor_model_read(whole);
  if (m.points != 16 && m.points != 32 && m.points != 64 && m.points != 128)
    return hr__scope_fail(r, "config.t_fixed", "take 16, 32, 64 or 128", err,
                          "convolutions cannot bring %" PRId64 " points down to one", m.points);
  if (m.width % m.heads != 0)
    return hr__scope_fail(r, "config.encoder_heads", "take a divisor", err,
                          "%" PRId64 " heads do not divide encoder_feature_dim %" PRId64, m.heads, m.width);
  if (m.encoding % 2 != 0)
    return hr__scope_fail(r, "config.encoding_dim", "take an even number", err,
                          "encodings of %" PRId64 " numbers are not halves of sines and cosines", m.encoding);
  if (m.channels > m.channel_rows)
    return hr__scope_fail(r, "config.channels", "raise max_channels", err,
                          "%" PRId64 " channels, but max_channels is %" PRId64, m.channels, m.channel_rows);
  return HR_OK;
}
