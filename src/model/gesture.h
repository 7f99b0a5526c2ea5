/* Gestures from event cameras: vectors of neighbourhoods of events, read in six orders by stacks of Mamba-2 layers, put
 * together position by position, pooled and classified. Settings (gesture_settings.c), stacks (gesture_stacks.c),
 * recordings that share a row (gesture_rows.c) and the forward pass (gesture.c).
 *
 * Shapes in comments: B samples, L positions of each (vectors, behind which there may be padding), E numbers of a
 * vector's real part and as many of its imaginary part, H hidden width, S pooling scales.
 */
#ifndef HR_MODEL_GESTURE_H
#define HR_MODEL_GESTURE_H

#include "data/pooling.h"
#include "model/mixer.h"

/* By x, y and t, the first letter most significant, in this order: XYT TYX, XTY YTX, YXT TXY. Two that are side by side
 * are pairs: the same letters the other way round. */
enum { HR_GESTURE_ORDERS = 6 };

/* The settings as a recipe has them. */
typedef struct hr_gesture {
  int64_t encoding, hidden, layers, classes; /* E, H */
  int stacks;                                /* with weights of their own: 6, 3 or 1 */
  hr_mixer mixer;
  hr_pooling pooling;
  float dropout, drop_path, smoothing;
} hr_gesture;

extern const hr_key_table hr_gesture_keys;
hr_gesture hr__gesture_read(const hr_model_part *whole);
hr_status hr__gesture_check(const hr_model_part *whole, hr_error *err);

/* A linear module with Xavier's first values, and zero as bias. */
hr_id hr__gesture_linear(hr_builder *b, const char *path, int64_t in, int64_t out, hr_id x);

/* x [B, L, H] in six orders through their stacks, and back in its own order: [B, L, 6 H]. */
hr_id hr__gesture_stacks(hr_builder *b, const hr_gesture *m, const hr_model_batch *batch, hr_id x);

/* --- rows of several recordings ---------------------------------------------------------------------------------- */

/* C: of a row. */
int64_t hr__gesture_pieces(const hr_gesture *m, const hr_model_batch *batch);
/* x [B, each, L], of positions, as [B C, each, L / C, 1]. */
hr_id hr__gesture_by_piece(hr_builder *b, const hr_gesture *m, const hr_model_batch *batch, hr_id x, int64_t each);
/* x [B C, numbers] of pieces, summed over those of a recording: [B C, numbers], of the places of recordings. */
hr_id hr__gesture_by_recording(hr_builder *b, const hr_gesture *m, const hr_model_batch *batch, hr_id x,
                               int64_t numbers);
/* What the result of a layer is multiplied by, for k orders: 0 for some recordings, more than 1 for others; [B, k, 1,
 * 1] or, of rows that recordings share, [B, k, L, 1]. */
hr_id hr__gesture_path_mask(hr_builder *b, const hr_gesture *m, const hr_model_batch *batch, int64_t k, float part);

#endif
