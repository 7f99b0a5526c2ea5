/* Rows as samples: what each shape of a row becomes, which tokens are targets, and rows that are no good. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/keys.h"
#include "part_data.h"
#include "support/faults.h"
#include "text/tokenizer.h"

enum { LENGTH = 128, BATCH = 4, WORDS = 4096 };

#define TOKENIZERS HR_SOURCE_DIR "/test/text/tokenizers"

static char jinja[4096];

/* Data over a file of rows. */
typedef struct opening {
  const char *rows, *ending; /* of the file and of its name */
  const char *template;      /* NULL: none */
  const char *set[2];        /* more overrides */
  const char *tokenizer;     /* NULL: byte-level */
  int64_t length;            /* 0: LENGTH */
  hr_data_watch watch;
  fixture f;
} opening;

static hr_status data_open(opening *o, hr_error *err) {
  char tokenizer[4200], template[4200], file[32];
  if (o->template) file_put(jinja, o->template, strlen(o->template));
  snprintf(file, sizeof file, "rows.%s", o->ending ? o->ending : "jsonl");
  snprintf(tokenizer, sizeof tokenizer, "data.tokenizer=%s/%s", TOKENIZERS, o->tokenizer ? o->tokenizer : "byte-level");
  snprintf(template, sizeof template, "data.template=%s", jinja);
  const char *set[6] = {tokenizer, "data.source=rows"};
  size_t count = 2;
  if (o->template) set[count++] = template;
  for (int i = 0; i < 2 && o->set[i]; i++)
    set[count++] = o->set[i];
  data_request request = {.file = file,
                          .text = o->rows,
                          .bytes = strlen(o->rows),
                          .settings = set,
                          .length = o->length ? o->length : LENGTH,
                          .batch = BATCH,
                          .vocabulary = WORDS,
                          .watch = o->watch};
  return request_open(&o->f, &request, err);
}

static void data_close(opening *o) {
  fixture_close(&o->f);
}

static void open_good(opening *o) {
  hr_error err = {0};
  if (data_open(o, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
}

/* A stretch of a sample's text that is encoded alone. */
typedef struct stretch {
  const char *text; /* NULL: the end */
  bool target;
} stretch;

/* The only sample of a file has exactly these tokens and targets. */
static void sample_is(opening *o, const stretch *expected) {
  char path[4200];
  hr_tokenizer *tokenizer;
  hr_encoder *encoder;
  hr_ids ids = {0};
  bool target[LENGTH + 1] = {false};
  hr_error err = {0};
  snprintf(path, sizeof path, "%s/%s", TOKENIZERS, o->tokenizer ? o->tokenizer : "byte-level");
  assert_int_equal(hr__tokenizer_open(path, &tokenizer, NULL), HR_OK);
  assert_int_equal(hr__encoder_create(tokenizer, &encoder, NULL), HR_OK);
  for (; expected->text; expected++) {
    size_t first = ids.count;
    assert_int_equal(hr__encode(encoder, expected->text, strlen(expected->text), false, &ids, NULL), HR_OK);
    assert_true(ids.count <= LENGTH);
    for (size_t i = first; i < ids.count; i++)
      target[i] = expected->target;
  }
  hr__encoder_destroy(encoder);
  hr__tokenizer_close(tokenizer);

  open_good(o);
  assert_int_equal(hr__data_train_samples(o->f.data), 1);
  assert_null(hr__data_remark(o->f.data, false));
  hr_micro micro = hr__data_micro(o->f.data, 0, false);
  int32_t tokens[BATCH][LENGTH], targets[BATCH][LENGTH];
  assert_int_equal(fill(o->f.data, &micro, tokens[0], targets[0], NULL, &err), HR_OK);
  assert_int_equal(micro.tokens, ids.count - 1);
  int64_t with = 0;
  for (size_t t = 0; t < LENGTH; t++) {
    bool here = t + 1 < ids.count;
    assert_int_equal(tokens[0][t], here ? ids.items[t] : 0);
    assert_int_equal(targets[0][t], here && target[t + 1] ? ids.items[t + 1] : -1);
    with += here && target[t + 1];
  }
  assert_int_equal(micro.targets, with);
  hr__ids_fini(&ids);
  data_close(o);
}

static void test_texts(void **state) {
  (void)state;
  const stretch all[] = {{"the word", true}, {"<|end|>", true}, {0}};
  sample_is(&(opening){.rows = "{\"text\": \"the word\", \"prompt\": null}\n"}, all);
  sample_is(&(opening){.rows = "{\"text\": \"the word<|end|>\"}\n"}, all); /* ends already */
  sample_is(&(opening){.rows = "[{\"text\": \"the word\"}]", .ending = "json"}, all);
  sample_is(&(opening){.rows = "text,other\nthe word,3\n", .ending = "csv"}, all);
}

static void test_prompts_are_no_targets(void **state) {
  (void)state;
  const stretch answered[] = {{"what is the word?\nthis", false}, {"the answer", true}, {"<|end|>", true}, {0}};
  const stretch all[] = {{"what is the word?\nthis", true}, {"the answer", true}, {"<|end|>", true}, {0}};
  const stretch alone[] = {{"what", false}, {"the answer", true}, {"<|end|>", true}, {0}};
  static const char completion[] = "{\"prompt\": \"what is the word?\\nthis\", \"completion\": \"the answer\"}";
  sample_is(&(opening){.rows = completion}, answered);
  sample_is(&(opening){.rows = completion, .set = {"data.loss=all"}}, all);
  sample_is(&(opening){.rows = "instruction,input,output\nwhat is the word?,this,the answer\n", .ending = "csv"},
            answered);
  sample_is(&(opening){.rows = "{\"instruction\": \"what\", \"input\": \"\", \"output\": \"the answer\"}"}, alone);
  sample_is(&(opening){.rows = "{\"instruction\": \"what\", \"output\": \"the answer\"}"}, alone);
}

static const char turns[] = "{% for m in messages %}[{{ m.role }}]\n{{ m.content }}"
                            "{{ eos_token if m.role == 'assistant' }}{{ '!' if m.name is defined }}\n{% endfor %}"
                            "{{ '[assistant]\\n' if add_generation_prompt }}";
static const char marked[] = "{% for m in messages %}[{{ m.role }}]\n{% if m.role == 'assistant' %}"
                             "{% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}{% else %}"
                             "{{ m.content }}{% endif %}\n\n\n{% endfor %}"; /* the first newline is trimmed */
static const char messages[] = "{\"messages\": [{\"role\": \"system\", \"content\": \"be good\"}, {\"role\": \"user\", "
                               "\"content\": \"the word?\"},"
                               " {\"role\": \"assistant\", \"content\": \"the\\nword\", \"name\": null}, {\"role\": "
                               "\"user\", \"content\": \"and\"},"
                               " {\"role\": \"assistant\", \"content\": \"w\\u00f6rter\"}]}\n";

static void test_answers_of_conversations(void **state) {
  (void)state;
  static const char before[] = "[system]\nbe good\n[user]\nthe word?\n[assistant]\n";
  const stretch by_turn[] = {{before, false},
                             {"the\nword<|end|>\n", true},
                             {"[user]\nand\n[assistant]\n", false},
                             {"wörter<|end|>\n", true},
                             {0}};
  sample_is(&(opening){.rows = messages, .template = turns}, by_turn);
  static const char conversations[] =
      "{\"conversations\": [{\"from\": \"system\", \"value\": \"be good\"}, {\"from\": \"human\", \"value\": \"the "
      "word?\"},"
      " {\"from\": \"gpt\", \"value\": \"the\\nword\"}, {\"from\": \"human\", \"value\": \"and\"},"
      " {\"from\": \"gpt\", \"value\": \"w\\u00f6rter\"}]}\n";
  sample_is(&(opening){.rows = conversations, .template = turns}, by_turn);
  const stretch by_mark[] = {{"[system]\nbe good\n\n[user]\nthe word?\n\n[assistant]\n", false},
                             {"the\nword<|end|>", true},
                             {"\n\n[user]\nand\n\n[assistant]\n", false},
                             {"wörter<|end|>", true},
                             {"\n\n", false},
                             {0}};
  sample_is(&(opening){.rows = messages, .template = marked}, by_mark);
}

/* A token that begins before the answer is not of it. */
static void test_tokens_across_the_border(void **state) {
  (void)state;
  static const char spaced[] = "{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}{% endfor %}"
                               "{{ '[assistant] ' if add_generation_prompt }}";
  const stretch expected[] = {{"[user] and<|end|>[assistant] the", false}, {" word<|end|>", true}, {0}};
  sample_is(&(opening){.rows = "{\"messages\": [{\"role\": \"user\", \"content\": \"and\"},"
                               " {\"role\": \"assistant\", \"content\": \"the word\"}]}",
                       .template = spaced},
            expected);
}

/* This tokenizer writes capitals as small letters: what it gives is not the text, and segments are encoded apart. */
static void test_tokenizers_that_change_text(void **state) {
  (void)state;
  static const char simple[] = "{% for m in messages %}{{ m.role }} {{ m.content }} {% endfor %}"
                               "{{ 'assistant ' if add_generation_prompt }}";
  const stretch expected[] = {{"user And assistant ", false}, {"The Word ", true}, {0}};
  sample_is(&(opening){.rows = "{\"messages\": [{\"role\": \"user\", \"content\": \"And\"},"
                               " {\"role\": \"assistant\", \"content\": \"The Word\"}]}",
                       .template = simple,
                       .tokenizer = "wordpiece"},
            expected);
}

/* Sentencepiece puts a space before a text and writes newlines as bytes: it is encoded whole all the same. */
static void test_pieces_of_sentencepiece(void **state) {
  (void)state;
  static const char before[] = "[user]\nand\n[assistant]\n", whole[] = "[user]\nand\n[assistant]\nthe word\n";
  static const char plain[] = "{% for m in messages %}[{{ m.role }}]\n{{ m.content }}\n{% endfor %}"
                              "{{ '[assistant]\\n' if add_generation_prompt }}";
  hr_tokenizer *tokenizer;
  hr_encoder *encoder;
  hr_ids all = {0}, prompt = {0};
  hr_error err = {0};
  assert_int_equal(hr__tokenizer_open(TOKENIZERS "/fallback", &tokenizer, NULL), HR_OK);
  assert_int_equal(hr__encoder_create(tokenizer, &encoder, NULL), HR_OK);
  assert_int_equal(hr__encode(encoder, whole, sizeof whole - 1, false, &all, NULL), HR_OK);
  assert_int_equal(hr__encode(encoder, before, sizeof before - 1, false, &prompt, NULL), HR_OK);
  hr__encoder_destroy(encoder);
  hr__tokenizer_close(tokenizer);
  opening o = {.rows = "{\"messages\": [{\"role\": \"user\", \"content\": \"and\"},"
                       " {\"role\": \"assistant\", \"content\": \"the word\"}]}",
               .template = plain,
               .tokenizer = "fallback"};
  open_good(&o);
  hr_micro micro = hr__data_micro(o.f.data, 0, false);
  int32_t tokens[BATCH][LENGTH], targets[BATCH][LENGTH];
  assert_int_equal(fill(o.f.data, &micro, tokens[0], targets[0], NULL, &err), HR_OK);
  assert_true(micro.tokens == (int64_t)all.count - 1 && micro.targets == (int64_t)(all.count - prompt.count));
  for (size_t t = 0; t + 1 < all.count; t++) {
    assert_int_equal(tokens[0][t], all.items[t]);
    assert_int_equal(targets[0][t], t + 1 < prompt.count ? -1 : all.items[t + 1]);
  }
  hr__ids_fini(&all);
  hr__ids_fini(&prompt);
  data_close(&o);
}

static void refused(opening *o, hr_status status, const char *place, const char *message) {
  hr_error err = {0};
  assert_int_equal(data_open(o, &err), status);
  if (!strstr(err.place, place) || !strstr(err.message, message)) fail_msg("%s: %s", err.place, err.message);
  data_close(o);
}

/* A text of JSON is what it says. */
static void test_tools(void **state) {
  (void)state;
  static const char template[] = "{% for t in tools or [] %}{{ t.name }}{{ '\\n' }}{% endfor %}{% for m in messages %}"
                                 "{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}";
#define ASKED "{\"messages\": [{\"role\": \"assistant\", \"content\": \"the word\"}]"
  const stretch with[] = {{"the\nand\n", false}, {"the word", true}, {0}}, without[] = {{"the word", true}, {0}};
  static const char *const lists[] = {ASKED ", \"tools\": [{\"name\": \"the\"}, {\"name\": \"and\"}]}", ASKED
                                      ", \"tools\": \"[{\\\"name\\\": \\\"the\\\"}, {\\\"name\\\": \\\"and\\\"}]\"}"};
  static const char *const none[] = {ASKED "}", ASKED ", \"tools\": \"\"}", ASKED ", \"tools\": \"null\"}",
                                     ASKED ", \"tools\": null}"};
  for (int i = 0; i < 2; i++)
    sample_is(&(opening){.rows = lists[i], .template = template}, with);
  for (int i = 0; i < 4; i++)
    sample_is(&(opening){.rows = none[i], .template = template}, without);
}

typedef struct told {
  uint64_t done, all;
  int times;
} told;

static void note(void *user, uint64_t done, uint64_t all) {
  told *t = user;
  assert_true(done >= t->done && done <= all);
  *t = (told){done, all, t->times + 1};
}

static void test_progress_is_told(void **state) {
  (void)state;
  enum { ROWS = 1000 };
  char *rows = calloc(ROWS, 32);
  for (int i = 0; i < ROWS; i++)
    strcat(rows + 21 * i, "{\"text\": \"the word\"}\n");
  told t = {0};
  opening o = {.rows = rows, .watch = {note, &t}};
  cache_clear();
  open_good(&o);
  assert_int_equal(t.all, strlen(rows));
  assert_true(t.times > ROWS / 100 && t.done > t.all * 9 / 10);
  data_close(&o);
  t = (told){0};
  open_good(&o); /* tokens are there */
  assert_int_equal(t.times, 0);
  data_close(&o);
  free(rows);
}

static void test_bad_rows(void **state) {
  (void)state;
#define GOOD "{\"text\": \"the word\"}\n"
  static const struct {
    const char *rows, *place, *message;
  } bad[] = {
      {GOOD "{\"text\": \n", ".jsonl:2", ""},
      {GOOD GOOD "{\"body\": \"x\"}", ".jsonl:3", "the row has none of: text; prompt"},
      {GOOD "{\"text\": 3}", ".jsonl:2", "text is not a text"},
      {"{\"prompt\": \"a\", \"completion\": []}", ".jsonl:1", "completion is not a text"},
      {"{\"messages\": \"hi\"}", ".jsonl:1", "messages is not a list of messages"},
      {"{\"messages\": []}", ".jsonl:1", "messages is not a list of messages"},
      {"{\"messages\": [{\"content\": \"hi\"}]}", ".jsonl:1", "role is missing"},
      {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"tools\": \"[{\"}", ".jsonl:1",
       "tools is a text, but not one of JSON"},
      {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"tools\": \"{}\"}", ".jsonl:1",
       "tools is not a list"},
      {"{\"conversations\": [{\"from\": \"me\", \"value\": \"hi\"}]}", ".jsonl:1", "from is \"me\", not human"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    refused(&(opening){.rows = bad[i].rows, .template = turns}, HR_BAD_INPUT, bad[i].place, bad[i].message);
  static const char some[] = GOOD "{\"body\": 1}\n" GOOD "3\n" GOOD;
  refused(&(opening){.rows = some, .set = {"data.bad_rows=0.39"}}, HR_BAD_INPUT, ".jsonl:2", "2 of 5 rows are bad");
  opening o = {.rows = some, .set = {"data.bad_rows=0.4"}};
  for (int again = 0; again < 2; again++) {
    open_good(&o);
    assert_int_equal(hr__data_train_samples(o.f.data), 3);
    const char *remark = hr__data_remark(o.f.data, false);
    assert_non_null(remark);
    assert_non_null(strstr(remark, "2 of 5 rows are bad and left out"));
    assert_true((strstr(remark, ".jsonl:4") != NULL) == (again == 0)); /* told where tokens are made */
    data_close(&o);
  }
  refused(&(opening){.rows = some}, HR_BAD_INPUT, ".jsonl:2", "the row has none of"); /* those tokens are there */
  hr_error err = {0};
  o.set[0] = NULL;
  assert_int_equal(data_open(&o, &err), HR_BAD_INPUT);
  assert_string_equal(err.remedy, "see docs/data.md for what a row may be; mend the row, or leave bad ones out with "
                                  "data.bad_rows");
  data_close(&o);
  refused(&(opening){.rows = "PAR1....PAR1", .ending = "parquet"}, HR_UNSUPPORTED, ".parquet", "");
  refused(&(opening){.rows = "\n\n"}, HR_BAD_INPUT, "", "0 rows with text are too few");
}

static void test_templates_that_do_not_serve(void **state) {
  (void)state;
  refused(&(opening){.rows = messages}, HR_UNSUPPORTED, "byte-level", "need the model's chat template");
  refused(&(opening){.rows = messages, .template = "{% for %}"}, HR_UNSUPPORTED, ".jinja", "");
  refused(&(opening){.rows = messages, .template = "{{ raise_exception('no system') }}"}, HR_BAD_INPUT, ".jsonl:1",
          "no system");
  refused(&(opening){.rows = messages, .template = "{{ messages | length }}"}, HR_BAD_INPUT, ".jsonl:1",
          "where the answer begins and ends cannot be told");
  refused(&(opening){.rows = GOOD, .set = {"data.tokenizer=bytes"}}, HR_BAD_INPUT, "data.source", "needs a tokenizer");
}

/* Long rows are cut; where nothing of the answer is left, or there never was one, a row is left out. */
static void test_long_rows(void **state) {
  (void)state;
  static const char rows[] = "{\"prompt\": \"the\", \"completion\": \"a b c d e f g h i j k l m n\"}\n"
                             "{\"prompt\": \"a b c d e f g h i j k l m n\", \"completion\": \"the\"}\n"
                             "{\"messages\": [{\"role\": \"user\", \"content\": \"and\"}]}\n";
  opening o = {.rows = rows, .template = turns, .length = 8};
  hr_error err = {0};
  open_good(&o);
  assert_int_equal(hr__data_train_samples(o.f.data), 1);
  assert_int_equal(hr__data_cut(o.f.data), 1);
  assert_non_null(strstr(hr__data_remark(o.f.data, false), "2 rows are left out: no token of an answer"));
  hr_micro micro = hr__data_micro(o.f.data, 0, false);
  int32_t tokens[BATCH][8], targets[BATCH][8];
  assert_int_equal(fill(o.f.data, &micro, tokens[0], targets[0], NULL, &err), HR_OK);
  assert_int_equal(micro.tokens, 8);
  int64_t with = 0;
  for (int t = 0; t < 8; t++)
    with += targets[0][t] >= 0;
  assert_true(with == micro.targets && with > 0);
  data_close(&o);
}

static void hash_of(opening *o, char out[HR_XXH_HEX]) {
  hr_trace trace;
  open_good(o);
  assert_int_equal(hr__data_trace(o->f.data, false, &trace, NULL), HR_OK);
  memcpy(out, trace.hash, HR_XXH_HEX);
  data_close(o);
}

static void test_what_tells_samples_apart(void **state) {
  (void)state;
  char first[HR_XXH_HEX], other[HR_XXH_HEX];
  opening o = {.rows = messages, .template = turns};
  hash_of(&o, first);
  hash_of(&o, other);
  assert_string_equal(first, other);
  o.template = marked;
  hash_of(&o, other);
  assert_string_not_equal(first, other);
  o.template = turns;
  o.set[0] = "data.loss=all";
  hash_of(&o, other);
  assert_string_not_equal(first, other);
  o.set[0] = "data.bad_rows=0.5"; /* the same samples */
  hash_of(&o, other);
  assert_string_equal(first, other);
}

static hr_status opened_and_closed(void *arg, hr_error *err) {
  cache_clear();
  hr_status status = data_open(arg, err);
  data_close(arg);
  return status;
}

static void test_memory_that_runs_out(void **state) {
  (void)state;
  static const char rows[] = GOOD "{\"instruction\": \"a\", \"input\": \"b\", \"output\": \"c\"}\n{\"body\": 1}\n"
                                  "{\"conversations\": [{\"from\": \"human\", \"value\": \"the\"},"
                                  " {\"from\": \"gpt\", \"value\": \"word\"}]}\n";
  opening o = {.rows = rows, .template = turns, .set = {"data.bad_rows=0.5"}};
  assert_true(hr_test_each_fault(opened_and_closed, &o) > 50);
}

int main(void) {
  hr_test_faults_install();
  cache_begin("rows");
  snprintf(jinja, sizeof jinja, "%s/rows-%ld.jinja", HR_BINARY_DIR, (long)getpid());
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_texts),
      cmocka_unit_test(test_prompts_are_no_targets),
      cmocka_unit_test(test_answers_of_conversations),
      cmocka_unit_test(test_tokens_across_the_border),
      cmocka_unit_test(test_tokenizers_that_change_text),
      cmocka_unit_test(test_pieces_of_sentencepiece),
      cmocka_unit_test(test_tools),
      cmocka_unit_test(test_progress_is_told),
      cmocka_unit_test(test_bad_rows),
      cmocka_unit_test(test_templates_that_do_not_serve),
      cmocka_unit_test(test_long_rows),
      cmocka_unit_test(test_what_tells_samples_apart),
      cmocka_unit_test(test_memory_that_runs_out),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  unlink(jinja);
  cache_end();
  return failed;
}
