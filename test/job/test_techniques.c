/* The table of memory techniques against the keys that recipes have: every row is a key with the plain value as its
 * default, takes every word that is tried, and what depends on it or is excluded by it exists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "job/settings.h"
#include "recipe/techniques.h"

static const char text[] =
    "model: {family: llama, config: {hidden_size: 64, intermediate_size: 128, num_hidden_layers: 2, "
    "num_attention_heads: 2, vocab_size: 256}}\n"
    "data: {source: synthetic, sequence_length: 32}\n";

static hr_recipe *recipe_with(const char *override) {
  hr_recipe *recipe = NULL;
  hr_error err = {0};
  if (hr__settings_parse("test", ".", text, strlen(text), &override, override ? 1 : 0, &recipe, &err) != HR_OK)
    fail_msg("%s: %s", override ? override : "the recipe", err.message);
  return recipe;
}

static void test_rows_are_keys(void **state) {
  (void)state;
  hr_recipe *plain = recipe_with(NULL);
  for (int i = 0; i < HR_TECHNIQUE_KEYS; i++) {
    const hr_technique_key *row = &hr_technique_keys[i];
    char path[64], item[HR_TECHNIQUE_WORD];
    bool section = row->flags & HR_TECHNIQUE_IS_SECTION;
    snprintf(path, sizeof path, "%s%s", row->path, section ? ".kind" : "");
    if (!hr__recipe_key(plain, path)) fail_msg("%s is no key", path);
    if (section)
      assert_false(hr__recipe_given(plain, row->path));
    else if (!hr__recipe_word_is(plain, row->path, row->plain))
      fail_msg("%s is %s by default, the table has %s", row->path, hr__recipe_text(plain, row->path), row->plain);
    for (const char *at = row->dependents; hr__technique_next(&at, item);)
      if (!hr__recipe_key(plain, item) && !hr__technique_find(item)) fail_msg("%s: no key %s", row->path, item);
    if (row->excludes && !hr__recipe_key(plain, row->excludes)) fail_msg("%s: no key %s", row->path, row->excludes);
    assert_ptr_equal(hr__technique_find(row->path), row);
  }
  assert_null(hr__technique_find("training.lr"));
  hr__recipe_destroy(plain);
}

/* Every word, and `auto` where it is said to be closed by somebody. */
static void test_words_are_values(void **state) {
  (void)state;
  for (int i = 0; i < HR_TECHNIQUE_KEYS; i++) {
    const hr_technique_key *row = &hr_technique_keys[i];
    char override[128], word[HR_TECHNIQUE_WORD];
    bool plain = row->words == NULL;
    for (const char *at = row->words; hr__technique_next(&at, word);) {
      snprintf(override, sizeof override, "%s=%s", row->path, word);
      hr__recipe_destroy(recipe_with(override));
      plain |= strcmp(word, row->plain) == 0;
    }
    if (!plain) fail_msg("%s: the plain value is none of the words", row->path);
    if (!(row->flags & (HR_TECHNIQUE_SEARCHED | HR_TECHNIQUE_CHOSEN | HR_TECHNIQUE_SLICED))) continue;
    snprintf(override, sizeof override, "%s=auto", row->path);
    hr__recipe_destroy(recipe_with(override));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows_are_keys), cmocka_unit_test(test_words_are_values)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
