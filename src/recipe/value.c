/* Values: what a scalar or list means to a key, by the key's type, and what to say when it means nothing. */
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "recipe/internal.h"

/* A limit beyond this is "no limit" to a person. */
static const double LIMIT_SHOWN = 9e18;

void hr__found_text(const hr_doc_node *node, char *out, size_t capacity) {
  int64_t integer;
  double number;
  bool flag;
  size_t items = 0;
  for (const hr_doc_node *child = node->child; child; child = child->next)
    items++;
  if (node->kind == HR_DOC_MAP) {
    snprintf(out, capacity, "a section with %zu key%s", items, items == 1 ? "" : "s");
  } else if (node->kind == HR_DOC_LIST) {
    snprintf(out, capacity, "a list of %zu", items);
  } else if (hr__doc_is_null(node)) {
    snprintf(out, capacity, "empty");
  } else if (hr__doc_bool(node, &flag)) {
    snprintf(out, capacity, "the boolean %s", flag ? "true" : "false");
  } else if (hr__doc_int(node, &integer)) {
    snprintf(out, capacity, "the whole number %.40s", node->text);
  } else if (hr__doc_float(node, &number)) {
    snprintf(out, capacity, "the number %.40s", node->text);
  } else {
    snprintf(out, capacity, "the text \"%.80s\"", node->text);
  }
}

/* "a, b, c" of "a|b|c"; the word "%" stands for all of its kind. */
static void choices_list(const char *choices, char *out, size_t capacity) {
  static const char share[] = "a share up to 100%";
  size_t used = 0;
  out[0] = '\0';
  for (const char *at = choices; at && used < capacity; at = strchr(at, '|')) {
    at += *at == '|';
    int length = (int)strcspn(at, "|");
    bool percent = length == 1 && *at == '%';
    used += (size_t)snprintf(out + used, capacity - used, "%s%.*s", at == choices ? "" : ", ",
                             percent ? (int)strlen(share) : length, percent ? share : at);
  }
}

static bool choices_have(const char *choices, const char *word) {
  size_t length = strlen(word);
  for (const char *at = choices; at; at = strchr(at, '|')) {
    at += *at == '|';
    if (strcspn(at, "|") == length && strncmp(at, word, length) == 0) return true;
  }
  return false;
}

/* What other programs call a choice of ours. */
static const char *choices_called(const char *choices, const char *word) {
  static const char *const names[][2] = {{"gpu", "cuda"},
                                         {"nvidia", "cuda"},
                                         {"fp32", "32-true"},
                                         {"float32", "32-true"},
                                         {"fp16", "16-mixed"},
                                         {"float16", "16-mixed"},
                                         {"half", "16-mixed"},
                                         {"bfloat16", "bf16-mixed"},
                                         {"cpu", "host"},
                                         {"ram", "host"},
                                         {"nvme", "disk"},
                                         {"ssd", "disk"},
                                         {"full", "every-layer"},
                                         {"true", "every-layer"},
                                         {"false", "none"},
                                         {"adamw_torch", "adamw"},
                                         {"adamw_bnb_8bit", "adamw8bit"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcasecmp(word, names[i][0]) == 0 && choices_have(choices, names[i][1])) return names[i][1];
  return NULL;
}

static bool choices_near(const char *choices, const char *word, char *best, size_t capacity) {
  size_t length = strlen(word), limit = length / 3 + 1, found = limit + 1;
  const char *called = choices_called(choices, word);
  if (called) {
    snprintf(best, capacity, "%s", called);
    return true;
  }
  for (const char *at = choices; at && length < 64; at = strchr(at, '|')) {
    at += *at == '|';
    char choice[64];
    snprintf(choice, sizeof choice, "%.*s", (int)strcspn(at, "|"), at);
    size_t distance = hr__text_distance(word, choice);
    if (length > 0 && strncmp(choice, word, length) == 0) distance = limit; /* a beginning: "bf16" */
    if (distance < found && distance < strlen(choice)) {
      found = distance;
      snprintf(best, capacity, "%s", choice);
    }
  }
  return found <= limit;
}

bool hr__choice_meant(const hr_key *key, const char *word, char *out, size_t capacity) {
  if (!choices_have(key->choices, word)) return choices_near(key->choices, word, out, capacity);
  snprintf(out, capacity, "%s", word);
  return true;
}

static void expected_text(const hr_key *key, char *out, size_t capacity) {
  static const char *const kinds[] = {
      [HR_KEY_INT] = "a whole number",
      [HR_KEY_FLOAT] = "a number",
      [HR_KEY_BOOL] = "true or false",
      [HR_KEY_TEXT] = "text",
      [HR_KEY_SIZE] = "a size in bytes",
      [HR_KEY_FLOATS] = "",
      [HR_KEY_PATH] = "a path",
      [HR_KEY_CHOICE] = "one of:",
      [HR_KEY_TEXTS] = "a list of names",
      [HR_KEY_TREE] = "a section",
      [HR_KEY_PATHS] = "a path or a list of paths",
  };
  char words[160] = "";
  if (key->choices) choices_list(key->choices, words, sizeof words);
  const char *joint = !*words ? "" : key->type == HR_KEY_CHOICE ? " " : " or ";
  snprintf(out, capacity, "%s%s%s", kinds[key->type], joint, words);
  if (key->type == HR_KEY_FLOATS) snprintf(out, capacity, "a list of %d numbers%s%s", key->length, joint, words);
  if (key->type == HR_KEY_TREE && key->example && *key->example == '[') snprintf(out, capacity, "a list");
  size_t used = strlen(out);
  if (key->tree && used < capacity) snprintf(out + used, capacity - used, ", or a section");
}

void hr__example_text(const hr_key *key, char *out, size_t capacity) {
  bool limited = key->min != 0 || key->max != 0;
  double low = limited ? key->min : 0, high = limited ? key->max : INFINITY;
  if (key->example) {
    snprintf(out, capacity, "%s", key->example);
    return;
  }
  if (key->fallback) {
    snprintf(out, capacity, "%s", key->fallback);
    return;
  }
  switch (key->type) {
  case HR_KEY_INT:
    snprintf(out, capacity, "%.15g", fmin(fmax(8, ceil(low)), floor(high)));
    break;
  case HR_KEY_FLOAT:
    snprintf(out, capacity, "%.15g", fmin(fmax(0.5, low), high));
    break;
  case HR_KEY_BOOL:
    snprintf(out, capacity, "true");
    break;
  case HR_KEY_TEXT:
    snprintf(out, capacity, "NAME");
    break;
  case HR_KEY_CHOICE:
    snprintf(out, capacity, "%.*s", (int)strcspn(key->choices, "|"), key->choices);
    break;
  case HR_KEY_SIZE:
    snprintf(out, capacity, "512MiB");
    break;
  case HR_KEY_FLOATS: {
    size_t used = (size_t)snprintf(out, capacity, "[");
    for (int i = 0; i < key->length && used + 32 < capacity; i++) {
      used += (size_t)snprintf(out + used, capacity - used, "%s%.15g", i ? ", " : "", fmin(fmax(0.5, low), high));
    }
    snprintf(out + used, capacity - used, "]");
    break;
  }
  case HR_KEY_PATH:
    snprintf(out, capacity, "FOLDER/FILE");
    break;
  case HR_KEY_PATHS:
    snprintf(out, capacity, "FOLDER/FILE");
    break;
  case HR_KEY_TEXTS:
    snprintf(out, capacity, "[NAME, NAME]");
    break;
  case HR_KEY_TREE:
    snprintf(out, capacity, "{ NAME: VALUE }");
    break;
  }
}

static const char *key_leaf(const hr_key *key) {
  const char *dot = strrchr(key->path, '.');
  return dot ? dot + 1 : key->path;
}

/* A value of the wrong kind. `exact`: the example is what was meant, in other words. */
static hr_status type_wrong(const hr_setting *setting, const hr_doc_node *node, const char *exact, hr_error *err) {
  char place[HR_DOC_PLACE], expected[256], found[160], example[128], remedy[HR_REMEDY_TEXT];
  hr__doc_place(setting->origin, node, false, place);
  expected_text(setting->key, expected, sizeof expected);
  hr__found_text(node, found, sizeof found);
  hr__example_text(setting->key, example, sizeof example);
  if (exact) {
    snprintf(remedy, sizeof remedy, "did you mean \"%s: %s\"?", key_leaf(setting->key), exact);
  } else {
    snprintf(remedy, sizeof remedy, "write for example \"%s: %s\"", key_leaf(setting->key), example);
  }
  return hr__fail(err, HR_BAD_INPUT, place, remedy, "%s must be %s, but it is %s", setting->key->path, expected, found);
}

static hr_status range_check(const hr_setting *setting, const hr_doc_node *node, double value, hr_error *err) {
  const hr_key *key = setting->key;
  if ((key->min == 0 && key->max == 0) || (value >= key->min && value <= key->max)) return HR_OK;
  char place[HR_DOC_PLACE], range[128];
  hr__doc_place(setting->origin, node, false, place);
  if (key->max > LIMIT_SHOWN) {
    snprintf(range, sizeof range, "at least %.15g", key->min);
  } else if (key->min < -LIMIT_SHOWN) {
    snprintf(range, sizeof range, "at most %.15g", key->max);
  } else {
    snprintf(range, sizeof range, "between %.15g and %.15g", key->min, key->max);
  }
  char remedy[HR_REMEDY_TEXT];
  snprintf(remedy, sizeof remedy, "choose a value %s%s", strncmp(range, "at", 2) == 0 ? "of " : "", range);
  return hr__fail(err, HR_BAD_INPUT, place, remedy, "%s is %.60s, but it must be %s", key->path, node->text, range);
}

static hr_status int_read(hr_setting *setting, hr_error *err) {
  const hr_doc_node *node = setting->node;
  double number;
  if (hr__doc_int(node, &setting->integer)) return range_check(setting, node, (double)setting->integer, err);
  if (!hr__doc_float(node, &number) || number != floor(number)) return type_wrong(setting, node, NULL, err);
  if (fabs(number) < 9e15) { /* 1e6 where 1000000 is asked for */
    char exact[32];
    snprintf(exact, sizeof exact, "%.0f", number);
    return type_wrong(setting, node, exact, err);
  }
  HR_TRY(range_check(setting, node, number, err));
  return type_wrong(setting, node, NULL, err);
}

static hr_status float_read(hr_setting *setting, hr_error *err) {
  if (!hr__doc_float(setting->node, &setting->number) || !isfinite(setting->number)) {
    return type_wrong(setting, setting->node, NULL, err);
  }
  return range_check(setting, setting->node, setting->number, err);
}

static hr_status floats_read(hr_recipe *recipe, hr_setting *setting, hr_error *err) {
  if (setting->node->kind != HR_DOC_LIST) return type_wrong(setting, setting->node, NULL, err);
  int count = 0;
  for (const hr_doc_node *item = setting->node->child; item && count <= setting->key->length; item = item->next)
    count++;
  if (count != setting->key->length) return type_wrong(setting, setting->node, NULL, err);
  double *numbers = hr__arena_array(&recipe->arena, (size_t)count, sizeof *numbers);
  if (!numbers) return hr__nomem(err);
  setting->numbers = numbers;
  for (const hr_doc_node *item = setting->node->child; item; item = item->next, numbers++) {
    if (!hr__doc_float(item, numbers) || !isfinite(*numbers)) return type_wrong(setting, item, NULL, err);
    HR_TRY(range_check(setting, item, *numbers, err));
  }
  return HR_OK;
}

static hr_status choice_read(hr_setting *setting, hr_error *err) {
  const hr_doc_node *node = setting->node;
  setting->text = node->text;
  if (node->kind == HR_DOC_SCALAR && choices_have(setting->key->choices, node->text)) return HR_OK;
  char near[64];
  bool close = node->kind == HR_DOC_SCALAR && choices_near(setting->key->choices, node->text, near, sizeof near);
  return type_wrong(setting, node, close ? near : NULL, err);
}

static hr_status size_read(hr_setting *setting, hr_error *err) {
  const hr_doc_node *node = setting->node;
  if (node->kind != HR_DOC_SCALAR || !hr__size_parse(node->text, &setting->size)) {
    return type_wrong(setting, node, NULL, err);
  }
  return range_check(setting, node, (double)setting->size, err);
}

/* A path as it is from where the process stands. */
static hr_status path_place(hr_recipe *recipe, const char *text, const char **out, hr_error *err) {
  bool joined = recipe->folder[0] && text[0] != '/';
  char *path = hr__arena_format(&recipe->arena, "%s/%s", joined ? recipe->folder : "", text);
  if (!path) return hr__nomem(err);
  if (!joined && text[0] != '/') path++;
  hr__path_clean(path);
  *out = path;
  return HR_OK;
}

static hr_status path_read(hr_recipe *recipe, hr_setting *setting, hr_error *err) {
  const hr_doc_node *node = setting->node;
  if (node->kind != HR_DOC_SCALAR || !*node->text) return type_wrong(setting, node, NULL, err);
  return path_place(recipe, node->text, &setting->text, err);
}

static hr_status texts_read(hr_recipe *recipe, hr_setting *setting, hr_error *err) {
  const hr_doc_node *node = setting->node, *first = node->kind == HR_DOC_LIST ? node->child : node;
  if (node->kind == HR_DOC_MAP || !first) return type_wrong(setting, node, NULL, err);
  size_t count = 0;
  for (const hr_doc_node *item = first; item; item = first == node ? NULL : item->next)
    count++;
  const char **texts = hr__arena_array(&recipe->arena, count, sizeof *texts);
  if (!texts) return hr__nomem(err);
  for (const hr_doc_node *item = first; item; item = first == node ? NULL : item->next) {
    if (item->kind != HR_DOC_SCALAR || !*item->text) return type_wrong(setting, item, NULL, err);
    texts[setting->n_texts] = item->text;
    if (setting->key->type == HR_KEY_PATHS) HR_TRY(path_place(recipe, item->text, &texts[setting->n_texts], err));
    setting->n_texts++;
  }
  setting->texts = texts;
  return HR_OK;
}

/* "50%": a number from 0 to 100. */
static bool text_is_percent(const char *text) {
  char *end;
  if (strspn(text, "0123456789.") + 1 != strlen(text)) return false;
  double value = strtod(text, &end);
  return end != text && strcmp(end, "%") == 0 && value >= 0 && value <= 100;
}

static bool node_is_word(const hr_key *key, const hr_doc_node *node) {
  if (!key->choices || key->type == HR_KEY_CHOICE || node->kind != HR_DOC_SCALAR) return false;
  if (choices_have(key->choices, "%") && text_is_percent(node->text)) return true;
  return strcmp(node->text, "%") != 0 && choices_have(key->choices, node->text);
}

/* Whether a list is one of choices: where values may be lists themselves, only a list of lists is. */
static bool node_is_open(const hr_key *key, const hr_doc_node *node) {
  if (node->kind != HR_DOC_LIST || !node->child || key->open || key->folder) return false;
  bool lists = key->type == HR_KEY_FLOATS || key->type == HR_KEY_TEXTS || key->type == HR_KEY_PATHS ||
               (key->type == HR_KEY_TREE && key->example && *key->example == '[');
  return !lists || node->child->kind == HR_DOC_LIST;
}

static hr_status value_read(hr_recipe *recipe, hr_setting *setting, hr_error *err);

/* Every choice is checked as a value of its own; the first one counts until the setting is closed. */
static hr_status open_read(hr_recipe *recipe, hr_setting *setting, hr_error *err) {
  const hr_doc_node *list = setting->node;
  hr_setting first = {0};
  for (const hr_doc_node *choice = list->child; choice; choice = choice->next) {
    hr_setting one = {.key = setting->key, .node = choice, .origin = setting->origin};
    HR_TRY(value_read(recipe, &one, err));
    if (choice == list->child) first = one;
  }
  *setting = first;
  setting->node = list;
  setting->open = list;
  return HR_OK;
}

hr_status hr__setting_read(hr_recipe *recipe, hr_setting *setting, hr_error *err) {
  return (node_is_open(setting->key, setting->node) ? open_read : value_read)(recipe, setting, err);
}

static hr_status value_read(hr_recipe *recipe, hr_setting *setting, hr_error *err) {
  const hr_doc_node *node = setting->node;
  setting->has = true;
  if (node_is_word(setting->key, node)) {
    setting->word = true;
    setting->text = node->text;
    return HR_OK;
  }
  if (node->kind != HR_DOC_SCALAR && (setting->key->tree || setting->key->type == HR_KEY_TREE)) {
    setting->tree = node;
    return HR_OK;
  }
  switch (setting->key->type) {
  case HR_KEY_PATHS:
  case HR_KEY_TEXTS:
    return texts_read(recipe, setting, err);
  case HR_KEY_TREE:
    return type_wrong(setting, node, NULL, err);
  case HR_KEY_INT:
    return int_read(setting, err);
  case HR_KEY_FLOAT:
    return float_read(setting, err);
  case HR_KEY_CHOICE:
    return choice_read(setting, err);
  case HR_KEY_SIZE:
    return size_read(setting, err);
  case HR_KEY_FLOATS:
    return floats_read(recipe, setting, err);
  case HR_KEY_PATH:
    return path_read(recipe, setting, err);
  case HR_KEY_BOOL:
    return hr__doc_bool(node, &setting->flag) ? HR_OK : type_wrong(setting, node, NULL, err);
  case HR_KEY_TEXT:
    break;
  }
  setting->text = node->text;
  return node->kind == HR_DOC_SCALAR ? HR_OK : type_wrong(setting, node, NULL, err);
}

/* A default is plain YAML: a scalar, or a list in brackets. */
hr_status hr__setting_default(hr_recipe *recipe, hr_setting *setting, hr_error *err) {
  const char *text = setting->key->fallback;
  hr_doc_node *node;
  if (*text == '[') {
    HR_TRY(hr__yaml_parse(setting->key->path, text, strlen(text), &recipe->arena, &node, err));
  } else {
    node = hr__arena_alloc(&recipe->arena, sizeof *node);
    if (!node) return hr__nomem(err);
    *node = (hr_doc_node){.kind = HR_DOC_SCALAR, .text = text};
  }
  hr_setting filled = *setting;
  filled.node = node;
  filled.origin = setting->key->path;
  hr_status status = hr__setting_read(recipe, &filled, err);
  assert(status == HR_OK || status == HR_NOMEM); /* a table with a bad default is a bug */
  filled.node = NULL;
  filled.origin = NULL;
  *setting = filled;
  return status;
}
