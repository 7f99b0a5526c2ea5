/* See argument.h. */
#include "cli/argument.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "format/file.h"
#include "recipe/maps.h"

/* "owner/model": no file has such a name by accident. */
static bool is_hub_name(const char *path) {
  const char *slash = strchr(path, '/'), *dot = strrchr(path, '.');
  bool plain = slash && slash != path && slash[1] && !strchr(slash + 1, '/') && *path != '.' && *path != '~';
  return plain && !(dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0 || strcmp(dot, ".json") == 0));
}

/* The entry of its folder that comes nearest to a path, as a path; false: there is none, or no such folder. */
static bool near_find(const char *path, char out[PATH_MAX]) {
  const char *slash = strrchr(path, '/'), *typed = slash ? slash + 1 : path;
  size_t least = SIZE_MAX;
  if (!slash)
    snprintf(out, PATH_MAX, ".");
  else
    snprintf(out, PATH_MAX, "%.*s", slash == path ? 1 : (int)(slash - path), path);
  DIR *entries = *typed ? opendir(out) : NULL;
  for (const struct dirent *entry; entries && (entry = readdir(entries));) {
    const char *name = entry->d_name;
    size_t distance = hr__text_distance(typed, name);
    if (name[0] == '.' || !hr__cli_nearest(typed, &name, 1) || distance >= least) continue;
    least = distance;
    snprintf(out, PATH_MAX, "%.*s%s", slash ? (int)(slash + 1 - path) : 0, path, name);
  }
  if (entries) closedir(entries);
  return least < SIZE_MAX;
}

static hr_status absent_fail(const char *path, hr_error *err) {
  char near[PATH_MAX], remedy[sizeof err->remedy];
  if (near_find(path, near)) {
    snprintf(remedy, sizeof remedy, "did you mean %.400s?", near);
    return hr__fail(err, HR_BAD_INPUT, path, remedy, "there is no such file or folder");
  }
  if (is_hub_name(path))
    return hr__fail(err, HR_BAD_INPUT, path,
                    "names of a hub are not looked up: give a folder with the checkpoint's config.json; no other file "
                    "of it is needed to plan",
                    "there is no such file or folder");
  return hr__fail(err, HR_BAD_INPUT, path, "give a recipe, or a folder with the config.json of a checkpoint",
                  "there is no such file or folder");
}

static hr_status folder_fail(hr_cli *cli, const char *path, hr_status status, hr_error *err) {
  struct stat facts;
  const char *config = hr__arena_format(&cli->arena, "%s/config.json", path);
  if (!config || stat(config, &facts) == 0 || errno != ENOENT) return status;
  return hr__fail(err, HR_BAD_INPUT, path, "give a recipe, or a folder with the config.json of a checkpoint",
                  "there is no config.json in this folder");
}

static hr_status checkpoint_fail(const hr_cli *cli, const char *path, hr_error *err) {
  char remedy[sizeof err->remedy];
  const char *slash = strrchr(path, '/');
  int length = slash ? (int)(slash - path) : 1;
  snprintf(remedy, sizeof remedy, "give its folder: headroom %s %.*s --method lora", cli->command->name, length,
           slash ? path : ".");
  return hr__fail(err, HR_BAD_INPUT, path, remedy, "this is the config of a checkpoint, not a recipe");
}

static hr_status trainer_fail(const char *path, const char *kind, hr_error *err) {
  char remedy[sizeof err->remedy];
  snprintf(remedy, sizeof remedy,
           "plan the folder of its checkpoint, and write the result here: headroom apply DIR --method lora --to %.200s",
           path);
  return hr__fail(err, HR_BAD_INPUT, path, remedy, "this is a config of %s, not a recipe", kind);
}

/* A file that has a section of a recipe's own is one with a fault. */
static hr_status file_fail(hr_cli *cli, const char *path, hr_status status, hr_error *err) {
  char *text;
  size_t bytes;
  hr_config config;
  hr_error unread; /* the recipe's own reading says what is wrong with the file */
  if (hr__file_read(path, HR_DOC_MAX_BYTES, &cli->arena, &text, &bytes, &unread) != HR_OK ||
      hr__config_parse(path, text, bytes, &cli->arena, &config, &unread) != HR_OK)
    return status;
  if (hr__config_find(&config, "training") || hr__config_find(&config, "memory")) return status;
  const hr_doc_node *type = hr__config_find(&config, "model_type"), *size = hr__config_find(&config, "hidden_size");
  if (config.json && type && size) return checkpoint_fail(cli, path, err);
  const hr_map *map = hr__map_guess(&config, NULL);
  return map && map != hr__map_named("headroom") ? trainer_fail(path, map->name, err) : status;
}

const char *hr__cli_option_key(const char *option) {
  static const char *const pairs[][2] = {
      {"model", "model.path"},          {"data", "data.path"},
      {"epochs", "training.epochs"},    {"seq", "data.sequence_length"},
      {"batch", "training.batch_size"}, {"rank", "model.adapters.rank"},
      {"gpu-memory", "memory.budget"},  {"margin", "memory.margin"},
      {"engine", "engine.kind"},        {"target-effective-batch", "training.effective_batch"}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    if (strcmp(pairs[i][0], option) == 0) return pairs[i][1];
  return NULL;
}

/* A setting that stands for an option is named by that: people look for what they wrote. */
static void place_translate(const hr_cli *cli, hr_error *err) {
  for (size_t i = 0; i < cli->command->n_options; i++) {
    const char *name = cli->command->options[i].name, *value = cli->values[i], *key = hr__cli_option_key(name);
    char wanted[sizeof err->place];
    if (!value || !key) continue;
    snprintf(wanted, sizeof wanted, "--set %s=%s", key, value);
    if (strcmp(err->place, wanted) == 0) snprintf(err->place, sizeof err->place, "--%s %.200s", name, value);
  }
}

hr_status hr__cli_argument_explain(hr_cli *cli, hr_status status, hr_error *err) {
  const char *path = cli->n_arguments > 0 ? cli->arguments[0] : NULL;
  struct stat facts;
  if (status != HR_BAD_INPUT || !path) return status;
  place_translate(cli, err);
  if (stat(path, &facts) != 0) return errno == ENOENT ? absent_fail(path, err) : status;
  if (S_ISDIR(facts.st_mode)) return folder_fail(cli, path, status, err);
  return S_ISREG(facts.st_mode) ? file_fail(cli, path, status, err) : status;
}
