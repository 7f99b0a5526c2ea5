/* tiktoken files: a line for each token, its bytes in base64 and its rank, which is its id. What cuts the text and
 * which special tokens there are the file does not say: both follow from how many tokens it has. */
#include <stdio.h>
#include <stdlib.h>

#include "format/base64.h"
#include "format/file.h"
#include "text/kinds.h"
#include "text/known.h"
#include "text/ranked.h"

enum { FILE_MOST = 64 << 20 };

static const hr_special_run gpt2[] = {{"<|endoftext|>", 0, 0}};
static const hr_special_run cl100k[] = {
    {"<|reserved_%d|>", 100256, 1}, {"<|endoftext|>", 0, 0},         {"<|fim_prefix|>", 0, 0}, {"<|fim_middle|>", 0, 0},
    {"<|fim_suffix|>", 0, 0},       {"<|reserved_%d|>", 100261, 15}, {"<|endofprompt|>", 0, 0}};
static const hr_special_run o200k[] = {{"<|reserved_%d|>", 199998, 1},
                                       {"<|endoftext|>", 0, 0},
                                       {"<|reserved_%d|>", 200000, 18},
                                       {"<|endofprompt|>", 0, 0}};
static const hr_special_run qwen[] = {
    {"<|endoftext|>", 0, 0}, {"<|im_start|>", 0, 0}, {"<|im_end|>", 0, 0}, {"<|extra_%d|>", 0, 205}};
static const hr_special_run llama3[] = {{"<|begin_of_text|>", 0, 0},
                                        {"<|end_of_text|>", 0, 0},
                                        {"<|reserved_special_token_%d|>", 0, 2},
                                        {"<|finetune_right_pad_id|>", 0, 0},
                                        {"<|step_id|>", 0, 0},
                                        {"<|start_header_id|>", 0, 0},
                                        {"<|end_header_id|>", 0, 0},
                                        {"<|eom_id|>", 0, 0},
                                        {"<|eot_id|>", 0, 0},
                                        {"<|python_tag|>", 0, 0},
                                        {"<|image|>", 0, 0},
                                        {"<|reserved_special_token_%d|>", 2, 244}};
static const hr_special_run llama4[] = {{"<|begin_of_text|>", 0, 0},
                                        {"<|end_of_text|>", 0, 0},
                                        {"<|fim_prefix|>", 0, 0},
                                        {"<|fim_middle|>", 0, 0},
                                        {"<|fim_suffix|>", 0, 0},
                                        {"<|header_start|>", 0, 0},
                                        {"<|header_end|>", 0, 0},
                                        {"<|eom|>", 0, 0},
                                        {"<|eot|>", 0, 0},
                                        {"<|step|>", 0, 0},
                                        {"<|text_post_train_reserved_special_token_%d|>", 0, 6},
                                        {"<|python_start|>", 0, 0},
                                        {"<|python_end|>", 0, 0},
                                        {"<|finetune_right_pad|>", 0, 0},
                                        {"<|text_post_train_reserved_special_token_%d|>", 8, 61},
                                        {"<|image_start|>", 0, 0},
                                        {"<|image_end|>", 0, 0},
                                        {"<|vision_reserved_special_token_%d|>", 0, 2},
                                        {"<|tile_x_separator|>", 0, 0},
                                        {"<|tile_y_separator|>", 0, 0},
                                        {"<|vision_reserved_special_token_%d|>", 2, 4},
                                        {"<|image|>", 0, 0},
                                        {"<|vision_reserved_special_token_%d|>", 6, 1},
                                        {"<|patch|>", 0, 0},
                                        {"<|vision_reserved_special_token_%d|>", 7, 1041},
                                        {"<|reasoning_reserved_special_token_%d|>", 0, 8},
                                        {"<|reasoning_thinking_start|>", 0, 0},
                                        {"<|reasoning_thinking_end|>", 0, 0},
                                        {"<|reserved_special_token_%d|>", 0, 904}};

/* What is known of a vocabulary by its size. */
static const struct known_file {
  size_t tokens;
  const char *pattern; /* text/known.c */
  bool nfc;
  const hr_special_run *specials;
  size_t runs;
  const char *begin, *end; /* tokens of these roles; begin is put before a text */
} files[] = {
#define SPECIALS(list) list, sizeof list / sizeof *list
    {50256, "gpt2", false, SPECIALS(gpt2), NULL, "<|endoftext|>"},
    {100256, "cl100k", false, SPECIALS(cl100k), NULL, "<|endoftext|>"},
    {199998, "o200k", false, SPECIALS(o200k), NULL, "<|endoftext|>"},
    {151643, "qwen", true, SPECIALS(qwen), NULL, "<|endoftext|>"},
    {128000, "llama3", false, SPECIALS(llama3), "<|begin_of_text|>", "<|end_of_text|>"},
    {200000, "o200k", false, SPECIALS(llama4), "<|begin_of_text|>", "<|end_of_text|>"},
#undef SPECIALS
};

bool hr__looks_tiktoken(const char *head, size_t bytes) {
  size_t i = 0;
  while (i < bytes && (head[i] == '+' || head[i] == '/' || head[i] == '=' || (head[i] >= '0' && head[i] <= '9') ||
                       ((head[i] | 0x20) >= 'a' && (head[i] | 0x20) <= 'z')))
    i++;
  return i > 0 && i + 2 < bytes && head[i] == ' ' && head[i + 1] >= '0' && head[i + 1] <= '9';
}

static hr_status line_fail(const char *path, size_t line, const char *what, hr_error *err) {
  char place[256];
  snprintf(place, sizeof place, "%.200s:%zu", path, line);
  return hr__fail(err, HR_BAD_INPUT, place, NULL, "%s", what);
}

/* One line, without its end. */
static hr_status line_read(hr_tokenizer *t, const char *path, size_t number, const char *text, size_t bytes,
                           hr_error *err) {
  const char *space = memchr(text, ' ', bytes);
  char token[HR_RANKED_BYTES * 2], digits[16];
  size_t length = space ? (size_t)(space - text) : 0, rest = space ? bytes - length - 1 : 0, count = 0;
  if (!space || rest == 0 || rest >= sizeof digits || length > HR_RANKED_BYTES)
    return line_fail(path, number, "a line is a token in base64, a space and its rank", err);
  memcpy(digits, space + 1, rest);
  digits[rest] = 0;
  char *end;
  long id = strtol(digits, &end, 10);
  hr_error why = {0};
  if (*end || id < 0 || hr__base64_read(text, length, token, &count, &why) != HR_OK || count == 0)
    return line_fail(path, number, "a line is a token in base64, a space and its rank", err);
  hr_status status = hr__build_piece(t, id, token, count, &why);
  return status == HR_BAD_INPUT ? line_fail(path, number, why.message, err) : status == HR_OK ? HR_OK : hr__nomem(err);
}

static hr_status lines_read(hr_tokenizer *t, const char *path, const char *text, size_t bytes, hr_error *err) {
  size_t lines = 0, number = 0;
  for (size_t i = 0; i < bytes; i++)
    lines += text[i] == '\n';
  HR_TRY(hr__build_room(t, lines + 4096, lines + 4096, err)); /* with special ones */
  for (size_t at = 0; at < bytes;) {
    const char *end = memchr(text + at, '\n', bytes - at);
    size_t length = end ? (size_t)(end - text) - at : bytes - at;
    number++;
    if (length > 0) HR_TRY(line_read(t, path, number, text + at, length, err));
    at += length + 1;
  }
  return HR_OK;
}

static hr_status known_finish(hr_tokenizer *t, const struct known_file *known, hr_error *err) {
  hr_normalizer *form = known->nfc ? hr__build_normalizer(t, err) : NULL;
  if (form) *form = (hr_normalizer){.run = hr__normal_form_run, .compose = true};
  const char *pattern = hr__known_named(known->pattern)->pattern;
  HR_TRY(hr__build_split(t, pattern, strlen(pattern), HR_DIALECT_RUST, err));
  HR_TRY(hr__build_ranked(t, 0, err));
  int32_t id = (int32_t)t->count;
  HR_TRY(hr__build_specials(t, known->specials, known->runs, &id, err));
  t->roles[HR_TOKEN_END] = hr__words_find(&t->ids, known->end, strlen(known->end));
  if (!known->begin) return HR_OK;
  t->roles[HR_TOKEN_BEGIN] = hr__words_find(&t->ids, known->begin, strlen(known->begin));
  return hr__ids_add(&t->before, t->roles[HR_TOKEN_BEGIN], err);
}

hr_status hr__load_tiktoken(hr_tokenizer *t, const char *path, hr_error *err) {
  hr_arena work = {0};
  char *text;
  size_t bytes;
  hr_status status = hr__file_read(path, FILE_MOST, &work, &text, &bytes, err);
  if (status == HR_OK) status = lines_read(t, path, text, bytes, err);
  hr__arena_fini(&work);
  HR_TRY(status);
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (files[i].tokens == t->count) return known_finish(t, &files[i], err);
  return hr__fail(err, HR_BAD_INPUT, path, "use the model's tokenizer.json, which says how text is cut",
                  "no vocabulary of %zu tokens is known: the file does not say how text is cut", t->count);
}
