/* Placing keys: which setting a line of the recipe belongs to, and what to say when there is none. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "recipe/internal.h"
#include "recipe/others.h"

/* Number of the first setting whose path is not below `text`. */
static size_t setting_bound(const hr_recipe *recipe, const char *text) {
  size_t low = 0, high = recipe->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (strcmp(recipe->settings[middle].key->path, text) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

hr_setting *hr__setting_find(const hr_recipe *recipe, const char *path) {
  size_t at = setting_bound(recipe, path);
  if (at == recipe->count || strcmp(recipe->settings[at].key->path, path) != 0) return NULL;
  return &recipe->settings[at];
}

hr_setting *hr__section_settings(const hr_recipe *recipe, const char *section, size_t *count) {
  char prefix[HR_KEY_PATH_TEXT + 1];
  int length = snprintf(prefix, sizeof prefix, "%s%s", section, *section ? "." : "");
  assert(length >= 0 && (size_t)length < sizeof prefix);
  size_t first = setting_bound(recipe, prefix), last = first;
  while (last < recipe->count && strncmp(recipe->settings[last].key->path, prefix, (size_t)length) == 0)
    last++;
  *count = last - first;
  return recipe->settings + first;
}

bool hr__path_join(char out[HR_KEY_PATH_TEXT], const char *section, const char *key) {
  if (!*key || strchr(key, '.')) return false;
  int length = snprintf(out, HR_KEY_PATH_TEXT, "%s%s%s", section, *section ? "." : "", key);
  return length >= 0 && length < HR_KEY_PATH_TEXT;
}

/* The names directly inside a section, one per call; `at` starts at 0. */
static bool section_name_next(const hr_setting *settings, size_t count, size_t skip, size_t *at,
                              char name[HR_KEY_PATH_TEXT]) {
  if (*at >= count) return false;
  const char *path = settings[*at].key->path + skip;
  size_t length = strcspn(path, ".");
  snprintf(name, HR_KEY_PATH_TEXT, "%.*s", (int)length, path);
  while (*at < count) { /* over all keys of that name, when it is a section itself */
    const char *other = settings[*at].key->path + skip;
    if (strncmp(other, path, length) != 0 || (other[length] != '.' && other[length] != '\0')) break;
    ++*at;
  }
  return true;
}

/* A name of the section close to `key`, or that begins with it as a whole word ("batch" of batch_size); false: none. */
static bool section_name_near(const hr_recipe *recipe, const char *section, const char *key,
                              char best[HR_KEY_PATH_TEXT]) {
  size_t count, at = 0, skip = *section ? strlen(section) + 1 : 0;
  const hr_setting *settings = hr__section_settings(recipe, section, &count);
  size_t length = strlen(key), limit = length / 3 + 1, found = limit + 1;
  if (length >= HR_KEY_PATH_TEXT) return false;
  char name[HR_KEY_PATH_TEXT];
  while (section_name_next(settings, count, skip, &at, name)) {
    bool begins = length > 2 && strncmp(name, key, length) == 0 && name[length] == '_';
    size_t distance = begins ? 1 : hr__text_distance(key, name);
    if (distance < found && distance < strlen(name)) {
      found = distance;
      memcpy(best, name, sizeof name);
    }
  }
  return found <= limit;
}

/* A key of that name in another section. */
static const char *key_elsewhere(const hr_recipe *recipe, const char *key) {
  for (size_t i = 0; i < recipe->count; i++) {
    const char *path = recipe->settings[i].key->path, *dot = strrchr(path, '.');
    if (strcmp(dot ? dot + 1 : path, key) == 0) return path;
  }
  return NULL;
}

static void section_names(const hr_recipe *recipe, const char *section, char out[HR_REMEDY_TEXT]) {
  size_t count, at = 0, skip = *section ? strlen(section) + 1 : 0;
  const hr_setting *settings = hr__section_settings(recipe, section, &count);
  size_t used = (size_t)snprintf(out, HR_REMEDY_TEXT, "keys here:");
  char name[HR_KEY_PATH_TEXT];
  bool first = true;
  while (section_name_next(settings, count, skip, &at, name)) {
    if (used + strlen(name) + 8 > HR_REMEDY_TEXT) {
      snprintf(out + used, HR_REMEDY_TEXT - used, ", ...");
      return;
    }
    used += (size_t)snprintf(out + used, HR_REMEDY_TEXT - used, "%s %s", first ? "" : ",", name);
    first = false;
  }
}

/* What other trainers mean by such a key; false: nothing. */
static bool key_of_others(const hr_recipe *recipe, const char *key, char out[HR_REMEDY_TEXT]) {
  char room[HR_OTHER_TEXT];
  hr_other other;
  if (!hr__other_find(key, room, &other)) return false;
  const hr_setting *setting = other.setting ? hr__setting_find(recipe, other.setting) : NULL;
  if (other.setting && !setting) return false;
  if (setting && other.value)
    snprintf(out, HR_REMEDY_TEXT, "here it is %s: %s", other.setting, other.value);
  else if (setting)
    snprintf(out, HR_REMEDY_TEXT, "did you mean %s?", other.setting);
  else if (other.option)
    snprintf(out, HR_REMEDY_TEXT, "it is not a setting of a recipe: headroom train has --%s", other.option);
  else
    snprintf(out, HR_REMEDY_TEXT, "%s", other.advice);
  return true;
}

/* Keys of a model's own config are those of its public checkpoints, not of other trainers. */
static bool section_is_foreign(const char *section) {
  static const char ending[] = ".config";
  size_t length = strlen(section), tail = sizeof ending - 1;
  return strstr(section, ".config.") || (length > tail && strcmp(section + length - tail, ending) == 0);
}

hr_status hr__key_unknown(const hr_recipe *recipe, const char *place, const char *section, const char *key,
                          hr_error *err) {
  char near[HR_KEY_PATH_TEXT], remedy[HR_REMEDY_TEXT];
  const char *elsewhere;
  if (!*section && hr__setting_find(recipe, key)) {
    snprintf(remedy, sizeof remedy, "dots join keys on the command line only: write sections inside each other here");
  } else if (!section_is_foreign(section) && key_of_others(recipe, key, remedy)) {
    /* remedy is filled */
  } else if (section_name_near(recipe, section, key, near)) {
    snprintf(remedy, sizeof remedy, "did you mean \"%s\"?", near);
  } else if ((elsewhere = key_elsewhere(recipe, key))) {
    snprintf(remedy, sizeof remedy, "did you mean %s?", elsewhere);
  } else {
    section_names(recipe, section, remedy);
  }
  return hr__fail(err, HR_BAD_INPUT, place, remedy, "unknown key \"%.200s\" %s%s", key,
                  *section ? "in section " : "at the top of the recipe", section);
}

hr_status hr__section_wrong(const hr_recipe *recipe, const char *place, const char *section, const hr_doc_node *node,
                            hr_error *err) {
  char found[160], names[HR_REMEDY_TEXT];
  hr__found_text(node, found, sizeof found);
  section_names(recipe, section, names);
  return hr__fail(err, HR_BAD_INPUT, place, names, "%s must be a section with keys of its own, but it is %s",
                  *section ? section : "a recipe", found);
}

const char *hr__origin_of(const hr_recipe *recipe, const hr_doc_node *node, const char *outer) {
  for (size_t i = recipe->n_origins; i-- > 0;) { /* the last override of a node counts */
    if (recipe->origins[i].node == node) return recipe->origins[i].name;
  }
  return outer;
}

/* Numbers that a further file must give a value if it names them: those whose default is a guess at anybody's model.
 * One without a default may be null, which says that there is none ("sliding_window": null). */
static bool key_is_needed(const hr_key *key) {
  return (key->type == HR_KEY_INT || key->type == HR_KEY_FLOAT) && (key->fallback || key->required || key->never_null);
}

static hr_status number_missing(const hr_key *key, const char *place, hr_error *err) {
  char example[128], remedy[HR_REMEDY_TEXT];
  hr__example_text(key, example, sizeof example);
  snprintf(remedy, sizeof remedy, "write the number there, or give --set %s=%s%s%s%s", key->path, example,
           key->meaning ? " (" : "", key->meaning ? key->meaning : "", key->meaning ? ")" : "");
  return hr__fail(err, HR_BAD_INPUT, place, remedy, "%s is null, but it must be a number", key->path);
}

/* One line of a document. `user` is false for documents merged in later, which give way. */
static hr_status key_place(hr_recipe *recipe, const char *section, const hr_doc_node *node, const char *origin,
                           bool user, hr_error *err);

static hr_status section_place(hr_recipe *recipe, const char *section, const hr_doc_node *map, const char *origin,
                               bool user, hr_error *err) {
  for (const hr_doc_node *child = map->child; child; child = child->next) {
    const char *inner = user ? hr__origin_of(recipe, child, origin) : origin;
    HR_TRY(key_place(recipe, section, child, inner, user, err));
  }
  return HR_OK;
}

static hr_status key_place(hr_recipe *recipe, const char *section, const hr_doc_node *node, const char *origin,
                           bool user, hr_error *err) {
  char path[HR_KEY_PATH_TEXT], place[HR_DOC_PLACE];
  bool fits = hr__path_join(path, section, node->key);
  hr_setting *setting = fits ? hr__setting_find(recipe, path) : NULL;
  bool null = hr__doc_is_null(node);
  if (setting) {
    if (!user && null && !setting->node && !setting->removed && key_is_needed(setting->key))
      return number_missing(setting->key, hr__doc_place(origin, node, false, place), err);
    if (user || null) setting->removed = null; /* later documents give way to a null as well */
    if (null || setting->node || (!user && setting->removed)) return HR_OK;
    setting->node = node;
    setting->origin = origin;
    return HR_OK;
  }
  size_t count = 0;
  hr_setting *inner = fits ? hr__section_settings(recipe, path, &count) : NULL;
  if (count == 0) {
    if (!user) return HR_OK;
    return hr__key_unknown(recipe, hr__doc_place(origin, node, true, place), section, node->key, err);
  }
  if (null) {
    for (size_t i = 0; user && i < count; i++)
      inner[i].removed = true;
    return HR_OK;
  }
  if (node->kind != HR_DOC_MAP) {
    return hr__section_wrong(recipe, hr__doc_place(origin, node, false, place), path, node, err);
  }
  return section_place(recipe, path, node, origin, user, err);
}

hr_status hr__keys_place(hr_recipe *recipe, hr_error *err) {
  return section_place(recipe, "", recipe->root, recipe->name, true, err);
}

hr_status hr__keys_merge(hr_recipe *recipe, const char *section, const hr_doc_node *map, const char *name,
                         hr_error *err) {
  return section_place(recipe, section, map, name, false, err);
}
