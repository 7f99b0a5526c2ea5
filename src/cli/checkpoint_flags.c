/* See checkpoint_flags.h. */
#include "cli/checkpoint_flags.h"

#include <inttypes.h>
#include <string.h>

#include "job/settings.h"

static const char usual_precision[] = "bf16-mixed";

typedef struct choice {
  const char *key, *value;
} choice;

enum { CHOICES = 4 };

typedef struct method {
  const char *name;
  choice always[CHOICES]; /* what it means */
  choice folder[CHOICES]; /* what goes with it where nothing is written */
} method;

static const method methods[] = {
    {.name = "full",
     .always = {{"model.adapters", "null"}, {"model.quantize", "null"}},
     .folder = {{"model.precision", usual_precision}, {"memory.checkpoint", "auto"}}},
    {.name = "lora",
     .always = {{"model.adapters.kind", "lora"}, {"model.quantize", "null"}},
     .folder = {{"model.precision", usual_precision},
                {"memory.checkpoint", "auto"},
                {"model.adapters.rank", "16"},
                {"model.adapters.targets", "all-linear"}}},
    {.name = "qlora",
     .always = {{"model.adapters.kind", "lora"}, {"model.quantize.kind", "nf4"}},
     .folder = {{"model.precision", usual_precision},
                {"memory.checkpoint", "auto"},
                {"model.adapters.rank", "16"},
                {"model.adapters.targets", "all-linear"}}},
};
enum { METHODS = sizeof methods / sizeof methods[0] };

/* Whether the first `count` overrides give the key, a section around it, or a part of it. */
static bool given_by_hand(const hr_cli *cli, size_t count, const char *key) {
  size_t length = strlen(key);
  for (size_t i = 0; i < count; i++) {
    size_t other = strcspn(cli->overrides[i], "="), shorter = other < length ? other : length;
    if (strncmp(cli->overrides[i], key, shorter) != 0) continue;
    char after = other < length ? key[other] : cli->overrides[i][length];
    if (after == '.' || other == length) return true;
  }
  return false;
}

static hr_status choices_add(hr_cli *cli, size_t by_hand, const choice choices[CHOICES], hr_error *err) {
  static const char adapters[] = "model.adapters.", theirs[] = "model.adapters.path"; /* which bring the rest along */
  bool begun = given_by_hand(cli, by_hand, theirs);
  for (int i = 0; i < CHOICES && choices[i].key; i++)
    if (!given_by_hand(cli, by_hand, choices[i].key) &&
        !(begun && strncmp(choices[i].key, adapters, sizeof adapters - 1) == 0))
      HR_TRY(hr__cli_override(cli, err, "%s=%s", choices[i].key, choices[i].value));
  return HR_OK;
}

/* The method that was named; NULL, with HR_OK: none. */
static hr_status method_find(const hr_cli *cli, const method **out, hr_error *err) {
  const char *name = hr__cli_value(cli, "method"), *names[METHODS];
  *out = NULL;
  if (!name) return HR_OK;
  for (size_t i = 0; i < METHODS; i++) {
    names[i] = methods[i].name;
    if (strcmp(methods[i].name, name) == 0) *out = &methods[i];
  }
  if (*out) return HR_OK;
  const char *nearest = hr__cli_nearest(name, names, METHODS);
  char remedy[64];
  snprintf(remedy, sizeof remedy, "did you mean %s?", nearest ? nearest : "");
  return hr__fail(err, HR_USAGE, "--method", nearest ? remedy : "give full, lora or qlora",
                  "'%.60s' is not a way to train", name);
}

/* A number, or auto where the setting takes that. */
static hr_status number_add(hr_cli *cli, const char *option, const char *key, hr_error *err) {
  const char *value = hr__cli_value(cli, option);
  int64_t number;
  if (value == NULL) return HR_OK;
  if (strcmp(value, "auto") == 0) return hr__cli_override(cli, err, "%s=auto", key);
  HR_TRY(hr__cli_int(cli, option, 1, 0, &number, err));
  return hr__cli_override(cli, err, "%s=%" PRId64, key, number);
}

hr_status hr__checkpoint_flags(hr_cli *cli, hr_error *err) {
  const method *chosen;
  HR_TRY(method_find(cli, &chosen, err));
  if (chosen == &methods[0] && hr__cli_value(cli, "rank"))
    return hr__fail(err, HR_USAGE, "--rank", "give --method lora or --method qlora",
                    "adapters have a rank, and --method full has none");
  if (chosen) HR_TRY(choices_add(cli, cli->n_overrides, chosen->always, err));
  HR_TRY(number_add(cli, "seq", "data.sequence_length", err));
  HR_TRY(number_add(cli, "batch", "training.batch_size", err));
  return number_add(cli, "rank", "model.adapters.rank", err);
}

hr_status hr__checkpoint_defaults(hr_cli *cli, hr_error *err) {
  const method *chosen;
  HR_TRY(method_find(cli, &chosen, err));
  if (!chosen || !hr__settings_is_checkpoint(cli->arguments[0])) return HR_OK;
  size_t given = cli->n_overrides;
  return choices_add(cli, given, chosen->folder, err);
}
