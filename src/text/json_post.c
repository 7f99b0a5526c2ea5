/* "post_processor" of tokenizer.json: the ids that are put round those of one text, and of two. */
#include "text/json_items.h"

static hr_status sequence_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  return hr__item_each(t, item, "processors", hr__json_post_processor, err);
}

/* It only moves offsets, which nobody asks for here. */
static hr_status byte_level_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  (void)t, (void)item, (void)err;
  return HR_OK;
}

static hr_status id_check(const hr_tokenizer *t, const hr_item *id, int64_t *out, hr_error *err) {
  HR_TRY(hr__item_int(id, false, 0, HR_MAX_IDS - 1, out, err));
  if ((size_t)*out >= t->count || !t->pieces[*out].text)
    return hr__item_fail(id, err, NULL, "there is no token %lld", (long long)*out);
  return HR_OK;
}

/* The ids of a special token of the template, behind those of `ids`. */
static hr_status special_add(const hr_tokenizer *t, const hr_item *item, const char *name, hr_ids *ids, hr_error *err) {
  hr_item specials = hr__item_get(item, "special_tokens"), special = hr__item_get(&specials, name),
          list = hr__item_get(&special, "ids");
  HR_TRY(hr__item_list(&list, err));
  for (size_t i = 0; i < hr__item_count(&list); i++) {
    hr_item one = hr__item_at(&list, i);
    int64_t id = 0;
    HR_TRY(id_check(t, &one, &id, err));
    HR_TRY(hr__ids_add(ids, (int32_t)id, err));
  }
  return HR_OK;
}

/* Puts `more` in front of `ids`. */
static hr_status front_add(hr_ids *ids, const hr_ids *more, hr_error *err) {
  HR_TRY(hr__ids_room(ids, more->count, err));
  if (ids->count > 0) memmove(ids->items + more->count, ids->items, ids->count * sizeof *ids->items);
  if (more->count > 0) memcpy(ids->items, more->items, more->count * sizeof *ids->items);
  ids->count += more->count;
  return HR_OK;
}

static hr_status single_read(hr_tokenizer *t, const hr_item *template, hr_ids *before, hr_error *err) {
  hr_item single = hr__item_get(template, "single");
  HR_TRY(hr__item_list(&single, err));
  bool met = false;
  for (size_t i = 0; i < hr__item_count(&single); i++) {
    hr_item item = hr__item_at(&single, i), sequence = hr__item_get(&item, "Sequence"),
            special = hr__item_get(&item, "SpecialToken");
    const char *name = NULL;
    if (sequence.value) {
      hr_item id = hr__item_get(&sequence, "id");
      HR_TRY(hr__item_text(&id, false, &name, NULL, err));
      if (met || strcmp(name, "A") != 0) return hr__item_fail(&item, err, NULL, "a template of one text has A once");
      met = true;
    } else {
      hr_item id = hr__item_get(&special, "id");
      HR_TRY(hr__item_text(&id, false, &name, NULL, err));
      HR_TRY(special_add(t, template, name, met ? &t->behind : before, err));
    }
  }
  return met ? HR_OK : hr__item_fail(&single, err, NULL, "a template of one text has A once");
}

static hr_status pair_part_read(const hr_tokenizer *t, const hr_item *template, const hr_item *item, hr_joint *pair,
                                hr_ids *ids, hr_error *err) {
  hr_item sequence = hr__item_get(item, "Sequence"), special = hr__item_get(item, "SpecialToken");
  hr_item part = sequence.value ? sequence : special;
  hr_item name_item = hr__item_get(&part, "id"), type_item = hr__item_get(&part, "type_id");
  const char *name = NULL;
  int64_t type = 0;
  HR_TRY(hr__item_text(&name_item, false, &name, NULL, err));
  HR_TRY(hr__item_int(&type_item, false, 0, INT32_MAX, &type, err));
  if (sequence.value) {
    hr__joint_add(pair, strcmp(name, "B") == 0 ? HR_JOINT_SECOND : HR_JOINT_FIRST, (int32_t)type);
    return HR_OK;
  }
  ids->count = 0;
  HR_TRY(special_add(t, template, name, ids, err));
  for (size_t i = 0; i < ids->count; i++)
    hr__joint_add(pair, ids->items[i], (int32_t)type);
  return HR_OK;
}

/* A pair that is not understood is refused where two texts are encoded: most files are never asked for that. */
static hr_status pair_set(hr_tokenizer *t, const hr_joint *pair, hr_status status, hr_error *err) {
  if (status == HR_NOMEM) return hr__nomem(err);
  bool second = t->joint.count > 0; /* post-processors of this kind behind each other: none knows of it */
  t->joint = *pair;
  t->joint.unknown |= second || status != HR_OK || !hr__joint_is_whole(pair);
  return HR_OK;
}

static hr_status pair_template_read(hr_tokenizer *t, const hr_item *template, hr_error *err) {
  hr_item list = hr__item_get(template, "pair");
  hr_error ignored = {0};
  hr_joint pair = {0};
  hr_ids ids = {0};
  hr_status status = hr__item_list(&list, &ignored);
  for (size_t i = 0; status == HR_OK && i < hr__item_count(&list); i++) {
    hr_item item = hr__item_at(&list, i);
    status = pair_part_read(t, template, &item, &pair, &ids, &ignored);
  }
  hr__ids_fini(&ids);
  return pair_set(t, &pair, status, err);
}

static hr_status template_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  hr_ids before = {0};
  hr_status status = single_read(t, item, &before, err);
  if (status == HR_OK) status = front_add(&t->before, &before, err);
  hr__ids_fini(&before);
  return status == HR_OK ? pair_template_read(t, item, err) : status;
}

/* {"cls": ["[CLS]", 101], "sep": ["[SEP]", 102]}: the tokens round a text. */
static hr_status round_read(hr_tokenizer *t, const hr_item *item, int32_t *cls, int32_t *sep, hr_error *err) {
  hr_item cls_item = hr__item_get(item, "cls"), sep_item = hr__item_get(item, "sep"), first = hr__item_at(&cls_item, 1),
          last = hr__item_at(&sep_item, 1);
  int64_t id = 0;
  HR_TRY(hr__item_list(&cls_item, err));
  HR_TRY(hr__item_list(&sep_item, err));
  HR_TRY(id_check(t, &first, &id, err));
  *cls = (int32_t)id;
  HR_TRY(front_add(&t->before, &(hr_ids){.items = cls, .count = 1}, err));
  HR_TRY(id_check(t, &last, &id, err));
  *sep = (int32_t)id;
  return hr__ids_add(&t->behind, *sep, err);
}

static hr_status typed_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  int32_t cls, sep;
  HR_TRY(round_read(t, item, &cls, &sep, err));
  hr_joint pair = hr__joint_typed(cls, sep);
  return pair_set(t, &pair, HR_OK, err);
}

/* Two tokens between the texts, and no types. */
static hr_status untyped_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  int32_t cls, sep;
  HR_TRY(round_read(t, item, &cls, &sep, err));
  hr_joint pair = {.parts = {{cls, 0}, {HR_JOINT_FIRST, 0}, {sep, 0}, {sep, 0}, {HR_JOINT_SECOND, 0}, {sep, 0}},
                   .count = 6};
  return pair_set(t, &pair, HR_OK, err);
}

static const hr_item_kind kinds[] = {{"Sequence", sequence_read},
                                     {"ByteLevel", byte_level_read},
                                     {"TemplateProcessing", template_read},
                                     {"BertProcessing", typed_read},
                                     {"RobertaProcessing", untyped_read}};

hr_status hr__json_post_processor(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  return hr__item_dispatch(t, item, kinds, sizeof kinds / sizeof *kinds, "post-processor", err);
}
