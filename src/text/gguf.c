/* See gguf.h. */
#include "text/gguf.h"

#include "text/gguf_vocabulary.h"
#include "text/kinds.h"

/* --- the sections of tokenizer.json ------------------------------------------------------------------------------- */

static hr_status added_put(const hr_gguf_vocabulary *v, hr_string *out, hr_error *err) {
  bool any = false;
  HR_TRY(hr__json_put(out, "\"added_tokens\":[", err));
  for (size_t id = 0; id < v->count; id++) {
    hr_gguf_token_type type = hr__gguf_token_type(v, id);
    hr_gguf_text text = hr__gguf_token(v, id);
    bool special = type == HR_GGUF_TOKEN_CONTROL || type == HR_GGUF_TOKEN_UNKNOWN;
    if ((!special && type != HR_GGUF_TOKEN_USER) || text.bytes == 0) continue;
    HR_TRY(hr__json_put(out, any ? ",\n{\"id\":" : "\n{\"id\":", err));
    HR_TRY(hr__json_put_number(out, (int64_t)id, err));
    HR_TRY(hr__json_put(out, ",\"content\":", err));
    HR_TRY(hr__json_quote(out, text.text, text.bytes, err));
    HR_TRY(hr__json_put(
        out, ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":", err));
    HR_TRY(hr__json_put(out, special ? "true}" : "false}", err));
    any = true;
  }
  return hr__json_put(out, "],\n", err);
}

static hr_status vocabulary_put(const hr_gguf_vocabulary *v, hr_string *out, hr_error *err) {
  bool any = false;
  HR_TRY(hr__json_put(out, "\"vocab\":{", err));
  for (size_t id = 0; id < v->count; id++) {
    hr_gguf_text text = hr__gguf_token(v, id);
    if (text.bytes == 0 || hr__gguf_token_type(v, id) == HR_GGUF_TOKEN_UNUSED) continue; /* stands for nothing */
    HR_TRY(hr__json_put(out, any ? ",\n" : "\n", err));
    HR_TRY(hr__json_quote(out, text.text, text.bytes, err));
    HR_TRY(hr__json_put(out, ":", err));
    HR_TRY(hr__json_put_number(out, (int64_t)id, err));
    any = true;
  }
  return hr__json_put(out, "},\n", err);
}

static hr_status round_token_put(const hr_gguf_vocabulary *v, int64_t id, bool more, hr_string *out, hr_error *err) {
  hr_gguf_text text = hr__gguf_token(v, (size_t)id);
  HR_TRY(hr__json_put(out, "{\"SpecialToken\":{\"id\":", err));
  HR_TRY(hr__json_quote(out, text.text, text.bytes, err));
  return hr__json_put(out, more ? ",\"type_id\":0}}," : ",\"type_id\":0}}", err);
}

static hr_status round_id_put(const hr_gguf_vocabulary *v, int64_t id, hr_string *out, hr_error *err) {
  hr_gguf_text text = hr__gguf_token(v, (size_t)id);
  HR_TRY(hr__json_quote(out, text.text, text.bytes, err));
  HR_TRY(hr__json_put(out, ":{\"id\":", err));
  HR_TRY(hr__json_quote(out, text.text, text.bytes, err));
  HR_TRY(hr__json_put(out, ",\"ids\":[", err));
  HR_TRY(hr__json_put_number(out, id, err));
  HR_TRY(hr__json_put(out, "],\"tokens\":[", err));
  HR_TRY(hr__json_quote(out, text.text, text.bytes, err));
  return hr__json_put(out, "]}", err);
}

/* Which tokens are put round a text; -1: none. */
static void round_find(const hr_gguf *file, const hr_gguf_vocabulary *v, bool begins, int64_t *begin, int64_t *end) {
  *begin = hr__gguf_flag_of(file, HR_GGUF_TOKENIZER "add_bos_token", begins) ? hr__gguf_role(file, HR_TOKEN_BEGIN) : -1;
  *end = hr__gguf_flag_of(file, HR_GGUF_TOKENIZER "add_eos_token", false) ? hr__gguf_role(file, HR_TOKEN_END) : -1;
  if (*begin >= (int64_t)v->count) *begin = -1;
  if (*end >= (int64_t)v->count) *end = -1;
}

static hr_status round_put(const hr_gguf *file, const hr_gguf_vocabulary *v, bool begins, hr_string *out,
                           hr_error *err) {
  int64_t begin, end;
  round_find(file, v, begins, &begin, &end);
  if (begin < 0 && end < 0) return HR_OK;
  HR_TRY(hr__json_put(out, "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[", err));
  if (begin >= 0) HR_TRY(round_token_put(v, begin, true, out, err));
  HR_TRY(hr__json_put(out, "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}", err));
  if (end >= 0) HR_TRY(hr__json_put(out, ",", err));
  if (end >= 0) HR_TRY(round_token_put(v, end, false, out, err));
  HR_TRY(hr__json_put(
      out,
      "],\"pair\":[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"Sequence\":{\"id\":\"B\",\"type_id\":1}}],"
      "\"special_tokens\":{",
      err));
  if (begin >= 0) HR_TRY(round_id_put(v, begin, out, err));
  if (begin >= 0 && end >= 0 && end != begin) HR_TRY(hr__json_put(out, ",", err));
  if (end >= 0 && end != begin) HR_TRY(round_id_put(v, end, out, err));
  return hr__json_put(out, "}},\n", err);
}

static hr_status byte_level_put(const hr_gguf *file, const char *name, const hr_gguf_vocabulary *v, hr_string *out,
                                hr_error *err) {
  bool whole = false;
  if (!v->merges) return hr__gguf_damaged(name, "there are no merges", err);
  HR_TRY(hr__gguf_pre_put(file, name, &whole, out, err));
  HR_TRY(round_put(file, v, false, out, err));
  HR_TRY(hr__json_put(out, "\"model\":{\"type\":\"BPE\",\"ignore_merges\":", err));
  HR_TRY(hr__json_put(out, whole ? "true,\n" : "false,\n", err));
  HR_TRY(vocabulary_put(v, out, err));
  HR_TRY(hr__json_put(out, "\"merges\":[", err));
  for (size_t i = 0; i < v->merges->count; i++) {
    HR_TRY(hr__json_put(out, i ? ",\n" : "\n", err));
    HR_TRY(hr__json_quote(out, v->merges->texts[i].text, v->merges->texts[i].bytes, err));
  }
  return HR_OK;
}

#define SIGN "\xe2\x96\x81" /* U+2581, which stands for a space */
static hr_status sentencepiece_put(const hr_gguf *file, const char *name, const hr_gguf_vocabulary *v, hr_string *out,
                                   hr_error *err) {
  static const char prepend[] = "{\"type\":\"Prepend\",\"prepend\":\"" SIGN "\"},";
  bool prefix = hr__gguf_flag_of(file, HR_GGUF_TOKENIZER "add_space_prefix", true);
  int64_t unknown = hr__gguf_role(file, HR_TOKEN_UNKNOWN);
  if (!v->scores) return hr__gguf_damaged(name, "there are no scores", err);
  HR_TRY(hr__json_put(out, "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[", err));
  HR_TRY(hr__json_put(out, prefix ? prepend : "", err));
  HR_TRY(hr__json_put(
      out,
      "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" SIGN "\"}]},\n"
      "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"" SIGN
      "\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}",
      err));
  HR_TRY(
      hr__json_put(out, prefix ? ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},\n" : "]},\n", err));
  HR_TRY(round_put(file, v, true, out, err));
  HR_TRY(hr__json_put(out, "\"model\":{\"type\":\"BPE\",\"fuse_unk\":true,\"byte_fallback\":true,\"unk_token\":", err));
  if (unknown < 0)
    for (size_t id = 0; id < v->count && unknown < 0; id++)
      if (hr__gguf_token_type(v, id) == HR_GGUF_TOKEN_UNKNOWN) unknown = (int64_t)id;
  if (unknown >= 0 && unknown < (int64_t)v->count) {
    hr_gguf_text text = hr__gguf_token(v, (size_t)unknown);
    HR_TRY(hr__json_quote(out, text.text, text.bytes, err));
  } else {
    HR_TRY(hr__json_put(out, "null", err));
  }
  HR_TRY(hr__json_put(out, ",\n", err));
  HR_TRY(vocabulary_put(v, out, err));
  HR_TRY(hr__json_put(out, "\"merges\":[", err));
  return hr__gguf_merges(v, name, out, err);
}

static const struct {
  const char *name;
  hr_status (*put)(const hr_gguf *file, const char *name, const hr_gguf_vocabulary *v, hr_string *out, hr_error *err);
} models[] = {
#define HR_GGUF_PRE(...)
#define HR_GGUF_MODEL(name, put) {name, put},
#include "text/gguf_words.inc"
#undef HR_GGUF_PRE
#undef HR_GGUF_MODEL
};

hr_status hr__gguf_tokenizer_json(const hr_gguf *file, const char *name, hr_string *out, hr_error *err) {
  hr_gguf_vocabulary v;
  hr_gguf_text model = {"none", 4};
  HR_TRY(hr__gguf_vocabulary(file, name, &v, err));
  hr__gguf_text_of(file, HR_GGUF_TOKENIZER "model", &model);
  HR_TRY(hr__json_put(out, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\n", err));
  HR_TRY(added_put(&v, out, err));
  for (size_t i = 0; i < sizeof models / sizeof *models; i++)
    if (hr__gguf_text_is(model, models[i].name)) {
      HR_TRY(models[i].put(file, name, &v, out, err));
      return hr__json_put(out, "]}}\n", err);
    }
  return hr__fail(err, HR_UNSUPPORTED, name, "give data.tokenizer: the model's own folder or tokenizer.json",
                  "the tokenizer of this GGUF file is of the kind \"%.*s\"; %s and %s are read",
                  (int)(model.bytes > 60 ? 60 : model.bytes), model.text, models[0].name, models[1].name);
}

/* --- the files beside it ------------------------------------------------------------------------------------------ */

hr_status hr__gguf_tokenizer_config(const hr_gguf *file, const char *name, hr_string *out, hr_error *err) {
  hr_gguf_vocabulary v;
  HR_TRY(hr__gguf_vocabulary(file, name, &v, err));
  HR_TRY(hr__json_put(
      out, "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n  \"clean_up_tokenization_spaces\": false", err));
  for (int role = 0; role < HR_TOKEN_ROLES; role++) {
    int64_t id = hr__gguf_role(file, (hr_token_role)role);
    if (id < 0 || id >= (int64_t)v.count) continue;
    hr_gguf_text text = hr__gguf_token(&v, (size_t)id);
    HR_TRY(hr__json_put(out, ",\n  ", err));
    HR_TRY(hr__json_quote(out, hr__token_role_name((hr_token_role)role),
                          strlen(hr__token_role_name((hr_token_role)role)), err));
    HR_TRY(hr__json_put(out, ": ", err));
    HR_TRY(hr__json_quote(out, text.text, text.bytes, err));
  }
  return hr__json_put(out, "\n}\n", err);
}

hr_status hr__gguf_generation_config(const hr_gguf *file, hr_string *out, hr_error *err) {
  static const struct {
    const char *key;
    hr_token_role role;
  } ids[] = {{"bos_token_id", HR_TOKEN_BEGIN}, {"eos_token_id", HR_TOKEN_END}, {"pad_token_id", HR_TOKEN_PAD}};
  bool any = false;
  HR_TRY(hr__json_put(out, "{", err));
  for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
    int64_t id = hr__gguf_role(file, ids[i].role);
    if (id < 0) continue;
    HR_TRY(hr__json_put(out, any ? ",\n  " : "\n  ", err));
    HR_TRY(hr__json_quote(out, ids[i].key, strlen(ids[i].key), err));
    HR_TRY(hr__json_put(out, ": ", err));
    HR_TRY(hr__json_put_number(out, id, err));
    any = true;
  }
  return hr__json_put(out, "\n}\n", err);
}

/* --- loading ------------------------------------------------------------------------------------------------------ */

bool hr__looks_gguf(const char *head, size_t bytes) {
  return bytes > 8 && memcmp(head, "GGUF", 4) == 0;
}

hr_status hr__parse_gguf(hr_tokenizer *t, const hr_gguf *file, const char *path, hr_error *err) {
  hr_string text = {0};
  hr_status status = hr__gguf_tokenizer_json(file, path, &text, err);
  if (status == HR_OK) status = hr__parse_tokenizer_json(t, path, text.data, text.count, err);
  hr__string_fini(&text);
  HR_TRY(status);
  for (int role = 0; role < HR_TOKEN_ROLES; role++) {
    int64_t id = hr__gguf_role(file, (hr_token_role)role);
    if (id >= 0 && (size_t)id < t->count && t->pieces[id].text) t->roles[role] = (int32_t)id;
  }
  return t->roles[HR_TOKEN_END] >= 0 ? hr__ids_add(&t->ends, t->roles[HR_TOKEN_END], err) : HR_OK;
}

hr_status hr__load_gguf(hr_tokenizer *t, const char *path, hr_error *err) {
  hr_gguf *file = NULL;
  HR_TRY(hr__gguf_open(path, &file, err));
  hr_status status = hr__parse_gguf(t, file, path, err);
  hr__gguf_close(file);
  return status;
}
