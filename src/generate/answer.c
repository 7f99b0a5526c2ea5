/* See answer.h. */
#include "generate/answer.h"

const char *hr_end_name(hr_end end) {
  static const char *const names[] = {[HR_END_NONE] = "none",
                                      [HR_END_TOKEN] = "end_token",
                                      [HR_END_STOP] = "stop_string",
                                      [HR_END_LENGTH] = "max_tokens",
                                      [HR_END_CONTEXT] = "max_context"};
  return names[end];
}

hr_status hr__answer_begin(const hr_codec *codec, const hr_answer_rules *rules, hr_answer *out, hr_error *err) {
  *out = (hr_answer){.rules = rules};
  return hr__codec_stream_begin(codec, &out->stream, err);
}

static bool ends_with_token(const hr_answer_rules *rules, int32_t id) {
  for (size_t i = 0; i < rules->n_ends; i++)
    if (rules->ends[i] == id) return true;
  return false;
}

/* Looks for stop strings in what was not shown yet. The first one cuts the text; what may be the beginning of one is
 * held back. */
static void stops_look(hr_answer *a) {
  size_t hold = a->text.count;
  for (size_t at = a->shown; at < a->text.count; at++)
    for (size_t s = 0; s < a->rules->n_stops; s++) {
      const char *stop = a->rules->stops[s];
      size_t length = strlen(stop), left = a->text.count - at, compared = length < left ? length : left;
      if (memcmp(a->text.data + at, stop, compared) != 0) continue;
      if (compared == length) {
        a->text.count = a->shown = at;
        a->end = HR_END_STOP;
        return;
      }
      if (at < hold) hold = at;
    }
  a->shown = hold;
}

hr_status hr__answer_end(hr_answer *a, hr_end end, hr_error *err) {
  HR_TRY(hr__codec_stream_end(&a->stream, &a->text, err));
  stops_look(a);
  if (a->end == HR_END_NONE) a->end = end;
  a->shown = a->text.count;
  return HR_OK;
}

hr_status hr__answer_put(hr_answer *a, int32_t id, hr_error *err) {
  if (ends_with_token(a->rules, id)) return hr__answer_end(a, HR_END_TOKEN, err);
  HR_TRY(hr__ids_add(&a->ids, id, err));
  HR_TRY(hr__codec_stream_put(&a->stream, id, &a->text, err));
  stops_look(a);
  if (a->end != HR_END_NONE) return HR_OK;
  return (int64_t)a->ids.count >= a->rules->tokens ? hr__answer_end(a, HR_END_LENGTH, err) : HR_OK;
}

void hr__answer_destroy(hr_answer *a) {
  hr__ids_fini(&a->ids);
  hr__string_fini(&a->text);
  hr__codec_stream_destroy(&a->stream);
  *a = (hr_answer){0};
}
