/* Taxonomies: a file of codes and, behind 0x1e, one of triplets, in a folder of its own. The first byte says which
 * endings their names have. What is read gives samples whose codes are there, and points of it can be judged; what is
 * refused says where and why. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/keys.h"
#include "data/taxonomy.h"
#include "demand.h"

enum { NEGATIVES = 3, CODES = 2 + NEGATIVES, LENGTH = 6, TITLE = 4, MOST = 1 << 13, TEXT = 4200, SHOWN = 64 };

static char folder[4096], paths[4][TEXT]; /* codes and triplets, as CSV and as JSON lines */
static hr_recipe *recipes[2][2][2];       /* [ending][with triplets][codes only] */
static hr_fields fields;

static void folder_remove(void) {
  for (int i = 0; i < 8; i++)
    hr__recipe_destroy(recipes[i >> 2][i >> 1 & 1][i & 1]);
  for (int i = 0; i < 4; i++)
    unlink(paths[i]);
  rmdir(folder);
}

static void recipe_make(int ending, int triplets, int only) {
  static const char base[] = "data: { source: taxonomy, tokenizer: bytes, sequence_length: 6, eval_fraction: 0.3,\n"
                             "        taxonomy: { n_negatives: 3, n_positives: 5, title_length: 4 } }\n";
  const hr_key_table tables[] = {hr_data_keys, hr_masking_keys, hr_taxonomy_keys};
  char set[3][TEXT + 64];
  const char *const list[] = {set[0], set[1], set[2]};
  hr_error err = {0};
  snprintf(set[0], sizeof set[0], "data.path=%s", paths[2 * ending]);
  snprintf(set[1], sizeof set[1], "data.taxonomy.codes_only=%s", only ? "true" : "false");
  snprintf(set[2], sizeof set[2], "data.taxonomy.triplets=%s", paths[2 * ending + 1]);
  DEMAND(hr__recipe_parse("r.yaml", ".", base, sizeof base - 1, list, triplets ? 3 : 2, tables, 3,
                          &recipes[ending][triplets][only], &err) == HR_OK);
}

static void fields_make(void) {
  static const char *const names[][3] = {{"title", "lengths_0", "mask_0"}, {"description", "lengths_1", "mask_1"}};
  for (int c = 0; c < 2; c++) {
    int64_t length = c == 0 ? TITLE : LENGTH;
    hr_desc tokens = {HR_I32, 3, {1, CODES, length}}, lengths = {HR_I32, 2, {1, CODES}};
    hr_desc mask = {HR_U8, 3, {1, CODES, length}};
    hr__field_add(&fields, (hr_field){.name = names[c][0], .purpose = HR_FOR_TOKENS, .desc = tokens, .bound = 256});
    hr__field_add(&fields, (hr_field){.name = names[c][1], .purpose = HR_FOR_VALUES, .desc = lengths});
    hr__field_add(&fields, (hr_field){.name = names[c][2], .purpose = HR_FOR_VALUES, .desc = mask});
  }
  hr_desc valid = {HR_U8, 2, {1, CODES - 1}};
  hr__field_add(&fields, (hr_field){.name = "valid", .purpose = HR_FOR_VALUES, .desc = valid});
}

static void world_make(void) {
  static const char *const names[] = {"codes.csv", "triplets.csv", "codes.jsonl", "triplets.jsonl"};
  if (folder[0]) return;
  const char *memory = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  snprintf(folder, sizeof folder, "%s/headroom-fuzz-taxonomy-%ld", memory, (long)getpid());
  DEMAND(mkdir(folder, 0700) == 0 || access(folder, W_OK) == 0);
  for (int i = 0; i < 4; i++)
    snprintf(paths[i], sizeof paths[i], "%s/%s", folder, names[i]);
  for (int i = 0; i < 8; i++)
    recipe_make(i >> 2, i >> 1 & 1, i & 1);
  fields_make();
  atexit(folder_remove);
}

static void file_write(const char *path, const uint8_t *from, size_t bytes) {
  FILE *file = fopen(path, "wb");
  DEMAND(file && fwrite(from, 1, bytes, file) == bytes && fclose(file) == 0);
}

/* Tokens of bytes, at least one position each, and masks that say the same as lengths. */
static void sample_check(const void *state, uint64_t entry) {
  int32_t title[CODES][TITLE], text[CODES][LENGTH], lengths[2][CODES];
  uint8_t title_mask[CODES][TITLE], text_mask[CODES][LENGTH], valid[CODES - 1];
  hr_room room = {
      .fields = &fields, .at = {title, lengths[0], title_mask, text, lengths[1], text_mask, valid}, .length = LENGTH};
  hr_error err = {0};
  DEMAND(hr_source_taxonomy.fill(state, false, entry, &room, &err) == HR_OK);
  for (int k = 0; k < CODES; k++) {
    DEMAND(lengths[0][k] >= 1 && lengths[0][k] <= TITLE && lengths[1][k] >= 1 && lengths[1][k] <= LENGTH);
    for (int i = 0; i < LENGTH; i++)
      DEMAND(text_mask[k][i] == (i < lengths[1][k]) && text[k][i] >= 0 && text[k][i] < 256);
    for (int i = 0; i < TITLE; i++)
      DEMAND(title_mask[k][i] == (i < lengths[0][k]) && title[k][i] >= 0 && title[k][i] < 256);
  }
  for (int k = 1; k < CODES - 1; k++)
    DEMAND(valid[k] <= valid[k - 1]);
}

static void accepted(const void *state, bool only) {
  int64_t of_an_entry;
  uint64_t samples = hr_source_taxonomy.samples(state), items = hr_source_taxonomy.items(state, &of_an_entry);
  DEMAND(items > 0 && of_an_entry == CODES && (only ? samples == 0 : samples > 0));
  for (uint64_t i = 0; i < samples && i < SHOWN; i++)
    sample_check(state, i | i << HR_ENTRY_BITS);
  for (uint64_t i = 0; i < SHOWN; i++) /* behind the last ones there is nothing, which is fine */
    sample_check(state, samples + i);
  for (uint64_t i = 0; i < items; i++)
    DEMAND(hr_source_taxonomy.item(state, i)[0]);
  float *points = calloc(items, 2 * sizeof *points);
  hr_judged judged;
  hr_error err = {0};
  DEMAND(points);
  for (uint64_t i = 0; i < items; i++)
    points[2 * i] = 1;
  DEMAND(hr_source_taxonomy.judge(state, points, 2, &judged, &err) == HR_OK);
  for (int i = 0; i < judged.count; i++)
    DEMAND(isfinite(judged.metric[i].value));
  free(points);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0 || size > MOST || data[0] > 1) return 0;
  world_make();
  int ending = data[0];
  const uint8_t *begin = data + 1, *end = data + size, *stop = memchr(begin, 0x1e, size - 1);
  file_write(paths[2 * ending], begin, (size_t)((stop ? stop : end) - begin));
  if (stop) file_write(paths[2 * ending + 1], stop + 1, (size_t)(end - stop - 1));
  for (int only = 0; only < 2; only++) {
    hr_source_request request = {.recipe = recipes[ending][stop != NULL][only],
                                 .key = "data.path",
                                 .fields = &fields,
                                 .length = LENGTH,
                                 .seed = 3,
                                 .held = only ? HR_HOLD_NONE : HR_HOLD_PART};
    hr_error err = {0};
    void *state = NULL;
    hr_status status = hr_source_taxonomy.open(&request, &state, &err);
    DEMAND(status == HR_OK || ((status == HR_BAD_INPUT || status == HR_UNSUPPORTED) && err.message[0] && err.place[0]));
    if (status != HR_OK) continue;
    accepted(state, only);
    hr_source_taxonomy.close(state);
  }
  return 0;
}
