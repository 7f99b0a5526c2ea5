/* How byte-level BPE of a GGUF file cuts text, as sections of tokenizer.json. */
#include "text/gguf_vocabulary.h"
#include "text/known.h"

typedef struct pre {
  const char *name, *known, *relays;
  bool compose, whole;
} pre;

static const pre pres[] = {
#define HR_GGUF_PRE(...) {__VA_ARGS__},
#define HR_GGUF_MODEL(name, put)
#include "text/gguf_words.inc"
#undef HR_GGUF_PRE
#undef HR_GGUF_MODEL
};

static hr_status pre_find(const hr_gguf *file, const char *name, const pre **out, hr_error *err) {
  hr_gguf_text said = {"default", 7};
  hr__gguf_text_of(file, HR_GGUF_TOKENIZER "pre", &said);
  for (size_t i = 0; i < sizeof pres / sizeof *pres; i++)
    if (hr__gguf_text_is(said, pres[i].name)) {
      *out = &pres[i];
      return HR_OK;
    }
  return hr__fail(err, HR_UNSUPPORTED, name, "give data.tokenizer: the model's own folder or tokenizer.json",
                  "the tokenizer of this GGUF file cuts text by the rules \"%.*s\", which are not known",
                  (int)(said.bytes > 60 ? 60 : said.bytes), said.text);
}

static hr_status pre_put(const pre *rules, hr_string *out, hr_error *err) {
  if (rules->compose) HR_TRY(hr__json_put(out, "\"normalizer\":{\"type\":\"NFC\"},\n", err));
  HR_TRY(hr__json_put(out, "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[", err));
  if (rules->known && *rules->known) {
    const char *pattern = hr__known_named(rules->known)->pattern;
    HR_TRY(hr__json_put(out, "{\"type\":\"Split\",\"pattern\":{\"Regex\":", err));
    HR_TRY(hr__json_quote(out, pattern, strlen(pattern), err));
    HR_TRY(hr__json_put(out, "},\"behavior\":\"Isolated\",\"invert\":false},", err));
  } else {
    HR_TRY(hr__json_put(out, rules->relays, err));
  }
  HR_TRY(hr__json_put(out,
                      "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":", err));
  HR_TRY(hr__json_put(out, rules->known ? "false}]},\n" : "true}]},\n", err));
  return hr__json_put(
      out, "\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":true},\n",
      err);
}

hr_status hr__gguf_pre_put(const hr_gguf *file, const char *name, bool *whole, hr_string *out, hr_error *err) {
  const pre *rules = NULL;
  HR_TRY(pre_find(file, name, &rules, err));
  *whole = rules->whole;
  return pre_put(rules, out, err);
}
