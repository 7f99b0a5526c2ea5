/* Lack of memory at every request of making a page, its pictures, or a run's part of it: HR_NOMEM, nothing left behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "format/file.h"
#include "format/json.h"
#include "report/layout.h"
#include "report/page.h"
#include "report/run.h"
#include "report/subject.h"
#include "report/svg.h"
#include "support/faults.h"

static const char recipe[] = "model:\n  family: llama\n  config: { hidden_size: 16, intermediate_size: 16, "
                             "num_hidden_layers: 1, num_attention_heads: 2,\n"
                             "            num_key_value_heads: 1, vocab_size: 16 }\n"
                             "data: { source: synthetic, sequence_length: 8 }\n"
                             "training: { batch_size: 1, steps: 2, optimizer: { kind: sgd, lr: 1e-3 } }\n"
                             "memory: { device: cpu, offload: { activations: host } }\n";
static const char log_lines[] =
    "{\"schema\":1,\"recipe\":\"r\",\"fingerprint\":\"f\",\"planned_peak_bytes\":9,\"steps\":3,\"step\":0}\n"
    "{\"step\":0,\"event\":\"started\",\"resumed\":true,\"steps\":4,\"phases\":{\"load\":1.5}}\n"
    "{\"step\":1,\"loss\":2.5,\"lr\":0.1,\"grad_norm\":1,\"seconds\":1,\"tokens\":4,\"samples\":1,\"losses\":{\"a\":1},"
    "\"metrics\":{\"b\":2}}\n"
    "{\"step\":2,\"loss\":null,\"lr\":0.1,\"grad_norm\":null,\"seconds\":1,\"tokens\":4,\"samples\":1,\"loss_scale\":8,"
    "\"skipped\":true}\n"
    "not a record\n"
    "{\"step\":2,\"eval_loss\":2,\"seconds\":1}\n"
    "{\"step\":2,\"generated\":[{\"prompt\":\"p\",\"text\":\"t\",\"end\":\"e\",\"expected\":\"x\"}],\"seconds\":1}\n"
    "{\"step\":2,\"event\":\"ended\",\"status\":\"HR_OK\",\"bytes\":7,\"phases\":{\"load\":2}}\n";

static hr_status layout_body(void *arg, hr_error *err) {
  json_t *layout = NULL;
  HR_TRY(hr__layout_json(arg, &layout, err));
  json_decref(layout);
  return HR_OK;
}

static hr_status page_body(void *arg, hr_error *err) {
  hr_string text = {0};
  hr_status status = hr__page_make(arg, &text, err);
  hr__string_fini(&text);
  return status;
}

typedef struct picture {
  const hr_job *job;
  hr_svg_kind kind;
} picture;

static hr_status svg_body(void *arg, hr_error *err) {
  const picture *p = arg;
  hr_string text = {0};
  hr_status status = hr__svg_make(p->kind, p->job, "name", &text, err);
  hr__string_fini(&text);
  return status;
}

static hr_status run_body(void *arg, hr_error *err) {
  json_t *subject = NULL;
  hr_error why = {.message = "none"};
  HR_TRY(hr__subject_run(arg, NULL, &why, &subject, err));
  json_decref(subject);
  return HR_OK;
}

static void pages_survive_lack_of_memory(void **unused) {
  (void)unused;
  char folder[] = "/tmp/headroom-report-XXXXXX", path[64];
  hr_error err = {0};
  hr_job *job = NULL;
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/tiny.yaml", folder);
  assert_int_equal(hr__file_replace(path, recipe, sizeof recipe - 1, &err), HR_OK);
  assert_int_equal(hr__job_open(&(hr_job_source){path, NULL, 0}, &job, &err), HR_OK);
  assert_true(hr_test_each_fault(layout_body, job) > 100);
  for (int kind = 0; kind < HR_SVG_KINDS; kind++)
    if (kind != HR_SVG_FRONTIER) /* plans again and again, which has tests of its own */
      assert_true(hr_test_each_fault(svg_body, &(picture){job, (hr_svg_kind)kind}) > 2);
  hr__job_close(job);
  unlink(path);
  rmdir(folder);
  json_t *data = json_pack("{s:s}", "text", "</script>&");
  assert_true(hr_test_each_fault(page_body, data) > 2);
  json_decref(data);
}

static void runs_survive_lack_of_memory(void **unused) {
  (void)unused;
  char folder[] = "/tmp/headroom-report-XXXXXX", path[64];
  hr_error err = {0};
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/log.jsonl", folder);
  assert_int_equal(hr__file_replace(path, log_lines, sizeof log_lines - 1, &err), HR_OK);
  assert_true(hr_test_each_fault(run_body, folder) > 100);
  unlink(path);
  rmdir(folder);
}

int main(void) {
  hr_test_faults_install();
  hr__json_init();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pages_survive_lack_of_memory),
      cmocka_unit_test(runs_survive_lack_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
