/* See rules.h. */
#include "recipe/rules.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

const char *hr__rules_word(const hr_recipe *recipe, const char *path, const char *name, const char *plain) {
  if (!hr__recipe_has(recipe, path)) return plain;
  const hr_doc_node *tree = hr__recipe_tree(recipe, path);
  if (!tree) return hr__recipe_text(recipe, path);
  for (const hr_doc_node *rule = tree->child; rule; rule = rule->next)
    if (hr__name_matches(name, rule->key)) return rule->text;
  return plain;
}

typedef struct written {
  char *text;
  size_t used, capacity;
} written;

/* Keys of YAML that are not plain words are quoted. */
static void rule_write(written *w, const char *key, const char *word) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
  const char *quote = key[strspn(key, plain)] ? "\"" : "", *before = w->text[w->used - 1] == '{' ? "" : ", ";
  int more = snprintf(w->text + w->used, w->capacity - w->used, "%s%s%s%s: %s", before, quote, key, quote, word);
  w->used += more > 0 ? (size_t)more : w->capacity;
  if (w->used >= w->capacity) w->used = w->capacity - 1;
}

bool hr__rules_with(const hr_recipe *recipe, const char *path, const char *name, const char *word, char *out,
                    size_t capacity) {
  const hr_doc_node *tree = hr__recipe_has(recipe, path) ? hr__recipe_tree(recipe, path) : NULL;
  written w = {out, (size_t)snprintf(out, capacity, "%s={", path), capacity};
  if (w.used + 1 >= capacity) return false;
  bool there = false;
  for (const hr_doc_node *rule = tree ? tree->child : NULL; rule; rule = rule->next)
    there |= strcmp(rule->key, name) == 0;
  if (!there) rule_write(&w, name, word); /* before patterns that fit it too */
  for (const hr_doc_node *rule = tree ? tree->child : NULL; rule; rule = rule->next)
    rule_write(&w, rule->key, strcmp(rule->key, name) == 0 ? word : rule->text);
  if (!tree && hr__recipe_has(recipe, path)) rule_write(&w, "*", hr__recipe_text(recipe, path));
  if (w.used + 2 >= capacity) return false;
  memcpy(out + w.used, "}", 2);
  return true;
}

static bool words_have(const char *words, const char *word) {
  size_t length = strlen(word);
  for (const char *at = words; at; at = strchr(at, '|')) {
    at += *at == '|';
    if (strcspn(at, "|") == length && strncmp(at, word, length) == 0) return true;
  }
  return false;
}

/* "none, selective" of "none|selective". */
static void words_list(const char *words, char *out, size_t capacity) {
  size_t used = 0;
  for (; *words && used + 3 < capacity; words++) {
    out[used++] = *words == '|' ? ',' : *words;
    if (*words == '|') out[used++] = ' ';
  }
  out[used] = '\0';
}

hr_status hr__rules_check(const hr_recipe *recipe, const char *path, const char *words, const char *what,
                          const char *(*next)(const void *user, size_t i), const void *user, hr_error *err) {
  const hr_doc_node *tree = hr__recipe_has(recipe, path) ? hr__recipe_tree(recipe, path) : NULL;
  char list[96], remedy[160];
  if (!tree) return HR_OK;
  words_list(words, list, sizeof list);
  snprintf(remedy, sizeof remedy, "write {pattern: word}, with one of the words %s", list);
  if (tree->kind != HR_DOC_MAP)
    return hr__recipe_fail(recipe, path, remedy, err, "%s is a list, but it must name %ss", path, what);
  for (const hr_doc_node *rule = tree->child; rule; rule = rule->next) {
    bool word = rule->kind == HR_DOC_SCALAR && words_have(words, rule->text), used = false;
    if (!word)
      return hr__recipe_fail_at(recipe, path, rule, remedy, err, "%s: the word for \"%.100s\" must be one of: %s", path,
                                rule->key, list);
    const char *name;
    for (size_t i = 0; !used && (name = next(user, i)); i++)
      used = hr__name_matches(name, rule->key);
    if (!used)
      return hr__recipe_fail_at(recipe, path, rule, "`headroom dump RECIPE --after model` lists the names", err,
                                "%s: the pattern \"%.100s\" fits no %s of the model", path, rule->key, what);
  }
  return HR_OK;
}
