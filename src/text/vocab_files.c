/* Vocabularies of older models, which leave out how text is treated: vocab.json with merges.txt (byte-level BPE) and
 * vocab.txt (WordPiece of BERT). tokenizer_config.json says what differs. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "format/doc.h"
#include "format/file.h"
#include "text/cut.h"
#include "text/json_items.h"
#include "text/kinds.h"
#include "text/known.h"
#include "text/ranked.h"
#include "text/split.h"

enum { FILE_MOST = 64 << 20, ADDED_MOST = 4096 }; /* bytes of a file, added tokens */

/* What tokenizer_config.json says that matters here. */
typedef struct settings {
  char class[64]; /* "": no word of it */
  bool lower, cjk, accents, prefix_space;
} settings;

static hr_status settings_read(settings *s, const hr_item *root, hr_error *err) {
  hr_item class = hr__item_get(root, "tokenizer_class"), lower = hr__item_get(root, "do_lower_case"),
          cjk = hr__item_get(root, "tokenize_chinese_chars"), accents = hr__item_get(root, "strip_accents"),
          prefix = hr__item_get(root, "add_prefix_space");
  const char *name = "";
  HR_TRY(hr__item_text(&class, true, &name, NULL, err));
  snprintf(s->class, sizeof s->class, "%s", name);
  HR_TRY(hr__item_bool(&lower, true, &s->lower, err));
  HR_TRY(hr__item_bool(&cjk, true, &s->cjk, err));
  s->accents = s->lower;
  HR_TRY(hr__item_bool(&accents, true, &s->accents, err));
  return hr__item_bool(&prefix, true, &s->prefix_space, err);
}

/* Its added tokens: {"151643": {"content": ...}}, with ids that hold. */
static hr_status added_read(hr_tokenizer *t, const hr_item *root, hr_error *err) {
  hr_item all = hr__item_get(root, "added_tokens_decoder");
  for (void *at = json_object_iter(all.value); at; at = json_object_iter_next(all.value, at)) {
    hr_item token = hr__item_get(&all, json_object_iter_key(at)), content = hr__item_get(&token, "content");
    const char *text = NULL;
    size_t bytes = 0;
    char *end;
    long id = strtol(token.key, &end, 10);
    if (*end) return hr__item_fail(&token, err, NULL, "'%.40s' is no id of a token", token.key);
    HR_TRY(hr__item_text(&content, false, &text, &bytes, err));
    if (hr__words_find(&t->ids, text, bytes) < 0)
      HR_TRY(hr__item_placed(&token, hr__build_piece(t, id, text, bytes, err), err));
    HR_TRY(hr__json_added_token(t, &token, err));
  }
  return HR_OK;
}

static bool there(const char *path) {
  struct stat facts;
  return stat(path, &facts) == 0;
}

/* `name` in the folder of `path`; NULL: out of memory. */
static const char *beside(hr_tokenizer *t, const char *path, const char *name) {
  const char *slash = strrchr(path, '/');
  return hr__arena_format(&t->arena, "%.*s%s", slash ? (int)(slash - path) + 1 : 0, path, name);
}

static hr_status settings_load(hr_tokenizer *t, const char *path, settings *s, hr_error *err) {
  const char *config = beside(t, path, "tokenizer_config.json");
  if (!config) return hr__nomem(err);
  if (!there(config)) return HR_OK;
  hr_arena work = {0};
  hr_item_file file;
  hr_status status = hr__item_open(config, &work, &file, err);
  if (status == HR_OK) {
    hr_item root = hr__item_root(&file);
    status = settings_read(s, &root, err);
  }
  hr__arena_fini(&work);
  return status;
}

static hr_status added_load(hr_tokenizer *t, const char *path, hr_error *err) {
  const char *config = beside(t, path, "tokenizer_config.json");
  if (!config) return hr__nomem(err);
  return there(config) ? hr__item_load(t, config, added_read, err) : HR_OK;
}

/* Reads a file line by line, each without its end. */
static hr_status lines_each(hr_tokenizer *t, const char *path,
                            hr_status (*take)(hr_tokenizer *, const char *, size_t, size_t, void *, hr_error *),
                            void *user, hr_error *err) {
  hr_arena work = {0};
  char *text;
  size_t bytes, number = 0;
  hr_status status = hr__file_read(path, FILE_MOST, &work, &text, &bytes, err);
  for (size_t at = 0; status == HR_OK && at < bytes;) {
    const char *end = memchr(text + at, '\n', bytes - at);
    size_t length = end ? (size_t)(end - text) - at : bytes - at, kept = length;
    while (kept > 0 && (text[at + kept - 1] == '\r' || text[at + kept - 1] == ' ' || text[at + kept - 1] == '\t'))
      kept--;
    status = take(t, text + at, kept, ++number, user, err);
    if (status == HR_BAD_INPUT && !err->place[0]) snprintf(err->place, sizeof err->place, "%.200s:%zu", path, number);
    at += length + 1;
  }
  hr__arena_fini(&work);
  return status;
}

/* --- vocab.txt -----------------------------------------------------------------------------------------------------
 */

static hr_status count_take(hr_tokenizer *t, const char *text, size_t bytes, size_t number, void *user, hr_error *err) {
  (void)t, (void)text, (void)bytes, (void)err;
  *(size_t *)user = number;
  return HR_OK;
}

static hr_status token_take(hr_tokenizer *t, const char *text, size_t bytes, size_t number, void *user, hr_error *err) {
  (void)user;
  if (bytes == 0) return HR_OK;
  if (hr__utf8_check(text, bytes) != bytes) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "a token that is not UTF-8");
  return hr__build_piece(t, (int64_t)number - 1, text, bytes, err);
}

static const struct usual_special {
  const char *name;
  hr_token_role role;
} usual_specials[] = {{"[PAD]", HR_TOKEN_PAD},
                      {"[UNK]", HR_TOKEN_UNKNOWN},
                      {"[CLS]", HR_TOKEN_CLASS},
                      {"[SEP]", HR_TOKEN_SEPARATOR},
                      {"[MASK]", HR_TOKEN_MASK}};

hr_status hr__load_vocab_txt(hr_tokenizer *t, const char *path, hr_error *err) {
  settings s = {.lower = true, .cjk = true, .accents = true};
  size_t lines = 0;
  HR_TRY(settings_load(t, path, &s, err));
  HR_TRY(lines_each(t, path, count_take, &lines, err));
  HR_TRY(hr__build_room(t, lines + ADDED_MOST, lines + ADDED_MOST, err));
  HR_TRY(lines_each(t, path, token_take, NULL, err));
  hr_normalizer *n = hr__build_normalizer(t, err);
  hr_split *space = hr__build_relay(t, sizeof *space, hr__split_run),
           *signs = hr__build_relay(t, sizeof *signs, hr__split_run);
  hr_decoder *d = hr__build_decoder(t, err);
  if (!n || !space || !signs || !d) return hr__nomem(err);
  *n =
      (hr_normalizer){.run = hr__normal_basic_run, .clean = true, .cjk = s.cjk, .accents = s.accents, .lower = s.lower};
  space->is = hr__cut_is_space;
  signs->is = hr__cut_is_punctuation;
  signs->way = HR_SPLIT_ISOLATED;
  *d = (hr_decoder){.run = hr__decode_wordpiece_run, .pattern = "##", .pattern_bytes = 2, .cleanup = true};
  for (size_t i = 0; i < sizeof usual_specials / sizeof *usual_specials; i++)
    t->roles[usual_specials[i].role] = hr__words_find(&t->ids, usual_specials[i].name, strlen(usual_specials[i].name));
  int32_t unknown = t->roles[HR_TOKEN_UNKNOWN], cls = t->roles[HR_TOKEN_CLASS], sep = t->roles[HR_TOKEN_SEPARATOR];
  if (unknown < 0)
    return hr__fail(err, HR_BAD_INPUT, path, NULL, "there is no [UNK] in it: this is no vocabulary of WordPiece");
  HR_TRY(hr__build_wordpiece(t, "##", 2, 100, unknown, err));
  for (size_t i = 0; i < sizeof usual_specials / sizeof *usual_specials; i++)
    if (t->roles[usual_specials[i].role] >= 0) HR_TRY(hr__build_special(t, t->roles[usual_specials[i].role], err));
  if (cls >= 0) HR_TRY(hr__ids_add(&t->before, cls, err));
  if (sep >= 0) HR_TRY(hr__ids_add(&t->behind, sep, err));
  if (cls >= 0 && sep >= 0) t->joint = hr__joint_typed(cls, sep);
  return added_load(t, path, err);
}

/* --- vocab.json and merges.txt -------------------------------------------------------------------------------------
 */

/* Merges as a list of texts, which tokenizer.json has them as. */
static hr_status merge_take(hr_tokenizer *t, const char *text, size_t bytes, size_t number, void *user, hr_error *err) {
  (void)t;
  bool version = number == 1 && bytes > 8 && memcmp(text, "#version", 8) == 0;
  if (bytes == 0 || version) return HR_OK;
  if (hr__utf8_check(text, bytes) != bytes) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "a merge that is not UTF-8");
  return json_array_append_new(user, json_stringn_nocheck(text, bytes)) == 0 ? HR_OK : hr__nomem(err);
}

static const struct byte_level_class {
  const char *class, *pattern;
  bool nfc;
} classes[] = {{"", "gpt2", false},
               {"GPT2Tokenizer", "gpt2", false},
               {"GPT2TokenizerFast", "gpt2", false},
               {"Qwen2Tokenizer", "qwen", true},
               {"Qwen2TokenizerFast", "qwen", true}};

/* An object that tokenizer.json would have as its model. */
static hr_status model_read(hr_tokenizer *t, const hr_item *vocab, json_t *merges, hr_error *err) {
  json_t *model = json_pack("{s:O, s:O}", "vocab", vocab->value, "merges", merges);
  if (!model) return hr__nomem(err);
  hr_item_file file = *vocab->file;
  file.root = model;
  hr_item item = hr__item_root(&file);
  hr_status status = hr__json_vocabulary(t, &item, ADDED_MOST, err);
  if (status == HR_OK) status = hr__json_model(t, &item, err);
  json_decref(model);
  return status;
}

static hr_status byte_level_read(hr_tokenizer *t, const char *path, const settings *s, const hr_item *vocab,
                                 hr_error *err) {
  const struct byte_level_class *class = NULL;
  for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
    if (strcmp(classes[i].class, s->class) == 0) class = &classes[i];
  if (!class)
    return hr__fail(err, HR_BAD_INPUT, path, "use the model's tokenizer.json, which says how text is cut",
                    "vocab.json of the class %s: how it cuts text is not known", s->class);
  const char *merges_path = beside(t, path, "merges.txt"), *pattern = hr__known_named(class->pattern)->pattern;
  if (!merges_path) return hr__nomem(err);
  hr_normalizer *form = class->nfc ? hr__build_normalizer(t, err) : NULL;
  if (form) *form = (hr_normalizer){.run = hr__normal_form_run, .compose = true};
  if (s->prefix_space && !hr__build_relay(t, sizeof(hr_relay), hr__cut_prefix_run)) return hr__nomem(err);
  t->alphabet = true;
  HR_TRY(hr__build_split(t, pattern, strlen(pattern), HR_DIALECT_ONIGURUMA, err));
  json_t *merges = json_array();
  if (!merges) return hr__nomem(err);
  hr_status status = lines_each(t, merges_path, merge_take, merges, err);
  if (status == HR_OK) status = model_read(t, vocab, merges, err);
  json_decref(merges);
  HR_TRY(status);
  hr_decoder *d = hr__build_decoder(t, err);
  if (!d) return hr__nomem(err);
  d->run = hr__decode_byte_level_run;
  int32_t end = hr__words_find(&t->ids, "<|endoftext|>", 13);
  if (end >= 0) HR_TRY(hr__build_special(t, end, err));
  t->roles[HR_TOKEN_END] = end;
  return added_load(t, path, err);
}

hr_status hr__load_vocab_json(hr_tokenizer *t, const char *path, hr_error *err) {
  settings s = {.lower = true};
  HR_TRY(settings_load(t, path, &s, err));
  hr_arena work = {0};
  hr_item_file file;
  hr_status status = hr__item_open(path, &work, &file, err);
  if (status == HR_OK) {
    hr_item root = hr__item_root(&file);
    status = hr__item_object(&root, err);
    if (status == HR_OK) status = byte_level_read(t, path, &s, &root, err);
  }
  hr__arena_fini(&work);
  return status;
}
