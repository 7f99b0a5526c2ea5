/* See answers.h. */
#include "data/answers.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

enum { LONGEST_RUN = 4 };

/* Words as numbers: two are the same where their numbers are. */
typedef struct words {
  int32_t *list;
  size_t count;
} words;

static bool is_blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

static char lower(char c) {
  return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* The words of a text one after the other; NULL: no more. */
static const char *word_next(const char **at, size_t *bytes) {
  while (is_blank(**at))
    (*at)++;
  const char *word = *at;
  while (**at && !is_blank(**at))
    (*at)++;
  *bytes = (size_t)(*at - word);
  return *bytes > 0 ? word : NULL;
}

static bool same_word(const char *a, size_t a_bytes, const char *b, size_t b_bytes) {
  if (a_bytes != b_bytes) return false;
  for (size_t i = 0; i < a_bytes; i++)
    if (lower(a[i]) != lower(b[i])) return false;
  return true;
}

/* Number of a word: that of the first word of both texts, one behind the other, that is the same. */
static int32_t word_number(const char *const texts[2], const char *word, size_t bytes) {
  int32_t number = 0;
  for (int i = 0; i < 2; i++) {
    const char *at = texts[i], *other;
    for (size_t other_bytes; (other = word_next(&at, &other_bytes)); number++)
      if (same_word(word, bytes, other, other_bytes)) return number;
  }
  return number;
}

static hr_status words_of(hr_arena *arena, const char *const texts[2], int which, words *out, hr_error *err) {
  const char *at = texts[which], *word;
  size_t bytes;
  *out = (words){0};
  while (word_next(&at, &bytes))
    out->count++;
  out->list = hr__arena_array(arena, out->count + 1, sizeof *out->list);
  if (!out->list) return hr__nomem(err);
  at = texts[which];
  for (size_t i = 0; (word = word_next(&at, &bytes)); i++)
    out->list[i] = word_number(texts, word, bytes);
  return HR_OK;
}

/* How often the run of `n` words at `run` stands in `in`, up to the place `end`. */
static size_t run_count(const words *in, size_t end, const int32_t *run, size_t n) {
  size_t count = 0;
  for (size_t i = 0; i + n <= end; i++)
    count += memcmp(in->list + i, run, n * sizeof *run) == 0;
  return count;
}

/* Runs of `n` words of `got` that are in `expected`, each as often as there at most. */
static size_t runs_common(const words *expected, const words *got, size_t n) {
  size_t common = 0;
  for (size_t i = 0; i + n <= got->count; i++) {
    const int32_t *run = got->list + i;
    common += run_count(got, i + n, run, n) <= run_count(expected, expected->count, run, n);
  }
  return common;
}

static double f1_of(size_t common, const words *expected, const words *got) {
  return 2 * (double)common / (double)(expected->count + got->count);
}

static double bleu_of(const words *expected, const words *got) {
  double logs = 0;
  for (size_t n = 1; n <= LONGEST_RUN; n++) {
    double more = n > 1, runs = got->count >= n ? (double)(got->count - n + 1) : 0;
    double part = ((double)runs_common(expected, got, n) + more) / (runs + more);
    if (!(part > 0)) return 0;
    logs += log(part) / LONGEST_RUN;
  }
  double shorter = got->count < expected->count ? 1 - (double)expected->count / (double)got->count : 0;
  return exp(logs + shorter);
}

/* Words of the longest row that both have. */
static hr_status common_row(hr_arena *arena, const words *a, const words *b, size_t *out, hr_error *err) {
  size_t *row = hr__arena_array(arena, b->count + 1, sizeof *row); /* of the words of `a` so far, by those of `b` */
  if (!row) return hr__nomem(err);
  for (size_t i = 0; i < a->count; i++)
    for (size_t k = 0, diagonal = 0; k < b->count; k++) {
      size_t above = row[k + 1];
      row[k + 1] = a->list[i] == b->list[k] ? diagonal + 1 : above > row[k] ? above : row[k];
      diagonal = above;
    }
  *out = row[b->count];
  return HR_OK;
}

static hr_status score(hr_arena *arena, const char *const texts[2], hr_answer_scores *out, hr_error *err) {
  words expected, got;
  size_t row = 0;
  HR_TRY(words_of(arena, texts, 0, &expected, err));
  HR_TRY(words_of(arena, texts, 1, &got, err));
  bool same = expected.count == got.count && memcmp(expected.list, got.list, got.count * sizeof *got.list) == 0;
  *out = (hr_answer_scores){same, same, same, same};
  if (same || expected.count == 0 || got.count == 0) return HR_OK;
  HR_TRY(common_row(arena, &expected, &got, &row, err));
  out->f1 = f1_of(runs_common(&expected, &got, 1), &expected, &got);
  out->bleu = bleu_of(&expected, &got);
  out->rouge_l = f1_of(row, &expected, &got);
  return HR_OK;
}

hr_status hr__answer_score(const char *expected, const char *got, hr_answer_scores *out, hr_error *err) {
  hr_arena arena;
  hr__arena_init(&arena);
  hr_status status = score(&arena, (const char *const[2]){expected, got}, out, err);
  hr__arena_fini(&arena);
  return status;
}

void hr__answers_add(hr_answers *all, const char *type, const hr_answer_scores *one) {
  int i = 0;
  all->count++;
  all->sum.exact += one->exact;
  all->sum.f1 += one->f1;
  all->sum.bleu += one->bleu;
  all->sum.rouge_l += one->rouge_l;
  while (i < all->n_types && strcmp(all->of_type[i].type, type) != 0)
    i++;
  if (i == HR_ANSWER_TYPES) return;
  if (i == all->n_types) all->of_type[all->n_types++].type = type;
  all->of_type[i].count++;
  all->of_type[i].exact += one->exact > 0;
}

hr_answer_scores hr__answers_mean(const hr_answers *all) {
  double count = all->count > 0 ? (double)all->count : 1;
  const hr_answer_scores *sum = &all->sum;
  return (hr_answer_scores){sum->exact / count, sum->f1 / count, sum->bleu / count, sum->rouge_l / count};
}
