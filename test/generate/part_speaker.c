#include "part_speaker.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "job/settings.h"

static const char *const sizes_of_attention =
    "intermediate_size: 96, num_attention_heads: 4, num_key_value_heads: 2, head_dim: 12, max_position_embeddings: 512";

static void recipe_open(speaker *s, const speaker_kind *kind, int64_t batch, int64_t context) {
  char text[1024];
  hr_error err = {0};
  /* wide initial weights, so that the likeliest token is likelier than the next by more than rounding */
  int bytes = snprintf(text, sizeof text,
                       "model:\n  family: %s\n  config: {hidden_size: 48, num_hidden_layers: 3, vocab_size: %d, "
                       "initializer_range: 0.3, %s%s%s}\n%s\n"
                       "data: {source: synthetic, sequence_length: 32}\n"
                       "generation: {alone: true, batch: %d, context: %d}\n",
                       kind->family, SPEAKER_VOCABULARY, kind->sizes ? kind->sizes : sizes_of_attention,
                       *kind->config ? ", " : "", kind->config, kind->settings, (int)batch, (int)context);
  if (hr__settings_parse("test.yaml", ".", text, (size_t)bytes, NULL, 0, &s->recipe, &err) != HR_OK)
    fail_msg("%s: %s: %s", text, err.place, err.message);
}

static void run_open(speaker *s) {
  hr_error err = {0};
  hr_rates rates;
  hr_plan_options options = {.accumulation = 1};
  hr_status status = hr__cpu_open(&s->device, &err);
  if (status == HR_OK) hr__rates_default(&s->device->facts, &rates);
  if (status == HR_OK) status = hr__plan_build(s->graph, &s->device->facts, &rates, &options, &s->plan, &err);
  if (status == HR_OK) status = hr__run_create(s->plan, s->device, NULL, &s->run, &err);
  if (status == HR_OK) status = hr__run_init_values(s->run, 7, &err);
  if (status != HR_OK) fail_msg("%s: %s", err.place, err.message);
}

void speaker_open(speaker *s, const speaker_kind *kind, int64_t batch, int64_t context, const hr_sampling *sampling) {
  hr_error err = {0};
  *s = (speaker){0};
  recipe_open(s, kind, batch, context);
  hr_status status = hr__compile(s->recipe, NULL, NULL, &s->graph, &err);
  if (status == HR_OK) status = hr__graph_verify(s->graph, &err);
  if (status != HR_OK) fail_msg("%s: %s", err.place, err.message);
  run_open(s);
  if (hr__generator_create(s->run, s->recipe, sampling, &s->generator, &err) != HR_OK) fail_msg("%s", err.message);
}

void speaker_open_whole(speaker *s, const speaker_kind *kind, int64_t length) {
  hr_error err = {0};
  hr_builder b;
  *s = (speaker){.length = length};
  recipe_open(s, kind, 1, length);
  hr_model_part model = hr__model_whole(s->recipe);
  assert_int_equal(hr__graph_create(&s->graph, &err), HR_OK);
  hr__builder_init(&b, s->graph, HR_F32);
  s->program = hr__program_begin(&b, HR_PROGRAM_EVAL);
  hr_fields fields = {.count = 0};
  hr__field_add(&fields, (hr_field){.name = "tokens", .desc = hr__desc2(HR_I32, 1, length)});
  hr_model_batch batch = hr__batch_declare(&b, &fields, 1, length);
  s->tokens = batch.tokens;
  hr_id hidden = model.model->body(&b, &model, model.model->embed(&b, &model, &batch), &batch);
  s->logits = model.model->logits(&b, &model, hidden);
  if (hr__builder_status(&b, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  hr__program_set_output(&b, "logits", s->logits);
  run_open(s);
}

void speaker_close(speaker *s) {
  hr__generator_destroy(s->generator);
  hr__run_destroy(s->run);
  hr__plan_destroy(s->plan);
  hr__graph_destroy(s->graph);
  hr__recipe_destroy(s->recipe);
  hr__device_close(s->device);
}

int32_t speaker_next_by_whole(speaker *s, const int32_t *ids, int64_t count) {
  float logits[SPEAKER_VOCABULARY];
  hr_error err = {0};
  int32_t *padded = hr__alloc_zero((size_t)s->length, sizeof *padded), best = 0;
  assert_true(padded && count <= s->length);
  memcpy(padded, ids, (size_t)count * sizeof *ids);
  assert_int_equal(hr__run_write(s->run, s->tokens, 0, padded, (size_t)s->length * sizeof *padded, &err), HR_OK);
  assert_int_equal(hr__run_program(s->run, s->program, &err), HR_OK);
  assert_int_equal(hr__run_read(s->run, s->logits, (size_t)(count - 1) * sizeof logits, logits, sizeof logits, &err),
                   HR_OK);
  for (int32_t i = 1; i < SPEAKER_VOCABULARY; i++)
    if (logits[i] > logits[best]) best = i;
  hr__free(padded);
  return best;
}

void speaker_continue(speaker *s, const int32_t *prompt, int64_t n, int32_t *out, int64_t count) {
  hr_error err = {0};
  hr_fed rows[HR_GENERATION_BATCH] = {{.ids = prompt, .count = n}};
  hr__generator_begin(s->generator, 0, 0, NULL, 0);
  for (int64_t i = 0; i < count; i++) {
    if (hr__generator_feed(s->generator, rows, &err) != HR_OK) fail_msg("%s", err.message);
    out[i] = rows[0].next;
    rows[0] = (hr_fed){.ids = &out[i], .count = 1};
  }
}

void speaker_prompt(int32_t *out, int64_t count, int64_t which) {
  for (int64_t i = 0; i < count; i++)
    out[i] = (int32_t)(((i + 3) * (which * 2 + 7) * 31 + i * i + which) % SPEAKER_VOCABULARY);
}
