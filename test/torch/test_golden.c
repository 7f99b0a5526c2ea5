/* Runs of a small model whose allocations were replayed by another implementation of the allocator (test/torch/golden),
 * and runs that PyTorch's own recorded on an H200 (test/torch/recorded): reserved bytes are the same after every event.
 * `reserved` of each file has [event, bytes] wherever they change. HR_TORCH_RECORDED names another folder of
 * recordings.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void golden_open(golden *g, const char *path) {
  char *text;
  size_t bytes;
  bool there;
  hr_error err = {0};
  assert_int_equal(hr__file_read(path, 1 << 24, &g->arena, &text, &bytes, &err), HR_OK);
  assert_int_equal(hr__torch_trace_parse(path, text, bytes, &g->arena, &g->trace, &err), HR_OK);
  assert_int_equal(
      hr__number_rows_open(path, text, bytes, "reserved", "events", &g->arena, &g->head, &g->reserved, &there, &err),
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

static void events_compare(golden *g, const char *path) {
  const hr_torch_events *events = &g->trace.events;
  hr_torch_rules rules;
  hr_torch_allocator a;
  hr__torch_rules_init(&rules);
  rules.places = g->trace.places;
  rules.n_places = g->trace.n_places;
  hr__torch_allocator_init(&a, &rules);
  uint32_t *blocks = hr__arena_array(&g->arena, events->n_ids, sizeof *blocks);
  uint64_t change[HR_NUMBER_ROW], expected = 0;
  bool more = next_change(g, change);
  for (size_t i = 0; i < events->count; i++) {
    const hr_torch_event *event = &events->items[i];
    if (event->kind == HR_TORCH_ALLOCATE)
      assert_int_equal(hr__torch_take(&a, event->bytes, event->stream, &blocks[event->id]), HR_OK);
    else if (event->kind == HR_TORCH_FREE)
      hr__torch_give(&a, blocks[event->id]);
    else
      assert_int_equal(hr__torch_empty_cache(&a), HR_OK);
    if (more && change[0] == i) {
      expected = change[1];
      more = next_change(g, change);
    }
    if (a.now.reserved_bytes != expected)
      fail_msg("%s, event %zu: %zu reserved, %zu expected", path, i, (size_t)a.now.reserved_bytes, (size_t)expected);
  }
  assert_false(more);
  int64_t allocated;
  assert_true(hr__doc_int(hr__doc_get(g->head, "allocated_bytes"), &allocated));
  assert_int_equal(a.peak.allocated_bytes, allocated);
  assert_int_equal(a.peak.reserved_bytes, g->trace.recorded_bytes);
  hr__torch_allocator_fini(&a);
}

static void file_compare(const char *path) {
  golden g = {0};
  golden_open(&g, path);
  events_compare(&g, path);
  hr__torch_trace_fini(&g.trace);
  hr__arena_fini(&g.arena);
}

static int folder_compare(const char *folder) {
  DIR *files = opendir(folder);
  struct dirent *file;
  int count = 0;
  assert_non_null(files);
  while ((file = readdir(files))) {
    size_t length = strlen(file->d_name);
    if (length < 5 || strcmp(file->d_name + length - 5, ".json") != 0) continue;
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, file->d_name);
    file_compare(path);
    count++;
  }
  closedir(files);
  return count;
}

static void test_another_implementation(void **state) {
  (void)state;
  assert_int_equal(folder_compare(HR_SOURCE_DIR "/test/torch/golden"), 4);
}

static void test_recorded(void **state) {
  (void)state;
  const char *folder = getenv("HR_TORCH_RECORDED");
  int count = folder_compare(folder ? folder : HR_SOURCE_DIR "/test/torch/recorded");
  print_message("%d recordings\n", count);
  assert_true(count >= 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_another_implementation), cmocka_unit_test(test_recorded)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
