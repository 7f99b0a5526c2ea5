/* Recurrent layers under PyTorch's names: PATH.weight_ih_lN [4 width, in], weight_hh_lN [4 width, width], bias_ih_lN
 * and bias_hh_lN [4 width]; "_reverse" behind those of the layer that goes from the last valid position to the first.
 */
#ifndef HR_MODEL_RECURRENT_H
#define HR_MODEL_RECURRENT_H

#include "model/model.h"

typedef struct hr_lstm_layers {
  const char *path;
  int64_t in, width; /* width: of each direction */
  int64_t layers;
  bool both; /* directions, whose results lie side by side */
} hr_lstm_layers;

/* x [B, T, in], lengths i32 [B] or HR_NONE -> [B, T, width], or twice as wide; 0 behind the valid positions. */
hr_id hr__lstm_layers(hr_builder *b, const hr_lstm_layers *layers, hr_id x, hr_id lengths);

#endif
