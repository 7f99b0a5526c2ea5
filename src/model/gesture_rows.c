/* Recordings that share a row (data.packing). See gesture.h.
 *
 * Each begins at a multiple of the scan's chunk, so that a row consists of pieces of that size, none of which has
 * vectors of two recordings. What is made of a recording lies where its number in the row says; there are as many
 * places as pieces, most of them empty. A row of one recording is one piece, and one place.
 */
#include "model/gesture.h"
#include "op/dropout.h"
#include "op/gather.h"
#include "op/pointwise.h"
#include "op/slice.h"

static bool shared(const hr_model_batch *batch) {
  return batch->starts != HR_NONE;
}

int64_t hr__gesture_pieces(const hr_gesture *m, const hr_model_batch *batch) {
  return shared(batch) ? batch->length / m->mixer.chunk : 1;
}

hr_id hr__gesture_by_piece(hr_builder *b, const hr_gesture *m, const hr_model_batch *batch, hr_id x, int64_t each) {
  int64_t pieces = hr__gesture_pieces(m, batch), piece = batch->length / pieces;
  if (shared(batch)) {
    x = hr__reshape(b, x, 4, (const int64_t[]){batch->batch, each, pieces, piece});
    x = hr__permute(b, x, (const int[]){0, 2, 1, 3});
  }
  return hr__reshape(b, x, 4, (const int64_t[]){batch->batch * pieces, each, piece, 1});
}

hr_id hr__gesture_by_recording(hr_builder *b, const hr_gesture *m, const hr_model_batch *batch, hr_id x,
                               int64_t numbers) {
  int64_t pieces = hr__gesture_pieces(m, batch);
  if (shared(batch)) {
    x = hr__reshape(b, x, 3, (const int64_t[]){batch->batch, pieces, numbers});
    x = hr__scatter(b, hr__batch_field(batch, "recordings"), x, pieces);
  }
  return hr__reshape(b, x, 2, (const int64_t[]){batch->batch * pieces, numbers});
}

hr_id hr__gesture_path_mask(hr_builder *b, const hr_gesture *m, const hr_model_batch *batch, int64_t k, float part) {
  int64_t samples = batch->batch, pieces = hr__gesture_pieces(m, batch), piece = batch->length / pieces;
  hr_id ones = hr__unary(b, HR_FORMULA_affine, hr__batch_field(batch, "labels"), 0, 1);
  ones = hr__reshape(b, ones, 3, (const int64_t[]){samples, pieces, 1});
  hr_id mask = hr__dropout(b, hr__expand(b, ones, 3, (const int64_t[]){samples, pieces, k}), part);
  if (!shared(batch)) return hr__reshape(b, mask, 4, (const int64_t[]){samples, k, 1, 1});
  mask = hr__permute(b, hr__gather(b, hr__batch_field(batch, "recordings"), mask), (const int[]){0, 2, 1});
  mask = hr__reshape(b, mask, 4, (const int64_t[]){samples, k, pieces, 1});
  mask = hr__expand(b, mask, 4, (const int64_t[]){samples, k, pieces, piece});
  return hr__reshape(b, mask, 4, (const int64_t[]){samples, k, batch->length, 1});
}
