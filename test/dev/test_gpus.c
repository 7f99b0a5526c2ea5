/* The catalogue of GPUs: every line makes sense, and names find what people mean and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "dev/gpus.h"

static const double tera = 1e12, giga = 1e9;

static void lines_make_sense(void **state) {
  (void)state;
  size_t count;
  const hr_gpu *gpus = hr__gpus(&count);
  assert_true(count >= 38);
  for (size_t i = 0; i < count; i++) {
    const hr_gpu *g = &gpus[i];
    double gib = (double)g->memory_bytes / (1 << 30);
    if (!(gib > 7 && gib < 200)) fail_msg("%s: %g GiB", g->name, gib);
    double kept = 1 - (double)g->usable_bytes / (double)g->memory_bytes;
    if (!(kept > 0.003 && kept < 0.04)) fail_msg("%s: the driver keeps %g of its memory", g->name, kept);
    assert_true(g->multiprocessors >= 20 && g->multiprocessors <= 200);
    assert_true(g->capability >= 70 && g->capability <= 120);
    assert_true(g->memory_bytes_per_second >= 250 * giga && g->memory_bytes_per_second <= 8000 * giga);
    assert_true(g->f32_flops_per_second >= 8 * tera && g->f32_flops_per_second <= 110 * tera);
    assert_true(g->f16_flops_per_second >= 1.9 * g->f32_flops_per_second && g->f16_flops_per_second <= 2000 * tera);
    /* Matrix units for bf16 came with 8.0, at the rate of f16. */
    assert_true(g->bf16_flops_per_second == (g->capability >= 80 ? g->f16_flops_per_second : 0));
    assert_true(g->host_bytes_per_second >= 10 * giga && g->host_bytes_per_second <= 60 * giga);
    assert_non_null(strstr(g->source, "NVIDIA"));
    for (size_t j = 0; j < i; j++) {
      assert_string_not_equal(gpus[j].name, g->name);
      assert_string_not_equal(gpus[j].label, g->label);
    }
  }
}

static void names_find(const char *name, const char *label) {
  const hr_gpu *gpu = hr__gpu_find(name);
  if (!label && gpu) fail_msg("'%s' finds %s", name, gpu->name);
  if (label && !gpu) fail_msg("'%s' finds nothing", name);
  if (label && strcmp(gpu->label, label) != 0) fail_msg("'%s' finds %s", name, gpu->name);
}

static void names_are_forgiving(void **state) {
  (void)state;
  size_t count;
  const hr_gpu *gpus = hr__gpus(&count);
  for (size_t i = 0; i < count; i++) {
    names_find(gpus[i].name, gpus[i].label);
    names_find(gpus[i].label, gpus[i].label);
  }
  static const char *const pairs[][2] = {
      {"4090", "RTX 4090"},
      {"rtx4090", "RTX 4090"},
      {"RTX-4090", "RTX 4090"},
      {"NVIDIA GeForce RTX 4090", "RTX 4090"},
      {"3080 10GB", "RTX 3080"},
      {"NVIDIA GeForce RTX 3060", "RTX 3060"},
      {"3060 12 GB", "RTX 3060"},
      {"quadro 6000", "Quadro RTX 6000"},
      {"v100", "V100 32"},
      {"Tesla V100-PCIE-32GB", "V100 32"},
      {"a100-80gb", "A100 80"},
      {"NVIDIA A100 80GB PCIe", "A100 80"},
      {"a100 40", "A100 40"},
      {"h100", "H100"},
      {"l40s", "L40S"},
      {"a10", "A10"},
      {"3080 ti", "RTX 3080 Ti"},
      {"4070", "RTX 4070"},
      {"4070 ti", "RTX 4070 Ti"},
      {"rtx 4070 ti super", "RTX 4070 Ti Super"},
      {"4060 ti 16gb", "RTX 4060 Ti 16"},
      {"5090", "RTX 5090"},
      {"rtx 6000 ada", "RTX 6000 Ada"},
      {"rtx 6000", "Quadro RTX 6000"},
      {"a6000", "RTX A6000"},
      {"t4", "T4"},
      {"Tesla T4", "T4"},
      {"h100 pcie", "H100 PCIe"},
      /* others, too little said, and nothing at all */
      {"3080 12GB", NULL},
      {"4060 ti", NULL},
      {"4080 ti", NULL},
      {"l40", NULL},
      {"a100", NULL},
      {"v100 16GB", NULL},
      {"h100 nvl", NULL},
      {"rtx", NULL},
      {"", NULL},
      {"nvidia", NULL},
      {"a100 40 80", NULL},
      {"4090 3090", NULL},
      {"an NVIDIA GPU", NULL},
  };
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    names_find(pairs[i][0], pairs[i][1]);
  char remedy[HR_GPU_REMEDY];
  assert_string_equal(hr__gpu_remedy("a100", remedy), "name one of A100 40, A100 80");
  assert_string_equal(hr__gpu_remedy("4080ti", remedy), "name one of RTX 4080, RTX 4080 Super");
  assert_string_equal(hr__gpu_remedy("4060 ti", remedy), "name one of RTX 4060, RTX 4060 Ti 8, RTX 4060 Ti 16");
  assert_non_null(strstr(hr__gpu_remedy("nothing", remedy), "headroom devices --gpus"));
  assert_non_null(strstr(hr__gpu_remedy("", remedy), "headroom devices --gpus"));
}

static void facts_are_those_of_a_device(void **state) {
  (void)state;
  size_t count;
  const hr_gpu *gpus = hr__gpus(&count);
  for (size_t i = 0; i < count; i++) {
    hr_facts facts;
    hr__gpu_facts(&gpus[i], &facts);
    assert_string_equal(facts.name, gpus[i].name);
    assert_true(facts.absent && facts.kind == HR_CUDA && facts.alignment == 256 && facts.threads == 1);
    assert_true(facts.memory_bytes == gpus[i].usable_bytes && facts.capability == gpus[i].capability);
    assert_true(facts.margin_bytes >= 32u << 20 && facts.fixed_bytes > 2 * facts.margin_bytes);
    assert_true(facts.fixed_bytes < facts.memory_bytes / 8);
  }
  /* a bare context was measured there */
  hr_facts h200, any;
  hr__gpu_facts(hr__gpu_find("H200"), &h200);
  assert_true(h200.fixed_bytes - h200.margin_bytes >= (uint64_t)527 << 20);
  hr__gpu_facts_generic((uint64_t)16 << 30, &any);
  assert_true(any.absent && any.memory_bytes == (uint64_t)16 << 30 && any.capability >= HR_GPU_CAPABILITY);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(lines_make_sense), cmocka_unit_test(names_are_forgiving),
                                     cmocka_unit_test(facts_are_those_of_a_device)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
