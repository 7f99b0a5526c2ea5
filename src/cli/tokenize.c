/* headroom tokenize: a text as the tokens of a model, and ids as text. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/work.h"
#include "cli/cli.h"
#include "format/file.h"
#include "format/json.h"
#include "text/tokenizer.h"

enum { FILE_MOST = 1 << 30, SHOWN = 160 };

/* What the command works on. */
typedef struct tokenizing {
  hr_cli *cli;
  const hr_tokenizer *tokenizer;
  const char *text; /* NULL: none was given */
  size_t bytes;
  const char *source; /* for places: "--text", or the file */
  const char *pair;   /* the second of two texts; NULL: there is one */
  hr_ids ids, types;  /* types: of a pair */
} tokenizing;

static hr_status text_read(tokenizing *t, hr_error *err) {
  const char *text = hr__cli_value(t->cli, "text"), *path = hr__cli_value(t->cli, "file");
  if (text && path)
    return hr__fail(err, HR_USAGE, NULL, "give one of them", "--text and --file both name what to tokenize");
  t->source = path ? path : "--text";
  if (text) {
    t->text = text;
    t->bytes = strlen(text);
  }
  if (!path) return HR_OK;
  char *read;
  HR_TRY(hr__file_read(path, FILE_MOST, &t->cli->arena, &read, &t->bytes, err));
  t->text = read;
  return HR_OK;
}

static hr_status texts_encode(tokenizing *t, hr_encoder *encoder, hr_error *err) {
  bool special = !hr__cli_flag(t->cli, "no-special");
  if (!t->pair) return hr__encode(encoder, t->text, t->bytes, special, &t->ids, err);
  hr_text_pair texts = {{t->text, t->pair}, {t->bytes, strlen(t->pair)}};
  t->bytes += texts.bytes[1];
  return hr__encode_pair(encoder, &texts, special, &t->ids, &t->types, err);
}

static hr_status encode(tokenizing *t, hr_error *err) {
  hr_encoder *encoder = NULL;
  HR_TRY(hr__encoder_create(t->tokenizer, &encoder, err));
  hr_work work;
  hr__work_begin(&work, hr__cli_progress(t->cli), "making tokens", 0);
  hr_status status = texts_encode(t, encoder, err);
  hr__work_end(&work);
  if (status == HR_BAD_INPUT) {
    char place[sizeof err->place];
    snprintf(place, sizeof place, "%.150s%s%.90s", t->source, err->place[0] ? ", " : "", err->place);
    memcpy(err->place, place, sizeof place);
  }
  hr__encoder_destroy(encoder);
  return status;
}

/* "1 2 3", also with commas or in brackets. */
static hr_status ids_parse(const char *text, hr_ids *ids, hr_error *err) {
  for (const char *at = text + strspn(text, " ,[]\n\t"); *at;) {
    char *end;
    errno = 0;
    long long id = strtoll(at, &end, 10);
    if (end == at || errno || id < 0 || id > INT32_MAX)
      return hr__fail(err, HR_USAGE, "--decode", "write --decode \"1 2 3\"", "'%.40s' is no id of a token", at);
    HR_TRY(hr__ids_add(ids, (int32_t)id, err));
    at = end + strspn(end, " ,[]\n\t");
  }
  return HR_OK;
}

static const char *shown(const tokenizing *t, int32_t id, char out[SHOWN], hr_error *err) {
  hr_string bytes = {0};
  out[0] = 0;
  if (hr__tokenizer_text(t->tokenizer, id, &bytes, err) == HR_OK)
    hr__text_escape(bytes.data ? bytes.data : "", bytes.count, out, SHOWN);
  hr__string_fini(&bytes);
  return out;
}

static json_t *ids_json(const hr_ids *ids) {
  json_t *list = json_array();
  for (size_t i = 0; list && i < ids->count; i++)
    if (json_array_append_new(list, json_integer(ids->items[i])) != 0) {
      json_decref(list);
      return NULL;
    }
  return list;
}

static json_t *pieces_json(const tokenizing *t) {
  json_t *list = json_array();
  for (size_t i = 0; list && i < t->ids.count; i++) {
    char text[SHOWN];
    if (json_array_append_new(list, hr__json_string(shown(t, t->ids.items[i], text, NULL))) != 0) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}

/* --- the tokenizer itself ------------------------------------------------------------------------------------------
 */

static json_t *roles_json(const hr_tokenizer *tokenizer) {
  json_t *roles = json_object();
  for (int role = 0; roles && role < HR_TOKEN_ROLES; role++) {
    int32_t id = hr__tokenizer_role(tokenizer, (hr_token_role)role);
    if (id >= 0) json_object_set_new(roles, hr__token_role_name((hr_token_role)role), json_integer(id));
  }
  return roles;
}

static json_t *facts_json(const tokenizing *t) {
  return json_pack("{s:o, s:s, s:I, s:o}", "file", hr__json_string(hr__tokenizer_file(t->tokenizer)), "model",
                   hr__tokenizer_model(t->tokenizer), "vocabulary", (json_int_t)hr__tokenizer_count(t->tokenizer),
                   "special_tokens", roles_json(t->tokenizer));
}

static void facts_print(const tokenizing *t, hr_error *err) {
  char file[SHOWN], piece[SHOWN];
  const char *name = hr__tokenizer_file(t->tokenizer);
  hr__text_escape(name, strlen(name), file, sizeof file);
  printf("%s\n  %s, %zu ids\n", file, hr__tokenizer_model(t->tokenizer), hr__tokenizer_count(t->tokenizer));
  for (int role = 0; role < HR_TOKEN_ROLES; role++) {
    int32_t id = hr__tokenizer_role(t->tokenizer, (hr_token_role)role);
    if (id >= 0)
      printf("  %-10s %8d  %s\n", hr__token_role_name((hr_token_role)role), (int)id, shown(t, id, piece, err));
  }
}

/* --- what was asked for --------------------------------------------------------------------------------------------
 */

static hr_status facts_show(tokenizing *t, hr_error *err) {
  if (t->cli->json) return hr__cli_put_json(json_pack("{s:o}", "tokenizer", facts_json(t)), err);
  if (!t->cli->quiet) facts_print(t, err);
  return hr__cli_flush(err);
}

static double tokens_a_byte(const tokenizing *t) {
  return t->bytes > 0 ? (double)t->ids.count / (double)t->bytes : 0;
}

static hr_status count_show(tokenizing *t, hr_error *err) {
  HR_TRY(encode(t, err));
  if (t->cli->json)
    return hr__cli_put_json(json_pack("{s:o, s:I, s:I, s:f}", "tokenizer", facts_json(t), "tokens",
                                      (json_int_t)t->ids.count, "bytes", (json_int_t)t->bytes, "tokens_a_byte",
                                      tokens_a_byte(t)),
                            err);
  printf("%zu token%s, %zu byte%s, %.4f tokens a byte\n", t->ids.count, t->ids.count == 1 ? "" : "s", t->bytes,
         t->bytes == 1 ? "" : "s", tokens_a_byte(t));
  return hr__cli_flush(err);
}

static hr_status tokens_show(tokenizing *t, hr_error *err) {
  HR_TRY(encode(t, err));
  bool only_ids = hr__cli_flag(t->cli, "ids");
  if (t->cli->json) {
    json_t *object = json_pack("{s:o, s:I, s:I, s:o}", "tokenizer", facts_json(t), "tokens", (json_int_t)t->ids.count,
                               "bytes", (json_int_t)t->bytes, "ids", ids_json(&t->ids));
    bool failed = object && !only_ids && json_object_set_new(object, "pieces", pieces_json(t)) != 0;
    failed |= object && t->pair && json_object_set_new(object, "types", ids_json(&t->types)) != 0;
    if (failed) {
      json_decref(object);
      object = NULL;
    }
    return hr__cli_put_json(object, err);
  }
  hr_style style = hr__cli_style(t->cli, stdout);
  for (size_t i = 0; i < t->ids.count; i++) {
    char piece[SHOWN];
    int32_t id = t->ids.items[i];
    bool special = hr__tokenizer_is_special(t->tokenizer, id);
    if (only_ids)
      printf("%s%d", i > 0 ? " " : "", (int)id);
    else if (t->pair)
      printf("%8d %3d  %s%s%s\n", (int)id, (int)t->types.items[i], special ? style.dim : "", shown(t, id, piece, err),
             special ? style.end : "");
    else
      printf("%8d  %s%s%s\n", (int)id, special ? style.dim : "", shown(t, id, piece, err), special ? style.end : "");
  }
  if (only_ids) putchar('\n');
  return hr__cli_flush(err);
}

static hr_status decode_show(tokenizing *t, const char *ids, hr_error *err) {
  HR_TRY(ids_parse(ids, &t->ids, err));
  hr_string text = {0};
  bool skip = hr__cli_flag(t->cli, "no-special");
  hr_status status = hr__decode(t->tokenizer, t->ids.items, t->ids.count, skip, &text, err);
  if (status == HR_OK && t->cli->json) {
    json_t *string = json_stringn(text.data ? text.data : "", text.count);
    status = hr__cli_put_json(
        json_pack("{s:o, s:o, s:o}", "tokenizer", facts_json(t), "ids", ids_json(&t->ids), "text", string), err);
  } else if (status == HR_OK) {
    fwrite(text.data ? text.data : "", 1, text.count, stdout);
    putchar('\n');
    status = hr__cli_flush(err);
  }
  hr__string_fini(&text);
  return status;
}

static hr_status asked_run(tokenizing *t, hr_error *err) {
  const char *ids = hr__cli_value(t->cli, "decode");
  HR_TRY(text_read(t, err));
  t->pair = hr__cli_value(t->cli, "pair");
  if (t->pair && !t->text)
    return hr__fail(err, HR_USAGE, NULL, "add --text TEXT or --file FILE", "--pair is the second of two texts");
  if (ids && t->text)
    return hr__fail(err, HR_USAGE, NULL, "give one of them", "--decode and a text both name what to show");
  if (ids) return decode_show(t, ids, err);
  if (!t->text && (hr__cli_flag(t->cli, "ids") || hr__cli_flag(t->cli, "count")))
    return hr__fail(err, HR_USAGE, NULL, "add --text TEXT or --file FILE", "there is no text to tokenize");
  if (!t->text) return facts_show(t, err);
  return hr__cli_flag(t->cli, "count") ? count_show(t, err) : tokens_show(t, err);
}

static hr_status tokenize_run(hr_cli *cli, hr_error *err) {
  hr_tokenizer *tokenizer = NULL;
  HR_TRY(hr__tokenizer_open(cli->arguments[0], &tokenizer, err));
  const char *remark = hr__tokenizer_remark(tokenizer);
  hr_style style = hr__cli_style(cli, stderr);
  if (remark && !cli->quiet && !cli->json) {
    char text[512];
    hr__text_escape(remark, strlen(remark), text, sizeof text);
    hr__cli_tell(cli, stderr, style.yellow, "warning:", text);
  }
  tokenizing t = {.cli = cli, .tokenizer = tokenizer};
  hr_status status = asked_run(&t, err);
  hr__ids_fini(&t.ids);
  hr__ids_fini(&t.types);
  hr__tokenizer_close(tokenizer);
  return status;
}

static const hr_cli_option options[] = {
    {"text", "TEXT", "what to tokenize"},
    {"file", "FILE", "the same, from a file"},
    {"pair", "TEXT", "a second text, as the tokenizer puts two into one; shows types too"},
    {"ids", NULL, "ids only, in one line"},
    {"count", NULL, "how many: tokens, bytes, tokens a byte"},
    {"decode", "IDS", "text of ids, such as \"1 2 3\""},
    {"no-special", NULL, "without the tokens that are put round a text"},
};

const hr_cli_command hr_cli_tokenize = {
    .name = "tokenize",
    .usage = "DIR|FILE",
    .summary = "a text as the tokens of a model, or ids as text",
    .details = "DIR is a model's folder, FILE its tokenizer.json, tokenizer.model, tekken.json, vocab.txt, "
               "vocab.json, *.tiktoken or *.gguf. Without text: what the tokenizer is.",
    .subject = "a model's folder or vocabulary file",
    .examples = "tokenize test/text/tokenizers/byte-level --text \"so it is\"\n"
                "tokenize test/text/tokenizers/byte-level --file recipes/kjv.txt --count",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .min_arguments = 1,
    .max_arguments = 1,
    .run = tokenize_run,
};
