/* "pre_tokenizer" of tokenizer.json. */
#include "text/cut.h"
#include "text/json_items.h"
#include "text/split.h"
#include "text/unicode.h"

static hr_status sequence_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  return hr__item_each(t, item, "pretokenizers", hr__json_relay, err);
}

static hr_status way_read(const hr_item *item, const char *key, hr_split_way *way, hr_error *err) {
  hr_item name = hr__item_get(item, key);
  const char *text = hr__split_names[*way];
  HR_TRY(hr__item_text(&name, true, &text, NULL, err));
  for (int w = 0; w < HR_SPLIT_WAYS; w++)
    if (strcmp(hr__split_names[w], text) == 0) {
      *way = (hr_split_way)w;
      return HR_OK;
    }
  return hr__item_fail(&name, err, NULL, "unknown %s '%.60s'", key, text);
}

static hr_split *split_add(hr_tokenizer *t, hr_split_way way) {
  hr_split *split = hr__build_relay(t, sizeof *split, hr__split_run);
  if (split) split->way = way;
  return split;
}

static hr_status split_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  hr_split *split = split_add(t, HR_SPLIT_ISOLATED);
  if (!split) return hr__nomem(err);
  hr_item pattern = hr__item_get(item, "pattern"), invert = hr__item_get(item, "invert");
  HR_TRY(way_read(item, "behavior", &split->way, err));
  HR_TRY(hr__item_bool(&invert, true, &split->invert, err));
  hr_item expression = hr__item_get(&pattern, "Regex");
  const hr_known_pattern *known = NULL;
  if (json_is_string(expression.value))
    known = hr__known_find(json_string_value(expression.value), json_string_length(expression.value));
  if (known) {
    split->known = known->next;
    return HR_OK;
  }
  return hr__item_pattern(t, &pattern, &split->text, &split->bytes, &split->regex, err);
}

static hr_status byte_level_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  bool prefix = true, regex = true;
  hr_item space = hr__item_get(item, "add_prefix_space"), use = hr__item_get(item, "use_regex");
  HR_TRY(hr__item_bool(&space, true, &prefix, err));
  HR_TRY(hr__item_bool(&use, true, &regex, err));
  if (t->alphabet) return hr__item_fail(item, err, NULL, "a second ByteLevel is not supported");
  t->alphabet = true;
  if (prefix && !hr__build_relay(t, sizeof(hr_relay), hr__cut_prefix_run)) return hr__nomem(err);
  hr_split *split = regex ? split_add(t, HR_SPLIT_ISOLATED) : NULL;
  if (regex && !split) return hr__nomem(err);
  if (split) split->known = hr__known_named("gpt2")->next;
  /* Where something follows it sees the alphabet; the reader of the whole file takes this relay off again if not. */
  return hr__build_relay(t, sizeof(hr_relay), hr__cut_to_alphabet_run) ? HR_OK : hr__nomem(err);
}

static hr_status metaspace_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  if (t->alphabet) return hr__item_fail(item, err, NULL, "Metaspace behind ByteLevel is not supported");
  hr_metaspace *m = hr__build_relay(t, sizeof *m, hr__cut_metaspace_run);
  if (!m) return hr__nomem(err);
  m->split = true;
  hr_item sign = hr__item_get(item, "replacement"), scheme = hr__item_get(item, "prepend_scheme"),
          space = hr__item_get(item, "add_prefix_space"), split = hr__item_get(item, "split");
  HR_TRY(hr__item_copy(t, &sign, false, &m->sign, &m->sign_bytes, err));
  if (m->sign_bytes == 0 || m->sign_bytes != hr__utf8_length((unsigned char)m->sign[0]))
    return hr__item_fail(&sign, err, NULL, "'replacement' is one character");
  HR_TRY(hr__item_bool(&split, true, &m->split, err));
  bool prefix = true; /* what older files have in place of the scheme */
  HR_TRY(hr__item_bool(&space, true, &prefix, err));
  const char *name = prefix ? "always" : "never";
  HR_TRY(hr__item_text(&scheme, true, &name, NULL, err));
  if (strcmp(name, "always") == 0)
    m->prepend = HR_PREPEND_ALWAYS;
  else if (strcmp(name, "first") == 0)
    m->prepend = HR_PREPEND_FIRST;
  else if (strcmp(name, "never") == 0)
    m->prepend = HR_PREPEND_NEVER;
  else
    return hr__item_fail(&scheme, err, NULL, "unknown prepend_scheme '%.60s'", name);
  return HR_OK;
}

static hr_status basic_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  (void)item;
  hr_split *space = split_add(t, HR_SPLIT_REMOVED), *signs = split_add(t, HR_SPLIT_ISOLATED);
  if (!space || !signs) return hr__nomem(err);
  space->is = hr__cut_is_space;
  signs->is = hr__cut_is_punctuation;
  return HR_OK;
}

static hr_status punctuation_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  hr_split *split = split_add(t, HR_SPLIT_ISOLATED);
  if (!split) return hr__nomem(err);
  split->is = hr__cut_is_punctuation;
  return way_read(item, "behavior", &split->way, err);
}

static hr_status digits_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  bool single = false;
  hr_item individual = hr__item_get(item, "individual_digits");
  HR_TRY(hr__item_bool(&individual, true, &single, err));
  hr_split *split = split_add(t, single ? HR_SPLIT_ISOLATED : HR_SPLIT_CONTIGUOUS);
  if (!split) return hr__nomem(err);
  split->is = hr__cut_is_number;
  return HR_OK;
}

static hr_status whitespace_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  (void)item;
  return hr__build_relay(t, sizeof(hr_relay), hr__cut_whitespace_run) ? HR_OK : hr__nomem(err);
}

static hr_status whitespace_split_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  (void)item;
  hr_split *split = split_add(t, HR_SPLIT_REMOVED);
  if (!split) return hr__nomem(err);
  split->is = hr__cut_is_space;
  return HR_OK;
}

static hr_status delimiter_read(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  hr_split *split = split_add(t, HR_SPLIT_REMOVED);
  if (!split) return hr__nomem(err);
  hr_item text = hr__item_get(item, "delimiter");
  return hr__item_copy(t, &text, false, &split->text, &split->bytes, err);
}

static const hr_item_kind kinds[] = {
    {"Sequence", sequence_read},
    {"Split", split_read},
    {"ByteLevel", byte_level_read},
    {"Metaspace", metaspace_read},
    {"BertPreTokenizer", basic_read},
    {"Punctuation", punctuation_read},
    {"Digits", digits_read},
    {"Whitespace", whitespace_read},
    {"WhitespaceSplit", whitespace_split_read},
    {"CharDelimiterSplit", delimiter_read},
};

hr_status hr__json_relay(hr_tokenizer *t, const hr_item *item, hr_error *err) {
  return hr__item_dispatch(t, item, kinds, sizeof kinds / sizeof *kinds, "pre-tokenizer", err);
}
