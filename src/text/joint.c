/* See joint.h, and hr__encode_pair in tokenizer.h. */
#include "text/joint.h"

#include <stdio.h>

#include "text/build.h"

void hr__joint_add(hr_joint *pair, int32_t id, int32_t type) {
  if (pair->count < HR_JOINT_PARTS)
    pair->parts[pair->count++] = (hr_joint_part){id, type};
  else
    pair->unknown = true;
}

hr_joint hr__joint_typed(int32_t cls, int32_t sep) {
  return (hr_joint){.parts = {{cls, 0}, {HR_JOINT_FIRST, 0}, {sep, 0}, {HR_JOINT_SECOND, 1}, {sep, 1}}, .count = 5};
}

bool hr__joint_is_whole(const hr_joint *pair) {
  int met[2] = {0};
  for (size_t i = 0; i < pair->count; i++)
    if (pair->parts[i].id < 0) met[pair->parts[i].id == HR_JOINT_SECOND]++;
  return met[0] == 1 && met[1] == 1;
}

/* What two texts are written into. */
typedef struct writing {
  hr_encoder *encoder;
  const hr_text_pair *texts;
  hr_ids *ids, *types;
} writing;

/* All ids that have no type yet get this one. */
static hr_status types_fill(const writing *w, size_t began, int32_t type, hr_error *err) {
  for (size_t i = began; w->types && i < w->ids->count; i++)
    HR_TRY(hr__ids_add(w->types, type, err));
  return HR_OK;
}

static hr_status text_put(const writing *w, int which, bool add_special, int32_t type, hr_error *err) {
  size_t began = w->ids->count;
  hr_status status = hr__encode(w->encoder, w->texts->text[which], w->texts->bytes[which], add_special, w->ids, err);
  if (status == HR_BAD_INPUT && err && err->place[0]) {
    char place[sizeof err->place];
    snprintf(place, sizeof place, "%s text, %.200s", which ? "second" : "first", err->place);
    memcpy(err->place, place, sizeof place);
  }
  HR_TRY(status);
  return types_fill(w, began, type, err);
}

static hr_status parts_put(const writing *w, const hr_joint *pair, bool add_special, hr_error *err) {
  for (size_t i = 0; i < pair->count; i++) {
    const hr_joint_part *part = &pair->parts[i];
    size_t began = w->ids->count;
    if (part->id < 0) {
      HR_TRY(text_put(w, part->id == HR_JOINT_SECOND, false, part->type, err));
    } else if (add_special) {
      HR_TRY(hr__ids_add(w->ids, part->id, err));
      HR_TRY(types_fill(w, began, part->type, err));
    }
  }
  return HR_OK;
}

hr_status hr__encode_pair(hr_encoder *encoder, const hr_text_pair *texts, bool add_special, hr_ids *ids, hr_ids *types,
                          hr_error *err) {
  const hr_tokenizer *t = encoder->tokenizer;
  writing w = {encoder, texts, ids, types};
  size_t n_ids = ids->count, n_types = types ? types->count : 0;
  if (t->joint.unknown)
    return hr__fail(err, HR_UNSUPPORTED, t->file, "encode the texts one by one",
                    "its post-processor for two texts is not one that has each of them once");
  hr_status status = HR_OK;
  if (t->joint.count > 0)
    status = parts_put(&w, &t->joint, add_special, err);
  else
    for (int which = 0; which < 2 && status == HR_OK; which++)
      status = text_put(&w, which, add_special, which, err);
  if (status == HR_OK) return HR_OK;
  ids->count = n_ids;
  if (types) types->count = n_types;
  return status;
}
