/* Runs of a small model whose allocations were replayed by another implementation of the allocator (test/torch/golden):
 * reserved bytes are the same after every event. `reserved` of each file has [event, bytes] wherever they change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "format/file.h"
#include "format/number_rows.h"
#include "torch/replay.h"
#include "torch/trace.h"

typedef struct golden {
  hr_arena arena;
  hr_torch_trace trace;
  hr_number_rows reserved;
  hr_doc_node *head;
} golden;

static void golden_open(golden *g, const char *name) {
  char path[512], *text;
  size_t bytes;
  bool there;
  hr_error err = {0};
  snprintf(path, sizeof path, "%s/test/torch/golden/%s.json", HR_SOURCE_DIR, name);
  assert_int_equal(hr__file_read(path, 1 << 24, &g->arena, &text, &bytes, &err), HR_OK);
  assert_int_equal(hr__torch_trace_parse(path, text, bytes, &g->arena, &g->trace, &err), HR_OK);
  assert_int_equal(hr__number_rows_open(path, text, bytes, "reserved", &g->arena, &g->head, &g->reserved, &there, &err),
                   HR_OK);
  assert_true(there);
}

/* The number of the event that changes it next, and what it becomes. */
static bool next_change(golden *g, uint64_t change[HR_NUMBER_ROW]) {
  size_t count;
  bool there;
  hr_error err = {0};
  assert_int_equal(hr__number_rows_next(&g->reserved, change, &count, &there, &err), HR_OK);
  assert_true(!there || count == 2);
  return there;
}

static void events_compare(golden *g) {
  const hr_torch_events *events = &g->trace.events;
  hr_torch_rules rules;
  hr_torch_allocator a;
  hr__torch_rules_init(&rules);
  hr__torch_allocator_init(&a, &rules);
  uint32_t *blocks = hr__arena_array(&g->arena, events->n_ids, sizeof *blocks);
  uint64_t change[HR_NUMBER_ROW], expected = 0;
  bool more = next_change(g, change);
  for (size_t i = 0; i < events->count; i++) {
    const hr_torch_event *event = &events->items[i];
    if (event->kind == HR_TORCH_ALLOCATE)
      assert_int_equal(hr__torch_take(&a, event->bytes, 0, &blocks[event->id]), HR_OK);
    else if (event->kind == HR_TORCH_FREE)
      hr__torch_give(&a, blocks[event->id]);
    else
      assert_int_equal(hr__torch_empty_cache(&a), HR_OK);
    if (more && change[0] == i) {
      expected = change[1];
      more = next_change(g, change);
    }
    if (a.now.reserved_bytes != expected)
      fail_msg("event %zu: %zu reserved, %zu expected", i, (size_t)a.now.reserved_bytes, (size_t)expected);
  }
  assert_false(more);
  int64_t allocated;
  assert_true(hr__doc_int(hr__doc_get(g->head, "allocated_bytes"), &allocated));
  assert_int_equal(a.peak.allocated_bytes, allocated);
  assert_int_equal(a.peak.reserved_bytes, g->trace.recorded_bytes);
  hr__torch_allocator_fini(&a);
}

static void test_reserved_bytes_are_the_same_after_every_event(void **state) {
  static const char *const names[] = {"full-bf16", "full-amp-ckpt", "lora-bf16", "full-fp32"};
  (void)state;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    golden g = {0};
    golden_open(&g, names[i]);
    events_compare(&g);
    hr__torch_trace_fini(&g.trace);
    hr__arena_fini(&g.arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_reserved_bytes_are_the_same_after_every_event)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
