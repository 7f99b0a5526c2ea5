/* Traces: files as the tool writes them, damaged ones, several batch sizes, settings of the allocator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "format/doc.h"
#include "torch/conf.h"
#include "torch/driver.h"
#include "torch/replay.h"
#include "torch/scale.h"
#include "torch/trace.h"

static const uint64_t MIB = 1 << 20;

#define HEAD(batch)                                                                                                    \
  "{\"format\": \"headroom torch trace 1\", \"source\": \"size-only tensors\", \"batch\": " batch ",\n"                \
  " \"capability\": 90, \"versions\": {\"torch\": \"2.15.0\"}, \"guesses\": [\"item\"], \"unmodelled\": [],\n"         \
  " \"categories\": [\"activations\", \"parameters\"], \"phases\": [\"build\", \"forward\"],\n"                        \
  " \"names\": [\"\", \"layer\", \"aten::mm\", \"cublas workspace\"],\n \"events\": "

typedef struct fixture {
  hr_arena arena;
  hr_torch_trace traces[3];
  size_t count;
  hr_error err;
} fixture;

static int setup(void **state) {
  static fixture f;
  f = (fixture){0};
  *state = &f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  for (size_t i = 0; i < f->count; i++)
    hr__torch_trace_fini(&f->traces[i]);
  hr__arena_fini(&f->arena);
  return 0;
}

static hr_status parse(fixture *f, const char *text) {
  return hr__torch_trace_parse("t.json", text, strlen(text), &f->arena, &f->traces[f->count++], &f->err);
}

static void test_a_trace_is_read(void **state) {
  fixture *f = *state;
  assert_int_equal(parse(f, HEAD("4") "[\n[0,1024,1,1,2],\n[2,1,1],[ 0 , 33554432 ,0,0,3,2],\n[1,0],[3]\n]}"), HR_OK);
  const hr_torch_trace *t = &f->traces[0];
  assert_int_equal(t->batch, 4);
  assert_int_equal(t->capability, 90);
  assert_string_equal(t->version, "2.15.0");
  assert_string_equal(t->guesses[0], "item");
  assert_int_equal(t->events.count, 5);
  assert_int_equal(t->events.items[0].category, HR_TORCH_PARAMETERS);
  assert_string_equal(t->events.names[t->events.items[0].owner], "layer");
  assert_string_equal(t->events.names[t->events.items[0].call], "aten::mm");
  assert_int_equal(t->events.items[1].phase, HR_TORCH_FORWARD);
  assert_int_equal(t->events.items[2].stream, 2);
  assert_int_equal(t->events.lives[0].end, 3);
  assert_int_equal(t->events.lives[1].end, HR_TORCH_ALWAYS);
  hr__torch_trace_workspaces(&f->traces[0], 89);
  assert_int_equal(t->events.items[2].bytes, 8519680);
  hr__torch_trace_workspaces(&f->traces[0], 100);
  assert_int_equal(t->events.items[2].bytes, 32 * MIB);
}

/* What was reserved has a row for every change, of which a long recording has more than a document may hold. */
static void test_long_recording(void **state) {
  enum { ROWS = HR_DOC_MAX_NODES, ROW = 8 };
  static const char events[] = "[[0,2097152,0,0,0]],\n \"reserved\": [";
  fixture *f = *state;
  size_t bytes = sizeof events + strlen(HEAD("4")) + (size_t)ROWS * ROW, used;
  char *text = hr__alloc(bytes);
  assert_non_null(text);
  used = (size_t)snprintf(text, bytes, "%s%s", HEAD("4"), events);
  for (size_t i = 0; i < ROWS; i++)
    used += (size_t)snprintf(text + used, bytes - used, "%s[%zu,2]", i ? "," : "", i % 10);
  snprintf(text + used, bytes - used, "]}");
  assert_int_equal(parse(f, text), HR_OK);
  assert_int_equal(f->traces[0].events.count, 1);
  hr__free(text);
}

/* A segment may come where another one lay before, and files may say anything: equal places are told apart. */
static void test_places_of_segments(void **state) {
  fixture *f = *state;
  static const char events[] = "[[0,2097152,0,0,0],[0,2097152,0,0,0],[1,0],[1,1],[0,2097152,0,0,0],[0,2097152,0,0,0],"
                               "[1,2],[1,3],[3],[0,2097152,0,0,0]],\n \"segments\": ";
  static const char *const good[] = {"[0,0]", "[1,0,0]", "[]", "[7,7,7,7,7]"}, *const bad[] = {"7", "[[0]]", "[-1]"};
  char text[2048];
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    f->count = 0;
    snprintf(text, sizeof text, "%s%s%s}", HEAD("4"), events, good[i]);
    assert_int_equal(parse(f, text), HR_OK);
    hr_torch_rules rules;
    hr_torch_result result;
    hr__torch_rules_init(&rules);
    rules.places = f->traces[0].places;
    rules.n_places = f->traces[0].n_places;
    assert_int_equal(hr__torch_replay(&f->traces[0].events, &rules, &f->arena, &result, &f->err), HR_OK);
    assert_int_equal(result.reserved.use.reserved_bytes, 20 * MIB);
    hr__torch_trace_fini(&f->traces[0]);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    f->count = 0;
    snprintf(text, sizeof text, "%s%s%s}", HEAD("4"), events, bad[i]);
    assert_int_equal(parse(f, text), HR_BAD_INPUT);
    hr__torch_trace_fini(&f->traces[0]);
  }
  f->count = 0;
}

static void test_what_is_damaged_is_refused_with_its_line(void **state) {
  static const char *const cases[][2] = {
      {HEAD("4") "[[0,1,1,1,2],\n[1,1]]}", "frees what is not there"},
      {HEAD("4") "[[0,1,1,1,2],[1,0],\n[1,0]]}", "frees what is not there"},
      {HEAD("4") "[[0,1,1,1,2],\n[0,1,2,1,2]]}", "does not have"},
      {HEAD("4") "[[0,1,1,1,2],\n[0,1,1,4,2]]}", "does not have"},
      {HEAD("4") "[[0,1,1,1,2],\n[0,2000000000000000,1,1,2]]}", "any device"},
      {HEAD("4") "[[0,1,1,1,2],\n[2,7,1]]}", "cannot be"},
      {HEAD("4") "[[0,1,1,1,2],\n[4]]}", "form"},
      {HEAD("4") "[[0,1,1,1,2],\n[0,1.5,1,1,2]]}", "comma or ]"},
      {HEAD("4") "[[0,1,1,1,2],\n[0,-1,1,1,2]]}", "whole number"},
      {HEAD("4") "[[0,1,1,1,2],\n[]]}", "whole number"},
      {HEAD("4") "[[0,1,1,1,2],\n[0,99999999999999999999,1,1,2]]}", "2^64"},
      {HEAD("4") "[[0,1,1,1,2],\n[0,1,1,1,2,0,0,0,0]]}", "end of the row"},
      {HEAD("4") "[[0,1,1,1,2],\n{}]}", "row in brackets"},
  };
  fixture *f = *state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    f->err = (hr_error){0};
    assert_int_equal(parse(f, cases[i][0]), HR_BAD_INPUT);
    if (!strstr(f->err.message, cases[i][1])) fail_msg("case %zu: %s", i, f->err.message);
    assert_string_equal(f->err.place, "t.json:6");
    hr__torch_trace_fini(&f->traces[--f->count]);
  }
}

static void test_other_files_are_no_traces(void **state) {
  static const char *const texts[] = {"",
                                      "{",
                                      "[]",
                                      "{\"events\": [[0]]}",
                                      "{\"events\": 3}",
                                      HEAD("4") "3}",
                                      HEAD("4") "[]",
                                      HEAD("\"x\"") "[]}",
                                      HEAD("-1") "[]}",
                                      HEAD("4") "[], \"events\": [[3]]}"};
  fixture *f = *state;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    assert_int_equal(parse(f, texts[i]), HR_BAD_INPUT);
    assert_true(f->err.message[0] && f->err.place[0]);
    hr__torch_trace_fini(&f->traces[--f->count]);
  }
}

static uint64_t allocated_at(hr_torch_scaling *scaling, uint64_t batch, fixture *f) {
  hr_torch_rules rules;
  hr_torch_result result;
  hr__torch_rules_init(&rules);
  assert_int_equal(hr__torch_replay(hr__torch_scale(scaling, batch), &rules, &f->arena, &result, &f->err), HR_OK);
  return result.allocated.use.allocated_bytes;
}

static void test_batch_sizes_between_and_beyond(void **state) {
  fixture *f = *state;
  hr_torch_scaling s;
  assert_int_equal(parse(f, HEAD("8") "[[0,4096,1,1,2],[0,81920,0,1,2],[1,0]]}"), HR_OK);
  assert_int_equal(parse(f, HEAD("2") "[[0,4096,1,1,2],[0,20480,0,1,2],[1,0]]}"), HR_OK);
  assert_int_equal(hr__torch_scaling_init(&s, f->traces, 2, &f->arena, &f->err), HR_OK);
  assert_int_equal(s.traces[0]->batch, 2);
  assert_int_equal(s.bent, 0);
  for (uint64_t batch = 1; batch < 20; batch++)
    assert_int_equal(allocated_at(&s, batch, f), 4096 + 10240 * batch);
  assert_int_equal(parse(f, HEAD("4") "[[0,4096,1,1,2],[0,50000,0,1,2],[1,0]]}"), HR_OK);
  hr__torch_scale(&s, 2);
  s.traces[0]->events.items[1].bytes = 20480;
  f->traces[0].events.items[1].bytes = 81920;
  assert_int_equal(hr__torch_scaling_init(&s, f->traces, 3, &f->arena, &f->err), HR_OK);
  assert_int_equal(s.bent, 1);
  assert_int_equal(hr__torch_scale(&s, 4)->items[1].bytes, 50000);
  assert_int_equal(hr__torch_scale(&s, 3)->items[1].bytes, (20480 + 50000) / 2);
}

static void test_traces_that_do_not_correspond(void **state) {
  fixture *f = *state;
  hr_torch_scaling s;
  assert_int_equal(parse(f, HEAD("2") "[[0,4096,1,1,2],[1,0]]}"), HR_OK);
  assert_int_equal(parse(f, HEAD("4") "[[0,4096,1,1,3],[1,0]]}"), HR_OK);
  assert_int_equal(hr__torch_scaling_init(&s, f->traces, 2, &f->arena, &f->err), HR_BAD_INPUT);
  assert_non_null(strstr(f->err.message, "aten::mm there, cublas workspace here"));
  hr__torch_trace_fini(&f->traces[--f->count]);
  assert_int_equal(parse(f, HEAD("4") "[[0,4096,1,1,2]]}"), HR_OK);
  assert_int_equal(hr__torch_scaling_init(&s, f->traces, 2, &f->arena, &f->err), HR_BAD_INPUT);
  hr__torch_trace_fini(&f->traces[--f->count]);
  assert_int_equal(parse(f, HEAD("null") "[[0,4096,1,1,2],[1,0]]}"), HR_OK);
  assert_int_equal(hr__torch_scaling_init(&s, f->traces, 2, &f->arena, &f->err), HR_BAD_INPUT);
  assert_non_null(strstr(f->err.message, "batch size"));
}

static void test_settings_as_pytorch_takes_them(void **state) {
  fixture *f = *state;
  hr_torch_rules rules;
  hr__torch_rules_init(&rules);
  assert_int_equal(hr__torch_conf("expandable_segments:True,max_split_size_mb:128,garbage_collection_threshold:0.6,"
                                  "roundup_power2_divisions:[256:1,512:2,1024:4,>:8],backend:native",
                                  "x", &rules, &f->err),
                   HR_OK);
  assert_true(rules.expandable);
  assert_int_equal(rules.max_split_bytes, 128 * MIB);
  assert_int_equal(rules.divisions[0], 1);
  assert_int_equal(rules.divisions[8], 1);
  assert_int_equal(rules.divisions[9], 2);
  assert_int_equal(rules.divisions[10], 4);
  assert_int_equal(rules.divisions[11], 8);
  assert_int_equal(rules.divisions[15], 8);
  static const char *const wrong[] = {"expandable_segments",
                                      "expandable_segments:yes",
                                      "max_split_size_mb:2",
                                      "backend:cudaMallocAsync",
                                      "roundup:4",
                                      "roundup_power2_divisions:3",
                                      "roundup_power2_divisions:[256:1",
                                      ":",
                                      "garbage_collection_threshold:2"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_int_equal(hr__torch_conf(wrong[i], "x", &rules, &f->err), HR_USAGE);
}

static void test_what_the_driver_shows(void **state) {
  (void)state;
  hr_torch_context h200 = hr__torch_context(hr__gpu_find("H200"), true),
                   other = hr__torch_context(hr__gpu_find("4090"), true);
  assert_true(h200.measured && !other.measured);
  assert_int_equal(h200.bytes, 758 * MIB); /* in all measured runs, and without those kernels: */
  assert_int_equal(hr__torch_context(hr__gpu_find("H200"), false).bytes, 742 * MIB);
  assert_int_equal(hr__torch_workspace_bytes(90), 32 * MIB);
  assert_int_equal(hr__torch_workspace_bytes(86), 8519680);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(test_a_trace_is_read),
      CASE(test_long_recording),
      CASE(test_places_of_segments),
      CASE(test_what_is_damaged_is_refused_with_its_line),
      CASE(test_other_files_are_no_traces),
      CASE(test_batch_sizes_between_and_beyond),
      CASE(test_traces_that_do_not_correspond),
      CASE(test_settings_as_pytorch_takes_them),
      CASE(test_what_the_driver_shows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
