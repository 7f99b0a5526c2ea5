/* See unknown.h. */
#include "cli/unknown.h"

#include <string.h>
#include <unistd.h>

#include "job/settings.h"
#include "recipe/others.h"

/* Names at this distance and beyond are other words, not typing errors. */
static size_t too_far(const char *typed) {
  enum { MOST = 4 };
  size_t half = strlen(typed) / 2 + 1;
  return half < MOST ? half : MOST;
}

/* What is the beginning of a name means it, however much is missing. */
static size_t distance_to(const char *name, const char *typed) {
  return strncmp(name, typed, strlen(typed)) == 0 ? 1 : hr__text_distance(typed, name);
}

const char *hr__cli_nearest(const char *typed, const char *const *names, size_t count) {
  const char *best = NULL;
  size_t least = too_far(typed);
  for (size_t i = 0; i < count; i++) {
    size_t distance = distance_to(names[i], typed);
    if (distance < least) {
      least = distance;
      best = names[i];
    }
  }
  return best;
}

/* --- options ------------------------------------------------------------------------------------------------------ */

/* "it is an option of plan, apply": the commands that have it; false: none does. */
static bool commands_have(const char *name, char out[HR_OTHER_TEXT]) {
  size_t length = 0;
  for (const hr_cli_command *const *c = hr_cli_commands; *c != NULL; c++)
    for (size_t i = 0; i < (*c)->n_options && length < HR_OTHER_TEXT; i++)
      if (strcmp((*c)->options[i].name, name) == 0)
        length += (size_t)snprintf(out + length, HR_OTHER_TEXT - length, "%s%s",
                                   length > 0 ? ", " : "it is an option of ", (*c)->name);
  return length > 0;
}

bool hr__cli_is_of_another(const char *typed, const char *name) {
  char elsewhere[HR_OTHER_TEXT], word[64];
  typed += strspn(typed, "-");
  snprintf(word, sizeof word, "%.*s", (int)strcspn(typed, "="), typed);
  return strcmp(word, name) != 0 && commands_have(word, elsewhere);
}

/* An option of another trainer, said in ours. `value`: the word behind it, or NULL. */
static bool others_say(const hr_cli *cli, const char *name, const char *value, char *out, size_t capacity) {
  char room[HR_OTHER_TEXT], text[64] = "";
  hr_other other;
  if (!hr__other_find(name, room, &other)) return false;
  int own = other.option && cli->command ? hr__cli_option_index(cli, other.option) : -1;
  const char *argument = own >= 0 ? cli->command->options[own].argument : NULL;
  hr_arena arena;
  hr_key_table all = {NULL, 0};
  hr__arena_init(&arena);
  (void)hr__settings_keys(&arena, &all, NULL); /* without memory the hint is missing */
  const hr_key *key = NULL;
  for (size_t k = 0; other.setting && k < all.count; k++)
    if (strcmp(all.keys[k].path, other.setting) == 0) key = &all.keys[k];
  if (key) hr__other_value(key, &other, value, text, sizeof text);
  if (own >= 0 && strcmp(other.option, "method") == 0) /* of the two that it could be, the one that goes with the key */
    snprintf(out, capacity, "write --method %s", strstr(other.setting, "quantize") ? "qlora" : "lora");
  else if (own >= 0)
    snprintf(out, capacity, "write --%s%s%s", other.option, argument ? " " : "",
             !argument       ? ""
             : value && !key ? value
             : key && value  ? text
                             : argument);
  else if (key)
    snprintf(out, capacity, "write --set %s=%s", other.setting, text);
  else if (other.option)
    snprintf(out, capacity, "headroom train has --%s for it", other.option);
  else
    snprintf(out, capacity, "%s", other.advice);
  hr__arena_fini(&arena);
  return true;
}

/* What getopt refused, as a message with the nearest option that exists. */
hr_status hr__cli_unknown_option(const hr_cli *cli, const struct option *known, size_t count, const char *typed,
                                 const char *next, bool no_value, hr_error *err) {
  if (no_value) return hr__fail(err, HR_USAGE, NULL, NULL, "option '%s' needs a value", typed);

  char name[64];
  snprintf(name, sizeof name, "%s", typed + strspn(typed, "-"));
  char *equals = strchr(name, '=');
  const char *value = equals != NULL ? equals + 1 : next != NULL && next[0] != '-' ? next : NULL;
  if (equals != NULL) *equals = '\0';
  const char *names[HR_CLI_GLOBAL_OPTIONS + HR_CLI_OPTIONS];
  bool takes_none = false;
  for (size_t i = 0; i < count; i++) {
    names[i] = known[i].name;
    if (strcmp(known[i].name, name) == 0 && known[i].has_arg == no_argument) takes_none = true;
  }
  if (takes_none) return hr__fail(err, HR_USAGE, NULL, NULL, "option '--%s' takes no value", name);
  char remedy[HR_OTHER_TEXT];
  if (typed[1] == '-' && others_say(cli, name, value, remedy, sizeof remedy))
    return hr__fail(err, HR_USAGE, NULL, remedy, "unknown option '--%s'", name);
  if (commands_have(name, remedy)) return hr__fail(err, HR_USAGE, NULL, remedy, "unknown option '%s'", typed);
  const char *nearest = hr__cli_nearest(name, names, count);
  char meant[HR_OTHER_TEXT];
  size_t distance = nearest != NULL ? distance_to(nearest, name) : too_far(name);
  if (hr__other_nearest(name, distance, meant) && others_say(cli, meant, value, remedy, sizeof remedy))
    return hr__fail(err, HR_USAGE, NULL, remedy, "unknown option '%s'", typed);
  if (nearest != NULL) snprintf(remedy, sizeof remedy, "did you mean --%s?", nearest);
  return hr__fail(err, HR_USAGE, NULL, nearest != NULL ? remedy : NULL, "unknown option '%s'", typed);
}

/* --- commands ----------------------------------------------------------------------------------------------------- */

/* What other programs call it. */
static const char *const called[][2] = {{"fit", "plan --auto"},
                                        {"search", "plan --auto"},
                                        {"auto", "plan --auto"},
                                        {"tune", "plan --auto"},
                                        {"estimate", "plan"},
                                        {"estimate-memory", "plan"},
                                        {"memory", "plan"},
                                        {"check", "plan"},
                                        {"validate", "plan"},
                                        {"compare", "plan --compare"},
                                        {"diff", "plan --compare"},
                                        {"sweep", "plan --sweep"},
                                        {"run", "train"},
                                        {"launch", "train"},
                                        {"fine-tune", "train"},
                                        {"finetune", "train"},
                                        {"sft", "train"},
                                        {"start", "train"},
                                        {"resume", "train --resume"},
                                        {"continue", "train --resume"},
                                        {"bench", "profile"},
                                        {"benchmark", "profile"},
                                        {"time", "profile"},
                                        {"write", "apply"},
                                        {"config", "apply"},
                                        {"revert", "apply --revert"},
                                        {"undo", "apply --revert"},
                                        {"gpus", "devices --gpus"},
                                        {"gpu", "devices"},
                                        {"list", "devices --gpus"},
                                        {"measure", "devices --measure"},
                                        {"info", "env"},
                                        {"doctor", "env"},
                                        {"keys", "env --keys"},
                                        {"settings", "env --keys"},
                                        {"graph", "dump"},
                                        {"show", "dump"},
                                        {"version", "--version"}};

hr_status hr__cli_unknown_command(const char *name, hr_error *err) {
  const char *names[16];
  size_t count = 0;
  for (const hr_cli_command *const *c = hr_cli_commands; *c != NULL; c++)
    names[count++] = (*c)->name;
  const char *nearest = NULL;
  for (size_t i = 0; i < sizeof called / sizeof called[0] && nearest == NULL; i++)
    if (strcmp(called[i][0], name) == 0) nearest = called[i][1];
  char remedy[HR_OTHER_TEXT];
  bool file = access(name, F_OK) == 0; /* a recipe where a command should be */
  if (nearest == NULL && !file) nearest = hr__cli_nearest(name, names, count);
  if (nearest != NULL) snprintf(remedy, sizeof remedy, "did you mean 'headroom %s'?", nearest);
  if (nearest == NULL && file) snprintf(remedy, sizeof remedy, "did you mean 'headroom plan %s'?", name);
  return hr__fail(err, HR_USAGE, NULL, nearest != NULL || file ? remedy : NULL, "unknown command '%s'", name);
}
