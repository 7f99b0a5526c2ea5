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
  assert_true(count >= 130);
  for (size_t i = 0; i < count; i++) {
    const hr_gpu *g = &gpus[i];
    double gib = (double)g->memory_bytes / (1 << 30);
    if (!(gib > 3.9 && gib < 280)) fail_msg("%s: %g GiB", g->name, gib);
    double kept = 1 - (double)g->usable_bytes / (double)g->memory_bytes;
    bool shared = strstr(g->source, "shared with the processor") != NULL; /* the system keeps much of that */
    if (!(kept > 0.003 && kept < (shared ? 0.16 : 0.065)))
      fail_msg("%s: the driver keeps %g of its memory", g->name, kept);
    assert_true(g->multiprocessors >= 4 && g->multiprocessors <= 200);
    assert_true(g->capability >= 60 && g->capability <= 121);
    assert_true(g->memory_bytes_per_second >= 50 * giga && g->memory_bytes_per_second <= 8000 * giga);
    assert_true(g->f32_flops_per_second >= 1 * tera && g->f32_flops_per_second <= 130 * tera);
    /* Matrix units came with 7.0. */
    if (g->capability < 70) assert_true(g->f16_flops_per_second == 0);
    if (g->capability >= 70)
      assert_true(g->f16_flops_per_second >= 1.9 * g->f32_flops_per_second && g->f16_flops_per_second <= 2600 * tera);
    /* Matrix units for bf16 came with 8.0, at the rate of f16. */
    assert_true(g->bf16_flops_per_second == (g->capability >= 80 ? g->f16_flops_per_second : 0));
    assert_true(g->host_bytes_per_second >= 10 * giga &&
                g->host_bytes_per_second <= (strstr(g->source, "chip-to-chip") ? 450 : 120) * giga);
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
      {"3080 10GB", "RTX 3080 10GB"},
      {"3080 12GB", "RTX 3080 12GB"},
      {"RTX 3080 12 GB", "RTX 3080 12GB"},
      {"rtx-3080-12gb", "RTX 3080 12GB"},
      {"3060-8gb", "RTX 3060 8GB"},
      {"3060 12 GB", "RTX 3060 12GB"},
      {"quadro 6000", "Quadro RTX 6000"},
      {"v100 16GB", "V100 16GB"},
      {"Tesla V100-PCIE-32GB", "V100 32GB"},
      {"a100-80gb", "A100 80GB"},
      {"NVIDIA A100 80GB PCIe", "A100 PCIe 80GB"},
      {"a100 40", "A100 40GB"},
      {"h100", "H100"},
      {"l40s", "L40S"},
      {"a10", "A10"},
      {"3080 ti", "RTX 3080 Ti"},
      {"4070", "RTX 4070"},
      {"4070 ti", "RTX 4070 Ti"},
      {"rtx 4070 ti super", "RTX 4070 Ti Super"},
      {"4060 ti 16gb", "RTX 4060 Ti 16GB"},
      {"5090", "RTX 5090"},
      {"rtx 6000 ada", "RTX 6000 Ada"},
      {"rtx pro 6000", "RTX PRO 6000"},
      {"rtx pro 6000 server", "RTX PRO 6000 Server"},
      {"4090 laptop", "RTX 4090 Laptop"},
      {"5090 Laptop GPU 24gb", "RTX 5090 Laptop"},
      {"jetson agx orin 64gb", "AGX Orin 64GB"},
      {"dgx spark gb10", "GB10"},
      {"b200", "B200"},
      {"gb200", "GB200"},
      {"gh200 144gb", "GH200 144GB"},
      {"h100 nvl", "H100 NVL"},
      {"l40", "L40"},
      {"a6000", "RTX A6000"},
      {"t4", "T4"},
      {"Tesla T4", "T4"},
      {"h100 pcie", "H100 PCIe"},
      /* others, too little said, and nothing at all */
      {"3080", NULL},
      {"rtx 6000", NULL},
      {"10gb", NULL},
      {"200 GB", NULL},
      {"4090,4090", NULL},
      {"2x4090", NULL},
      {"4090 x 2", NULL},
      {"gh200", NULL},
      {"4060 ti", NULL},
      {"4080 ti", NULL},
      {"a100", NULL},
      {"v100", NULL},
      {"v100 64GB", NULL},
      {"h100 96gb", NULL},
      {"rtx", NULL},
      {"", NULL},
      {"nvidia", NULL},
      {"a100 40 80", NULL},
      {"4090 3090", NULL},
      {"an NVIDIA GPU", NULL},
  };
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    names_find(pairs[i][0], pairs[i][1]);
}

static void refuses(const char *name, const char *message, const char *remedy) {
  hr_gpu_refusal why;
  hr__gpu_refuse(name, &why);
  if (!strstr(why.message, message)) fail_msg("'%s': %s", name, why.message);
  if (!strstr(why.remedy, remedy)) fail_msg("'%s': %s", name, why.remedy);
}

static void what_to_write_instead_is_said(void **state) {
  (void)state;
  refuses("a100", "a100 is sold with 40 GB and 80 GB", "write a100-40gb or a100-80gb");
  refuses("4060 ti", "4060 ti is sold with 8 GB and 16 GB", "write rtx-4060-ti-8gb or rtx-4060-ti-16gb");
  refuses("4080ti", "names no GPU", "name RTX 4080, RTX 4080 Super or RTX 4080 Laptop");
  refuses("rtx 6000", "names no GPU", "Quadro RTX 6000, RTX 6000 Ada, RTX PRO 6000");
  refuses("orin", "names no GPU", "Orin NX 16GB");
  refuses("4090,4090", "several are not planned", "one of them");
  refuses("8x H100", "several are not planned", "one of them");
  refuses("nothing", "names no GPU", "headroom devices --gpus");
  refuses("", "names no GPU", "headroom devices --gpus");
  char name[512];
  memset(name, 'x', sizeof name);
  name[sizeof name - 1] = '\0';
  refuses(name, "names no GPU", "headroom devices --gpus");
  /* what is said to write finds the card that is meant */
  size_t count;
  const hr_gpu *gpus = hr__gpus(&count);
  for (size_t i = 0; i < count; i++) {
    char text[64];
    size_t c = 0;
    for (; gpus[i].label[c]; c++)
      text[c] = gpus[i].label[c] == ' ' ? '-' : gpus[i].label[c];
    text[c] = '\0';
    names_find(text, gpus[i].label);
  }
}

/* A driver gives cards of several sizes one name: the memory that is there tells which. */
static void cards_that_are_here_are_told_by_their_memory(void **state) {
  (void)state;
  static const struct {
    const char *name;
    uint64_t mib;
    const char *label;
  } here[] = {
      {"NVIDIA GeForce RTX 3060", 7946, "RTX 3060 8GB"},   {"NVIDIA GeForce RTX 3060", 12036, "RTX 3060 12GB"},
      {"NVIDIA GeForce RTX 3080", 10000, "RTX 3080 10GB"}, {"NVIDIA GeForce RTX 4060 Ti", 16380, "RTX 4060 Ti 16GB"},
      {"Tesla V100-SXM2-32GB", 32491, "V100 32GB"},        {"NVIDIA H200", 143063, "H200"}};
  for (size_t i = 0; i < sizeof here / sizeof *here; i++) {
    hr_facts facts = {.kind = HR_CUDA, .memory_bytes = here[i].mib << 20};
    strcpy(facts.name, here[i].name);
    const hr_gpu *gpu = hr__gpu_like(&facts);
    assert_non_null(gpu);
    assert_string_equal(gpu->label, here[i].label);
  }
  hr_facts other = {.kind = HR_CUDA, .name = "NVIDIA GeForce RTX 9090", .memory_bytes = 1 << 30};
  assert_null(hr__gpu_like(&other));
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
    assert_true(facts.margin_bytes >= 32u << 20 && facts.fixed_bytes > facts.margin_bytes);
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
                                     cmocka_unit_test(what_to_write_instead_is_said),
                                     cmocka_unit_test(cards_that_are_here_are_told_by_their_memory),
                                     cmocka_unit_test(facts_are_those_of_a_device)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
