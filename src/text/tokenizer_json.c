/* tokenizer.json: its sections, in the order that they need each other. Truncation and padding are for other uses than
 * training and stay off. */
#include <stdio.h>

#include "text/cut.h"
#include "text/json_items.h"
#include "text/kinds.h"

hr_status hr__json_added_token(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  HR_TRY(hr__item_object(item, err));
  hr_added_token token = {0};
  hr_item content = hr__item_get(item, "content"), word = hr__item_get(item, "single_word"),
          left = hr__item_get(item, "lstrip"), right = hr__item_get(item, "rstrip"),
          normalized = hr__item_get(item, "normalized"), special = hr__item_get(item, "special"),
          number = hr__item_get(item, "id");
  HR_TRY(hr__item_text(&content, false, &token.text, &token.bytes, err));
  HR_TRY(hr__item_bool(&special, true, &token.special, err));
  token.normalized = !token.special;
  HR_TRY(hr__item_bool(&word, true, &token.single_word, err));
  HR_TRY(hr__item_bool(&left, true, &token.left_space, err));
  HR_TRY(hr__item_bool(&right, true, &token.right_space, err));
  HR_TRY(hr__item_bool(&normalized, true, &token.normalized, err));
  int64_t said = -1;
  int32_t id = -1;
  HR_TRY(hr__item_int(&number, true, 0, HR_MAX_IDS - 1, &said, err));
  if (token.bytes == 0) return HR_OK;
  HR_TRY(hr__item_placed(item, hr__build_token(t, token, &id, err), err));
  if (said >= 0 && said != id && !t->remark) {
    t->remark = hr__arena_format(&t->arena,
                                 "%s says that token '%.60s' has id %lld, but ids go on from the vocabulary: it is %d, "
                                 "as it is for the tokenizers library",
                                 t->file, token.text, (long long)said, (int)id);
    if (!t->remark) return hr__nomem(err);
  }
  return HR_OK;
}

/* Relays behind ByteLevel see its alphabet; where there are none, neither way is made. */
static hr_status alphabet_close(hr_tokenizer *t, hr_error *err) {
  if (!t->alphabet) return HR_OK;
  if (t->relays[t->relay_count - 1]->run == hr__cut_to_alphabet_run) {
    t->relay_count--;
    return HR_OK;
  }
  return hr__build_relay(t, sizeof(hr_relay), hr__cut_from_alphabet_run) ? HR_OK : hr__nomem(err);
}

static hr_status sections_read(hr_tokenizer *t, const hr_item *root, hr_error *err) {
  HR_TRY(hr__item_object(root, err));
  hr_item model = hr__item_get(root, "model"), normalizer = hr__item_get(root, "normalizer"),
          relay = hr__item_get(root, "pre_tokenizer"), added = hr__item_get(root, "added_tokens"),
          post = hr__item_get(root, "post_processor"), decoder = hr__item_get(root, "decoder");
  if (!model.value)
    return hr__item_fail(root, err, "give a model's folder, or its tokenizer.json",
                         "this is no tokenizer.json: 'model' is missing");
  HR_TRY(hr__json_vocabulary(t, &model, hr__item_count(&added), err));
  if (normalizer.value) HR_TRY(hr__json_normalizer(t, &normalizer, err));
  if (relay.value) HR_TRY(hr__json_relay(t, &relay, err));
  HR_TRY(alphabet_close(t, err));
  HR_TRY(hr__json_model(t, &model, err));
  if (added.value) HR_TRY(hr__item_each(t, root, "added_tokens", hr__json_added_token, err));
  if (post.value) HR_TRY(hr__json_post_processor(t, &post, err));
  return decoder.value ? hr__json_decoder(t, &decoder, err) : HR_OK;
}

hr_status hr__parse_tokenizer_json(hr_tokenizer *t, const char *name, const char *text, size_t bytes, hr_error *err) {
  hr_arena work = {0};
  hr_item_file file;
  hr_status status = hr__item_parse(name, text, bytes, &work, &file, err);
  if (status == HR_OK) {
    hr_item root = hr__item_root(&file);
    status = sections_read(t, &root, err);
  }
  hr__arena_fini(&work);
  return status;
}

hr_status hr__load_tokenizer_json(hr_tokenizer *t, const char *path, hr_error *err) {
  return hr__item_load(t, path, sections_read, err);
}
