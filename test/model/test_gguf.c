/* GGUF files against the same models as public checkpoints: names, order of rows, settings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/file.h"
#include "format/safetensors.h"
#include "model/gguf.h"
#include "model/stored.h"
#include "support/faults.h"

static const char *const archs[] = {"llama", "qwen2", "qwen3", "gemma2", "gemma3"};
enum { ARCHS = sizeof archs / sizeof archs[0] };

static const char *path_of(const char *arch, const char *name, char out[512]) {
  snprintf(out, 512, "%s/test/model/gguf/%s/%s", HR_SOURCE_DIR, arch, name);
  return out;
}

static hr_gguf *opened(const char *arch) {
  hr_gguf *file = NULL;
  hr_error err = {0};
  char path[512];
  if (hr__gguf_open(path_of(arch, "model.gguf", path), &file, &err) != HR_OK) fail_msg("%s", err.message);
  return file;
}

static int memory_is_back(void **state) {
  (void)state;
  return hr_test_live_bytes() ? -1 : 0;
}

/* Every tensor of the checkpoint is there, with all its bits, as a whole and from any element on. */
static void weights(void **state) {
  (void)state;
  for (int a = 0; a < ARCHS; a++) {
    hr_stored *file = NULL;
    hr_safetensors *reference = NULL;
    hr_error err = {0};
    char path[512];
    size_t found = 0;
    assert_int_equal(hr__stored_open(path_of(archs[a], "model.gguf", path), &file, &err), HR_OK);
    assert_int_equal(hr__safetensors_open(path_of(archs[a], "model.safetensors", path), &reference, &err), HR_OK);
    for (size_t i = 0; i < hr__stored_count(file); i++) {
      const hr_stored_tensor *tensor = hr__stored_at(file, i);
      const hr_safetensor *other = hr__safetensors_find(reference, tensor->name);
      if (!other) fail_msg("%s: there is no %s", archs[a], tensor->name);
      assert_int_equal(hr__stored_find(file, tensor->name), i);
      assert_int_equal(other->rank, tensor->rank);
      float made[512], expected[512];
      int64_t count = hr__stored_elements(tensor);
      size_t bytes = (size_t)(other->end - other->begin);
      assert_true(bytes <= sizeof made && bytes == (size_t)count * sizeof *made);
      assert_int_equal(hr__safetensors_read(reference, other, 0, expected, bytes, &err), HR_OK);
      assert_int_equal(hr__stored_read(file, i, HR_F32, 0, count, made, &err), HR_OK);
      if (memcmp(made, expected, bytes) != 0) fail_msg("%s: %s differs", archs[a], tensor->name);
      for (int64_t first = 1; first < count; first += 7) {
        int64_t some = count - first < 19 ? count - first : 19;
        assert_int_equal(hr__stored_read(file, i, HR_F32, first, some, made, &err), HR_OK);
        assert_memory_equal(made, expected + first, (size_t)some * sizeof *made);
      }
      found++;
    }
    assert_int_equal(found, hr__safetensors_count(reference));
    hr__safetensors_close(reference);
    hr__stored_close(file);
  }
}

static void same(const char *arch, const hr_doc_node *made, const hr_doc_node *expected) {
  size_t count = 0, wanted = 0;
  for (const hr_doc_node *child = made->child; child; child = child->next)
    count++;
  for (const hr_doc_node *child = expected->child; child; child = child->next, wanted++) {
    const hr_doc_node *other = child->key ? hr__doc_get(made, child->key) : made->child;
    if (!other) fail_msg("%s lacks %s", arch, child->key);
    if (other->kind != child->kind || (child->text && strcmp(other->text, child->text) != 0))
      fail_msg("%s: %s is %s, not %s", arch, child->key, other->text, child->text);
    same(arch, other, child);
  }
  assert_int_equal(count, wanted);
}

static void configs(void **state) {
  (void)state;
  for (int a = 0; a < ARCHS; a++) {
    hr_gguf *file = opened(archs[a]);
    hr_arena arena = {0};
    hr_error err = {0};
    hr_doc_node *made = NULL, *expected = NULL;
    char *text, path[512];
    size_t bytes;
    if (hr__gguf_config(file, "model.gguf", &arena, &text, &bytes, &err) != HR_OK) fail_msg("%s", err.message);
    assert_int_equal(hr__json_parse("made", text, bytes, &arena, &made, &err), HR_OK);
    assert_int_equal(hr__file_read(path_of(archs[a], "config.json", path), 1 << 20, &arena, &text, &bytes, &err),
                     HR_OK);
    assert_int_equal(hr__json_parse(path, text, bytes, &arena, &expected, &err), HR_OK);
    same(archs[a], made, expected);
    hr__arena_fini(&arena);
    hr__gguf_close(file);
  }
}

/* A header with one text, and a tensor of no elements. */
static hr_gguf *header(const char *arch, const char *tensor) {
  unsigned char bytes[512] = "GGUF\3";
  size_t at = 24;
  bytes[8] = 1;
  bytes[16] = arch ? 1 : 0;
  if (arch) {
    bytes[at] = 20;
    memcpy(bytes + at + 8, "general.architecture", 20);
    bytes[at + 28] = HR_GGUF_STRING;
    bytes[at + 32] = (unsigned char)strlen(arch);
    memcpy(bytes + at + 40, arch, strlen(arch));
    at += 40 + strlen(arch);
  }
  bytes[at] = (unsigned char)strlen(tensor);
  memcpy(bytes + at + 8, tensor, strlen(tensor));
  at += 8 + strlen(tensor);
  bytes[at] = 1; /* axis, of 0 elements */
  at += 4 + 8 + 4 + 8;
  hr_gguf *file = NULL;
  hr_error err = {0};
  if (hr__gguf_parse("t.gguf", bytes, at, at, &file, &err) != HR_OK) fail_msg("%s", err.message);
  return file;
}

static void refusals(void **state) {
  (void)state;
  static const struct {
    const char *arch, *tensor, *message;
  } rows[] = {
      {NULL, "output.weight", "the GGUF file has no general.architecture"},
      {"mamba", "output.weight", "GGUF files of the architecture \"mamba\" are not read"},
      {"qwen2", "blk.0.ffn_gate_exps.weight", "tensor \"blk.0.ffn_gate_exps.weight\" is none that models"},
      {"qwen2", "blk.0.post_ffw_norm.weight", "is none that models"},
      {"qwen2", "blk.x.attn_q.weight", "is none that models"},
      {"qwen2", "output.scale", "is none that models"},
      {"qwen2", "output", "is none that models"},
      {"llama", "blk.0.attn_q.weight", "0 rows of q do not make 0 heads"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    hr_gguf *file = header(rows[i].arch, rows[i].tensor);
    hr_gguf_weight weight;
    hr_error err = {0};
    if (hr__gguf_weight(file, hr__gguf_at(file, 0), &weight, &err) == HR_OK) fail_msg("%s is read", rows[i].tensor);
    if (!strstr(err.message, rows[i].message)) fail_msg("%s", err.message);
    hr_arena arena = {0};
    char *text;
    size_t bytes;
    assert_int_not_equal(hr__gguf_config(file, "t.gguf", &arena, &text, &bytes, &err), HR_OK);
    hr__arena_fini(&arena);
    hr__gguf_close(file);
  }
}

static hr_status config_once(void *arg, hr_error *err) {
  hr_arena arena = {0};
  char *text;
  size_t bytes;
  hr_status status = hr__gguf_config(arg, "model.gguf", &arena, &text, &bytes, err);
  hr__arena_fini(&arena);
  return status;
}

static void memory_runs_out(void **state) {
  (void)state;
  for (int a = 0; a < ARCHS; a++) {
    hr_gguf *file = opened(archs[a]);
    assert_true(hr_test_each_fault(config_once, file) > 4);
    hr__gguf_close(file);
  }
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest all[] = {
      cmocka_unit_test_teardown(weights, memory_is_back),
      cmocka_unit_test_teardown(configs, memory_is_back),
      cmocka_unit_test_teardown(refusals, memory_is_back),
      cmocka_unit_test_teardown(memory_runs_out, memory_is_back),
  };
  return cmocka_run_group_tests(all, NULL, NULL);
}
