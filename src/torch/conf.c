#include "torch/conf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "torch/pool.h"

enum { WORD = 128 };

typedef struct setting {
  char key[WORD], value[WORD];
  const char *place;
  hr_error *err;
} setting;

static hr_status refuse(const setting *s, const char *wanted) {
  return hr__fail(s->err, HR_USAGE, s->place, wanted, "%s of PyTorch's allocator cannot be '%s'", s->key, s->value);
}

static bool whole(const char *text, uint64_t most, uint64_t *out) {
  char *end;
  errno = 0;
  *out = strtoull(text, &end, 10);
  return end != text && *end == '\0' && text[0] != '-' && !errno && *out <= most;
}

static hr_status mebibytes(const setting *s, uint64_t least, uint64_t *bytes) {
  uint64_t number;
  if (!whole(s->value, 1 << 20, &number) || number < least)
    return refuse(s, "write a whole number of MiB that PyTorch takes");
  *bytes = number * HR_TORCH_MIB;
  return HR_OK;
}

static bool is_division(uint64_t number) {
  return number <= 64 && (number & (number - 1)) == 0;
}

/* "4" for all sizes, or "[256:1,512:2,1024:4,>:8]": sizes in MiB up to each. */
static hr_status divisions(const setting *s, hr_torch_rules *rules) {
  static const char wanted[] = "write a power of two up to 64, or such as [256:1,512:2,1024:4,>:8]";
  uint64_t number;
  if (s->value[0] != '[') {
    if (!whole(s->value, 64, &number) || !is_division(number)) return refuse(s, wanted);
    memset(rules->divisions, (int)number, sizeof rules->divisions);
    return HR_OK;
  }
  int last =
      -1; /* interval that was set last; those between two that are named stay without divisions, as in PyTorch */
  for (const char *at = s->value + 1; *at != ']';) {
    char size[16], steps[16];
    int used = 0, index = HR_TORCH_ROUNDINGS - 1;
    if (sscanf(at, "%15[^:]:%15[0-9]%n", size, steps, &used) != 2 || used == 0) return refuse(s, wanted);
    at += used;
    if (*at != ',' && *at != ']') return refuse(s, wanted);
    if (*at == ',') at++;
    bool rest = strcmp(size, ">") == 0;
    if (!whole(steps, 64, &number) || !is_division(number)) return refuse(s, wanted);
    uint8_t division = (uint8_t)number;
    if (!rest) {
      if (!whole(size, 1 << 16, &number) || number == 0 || (number & (number - 1)) != 0) return refuse(s, wanted);
      if (63 - __builtin_clzll(number) < index) index = 63 - __builtin_clzll(number);
    }
    for (int i = rest || last < 0 ? last + 1 : index; i <= index; i++)
      rules->divisions[i] = division;
    last = index;
  }
  return HR_OK;
}

static hr_status setting_take(const setting *s, hr_torch_rules *rules) {
  static const char *const nothing[] = {"pinned_use_cuda_host_register",     "pinned_num_register_threads",
                                        "pinned_use_background_threads",     "release_lock_on_cudamalloc",
                                        "graph_capture_record_stream_reuse", "pinned_max_round_threshold_mb"};
  if (strcmp(s->key, "expandable_segments") == 0) {
    rules->expandable = strcmp(s->value, "True") == 0;
    return rules->expandable || strcmp(s->value, "False") == 0 ? HR_OK : refuse(s, "write True or False");
  }
  if (strcmp(s->key, "max_split_size_mb") == 0) return mebibytes(s, 21, &rules->max_split_bytes);
  if (strcmp(s->key, "max_non_split_rounding_mb") == 0) return mebibytes(s, 21, &rules->max_rounding_bytes);
  if (strcmp(s->key, "large_segment_size_mb") == 0) return mebibytes(s, 10, &rules->large_segment_bytes);
  if (strcmp(s->key, "roundup_power2_divisions") == 0) return divisions(s, rules);
  if (strcmp(s->key, "garbage_collection_threshold") == 0) {
    char *end;
    rules->collect_above = strtod(s->value, &end);
    bool share = end != s->value && *end == '\0' && rules->collect_above > 0 && rules->collect_above < 1;
    return share ? HR_OK : refuse(s, "write a number between 0 and 1");
  }
  if (strcmp(s->key, "backend") == 0)
    return strcmp(s->value, "native") == 0 ? HR_OK : refuse(s, "only the native allocator is simulated");
  for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++)
    if (strcmp(s->key, nothing[i]) == 0) return HR_OK;
  return hr__fail(s->err, HR_USAGE, s->place, "leave it out", "'%s' is no setting of PyTorch's allocator that is known",
                  s->key);
}

/* One setting ends where a comma stands outside of brackets. */
hr_status hr__torch_conf(const char *text, const char *place, hr_torch_rules *rules, hr_error *err) {
  while (*text) {
    setting s = {.place = place, .err = err};
    size_t key = strcspn(text, ":,"), value = 0;
    const char *from = text + key + 1;
    if (text[key] == ':')
      for (bool inside = false; from[value] && (inside || from[value] != ','); value++)
        inside = from[value] == '[' || (inside && from[value] != ']');
    if (text[key] != ':' || key == 0 || key >= WORD || value == 0 || value >= WORD)
      return hr__fail(err, HR_USAGE, place, "write it as expandable_segments:True,max_split_size_mb:128",
                      "'%.60s' is not of the form KEY:VALUE", text);
    memcpy(s.key, text, key);
    memcpy(s.value, from, value);
    HR_TRY(setting_take(&s, rules));
    text = from + value;
    if (*text == ',') text++;
  }
  return HR_OK;
}
