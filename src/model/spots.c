/* What is made of a detector's maps: losses by what is known of a video's hot spots; the spots themselves, picked where
 * the map of them has peaks; tracks of them from frame to frame. All of it stays on the device. See multistream.h.
 *
 * Shapes in comments: N spots of a frame, P cells of its maps, K peaks, M tracks. Offsets and sizes are in cells.
 */
#include "data/spots.h"
#include "model/multistream.h"
#include "op/concat.h"
#include "op/gather.h"
#include "op/pointwise.h"
#include "op/pool.h"
#include "op/slice.h"
#include "op/topk.h"
#include "op/track.h"

enum { DETECTIONS = 24, TRACKS = 16 };
static const float SURE = 0.45f; /* of a peak that is a spot */
static const float TRACK_REACH =
    0.2f; /* how far a spot may go from one time it is seen to the next; parts of a frame */
static const float FOUND_REACH = 0.1f; /* how far from a spot it may be found */

static hr_id scaled(hr_builder *b, hr_id x, float by, float plus) {
  return hr__unary(b, HR_FORMULA_affine, x, by, plus);
}

static hr_id reshaped(hr_builder *b, hr_id x, int64_t first, int64_t second, int64_t third) {
  return hr__reshape(b, x, 3, (const int64_t[]){first, second, third});
}

/* Row and column of cells by number, [..., 1] each, whole numbers. The half keeps what is divided away from them. */
typedef struct cell_place {
  hr_id row, column;
} cell_place;
static cell_place place_of(hr_builder *b, const hr_spot_maps *maps, hr_id cells) {
  float columns = (float)maps->columns;
  cell_place p;
  p.row = hr__unary(b, HR_FORMULA_floor, scaled(b, cells, 1 / columns, 0.5f / columns), 0, 0);
  p.column = hr__binary(b, HR_FORMULA_sub, scaled(b, cells, 1, 0), scaled(b, p.row, columns, 0));
  return p;
}

/* ---- losses ---- */

/* What is known of the spots, frame by frame: [B T, N, ...]; share [B, 1]: 1 / the spots of a sample. */
typedef struct known {
  int64_t samples, frames;
  hr_id spots, cells, there, share;
} known;

static known known_of(hr_builder *b, const hr_model_batch *batch) {
  hr_id spots = hr__batch_field(batch, "spots"), mask = hr__batch_field(batch, "spot_mask");
  known k = {.samples = hr__desc_dim(b, spots, 0), .frames = hr__desc_dim(b, spots, 1)};
  int64_t rows = k.samples * k.frames;
  hr_id count = hr__squeeze(b, hr__reduce(b, HR_REDUCE_SUM, scaled(b, mask, 1, 0), 3u << 1), 1u << 2);
  k.spots = reshaped(b, spots, rows, HR_SPOTS, HR_SPOT_NUMBERS);
  k.cells = hr__reshape(b, hr__batch_field(batch, "spot_cells"), 2, (const int64_t[]){rows, HR_SPOTS});
  k.there = reshaped(b, scaled(b, mask, 1, 0), rows, HR_SPOTS, 1);
  k.share = hr__unary(b, HR_FORMULA_reciprocal, hr__unary(b, HR_FORMULA_clamp, count, 1, 1e9f), 0, 0);
  return k;
}

/* Sum over all frames of a sample, per spot: [B T, n, C] -> [B, 1]. */
static hr_id per_spot(hr_builder *b, const known *k, hr_id x) {
  x = reshaped(b, x, k->samples, k->frames, hr__desc_dim(b, x, 1) * hr__desc_dim(b, x, 2));
  x = hr__squeeze(b, hr__reduce(b, HR_REDUCE_SUM, x, 3u << 1), 1u << 2);
  return hr__binary(b, HR_FORMULA_mul, x, k->share);
}

/* Focal cross-entropy: where it is right already it counts little. Logits [B T, P, 1]. */
static hr_id found_loss(hr_builder *b, const known *k, hr_id logits) {
  const float there = 0.5f, elsewhere = 0.5f;
  hr_id target = hr__scatter(b, k->cells, k->there, hr__desc_dim(b, logits, 1));
  target = hr__unary(b, HR_FORMULA_clamp, target, 0, 1); /* two spots may share a cell */
  hr_id p = hr__unary(b, HR_FORMULA_sigmoid, logits, 0, 0);
  hr_id missing = hr__unary(b, HR_FORMULA_square, scaled(b, p, -1, 1), 0, 0);
  hr_id wrong = hr__unary(b, HR_FORMULA_square, p, 0, 0);
  missing = hr__binary(b, HR_FORMULA_mul, missing, hr__unary(b, HR_FORMULA_softplus, scaled(b, logits, -1, 0), 0, 0));
  wrong = hr__binary(b, HR_FORMULA_mul, wrong, hr__unary(b, HR_FORMULA_softplus, logits, 0, 0));
  missing = hr__binary(b, HR_FORMULA_mul, missing, scaled(b, target, there, 0));
  wrong = hr__binary(b, HR_FORMULA_mul, wrong, scaled(b, target, -elsewhere, elsewhere));
  return per_spot(b, k, hr__binary(b, HR_FORMULA_add, missing, wrong));
}

/* Where the map [B T, P, C] has spots, how far it is from the target [B T, N, C]; 0 where there is none. */
static hr_id off_by(hr_builder *b, const known *k, hr_id map, hr_id target) {
  hr_id off = hr__unary(b, HR_FORMULA_abs, hr__binary(b, HR_FORMULA_sub, hr__gather(b, k->cells, map), target), 0, 0);
  return hr__binary(b, HR_FORMULA_mul, off, k->there);
}

/* Half of the square up to 1, linear from there: m (x - m / 2) with m = min(x, 1), x not below 0. */
static hr_id smooth(hr_builder *b, hr_id x) {
  hr_id m = hr__unary(b, HR_FORMULA_clamp, x, 0, 1);
  return hr__binary(b, HR_FORMULA_mul, m, hr__binary(b, HR_FORMULA_sub, x, scaled(b, m, 0.5f, 0)));
}

void hr__spot_losses(hr_builder *b, const hr_spot_maps *maps, const hr_model_batch *batch, hr_spot_loss *out) {
  hr__module(b, "losses.spots");
  known k = known_of(b, batch);
  float rows = (float)maps->rows, columns = (float)maps->columns;
  cell_place cell = place_of(b, maps, reshaped(b, k.cells, k.samples * k.frames, HR_SPOTS, 1));
  hr_id number[HR_SPOT_NUMBERS];
  for (int i = 0; i < HR_SPOT_NUMBERS; i++)
    number[i] = hr__window(b, k.spots, 2, i, 1);
  hr_id offset[] = {hr__binary(b, HR_FORMULA_sub, scaled(b, number[HR_SPOT_X], columns, 0), cell.column),
                    hr__binary(b, HR_FORMULA_sub, scaled(b, number[HR_SPOT_Y], rows, 0), cell.row)};
  hr_id size[] = {scaled(b, number[HR_SPOT_WIDTH], columns, 0), scaled(b, number[HR_SPOT_HEIGHT], rows, 0)};
  if (b->status != HR_OK) return;
  out->found = found_loss(b, &k, maps->found);
  out->offset = per_spot(b, &k, off_by(b, &k, maps->offset, hr__concat(b, offset, 2, 2)));
  out->size = per_spot(b, &k, smooth(b, off_by(b, &k, maps->size, hr__concat(b, size, 2, 2))));
  out->brightness = per_spot(b, &k, off_by(b, &k, maps->brightness, number[HR_SPOT_BRIGHTNESS]));
}

/* ---- the spots ---- */

/* Logits [R, P, 1] where none of the cells around is larger, and far below all others elsewhere: [R, P]. */
static hr_id peaks_of(hr_builder *b, const hr_spot_maps *maps, hr_id logits) {
  const hr_pool_args around = {.pooling = HR_POOL_MAX, .kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}};
  const float never = -1e4f;
  int64_t frames = hr__desc_dim(b, logits, 0), cells = maps->rows * maps->columns;
  hr_id map = hr__reshape(b, logits, 4, (const int64_t[]){frames, 1, maps->rows, maps->columns});
  hr_id peak = hr__binary(b, HR_FORMULA_equal, map, hr__pool(b, map, &around));
  map = hr__binary(b, HR_FORMULA_add, hr__binary(b, HR_FORMULA_keep, map, peak), scaled(b, peak, -never, never));
  return hr__reshape(b, map, 2, (const int64_t[]){frames, cells});
}

hr_id hr__spot_detections(hr_builder *b, const hr_spot_maps *maps) {
  int64_t cells = maps->rows * maps->columns, count = cells < DETECTIONS ? cells : DETECTIONS;
  float rows = (float)maps->rows, columns = (float)maps->columns;
  hr__module(b, "losses.peaks");
  hr_id sure = hr__topk(b, peaks_of(b, maps, hr__detached(b, maps->found)), (int)count);
  if (b->status != HR_OK) return HR_NONE;
  hr_id where = hr__node_out(b, sure, 1);
  int64_t frames = hr__desc_dim(b, where, 0);
  cell_place cell = place_of(b, maps, reshaped(b, where, frames, count, 1));
  hr_id offset = hr__gather(b, where, maps->offset), size = hr__gather(b, where, maps->size);
  hr_id x = hr__binary(b, HR_FORMULA_add, cell.column, hr__window(b, offset, 2, 0, 1));
  hr_id y = hr__binary(b, HR_FORMULA_add, cell.row, hr__window(b, offset, 2, 1, 1));
  hr_id number[] = {hr__unary(b, HR_FORMULA_sigmoid, reshaped(b, sure, frames, count, 1), 0, 0),
                    scaled(b, x, 1 / columns, 0),
                    scaled(b, y, 1 / rows, 0),
                    scaled(b, hr__window(b, size, 2, 0, 1), 1 / columns, 0),
                    scaled(b, hr__window(b, size, 2, 1, 1), 1 / rows, 0),
                    hr__gather(b, where, maps->brightness)};
  if (b->status != HR_OK) return HR_NONE;
  return hr__detached(b, hr__concat(b, number, sizeof number / sizeof *number, 2));
}

hr_id hr__spot_tracks(hr_builder *b, int64_t samples, hr_id detections) {
  const hr_track_args args = {TRACKS, SURE, TRACK_REACH};
  int64_t frames = hr__desc_dim(b, detections, 0) / samples;
  hr__module(b, "losses.tracks");
  detections =
      hr__reshape(b, detections, 4,
                  (const int64_t[]){samples, frames, hr__desc_dim(b, detections, 1), hr__desc_dim(b, detections, 2)});
  return hr__track(b, detections, &args);
}

/* Squared distance along one axis between spots [R, N, 1] and detections [R, K, 1]: [R, N, K]. */
static hr_id apart(hr_builder *b, const known *k, int of_spot, hr_id detections, int column) {
  static const int order[] = {0, 2, 1};
  hr_id mine = hr__window(b, k->spots, 2, of_spot, 1);
  hr_id theirs = hr__permute(b, hr__window(b, detections, 2, column, 1), order);
  return hr__unary(b, HR_FORMULA_square, hr__binary(b, HR_FORMULA_sub, mine, theirs), 0, 0);
}

/* How many of [R, n, 1] are 1, by sample: [B, 1]. */
static hr_id counted(hr_builder *b, const known *k, hr_id x) {
  x = reshaped(b, x, k->samples, k->frames * hr__desc_dim(b, x, 1), 1);
  return hr__squeeze(b, hr__reduce(b, HR_REDUCE_SUM, x, 1u << 1), 1u << 2);
}

/* Those of [R, n, 1] that are less than `most`, among those that are there. */
static hr_id among(hr_builder *b, hr_id x, float most, hr_id there) {
  hr_id below = hr__binary(b, HR_FORMULA_less, x, scaled(b, x, 0, most));
  return hr__binary(b, HR_FORMULA_mul, below, there);
}

hr_id hr__spots_counted(hr_builder *b, const hr_model_batch *batch, hr_id detections) {
  static const int turned[] = {0, 2, 1};
  const float far = 1e3f, reach = FOUND_REACH * FOUND_REACH;
  hr__module(b, "losses.recall");
  known k = known_of(b, batch);
  hr_id distance =
      hr__binary(b, HR_FORMULA_add, apart(b, &k, HR_SPOT_X, detections, 1), apart(b, &k, HR_SPOT_Y, detections, 2));
  hr_id sure = hr__window(b, detections, 2, 0, 1);
  sure = hr__binary(b, HR_FORMULA_less, scaled(b, sure, 0, SURE), sure); /* [R, K, 1] */
  hr_id of_spot = hr__binary(b, HR_FORMULA_add, distance, hr__permute(b, scaled(b, sure, -far, far), turned));
  hr_id of_detection = hr__binary(b, HR_FORMULA_add, distance, scaled(b, k.there, -far, far));
  of_spot = hr__reduce(b, HR_REDUCE_MIN, of_spot, 1u << 2);                                   /* [R, N, 1] */
  of_detection = hr__permute(b, hr__reduce(b, HR_REDUCE_MIN, of_detection, 1u << 1), turned); /* [R, K, 1] */
  hr_id counts[] = {counted(b, &k, among(b, of_spot, reach, k.there)), counted(b, &k, k.there),
                    counted(b, &k, among(b, of_detection, reach, sure)), counted(b, &k, sure)};
  return b->status == HR_OK ? hr__concat(b, counts, 4, 1) : HR_NONE;
}
