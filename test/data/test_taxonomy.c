/* Taxonomies: trees, relations and distances of codes, what is drawn, what a sample holds, and files that are no good.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/keys.h"
#include "data/nearest.h"
#include "data/reader.h"
#include "data/taxonomy.h"
#include "part_data.h"
#include "support/faults.h"

enum { NEGATIVES = 3, CODES = 2 + NEGATIVES, LENGTH = 6, TITLE = 4, BATCH = 2 };

/* Two trees: 11 > 111 > 1111 > 11111, 11112; 1112; 112 > 1121; 22 > 221. */
static const char good[] = "code,title,description,excluded_codes\n"
                           "11,a,aa,\n111,b,,\n1111,c,cc,\n11111,d,dd,1121\n11112,e,ee,\n1112,f,ff,\n"
                           "112,g,gg,\n1121,h,hh,\n22,i,ii,\n221,jjjjjj,jjjjjjjj,nowhere;11\n";

static hr_fields fields_make(void) {
  static const char *const names[][3] = {{"title", "lengths_0", "mask_0"}, {"description", "lengths_1", "mask_1"}};
  hr_fields out = {.count = 0};
  for (int c = 0; c < 2; c++) {
    int64_t length = c == 0 ? TITLE : LENGTH;
    hr_desc tokens = {HR_I32, 3, {BATCH, CODES, length}}, lengths = {HR_I32, 2, {BATCH, CODES}};
    hr_desc mask = {HR_U8, 3, {BATCH, CODES, length}};
    hr__field_add(&out, (hr_field){.name = names[c][0], .purpose = HR_FOR_TOKENS, .desc = tokens, .bound = 256});
    hr__field_add(&out, (hr_field){.name = names[c][1], .purpose = HR_FOR_VALUES, .desc = lengths});
    hr__field_add(&out, (hr_field){.name = names[c][2], .purpose = HR_FOR_VALUES, .desc = mask});
  }
  hr_desc valid = {HR_U8, 2, {BATCH, CODES - 1}};
  hr__field_add(&out, (hr_field){.name = "valid", .purpose = HR_FOR_VALUES, .desc = valid});
  return out;
}

typedef struct opened {
  hr_recipe *recipe;
  hr_fields fields;
  hr_data *data;
  char path[4096];
} opened;

static hr_status recipe_open(opened *o, const char *ending, const char *text, const char *const *more, hr_error *err) {
  const char *set[8];
  char path[4200];
  size_t count = 0;
  *o = (opened){.fields = fields_make()};
  snprintf(o->path, sizeof o->path, "%s/taxonomy-%ld.%s", HR_BINARY_DIR, (long)getpid(), ending);
  file_put(o->path, text, strlen(text));
  snprintf(path, sizeof path, "data.path=%s", o->path);
  set[count++] = path;
  for (; more && *more; more++)
    set[count++] = *more;
  static const char base[] = "data: { source: taxonomy, tokenizer: bytes, sequence_length: 6,\n"
                             "        taxonomy: { n_negatives: 3, n_positives: 50, title_length: 4 } }\n";
  const hr_key_table tables[] = {hr_data_keys, hr_masking_keys, hr_taxonomy_keys};
  return hr__recipe_parse("r.yaml", ".", base, sizeof base - 1, set, count, tables, 3, &o->recipe, err);
}

static hr_status data_open(opened *o, bool eval, hr_error *err) {
  static const int64_t buckets[] = {LENGTH};
  hr_data_shape shape = {
      .seed = 3, .eval = eval, .batch = BATCH, .buckets = buckets, .fields = &o->fields, .n_buckets = 1, .fillers = 1};
  return hr__data_open(o->recipe, &shape, &o->data, err);
}

static void opened_close(opened *o) {
  hr__data_close(o->data);
  hr__recipe_destroy(o->recipe);
  unlink(o->path);
}

/* The taxonomy itself, without a source around it. */
static void taxonomy_make(opened *o, hr_taxonomy *t, hr_taxonomy_rules *rules, const char *const *more) {
  hr_error err = {0};
  hr_source_request request = {.key = "data.path", .fields = &o->fields, .length = LENGTH, .seed = 3};
  hr_status status = recipe_open(o, "csv", good, more, &err);
  request.recipe = o->recipe;
  if (status == HR_OK) status = hr__taxonomy_open(&request, t, &err);
  if (status == HR_OK) status = hr__taxonomy_rules(o->recipe, 3, rules, &err);
  if (status != HR_OK) fail_msg("%s: %s", err.place, err.message);
}

static size_t find(const hr_taxonomy *t, const char *code) {
  int32_t i = hr__taxonomy_find(t, code, strlen(code));
  assert_true(i >= 0);
  return (size_t)i;
}

static void test_tree(void **state) {
  (void)state;
  static const struct {
    const char *from, *to;
    int relation, steps;
    double distance;
  } cases[] = {
      {"11", "111", 1, 1, 0.5},    {"111", "11", 1, 1, 0.5},   {"111", "112", 2, 2, 2},   {"11", "1111", 3, 2, 1.5},
      {"11", "11111", 4, 3, 2.5},  {"112", "1111", 5, 3, 3},   {"1111", "1121", 7, 4, 4}, {"112", "11112", 8, 4, 4},
      {"1121", "11111", 10, 5, 5}, {"11111", "1121", 0, 5, 0}, {"11", "22", 99, 2, 99},   {"11111", "221", 99, 6, 99},
      {"11111", "11112", 2, 2, 2}, {"1112", "11112", 5, 3, 3}, {"221", "11", 0, 3, 0},    {"11", "221", 99, 3, 99},
  };
  opened o;
  hr_taxonomy t;
  hr_taxonomy_rules rules;
  taxonomy_make(&o, &t, &rules, NULL);
  assert_int_equal(t.count, 10);
  assert_int_equal(t.n_unknown, 1);
  assert_int_equal(t.codes[find(&t, "11112")].parent, (int32_t)find(&t, "1111"));
  assert_int_equal(t.codes[find(&t, "11112")].depth, 3);
  assert_int_equal(t.codes[find(&t, "11112")].level, 5);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_relation is = hr__taxonomy_relation(&t, find(&t, cases[i].from), find(&t, cases[i].to));
    if (is.relation != cases[i].relation || is.distance != cases[i].distance)
      fail_msg("%s, %s: relation %d, distance %g", cases[i].from, cases[i].to, is.relation, is.distance);
    assert_int_equal(hr__taxonomy_steps(&t, find(&t, cases[i].from), find(&t, cases[i].to)), cases[i].steps);
  }
  hr__taxonomy_close(&t);
  opened_close(&o);
}

/* Every positive once in an epoch; negatives are farther by both margins, all different, and the same every time. */
static void test_draw(void **state) {
  (void)state;
  opened o;
  hr_taxonomy t;
  hr_taxonomy_rules rules;
  hr_pair *pairs;
  size_t train, eval;
  hr_error err = {0};
  taxonomy_make(&o, &t, &rules, (const char *const[]){"data.taxonomy.positive_relation=[1, 2, 3]", NULL});
  assert_int_equal(hr__taxonomy_pairs(&t, &rules, &t.arena, &pairs, &train, &eval, &err), HR_OK);
  assert_int_equal(eval, 0);
  bool seen[2][10][10] = {{{false}}};
  int differs = 0;
  for (size_t i = 0; i < train; i++)
    for (int epoch = 0; epoch < 2; epoch++) {
      int32_t codes[CODES], again[CODES];
      int64_t count = hr__taxonomy_draw(&t, &rules, &pairs[i], i, (uint64_t)epoch, codes);
      assert_int_equal(hr__taxonomy_draw(&t, &rules, &pairs[i], i, (uint64_t)epoch, again), count);
      assert_memory_equal(codes, again, (size_t)(2 + count) * sizeof *codes);
      bool *first = &seen[epoch][codes[0]][codes[1]];
      assert_false(*first);
      *first = true;
      hr_relation positive = hr__taxonomy_relation(&t, (size_t)codes[0], (size_t)codes[1]);
      assert_true(positive.relation >= 1 && positive.relation <= 3);
      for (int64_t k = 2; k < 2 + count; k++) {
        hr_relation negative = hr__taxonomy_relation(&t, (size_t)codes[0], (size_t)codes[k]);
        assert_true(negative.relation == 0 || negative.relation > positive.relation);
        for (int64_t j = 0; j < k; j++)
          assert_int_not_equal(codes[j], codes[k]);
      }
      if (epoch == 1) differs += hr__taxonomy_draw(&t, &rules, &pairs[i], i, 0, again) && again[1] != codes[1];
    }
  assert_memory_equal(seen[0], seen[1], sizeof seen[0]); /* the same pairs, in another order */
  assert_true(differs > 0);
  hr__taxonomy_close(&t);
  opened_close(&o);
}

/* Weights: of two negatives the nearer is drawn first more often, as often as the weights say. */
static void test_weights(void **state) {
  (void)state;
  enum { DRAWS = 4000 };
  opened o;
  hr_taxonomy t;
  hr_taxonomy_rules rules;
  taxonomy_make(&o, &t, &rules, NULL);
  rules.negatives = 1;
  int first[10] = {0};
  hr_pair pair = {(int32_t)find(&t, "111"), 0, 1};
  for (int i = 0; i < DRAWS; i++) {
    int32_t codes[3];
    pair.candidates = 7;
    rules.positive_relation = (hr_allowed){1, {1}}; /* 11 or a child: any has relation 1 and distance 0.5 */
    pair.candidates = 3;
    assert_int_equal(hr__taxonomy_draw(&t, &rules, &pair, (uint64_t)i, 0, codes), 1);
    first[codes[2]]++;
  }
  double sibling = 1 / ((1 + 1.5) / 2), nephew = 1 / ((4 + 2.5) / 2), other = 1 / 12.5;
  double grandchild = 1 / ((2 + 1.0) / 2), all = sibling + nephew + 2 * grandchild + 2 * other;
  assert_true(fabs(first[find(&t, "112")] / (double)DRAWS - sibling / all) < 0.04);
  assert_true(fabs(first[find(&t, "1121")] / (double)DRAWS - nephew / all) < 0.04);
  assert_true(fabs(first[find(&t, "11112")] / (double)DRAWS - grandchild / all) < 0.04);
  assert_true(fabs(first[find(&t, "22")] / (double)DRAWS - other / all) < 0.02);
  hr__taxonomy_close(&t);
  opened_close(&o);
}

typedef struct batch {
  int32_t title[BATCH][CODES][TITLE], title_lengths[BATCH][CODES];
  uint8_t title_mask[BATCH][CODES][TITLE];
  int32_t text[BATCH][CODES][LENGTH], text_lengths[BATCH][CODES];
  uint8_t text_mask[BATCH][CODES][LENGTH], valid[BATCH][CODES - 1];
} batch;

static void batch_fill(const opened *o, const hr_micro *micro, batch *b) {
  hr_error err = {0};
  memset(b, 0xee, sizeof *b);
  void *const at[HR_FIELDS] = {b->title,        b->title_lengths, b->title_mask, b->text,
                               b->text_lengths, b->text_mask,     b->valid};
  if (hr__data_fill(o->data, micro, 0, BATCH, 0, at, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
}

/* Items are all codes in order, with cut texts that end as the whole ones do; what is not there has one padding. */
static void test_items(void **state) {
  (void)state;
  opened o;
  hr_error err = {0};
  assert_int_equal(recipe_open(&o, "csv", good, NULL, &err), HR_OK);
  if (data_open(&o, false, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  int64_t of_a_row;
  assert_int_equal(hr__data_items(o.data, &of_a_row), 10);
  assert_int_equal(of_a_row, CODES);
  batch b;
  hr_micro micro = hr__data_items_micro(o.data, 0);
  batch_fill(&o, &micro, &b);
  for (int i = 0; i < 9; i++) {
    const int32_t title[TITLE] = {'a' + i, 0, 0, 0};
    assert_memory_equal(b.title[i / CODES][i % CODES], title, sizeof title);
    assert_int_equal(b.title_lengths[i / CODES][i % CODES], 1);
    assert_int_equal(b.text_lengths[i / CODES][i % CODES], i == 1 ? 1 : 2);
  }
  assert_int_equal(b.title_lengths[1][4], TITLE);
  assert_int_equal(b.text_lengths[1][4], LENGTH);
  for (int i = 0; i < LENGTH; i++) {
    assert_int_equal(b.text[1][4][i], 'j');
    assert_int_equal(b.text_mask[1][4][i], 1);
    assert_int_equal(b.text_mask[1][3][i], i < 2);
  }
  micro = hr__data_items_micro(o.data, 10);
  batch_fill(&o, &micro, &b);
  assert_int_equal(b.title_lengths[0][0], 1);
  assert_int_equal(b.title[0][0][0], 0);
  opened_close(&o);
}

/* Items have numbers of their own: what the reader holds of training is not taken for them. */
static void test_items_read(void **state) {
  (void)state;
  enum { ROOM = 4096 };
  opened o;
  hr_error err = {0};
  hr_reader *reader;
  char *slots[HR_BATCH_SLOTS];
  int slot;
  assert_int_equal(recipe_open(&o, "csv", good, NULL, &err), HR_OK);
  if (data_open(&o, false, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  for (int i = 0; i < HR_BATCH_SLOTS; i++)
    slots[i] = calloc(1, ROOM);
  assert_int_equal(hr__reader_create(o.data, BATCH, 0, slots, &reader, &err), HR_OK);
  hr_micro trained = hr__data_micro(o.data, 0, false), items = hr__data_items_micro(o.data, 0);
  batch expected[2];
  batch_fill(&o, &trained, &expected[0]);
  batch_fill(&o, &items, &expected[1]);
  assert_memory_not_equal(expected[0].title, expected[1].title, sizeof expected->title);
  for (int i = 0; i < 4; i++) {
    assert_int_equal(hr__reader_get(reader, i % 2 ? &items : &trained, &slot, &err), HR_OK);
    assert_memory_equal(slots[slot], expected[i % 2].title, sizeof expected->title);
  }
  hr__reader_destroy(reader);
  for (int i = 0; i < HR_BATCH_SLOTS; i++)
    free(slots[i]);
  opened_close(&o);
}

/* Held-out codes are leaves: no sample of training has them, and evaluation has them as anchors. */
static void test_held_out(void **state) {
  (void)state;
  opened o;
  hr_error err = {0};
  const char *const set[] = {"data.eval_fraction=0.5", NULL};
  assert_int_equal(recipe_open(&o, "csv", good, set, &err), HR_OK);
  if (data_open(&o, true, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  bool trained[256] = {false}, anchor[256] = {false};
  batch b;
  for (uint64_t i = 0; i < (uint64_t)hr__data_train_samples(o.data); i += BATCH) {
    hr_micro micro = hr__data_micro(o.data, i, false);
    batch_fill(&o, &micro, &b);
    for (int r = 0; r < BATCH; r++)
      for (int k = 0; k < CODES; k++)
        trained[b.title[r][k][0]] = k == 0 || b.valid[r][k - 1] || trained[b.title[r][k][0]];
  }
  for (uint64_t i = 0; i < (uint64_t)hr__data_eval_samples(o.data); i += BATCH) {
    hr_micro micro = hr__data_micro(o.data, i, true);
    batch_fill(&o, &micro, &b);
    for (int r = 0; r < BATCH; r++)
      anchor[b.title[r][0][0]] = true;
  }
  int held = 0;
  for (int i = 'a'; i <= 'j'; i++) {
    assert_false(trained[i] && anchor[i]);
    held += anchor[i];
    if (anchor[i]) assert_true(strchr("defhj", i) != NULL);
  }
  assert_true(held >= 2);
  opened_close(&o);
}

/* Negatives in the group of their anchor do not count in training; what is evaluated stays as it is. */
static void test_groups(void **state) {
  (void)state;
  opened o;
  hr_error err = {0};
  const char *const set[] = {"data.eval_fraction=0.5", "data.taxonomy.cluster_from=3", NULL};
  assert_int_equal(recipe_open(&o, "csv", good, set, &err), HR_OK);
  assert_int_equal(data_open(&o, false, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "points, which evaluations make"));
  assert_non_null(strstr(err.remedy, "training.eval_every"));
  opened_close(&o);
  assert_int_equal(recipe_open(&o, "csv", good, set, &err), HR_OK);
  if (data_open(&o, true, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  hr_groups *groups = hr__data_groups(o.data);
  assert_non_null(groups);
  assert_true(groups->from == 3 && groups->every == 5 && groups->items == 10 && groups->n_members < 10);
  assert_int_equal(hr__groups_open(groups, 2, &err), HR_OK);
  batch before, after;
  for (int eval = 0; eval < 2; eval++) {
    hr_micro micro = hr__data_micro(o.data, 0, eval);
    groups->saved[0] = 0;
    batch_fill(&o, &micro, &before);
    groups->saved[0] = 4;
    for (int i = 0; i < 10; i++) /* the trees of 11 and of 22 */
      groups->saved[1 + i] = i >= 8;
    batch_fill(&o, &micro, &after);
    int masked = 0;
    for (int r = 0; r < BATCH; r++)
      for (int k = 0; k < CODES - 1; k++) {
        bool same = (after.title[r][0][0] >= 'i') == (after.title[r][1 + k][0] >= 'i');
        assert_int_equal(after.valid[r][k], before.valid[r][k] && !(k > 0 && same && !eval));
        masked += before.valid[r][k] && !after.valid[r][k];
      }
    assert_true(eval ? masked == 0 : masked > 0);
    assert_memory_equal(before.title, after.title, sizeof before.title);
  }
  opened_close(&o);
}

/* Triplets of a file: its positives, its negatives by their margins, and rows that are no good. */
static void test_triplets(void **state) {
  (void)state;
  static const char header[] = "anchor_code,positive_code,negative_code,relation_margin,distance_margin,excluded\n";
  static const char rows[] = "111,11,112,1,1,false\n111,11,22,15,10,false\n111,1111,1121,2,2,False\n"
                             "1121,112,11,0.1,0.1,True\n1121,112,111,1,1,\n1121,112,221,15,10,false\n";
  static const struct {
    const char *row, *message;
  } bad[] = {{"111,11,999,1,1,\n", "no code 999"},
             {"111,,22,1,1,\n", "positive_code is missing"},
             {"111,11,22,0,1,\n", "relation_margin"},
             {"111,11,22,1,x,\n", "distance_margin"},
             {"111,11,22,nan,1,\n", "relation_margin"},
             {"111,11,22,1,-1,\n", "distance_margin is not a number above 0"},
             {"111,11,22,1e12,1,\n", "relation_margin is not a number above 0"},
             {"111,11,22,,1,\n", "relation_margin is missing"},
             {",11,22,1,1,\n", "anchor_code is missing"},
             {"111,11,,1,1,\n", "negative_code is missing"},
             {"7,11,22,1,1,\n", "no code 7"},
             {"111,11,22,1\n", "4 fields where the header names 6"},
             {"111,11,\xff,1,1,\n", "not UTF-8"},
             {"111,11,22,1,1,maybe\n", "excluded is neither true nor false"},
             {"111,111,22,1,1,\n", "111 is anchor and positive"},
             {"111,11,111,1,1,\n", "111 is anchor and negative"},
             {"111,11,11,1,1,\n", "11 is positive and negative"},
             {"111,\"11,22,1,1,\n", "quote"}};
  char path[4200], text[1024], set[4300];
  opened o;
  hr_error err = {0};
  snprintf(path, sizeof path, "%s/triplets-%ld.csv", HR_BINARY_DIR, (long)getpid());
  snprintf(set, sizeof set, "data.taxonomy.triplets=%s", path);
  snprintf(text, sizeof text, "%s%s", header, rows);
  file_put(path, text, strlen(text));
  assert_int_equal(recipe_open(&o, "csv", good, (const char *const[]){set, NULL}, &err), HR_OK);
  if (data_open(&o, false, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  assert_int_equal(hr__data_train_samples(o.data), 3); /* 111 with 11 and with 1111, 1121 with 112 */
  for (uint64_t i = 0; i < 4; i += BATCH) {
    hr_micro micro = hr__data_micro(o.data, i, false);
    batch b;
    batch_fill(&o, &micro, &b);
    for (int r = 0; r < BATCH; r++) {
      int anchor = b.title[r][0][0], positive = b.title[r][1][0], there = 0;
      for (int k = 1; k < CODES - 1; k++)
        there += b.valid[r][k];
      assert_true(anchor == 'b' ? positive == 'a' || positive == 'c' : anchor == 'h' && positive == 'g');
      assert_int_equal(there, anchor == 'h' ? 3 : positive == 'a' ? 2 : 1);
      if (positive == 'c') assert_int_equal(b.title[r][2][0], 'h');
    }
  }
  opened_close(&o);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    snprintf(text, sizeof text, "%s%s%s", header, rows, bad[i].row);
    file_put(path, text, strlen(text));
    assert_int_equal(recipe_open(&o, "csv", good, (const char *const[]){set, NULL}, &err), HR_OK);
    assert_int_equal(data_open(&o, false, &err), HR_BAD_INPUT);
    if (!strstr(err.place, "csv:8") || !strstr(err.message, bad[i].message)) fail_msg("%s: %s", err.place, err.message);
    opened_close(&o);
  }
  static const struct {
    const char *text, *message;
  } files[] = {{NULL, "cannot open"},
               {"", "the file has no header"},
               {"anchor_code,positive_code,relation_margin,distance_margin\n111,11,1,1\n", "negative_code is missing"},
               {"anchor_code,anchor_code\n1,1\n", "two columns have the same name"},
               {"anchor_code,positive_code,negative_code,relation_margin,distance_margin\n", "no code is an anchor"}};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    unlink(path);
    if (files[i].text) file_put(path, files[i].text, strlen(files[i].text));
    assert_int_equal(recipe_open(&o, "csv", good, (const char *const[]){set, NULL}, &err), HR_OK);
    assert_int_equal(data_open(&o, false, &err), HR_BAD_INPUT);
    if (!strstr(err.message, files[i].message) || !err.remedy[0]) fail_msg("%s: %s", err.place, err.message);
    opened_close(&o);
  }
  unlink(path);
}

/* Every sample is in the smallest bucket that its texts fit, uncut, and in each epoch once. */
static void test_buckets(void **state) {
  (void)state;
  static const int64_t buckets[] = {2, LENGTH};
  opened o;
  hr_error err = {0};
  const char *const set[] = {"data.buckets=[2, 6]", "data.eval_fraction=0.2", NULL};
  assert_int_equal(recipe_open(&o, "csv", good, set, &err), HR_OK);
  hr_fields fields[2] = {o.fields, o.fields};
  for (int i = 0; i < 3; i++)
    fields[0].list[3 + i].desc.dim[2] = 2; /* the description; its lengths have no such axis */
  for (int i = 0; i < 3; i++)
    fields[0].list[i].desc.dim[2] = 2;
  hr_data_shape shape = {
      .seed = 3, .eval = true, .batch = BATCH, .buckets = buckets, .fields = fields, .n_buckets = 2, .fillers = 1};
  if (hr__data_open(o.recipe, &shape, &o.data, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  int64_t rows[2] = {0, 0};
  for (uint64_t i = 0; i < hr__data_epoch_rows(o.data); i += BATCH) {
    hr_micro micro = hr__data_micro(o.data, i, false);
    batch b;
    batch_fill(&o, &micro, &b);
    rows[micro.bucket] += micro.rows;
    const int32_t *lengths = &b.text_lengths[0][0];
    for (int r = 0; r < BATCH; r++) {
      int32_t longest = 0;
      for (int k = 0; k < CODES; k++)
        longest = lengths[r * CODES + k] > longest ? lengths[r * CODES + k] : longest;
      if (r < micro.rows) assert_true(micro.bucket == 0 ? longest <= 2 : longest > 2);
      if (r >= micro.rows) assert_int_equal(longest, 0);
    }
  }
  assert_int_equal(rows[0] + rows[1], hr__data_train_samples(o.data));
  assert_true(rows[0] > 0 && rows[1] > 0 && hr__data_eval_samples(o.data) > 0);
  opened_close(&o);
}

/* The hyperboloid above (0, ...): points on one line, as far from each other as the numbers say. */
static void points_put(const double *at, size_t count, float *points) {
  for (size_t i = 0; i < count; i++) {
    points[2 * i] = (float)cosh(at[i]);
    points[2 * i + 1] = (float)sinh(at[i]);
  }
}

static double metric(const hr_judged *judged, const char *name) {
  for (int i = 0; i < judged->count; i++)
    if (strcmp(judged->metric[i].name, name) == 0) return judged->metric[i].value;
  fail_msg("no metric %s", name);
  return 0;
}

static void test_judge(void **state) {
  (void)state;
  opened o;
  hr_taxonomy t;
  hr_taxonomy_rules rules;
  hr_judged judged;
  hr_error err = {0};
  float points[20];
  taxonomy_make(&o, &t, &rules, NULL);
  /*                         11 111 1111 11111 11112 1112 112 1121 22  221 */
  const double near[10] = {1.0, 1.3, 1.6, 1.65, 1.7, 1.5, 0.8, 0.7, -3, -3.2};
  points_put(near, 10, points);
  assert_int_equal(hr__taxonomy_judge(&t, points, 2, &judged, &err), HR_OK);
  assert_true(metric(&judged, "recall_5") == 1);
  assert_true(metric(&judged, "recall_1") == 5.0 / 8);
  assert_true(fabs(metric(&judged, "correlation") - 0.6903) < 1e-3);
  int32_t codes[3];
  double distances[3];
  assert_int_equal(hr__points_nearest(points, 10, 2, find(&t, "11111"), 3, codes, distances), 3);
  assert_int_equal(codes[2], (int32_t)find(&t, "1112"));
  assert_true(fabs(distances[2] - 0.15) < 1e-3);
  /* All in one place: nothing is found. */
  const double same[10] = {0};
  points_put(same, 10, points);
  assert_int_equal(hr__taxonomy_judge(&t, points, 2, &judged, &err), HR_OK);
  assert_true(metric(&judged, "recall_5") < 0.4 && metric(&judged, "correlation") == 0);
  assert_true(metric(&judged, "mean_rank") == 9);
  hr__taxonomy_close(&t);
  opened_close(&o);
}

#define LONG "123456789012345678901234"
#define ROW  "{\"code\": \"11\", \"title\": \"a\"}\n"

static void test_bad(void **state) {
  (void)state;
  int wrong = 0;
  static const struct {
    const char *ending, *text, *set, *place, *message;
  } cases[] = {
      {"csv", "code,title\n11,a\n,b\n", NULL, "csv:3", "code is missing"},
      {"csv", "title,description\na,b\n", NULL, "csv:2", "code is missing"},
      {"csv", "code,description\n11,a\n", NULL, "csv:2", "title is missing"},
      {"csv", "code,title\n11,a\n111,b\n11,c\n", NULL, "csv:4", "code 11 is there twice"},
      {"csv", "code,title\n11,a\n111,b\n3456,c\n", NULL, "csv:4", "code 3456 has no parent"},
      {"csv", "code,title\n\"1 1\",a\n", NULL, "csv:2", "is not a code"},
      {"csv", "code,title\n11,a,b\n", NULL, "csv:2", ""},
      {"csv", "code,title\n", NULL, "", "no codes"},
      {"csv", "", NULL, "", ""},
      {"csv", "code,title\n11,\xff\n", NULL, "csv:2", ""},
      {"jsonl", "{\"code\": \"11\", \"title\": [1]}\n", NULL, "jsonl:1", "title is not a text"},
      {"jsonl", "{\"code\": \"11\", \"title\": \"a\", \"excluded_codes\": {\"a\": 1}}\n", NULL, "jsonl:1", "excluded"},
      {"jsonl", "{\"code\": \"11\", \"title\": \"a\", \"excluded_codes\": [[1]]}\n", NULL, "jsonl:1", "excluded"},
      {"jsonl", "{\"code\": \"11\", \"title\": \"a\"\n", NULL, "jsonl:1", ""},
      {"jsonl", "{\"code\": null, \"title\": \"a\"}\n", NULL, "jsonl:1", "code is missing"},
      {"csv", "code,title\n11,a\n22,b\n", NULL, "", "no code is an anchor"},
      {"csv", "code,title\n\"1,1\",a\n", NULL, "csv:2", "is not a code"},
      {"csv", "code,title\n11,a\n1;1,b\n", NULL, "csv:3", "is not a code"},
      {"csv", "code,title\n11,a\n\"11\n1\",b\n", NULL, "csv:3", "is not a code"},
      {"csv", "code,title\n" LONG LONG LONG ",a\n", NULL, "csv:2", "is too long"},
      {"csv", "code,title,title\n11,a,b\n", NULL, "csv:1", "two columns have the same name"},
      {"csv", "code,title\n11,\"a\n", NULL, "csv:2", "quote"},
      {"csv", "code,title\n11,a\n111\n", NULL, "csv:3", "1 fields where the header names 2"},
      {"csv", "code,title\n11,a\n111,\n", NULL, "csv:3", "title is missing"},
      {"csv", "code,title\n1,a\n11,b\n2345,c\n23,d\n", NULL, "csv:5", "code 23 has no parent"},
      {"csv", "code,title\n\xc3(,a\n", NULL, "csv:2", "not UTF-8"},
      {"csv", "\n", NULL, "", ""},
      {"jsonl", "{\"code\": \"11\"}\n", NULL, "jsonl:1", "title is missing"},
      {"jsonl", "{\"code\": \"11\", \"title\": null}\n", NULL, "jsonl:1", "title is missing"},
      {"jsonl", "{\"code\": [\"11\"], \"title\": \"a\"}\n", NULL, "jsonl:1", "code is not a text"},
      {"jsonl", "{\"code\": \"11\", \"title\": \"a\", \"description\": {\"b\": 1}}\n", NULL, "jsonl:1",
       "description is not a text"},
      {"jsonl", ROW "{\"code\": \"11\", \"title\": \"b\"}\n", NULL, "jsonl:2", "code 11 is there twice"},
      {"jsonl", ROW "[\"111\", \"b\"]\n", NULL, "jsonl:2", ""},
      {"jsonl", ROW "7\n", NULL, "jsonl:2", ""},
      {"jsonl", ROW "{\"code\": \"111\", \"code\": \"112\", \"title\": \"b\"}\n", NULL, "jsonl:2", "code"},
      {"jsonl", ROW "{\"code\": \"111\", \"title\": \"\xff\"}\n", NULL, "jsonl:2", ""},
      {"jsonl", ROW "{\"code\": \"1\\u0000\", \"title\": \"b\"}\n", NULL, "jsonl:2", ""},
      {"jsonl", ROW "{\"code\": \"111\", \"title\": \"b\"} x\n", NULL, "jsonl:2", ""},
      {"csv", good, "data.taxonomy.anchor_level=[9]", "", "no code is an anchor"},
      {"csv", good, "data.taxonomy.anchor_level=2", "", "anchor_level"},
      {"csv", good, "data.taxonomy.anchor_level=[two]", "", "list of numbers"},
      {"csv", good, "data.taxonomy.positive_relation=[]", "", "list of numbers"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    opened o;
    hr_error err = {0};
    hr_status status = recipe_open(&o, cases[i].ending, cases[i].text, (const char *const[]){cases[i].set, NULL}, &err);
    if (status == HR_OK) status = data_open(&o, false, &err);
    if (status != HR_BAD_INPUT || !strstr(err.place, cases[i].place) || !strstr(err.message, cases[i].message) ||
        !err.remedy[0]) {
      print_message("case %zu: %s: %s: %s (%s)\n", i, hr_status_name(status), err.place, err.message, err.remedy);
      wrong++;
    }
    opened_close(&o);
  }
  assert_int_equal(wrong, 0);
}

static hr_status opened_and_closed(void *arg, hr_error *err) {
  opened *o = arg;
  hr_status status = recipe_open(o, "csv", good, NULL, err);
  if (status == HR_OK) status = data_open(o, false, err);
  opened_close(o);
  return status;
}

static void test_memory_that_runs_out(void **state) {
  (void)state;
  opened o;
  assert_true(hr_test_each_fault(opened_and_closed, &o) > 50);
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tree),   cmocka_unit_test(test_draw),     cmocka_unit_test(test_weights),
      cmocka_unit_test(test_items),  cmocka_unit_test(test_held_out), cmocka_unit_test(test_judge),
      cmocka_unit_test(test_bad),    cmocka_unit_test(test_buckets),  cmocka_unit_test(test_items_read),
      cmocka_unit_test(test_groups), cmocka_unit_test(test_triplets), cmocka_unit_test(test_memory_that_runs_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
