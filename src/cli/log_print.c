/* See log.h. Whatever lines hold is anybody's text: none of it reaches a terminal unescaped. */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "cli/figures.h"
#include "cli/log.h"
#include "watch/watched.h"

enum { TEXT = 4096 };

const json_t *hr__log_value(const json_t *line, const char *path) {
  const json_t *found = json_object_get(line, path);
  const char *dot = strchr(path, '.');
  if (found || !dot || dot - path >= 64) return found;
  char first[64];
  snprintf(first, sizeof first, "%.*s", (int)(dot - path), path);
  const json_t *inner = json_object_get(line, first);
  return json_is_object(inner) ? hr__log_value(inner, dot + 1) : NULL;
}

static bool key_add(hr_log_keys *keys, const char *path, hr_arena *arena) {
  for (size_t i = 0; i < keys->count; i++)
    if (strcmp(keys->list[i], path) == 0) return true;
  if (hr__arena_grow(arena, (void **)&keys->list, &keys->capacity, keys->count, sizeof *keys->list) != 0) return false;
  keys->list[keys->count] = hr__arena_text(arena, path);
  return keys->list[keys->count++] != NULL;
}

bool hr__log_keys_add(hr_log_keys *keys, const hr_record *r, hr_arena *arena) {
  const char *name;
  json_t *value;
  bool good = true;
  if (r->kind != HR_RECORD_STEP && r->kind != HR_RECORD_EVAL) return true;
  json_object_foreach((json_t *)(uintptr_t)r->fields, name, value) {
    const char *inner;
    json_t *below;
    if (!json_is_object(value)) good = good && key_add(keys, name, arena);
    if (!json_is_object(value)) continue;
    json_object_foreach(value, inner, below) {
      const char *path = hr__arena_format(arena, "%s.%s", name, inner);
      good = good && path && key_add(keys, path, arena);
    }
  }
  return good;
}

/* A value as text; "" where there is none. */
static const char *value_text(const json_t *value, char out[TEXT]) {
  out[0] = 0;
  if (json_is_string(value))
    hr__text_escape(json_string_value(value), json_string_length(value), out, TEXT);
  else if (json_is_integer(value))
    snprintf(out, TEXT, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
  else if (json_is_real(value))
    snprintf(out, TEXT, "%.13g", json_real_value(value));
  else if (json_is_boolean(value))
    snprintf(out, TEXT, "%s", json_is_true(value) ? "true" : "false");
  else if (json_is_object(value) || json_is_array(value)) {
    size_t bytes = json_dumpb(value, out, TEXT - 1, JSON_COMPACT | JSON_ENSURE_ASCII);
    out[bytes < TEXT - 1 ? bytes : TEXT - 1] = 0;
  }
  return out;
}

static void values_print(const hr_record_values *values, FILE *to) {
  for (size_t i = 0; i < values->count; i++) {
    char name[128];
    hr__text_escape(values->list[i].name, strlen(values->list[i].name), name, sizeof name);
    fprintf(to, "  %s %.4g", name, values->list[i].value);
  }
}

static void step_print(const hr_record *r, FILE *to) {
  char seconds[HR_SIZE_TEXT], rate[HR_SIZE_TEXT];
  fprintf(to, "step %8" PRId64 "  loss %.4f", r->step, r->loss);
  if (isfinite(r->lr)) fprintf(to, "  lr %.3g", r->lr);
  if (isfinite(r->grad_norm)) fprintf(to, "  norm %.3g", r->grad_norm);
  if (isfinite(r->seconds)) fprintf(to, "  %s", hr__seconds_text(r->seconds, seconds));
  if (r->tokens > 0 && r->seconds > 0)
    fprintf(to, "  %s tokens/s", hr__rate_text((double)r->tokens / r->seconds, rate));
  else if (r->samples > 0 && r->seconds > 0)
    fprintf(to, "  %s samples/s", hr__rate_text((double)r->samples / r->seconds, rate));
  values_print(&r->losses, to);
  values_print(&r->metrics, to);
  fprintf(to, "%s\n", r->skipped ? "  skipped" : "");
}

static void header_print(const hr_record *r, FILE *to) {
  char recipe[256], device[256], size[HR_SIZE_TEXT];
  hr__text_escape(r->recipe ? r->recipe : "", r->recipe ? strlen(r->recipe) : 0, recipe, sizeof recipe);
  hr__text_escape(r->device ? r->device : "", r->device ? strlen(r->device) : 0, device, sizeof device);
  fprintf(to, "step %8" PRId64 "  plan of %s%s%s: %" PRId64 " steps, %s\n", r->step, recipe, *device ? " for " : "",
          device, r->steps, hr__size_text(r->planned_peak_bytes, size));
}

static void samples_print(const hr_record *r, FILE *to) {
  for (size_t i = 0; i < r->n_generated; i++) {
    const hr_record_sample *s = &r->generated[i];
    char prompt[TEXT], text[TEXT], expected[TEXT] = "";
    hr__text_escape(s->prompt, strlen(s->prompt), prompt, sizeof prompt);
    hr__text_escape(s->text, strlen(s->text), text, sizeof text);
    if (s->expected) hr__text_escape(s->expected, strlen(s->expected), expected, sizeof expected);
    fprintf(to, "step %8" PRId64 "  %s|%s%s%s%s\n", r->step, prompt, text, s->expected ? " (expected: " : "", expected,
            s->expected ? ")" : "");
  }
}

static const char *clock_text(double time, char out[32]) {
  time_t at = (time_t)time;
  struct tm parts;
  out[0] = 0;
  if (isfinite(time) && localtime_r(&at, &parts)) strftime(out, 32, "  %Y-%m-%d %H:%M:%S", &parts);
  return out;
}

void hr__log_print_plain(const hr_record *r, const hr_log_keys *keys, FILE *to) {
  char text[HR_WATCH_TEXT], clock[32], value[TEXT];
  if (keys->count > 0) {
    fprintf(to, "step %8" PRId64, r->step);
    for (size_t i = 0; i < keys->count; i++) {
      const json_t *found = hr__log_value(r->fields, keys->list[i]);
      if (found) fprintf(to, "  %s %s", keys->list[i], value_text(found, value));
    }
    fputc('\n', to);
  } else if (r->kind == HR_RECORD_STEP) {
    step_print(r, to);
  } else if (r->kind == HR_RECORD_HEADER) {
    header_print(r, to);
  } else if (r->kind == HR_RECORD_SAMPLES) {
    samples_print(r, to);
  } else {
    fprintf(to, "step %8" PRId64 "%s  %s%s\n", r->step, clock_text(r->time, clock),
            r->kind == HR_RECORD_EVENT && strcmp(r->event, "warning") == 0 ? "warning: " : "", hr__watch_text(r, text));
  }
}

/* A cell of CSV (RFC 4180): in quotes where it needs them. */
static void cell_print(const char *text, FILE *to) {
  if (!strpbrk(text, "\",\r\n")) {
    fputs(text, to);
    return;
  }
  fputc('"', to);
  for (; *text; text++) {
    if (*text == '"') fputc('"', to);
    fputc(*text, to);
  }
  fputc('"', to);
}

void hr__log_print_csv_head(const hr_log_keys *keys, FILE *to) {
  for (size_t i = 0; i < keys->count; i++) {
    char name[256];
    hr__text_escape(keys->list[i], strlen(keys->list[i]), name, sizeof name);
    if (i > 0) fputc(',', to);
    cell_print(name, to);
  }
  fputs("\n", to);
}

void hr__log_print_csv(const hr_record *r, const hr_log_keys *keys, FILE *to) {
  for (size_t i = 0; i < keys->count; i++) {
    char text[TEXT];
    if (i > 0) fputc(',', to);
    cell_print(value_text(hr__log_value(r->fields, keys->list[i]), text), to);
  }
  fputs("\n", to);
}

void hr__log_print_json(const hr_record *r, const hr_log_keys *keys, FILE *to) {
  const size_t flags = JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(13);
  if (keys->count == 0) {
    (void)json_dumpf(r->fields, to, flags);
    return;
  }
  fputs("{\"step\":", to);
  fprintf(to, "%" PRId64, r->step);
  for (size_t i = 0; i < keys->count; i++) {
    const json_t *value = hr__log_value(r->fields, keys->list[i]);
    if (!value || strcmp(keys->list[i], HR_LOG_STEP) == 0) continue;
    json_t *name = json_string(keys->list[i]);
    fputc(',', to);
    if (name) (void)json_dumpf(name, to, flags | JSON_ENCODE_ANY);
    fputc(':', to);
    (void)json_dumpf(value, to, flags | JSON_ENCODE_ANY);
    json_decref(name);
  }
  fputc('}', to);
}
