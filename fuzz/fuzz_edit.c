/* Values set in configs of any kind. Whatever a document looks like: an edit is refused, left with a reason, or changes
 * the bytes that it names and nothing else, and reads back as what was meant. */
#include <stdio.h>
#include <string.h>

#include "demand.h"
#include "format/diff.h"
#include "format/edit.h"
#include "format/literal.h"

enum { PATHS = 12, PATH_BYTES = 512 };

typedef struct paths {
  char path[PATHS][PATH_BYTES];
  size_t count;
} paths;

/* Keys of the document, as dotted paths; not below aliases without end. */
static void paths_find(const hr_doc_node *map, const char *prefix, int depth, paths *out) {
  if (map->kind != HR_DOC_MAP || depth > 6) return;
  for (const hr_doc_node *child = map->child; child && out->count < PATHS; child = child->next) {
    char path[PATH_BYTES];
    if (snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", child->key) >= PATH_BYTES) continue;
    snprintf(out->path[out->count++], PATH_BYTES, "%s", path);
    paths_find(child, path, depth + 1, out);
  }
}

static void edit_check(const hr_config *config, const char *path, hr_literal value, bool insert, hr_arena *arena) {
  hr_edit edit = {.path = path, .value = value, .insert = insert, .lists = !insert};
  hr_error err = {0};
  const char *text = NULL;
  size_t bytes = 0;
  hr_status status = hr__config_edit(config, &edit, 1, arena, &text, &bytes, &err);
  DEMAND(status == HR_OK || (status == HR_FAILURE && err.message[0] && err.place[0]));
  if (status != HR_OK) return;
  bool spliced = edit.outcome == HR_EDIT_WRITTEN || edit.outcome == HR_EDIT_INSERTED;
  DEMAND(spliced == (text != config->text));
  if (!spliced) {
    DEMAND(edit.outcome == HR_EDIT_SAME || edit.reason[0]);
    return;
  }
  size_t length = strlen(edit.splice), tail = config->bytes - edit.end;
  DEMAND(edit.begin <= edit.end && edit.end <= config->bytes && bytes == edit.begin + length + tail);
  DEMAND(memcmp(text, config->text, edit.begin) == 0 && memcmp(text + edit.begin, edit.splice, length) == 0);
  DEMAND(memcmp(text + edit.begin + length, config->text + edit.end, tail) == 0);
  hr_config again;
  DEMAND(hr__config_parse(config->name, text, bytes, arena, &again, &err) == HR_OK);
  const hr_doc_node *node = hr__config_find(&again, path);
  DEMAND(node && hr__literal_is(&value, node));
  const char *diff;
  size_t diff_bytes;
  DEMAND(hr__diff("a", config->text, config->bytes, "b", text, bytes, arena, &diff, &diff_bytes, &err) == HR_OK);
  DEMAND(diff_bytes > 0);
}

static void config_check(const char *name, const char *text, size_t bytes) {
  static const hr_literal values[] = {
      {HR_LITERAL_NUMBER, "8675309"}, {HR_LITERAL_TEXT, "bf16-mixed"}, {HR_LITERAL_TEXT, "it's \"no\": #\\"},
      {HR_LITERAL_BOOL, "true"},      {HR_LITERAL_BOOL, "false"},      {HR_LITERAL_FLOW, "{\"a\": [1, \"x\"]}"}};
  enum { VALUES = sizeof values / sizeof values[0] };
  hr_arena arena = {0};
  hr_config config;
  hr_error err = {0};
  paths *found = calloc(1, sizeof *found);
  DEMAND(found);
  if (hr__config_parse(name, text, bytes, &arena, &config, &err) == HR_OK) {
    paths_find(config.root, "", 0, found);
    /* one value for each key, another one for every input that differs in length */
    for (size_t i = 0; i < found->count; i++)
      edit_check(&config, found->path[i], values[(i + bytes) % VALUES], false, &arena);
    edit_check(&config, "a-key-that-is-not-there", values[bytes % VALUES], true, &arena);
    if (found->count > 0) {
      char path[PATH_BYTES + 32];
      snprintf(path, sizeof path, "%s.not-there", found->path[bytes % found->count]);
      edit_check(&config, path, values[bytes % VALUES], true, &arena);
    }
  }
  free(found);
  hr__arena_fini(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  config_check("input.yaml", (const char *)data, size);
  config_check("input.json", (const char *)data, size);
  return 0;
}
