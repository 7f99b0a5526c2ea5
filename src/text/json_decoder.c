/* "decoder" of tokenizer.json. */
#include "text/json_items.h"

static hr_status sequence_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  return hr__item_each(t, item, "decoders", hr__json_decoder, err);
}

static hr_status simple_add(hr_tokenizer *t,
                            hr_status (*run)(const hr_decoder *, const hr_texts *, hr_texts *, hr_error *),
                            hr_decoder **out, hr_error *err) {
  *out = hr__build_decoder(t, err);
  if (!*out) return HR_BAD_INPUT;
  (*out)->run = run;
  return HR_OK;
}

static hr_status byte_level_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  (void)item;
  hr_decoder *d;
  return simple_add(t, hr__decode_byte_level_run, &d, err);
}

static hr_status fallback_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  (void)item;
  hr_decoder *d;
  return simple_add(t, hr__decode_fallback_run, &d, err);
}

static hr_status fuse_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  (void)item;
  hr_decoder *d;
  return simple_add(t, hr__decode_fuse_run, &d, err);
}

static hr_status strip_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  hr_decoder *d;
  HR_TRY(simple_add(t, hr__decode_strip_run, &d, err));
  hr_item content = hr__item_get(item, "content"), start = hr__item_get(item, "start"),
          stop = hr__item_get(item, "stop");
  int64_t from = 0, to = 0;
  HR_TRY(hr__item_copy(t, &content, false, &d->content, &d->content_bytes, err));
  HR_TRY(hr__item_int(&start, false, 0, INT32_MAX, &from, err));
  HR_TRY(hr__item_int(&stop, false, 0, INT32_MAX, &to, err));
  if (d->content_bytes == 0) return hr__item_fail(&content, err, NULL, "'content' is empty");
  d->start = (size_t)from;
  d->stop = (size_t)to;
  return HR_OK;
}

static hr_status replace_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  hr_decoder *d;
  HR_TRY(simple_add(t, hr__decode_replace_run, &d, err));
  hr_item pattern = hr__item_get(item, "pattern"), content = hr__item_get(item, "content"),
          text = hr__item_get(&pattern, "String");
  if (!text.value) return hr__item_fail(&pattern, err, NULL, "a decoder replaces {\"String\": ...} only");
  HR_TRY(hr__item_copy(t, &text, false, &d->pattern, &d->pattern_bytes, err));
  return hr__item_copy(t, &content, false, &d->content, &d->content_bytes, err);
}

static hr_status metaspace_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  hr_decoder *d;
  HR_TRY(simple_add(t, hr__decode_metaspace_run, &d, err));
  hr_item sign = hr__item_get(item, "replacement"), scheme = hr__item_get(item, "prepend_scheme"),
          space = hr__item_get(item, "add_prefix_space");
  bool prefix = true;
  HR_TRY(hr__item_bool(&space, true, &prefix, err));
  const char *name = prefix ? "always" : "never";
  HR_TRY(hr__item_text(&scheme, true, &name, NULL, err));
  d->prefix = strcmp(name, "never") != 0;
  d->content = " ";
  d->content_bytes = 1;
  return hr__item_copy(t, &sign, false, &d->pattern, &d->pattern_bytes, err);
}

static hr_status wordpiece_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  hr_decoder *d;
  HR_TRY(simple_add(t, hr__decode_wordpiece_run, &d, err));
  d->pattern = "##";
  d->pattern_bytes = 2;
  d->cleanup = true;
  hr_item prefix = hr__item_get(item, "prefix"), cleanup = hr__item_get(item, "cleanup");
  HR_TRY(hr__item_copy(t, &prefix, true, &d->pattern, &d->pattern_bytes, err));
  return hr__item_bool(&cleanup, true, &d->cleanup, err);
}

static hr_status bpe_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  hr_decoder *d;
  HR_TRY(simple_add(t, hr__decode_bpe_run, &d, err));
  d->pattern = "</w>";
  d->pattern_bytes = 4;
  hr_item suffix = hr__item_get(item, "suffix");
  return hr__item_copy(t, &suffix, true, &d->pattern, &d->pattern_bytes, err);
}

static const hr_item_kind kinds[] = {
    {"Sequence", sequence_read},   {"ByteLevel", byte_level_read}, {"ByteFallback", fallback_read},
    {"Fuse", fuse_read},           {"Strip", strip_read},          {"Replace", replace_read},
    {"Metaspace", metaspace_read}, {"WordPiece", wordpiece_read},  {"BPEDecoder", bpe_read},
};

hr_status hr__json_decoder(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  return hr__item_dispatch(t, item, kinds, sizeof kinds / sizeof *kinds, "decoder", err);
}
