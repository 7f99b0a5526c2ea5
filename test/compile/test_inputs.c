/* The inputs pass: one room on the host for the batches of all programs, fetched at the beginning, waited for by the
 * first reader. */
#include <string.h>

#include "data/field.h"
#include "op/transfer.h"
#include "part_compiled.h"

static const char recipe_text[] = "model:\n"
                                  "  family: bert\n"
                                  "  config: { hidden_size: 16, num_hidden_layers: 2, num_attention_heads: 4,\n"
                                  "            intermediate_size: 24, vocab_size: 300, max_position_embeddings: 32 }\n"
                                  "data: { sequence_length: 32, source: lines, buckets: [8, 16, 32] }\n"
                                  "training: { batch_size: 3, gradient_accumulation: 2, eval_every: 4 }\n";

static hr_fields fields_of(int64_t length) {
  hr_fields fields = {.count = 0};
  hr_desc tokens = {HR_I32, 2, {3, length}}, lengths = {HR_I32, 1, {3}};
  hr__field_add(&fields, (hr_field){.name = "tokens", .purpose = HR_FOR_TOKENS, .desc = tokens});
  hr__field_add(&fields, (hr_field){.name = "targets", .purpose = HR_FOR_TARGETS, .desc = tokens});
  hr__field_add(&fields, (hr_field){.name = "lengths", .purpose = HR_FOR_LENGTHS, .desc = lengths});
  return fields;
}

static void test_programs_share_the_slots(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, NULL));
  const hr_graph *g = c->graph;
  hr_id batch = hr__graph_find_value(g, HR_BATCH);
  assert_int_not_equal(batch, HR_NONE);
  const hr_buffer *room = &g->buffers[g->values[batch].buffer];
  assert_true(room->persistent && room->home == HR_TIER_HOST && room->role == HR_ROLE_INPUT);
  size_t begin[HR_FIELDS], all = 0;
  for (hr_id p = 0; p < g->n_programs; p++) {
    const hr_program *program = &g->programs[p];
    if (program->key.kind == HR_PROGRAM_UPDATE) {
      assert_int_equal(program->n_inputs, 0);
      continue;
    }
    hr_fields fields = fields_of((int64_t[]){32, 16, 8}[program->key.bucket]);
    size_t bytes = hr__fields_place(&fields, begin);
    if (bytes > all) all = bytes;
    assert_int_equal(program->n_inputs, fields.count);
    for (int i = 0; i < fields.count; i++) {
      const hr_value *input = &g->values[hr__program_input(g, p, fields.list[i].name)];
      assert_int_equal(input->buffer, g->values[batch].buffer);
      assert_int_equal(input->offset, begin[i]);
      assert_true(input->desc.dtype == HR_I32 && hr_desc_same_shape(&input->desc, &fields.list[i].desc));
    }
  }
  assert_int_equal(room->bytes, HR_BATCH_SLOTS * all);
}

/* Fetches come first; nothing but them reads what the host writes; a wait stands right before a reader. */
static void test_each_field_is_fetched_once(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, NULL, "memory.checkpoint=every-layer"));
  const hr_graph *g = c->graph;
  for (hr_id p = 0; p < g->n_programs; p++) {
    const hr_program *program = &g->programs[p];
    if (program->key.kind == HR_PROGRAM_UPDATE) continue;
    for (hr_id i = 0; i < program->count; i++) {
      const hr_node *node = &g->nodes[program->first + i];
      assert_int_equal(node->op == &hr_op_fetch, i < 3);
      if (node->op == &hr_op_fetch) continue;
      bool wait = node->op == &hr_op_wait;
      for (int k = 0; k < node->n_in; k++) {
        if (node->in[k] == HR_NONE) continue;
        const hr_value *value = &g->values[node->in[k]];
        const hr_buffer *buffer = &g->buffers[value->buffer];
        bool below = buffer->home == HR_TIER_HOST;
        assert_int_equal(below, wait && k == 1);
        if (buffer->role == HR_ROLE_INPUT && !buffer->persistent)
          assert_ptr_equal(g->nodes[value->producer].op, wait ? &hr_op_fetch : &hr_op_wait);
      }
      if (!wait) continue;
      const hr_node *behind = node + 1;
      while (behind->op == &hr_op_wait)
        behind++;
      bool reads = false;
      for (int k = 0; k < behind->n_in; k++)
        reads |= behind->in[k] == node->out[0];
      assert_true(reads);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_programs_share_the_slots, compiled_setup, compiled_teardown),
      cmocka_unit_test_setup_teardown(test_each_field_is_fetched_once, compiled_setup, compiled_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
