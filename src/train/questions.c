/* See questions.h. */
#include "train/questions.h"

#include <string.h>

hr_questions hr__questions_of(const hr_session *session) {
  const hr_data *data = session->data;
  hr_questions q = {.data = data, .fields = session->fields[session->shape.n_buckets - 1], .patches = -1};
  q.held = hr__data_eval_samples(data) > 0;
  q.count = (uint64_t)(q.held ? hr__data_eval_samples(data) : hr__data_train_samples(data));
  q.tokens = hr__field_for(&q.fields, HR_FOR_TOKENS);
  for (int f = 0; f < q.fields.count; f++) {
    const hr_field *field = &q.fields.list[f];
    if (strcmp(field->name, "patches") != 0) continue;
    q.patches = f;
    q.points = field->desc.dim[field->desc.rank - 1];
  }
  return q;
}

void **hr__question_room(const hr_questions *q, hr_arena *arena) {
  void **at = hr__arena_array(arena, HR_FIELDS, sizeof *at);
  for (int f = 0; at && f < q->fields.count; f++)
    if (!(at[f] = hr__arena_alloc(arena, hr__field_sample_bytes(&q->fields.list[f])))) return NULL;
  return at;
}

hr_status hr__question_take(const hr_questions *q, uint64_t number, void **at, hr_asked *asked, hr_prompt *prompt,
                            hr_error *err) {
  HR_TRY(hr__data_ask(q->data, q->held, number, at, asked, err));
  *prompt = (hr_prompt){.ids = at[q->tokens], .count = asked->positions, .sample = at};
  return HR_OK;
}
