/* "normalizer" of tokenizer.json. */
#include "format/base64.h"
#include "text/json_items.h"

static hr_status sequence_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  return hr__item_each(t, item, "normalizers", hr__json_normalizer, err);
}

static hr_status form_add(hr_tokenizer *t, bool compose, bool compat, hr_error *err) {
  hr_normalizer *n = hr__build_normalizer(t, err);
  if (!n) return HR_BAD_INPUT;
  *n = (hr_normalizer){.run = hr__normal_form_run, .compose = compose, .compat = compat};
  return HR_OK;
}
static hr_status nfc_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  (void)item;
  return form_add(t, true, false, err);
}
static hr_status nfd_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  (void)item;
  return form_add(t, false, false, err);
}
static hr_status nfkc_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  (void)item;
  return form_add(t, true, true, err);
}
static hr_status nfkd_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  (void)item;
  return form_add(t, false, true, err);
}

static hr_status lower_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  (void)item;
  hr_normalizer *n = hr__build_normalizer(t, err);
  if (!n) return HR_BAD_INPUT;
  n->run = hr__normal_lower_run;
  return HR_OK;
}

static hr_status accents_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  (void)item;
  hr_normalizer *n = hr__build_normalizer(t, err);
  if (!n) return HR_BAD_INPUT;
  n->run = hr__normal_accents_run;
  return HR_OK;
}

static hr_status strip_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  hr_normalizer *n = hr__build_normalizer(t, err);
  if (!n) return HR_BAD_INPUT;
  n->run = hr__normal_strip_run;
  hr_item left = hr__item_get(item, "strip_left"), right = hr__item_get(item, "strip_right");
  HR_TRY(hr__item_bool(&left, false, &n->left, err));
  return hr__item_bool(&right, false, &n->right, err);
}

static hr_status prepend_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  hr_normalizer *n = hr__build_normalizer(t, err);
  if (!n) return HR_BAD_INPUT;
  n->run = hr__normal_prepend_run;
  hr_item content = hr__item_get(item, "prepend");
  return hr__item_copy(t, &content, false, &n->content, &n->content_bytes, err);
}

static hr_status replace_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  hr_normalizer *n = hr__build_normalizer(t, err);
  if (!n) return HR_BAD_INPUT;
  n->run = hr__normal_replace_run;
  hr_item pattern = hr__item_get(item, "pattern"), content = hr__item_get(item, "content");
  HR_TRY(hr__item_pattern(t, &pattern, &n->pattern, &n->pattern_bytes, &n->regex, err));
  return hr__item_copy(t, &content, false, &n->content, &n->content_bytes, err);
}

static hr_status basic_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  hr_normalizer *n = hr__build_normalizer(t, err);
  if (!n) return HR_BAD_INPUT;
  *n = (hr_normalizer){.run = hr__normal_basic_run, .clean = true, .cjk = true, .lower = true};
  hr_item clean = hr__item_get(item, "clean_text"), cjk = hr__item_get(item, "handle_chinese_chars"),
          accents = hr__item_get(item, "strip_accents"), lower = hr__item_get(item, "lowercase");
  HR_TRY(hr__item_bool(&clean, true, &n->clean, err));
  HR_TRY(hr__item_bool(&cjk, true, &n->cjk, err));
  HR_TRY(hr__item_bool(&lower, true, &n->lower, err));
  n->accents = n->lower; /* unless it says otherwise */
  return hr__item_bool(&accents, true, &n->accents, err);
}

static hr_status precompiled_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  hr_item map = hr__item_get(item, "precompiled_charsmap");
  const char *text = NULL;
  size_t bytes = 0;
  HR_TRY(hr__item_text(&map, true, &text, &bytes, err));
  if (bytes == 0) return HR_OK; /* nothing is rewritten */
  hr_normalizer *n = hr__build_normalizer(t, err);
  if (!n) return HR_BAD_INPUT;
  n->run = hr__normal_precompiled_run;
  hr_string data = {0};
  hr_status status = hr__string_room(&data, bytes, err);
  if (status == HR_OK) status = hr__base64_read(text, bytes, data.data, &data.count, err);
  if (status == HR_OK) status = hr__charsmap_read(data.data, data.count, &t->arena, &n->charsmap, err);
  hr__string_fini(&data);
  return hr__item_placed(&map, status, err);
}

static const hr_item_kind kinds[] = {
    {"Sequence", sequence_read},
    {"NFC", nfc_read},
    {"NFD", nfd_read},
    {"NFKC", nfkc_read},
    {"NFKD", nfkd_read},
    {"Lowercase", lower_read},
    {"Strip", strip_read},
    {"Prepend", prepend_read},
    {"StripAccents", accents_read},
    {"Replace", replace_read},
    {"Precompiled", precompiled_read},
    {"BertNormalizer", basic_read},
};

hr_status hr__json_normalizer(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  return hr__item_dispatch(t, item, kinds, sizeof kinds / sizeof *kinds, "normalizer", err);
}
