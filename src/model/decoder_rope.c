/* Rotary positions: reading, checking and writing their settings. See decoder.h. */
#include <stdio.h>
#include <string.h>

#include "model/decoder.h"

static const char *path_in(const char *section, const char *key, char out[128]) {
  snprintf(out, 128, "%s.%s", section, key);
  return out;
}

static const char *const rope_numbers[] = {"factor", "low_freq_factor", "high_freq_factor",
                                           "original_max_position_embeddings"};
enum { ROPE_NUMBERS = sizeof rope_numbers / sizeof *rope_numbers };

static bool rope_any(const hr_scope *r, const char *section) {
  char path[128];
  bool any = hr__scope_has(r, path_in(section, "rope_type", path));
  for (int i = 0; i < ROPE_NUMBERS; i++)
    any = any || hr__scope_has(r, path_in(section, rope_numbers[i], path));
  return any;
}

/* The form of rotary settings that counts; NULL when neither is there. */
static const char *rope_section(const hr_scope *r) {
  static const char scaling[] = "config.rope_scaling", parameters[] = "config.rope_parameters";
  if (hr__scope_given(r, scaling)) return scaling;
  if (hr__scope_given(r, parameters)) return parameters;
  if (rope_any(r, parameters)) return parameters;
  return rope_any(r, scaling) ? scaling : NULL;
}

void hr__rope_read(const hr_scope *r, hr_decoder *m) {
  char path[128];
  const char *rope = rope_section(r);
  m->theta = hr__scope_float(r, "config.rope_theta");
  if (m->family->local_rope) m->local_theta = hr__scope_float(r, "config.rope_local_base_freq");
  if (hr__scope_has(r, "config.rope_parameters.rope_theta") && !hr__scope_given(r, "config.rope_theta")) {
    m->theta = hr__scope_float(r, "config.rope_parameters.rope_theta");
  }
  if (!rope || !hr__scope_has(r, path_in(rope, "rope_type", path))) return;
  const char *type = hr__scope_text(r, path);
  m->rope_linear = strcmp(type, "linear") == 0;
  if (strcmp(type, "default") != 0) m->rope = rope;
}

static hr_status type_check(const hr_scope *r, const char *section, hr_error *err) {
  static const char *const known[] = {"default", "linear", "llama3"};
  char path[128], remedy[256];
  if (!section || !hr__scope_has(r, path_in(section, "rope_type", path))) return HR_OK;
  const char *type = hr__scope_text(r, path);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(type, known[i]) == 0) return HR_OK;
  snprintf(remedy, sizeof remedy,
           "supported: default, linear, llama3; --set %s.%s=null plans with plain positions: the same memory and time, "
           "other results",
           r->section, section);
  return hr__scope_fail(r, path, remedy, err, "%s.%s \"%.60s\" is not supported", r->section, path, type);
}

/* The llama3 form needs all four of its numbers, the linear one the first. */
hr_status hr__rope_check(const hr_scope *r, const hr_decoder *m, hr_error *err) {
  char path[128];
  const char *section = rope_section(r);
  if (hr__scope_given(r, "config.rope_scaling") && hr__scope_given(r, "config.rope_parameters")) {
    return hr__scope_fail(r, "config.rope_parameters", "keep rope_parameters, which holds rope_theta too", err,
                          "%s.config.rope_scaling and rope_parameters say the same thing twice", r->section);
  }
  if (hr__scope_given(r, "config.rope_theta") && hr__scope_given(r, "config.rope_parameters.rope_theta")) {
    return hr__scope_fail(r, "config.rope_parameters.rope_theta", "keep one of them", err,
                          "%s.config.rope_theta is given twice, also in rope_parameters", r->section);
  }
  HR_TRY(type_check(r, section, err));
  for (int i = 0; i < ROPE_NUMBERS; i++) {
    bool there = section && hr__scope_has(r, path_in(section, rope_numbers[i], path));
    if (m->rope && !there && (i == 0 || !m->rope_linear)) {
      return hr__scope_fail(r, path,
                            m->rope_linear ? "rope_type linear needs factor"
                                           : "rope_type llama3 needs factor, low_freq_factor, high_freq_factor and "
                                             "original_max_position_embeddings",
                            err, "%s.%s is missing", r->section, path);
    }
    if (there && !hr__scope_has(r, path_in(section, "rope_type", path))) {
      return hr__scope_fail(r, path, "add \"rope_type: llama3\", or remove the section", err,
                            "%s.%s is missing, so %s has no effect", r->section, path, rope_numbers[i]);
    }
  }
  if (!m->rope || m->rope_linear) return HR_OK;
  double low = hr__scope_float(r, path_in(m->rope, "low_freq_factor", path));
  double high = hr__scope_float(r, path_in(m->rope, "high_freq_factor", path));
  if (low < high) return HR_OK;
  return hr__scope_fail(r, path, "Llama 3 uses low_freq_factor 1 and high_freq_factor 4", err,
                        "%s.%s must be larger than low_freq_factor (%g), but it is %g", r->section, path, low, high);
}

hr_rope_table_args hr__rope_args(const hr_scope *r, const hr_decoder *m, int64_t length) {
  hr_rope_table_args args = {.length = length, .head_dim = m->head_dim, .theta = m->theta};
  if (!m->rope) return args;
  char path[128];
  args.scaled = true;
  args.factor = hr__scope_float(r, path_in(m->rope, "factor", path));
  if (m->rope_linear) { /* every wave is longer than 1/low: all are stretched fully */
    args.low = 1e30;
    args.high = 2e30;
    args.original_length = 1;
    return args;
  }
  args.low = hr__scope_float(r, path_in(m->rope, "low_freq_factor", path));
  args.high = hr__scope_float(r, path_in(m->rope, "high_freq_factor", path));
  args.original_length = hr__scope_int(r, path_in(m->rope, "original_max_position_embeddings", path));
  return args;
}

hr_rope_table_args hr__rope_local_args(const hr_decoder *m, int64_t length) {
  return (hr_rope_table_args){.length = length, .head_dim = m->head_dim, .theta = m->local_theta};
}

json_t *hr__rope_json(const hr_scope *r, const hr_decoder *m) {
  char path[4][128];
  if (!m->rope) return json_null();
  if (m->rope_linear)
    return json_pack("{s:s, s:f}", "rope_type", "linear", "factor",
                     hr__scope_float(r, path_in(m->rope, "factor", path[0])));
  return json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", "llama3", "factor",
                   hr__scope_float(r, path_in(m->rope, "factor", path[0])), "low_freq_factor",
                   hr__scope_float(r, path_in(m->rope, "low_freq_factor", path[1])), "high_freq_factor",
                   hr__scope_float(r, path_in(m->rope, "high_freq_factor", path[2])),
                   "original_max_position_embeddings",
                   (json_int_t)hr__scope_int(r, path_in(m->rope, "original_max_position_embeddings", path[3])));
}
