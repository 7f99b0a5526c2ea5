/* sketches: see sketches.h. */
#include "fit/sketches.h"

#include <string.h>

/* What is kept of blocks, as the passes tell it apart: inputs that are to be offloaded are inputs where all activations
 * are. */
static hr_status keep_copy(hr_choosing *s, const hr_choices *choices, hr_sketch *to, hr_error *err) {
  const hr_division *activations = &to->homes.activations;
  bool all = !activations->by_name && activations->tier != HR_TIER_DEVICE && activations->resident_bytes == 0;
  if (!choices || !choices->keep) return HR_OK;
  hr_keep *keep = hr__arena_array(&s->arena, choices->n_keep, sizeof *keep);
  if (!keep) return hr__nomem(err);
  for (size_t i = 0; i < choices->n_keep; i++)
    keep[i] = all && choices->keep[i] == HR_KEEP_OFFLOADED ? HR_KEEP_INPUT : choices->keep[i];
  to->keep = keep;
  to->n_keep = choices->n_keep;
  return HR_OK;
}

static bool keep_same(const hr_sketch *a, const hr_sketch *b) {
  if (!a->keep || !b->keep) return a->keep == b->keep;
  return a->n_keep == b->n_keep && memcmp(a->keep, b->keep, a->n_keep * sizeof *a->keep) == 0;
}

hr_status hr__sketch_find(hr_choosing *s, const hr_choices *choices, hr_sketch **out, hr_error *err) {
  hr_sketch *own = hr__arena_array(&s->arena, 1, sizeof *own);
  if (!own) return hr__nomem(err);
  own->by_choice = choices != NULL;
  HR_TRY(hr__trunk_homes(s->trunk, choices, &s->arena, &own->homes, err));
  HR_TRY(keep_copy(s, choices, own, err));
  for (*out = s->sketches; *out; *out = (*out)->older)
    if ((*out)->by_choice == own->by_choice && keep_same(*out, own) &&
        hr__offload_homes_same(&(*out)->homes, &own->homes))
      return HR_OK;
  own->older = s->sketches;
  *out = s->sketches = own;
  return HR_OK;
}

hr_status hr__sketch_blocks(hr_choosing *s, hr_candidate *c, const hr_blocks **out, hr_error *err) {
  if (!c->sketch->blocks) {
    hr_blocks *blocks = hr__arena_array(&s->arena, 1, sizeof *blocks);
    if (!blocks) return hr__nomem(err);
    HR_TRY(hr__candidate_make(s, c, err));
    HR_TRY(hr__blocks_init(blocks, s->keeps ? s->n_keep : 0, &s->arena, err));
    HR_TRY(hr__blocks_read(blocks, c->plan, s->open->accumulation, err));
    c->sketch->blocks = blocks;
  }
  *out = c->sketch->blocks;
  return HR_OK;
}
