/* Chat templates: the template, a zero byte, its variables as JSON. Whatever comes, it ends soon, with UTF-8 or a
 * message that has a place, and twice with the same bytes. */
#include <string.h>

#include "demand.h"
#include "format/doc.h"
#include "text/template.h"

static const char plain[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"a\\n\\u00e9\"}, {\"role\": \"assistant\", \"content\": null, "
    "\"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {\"x\": [1, 2.5, true]}}}]}], "
    "\"tools\": [{\"type\": \"function\"}], \"add_generation_prompt\": true, \"bos_token\": \"<s>\"}";

static void rendered_check(const hr_rendered *made, size_t most) {
  DEMAND(made->bytes <= most && made->text[made->bytes] == 0);
  DEMAND(hr__utf8_check(made->text, made->bytes) == made->bytes);
  for (size_t i = 0; i < made->generated_count; i++)
    DEMAND(made->generated[i].begin <= made->generated[i].end && made->generated[i].end <= made->bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *text = (const char *)data, *zero = size ? memchr(data, 0, size) : NULL;
  size_t bytes = zero ? (size_t)(zero - text) : size;
  hr_arena arena = {0};
  hr_template *parsed = NULL;
  hr_doc_node *variables = NULL;
  hr_error err = {0};
  hr_status status = hr__template_parse("input", text, bytes, &parsed, &err);
  DEMAND(status == HR_OK || ((status == HR_BAD_INPUT || status == HR_UNSUPPORTED) && err.message[0] && err.place[0]));
  if (status == HR_OK) {
    status = zero ? hr__json_parse("variables", zero + 1, size - bytes - 1, &arena, &variables, &err)
                  : hr__json_parse("variables", plain, sizeof plain - 1, &arena, &variables, &err);
    hr_template_limits limits = {.steps = 20000, .output_bytes = 1 << 20, .memory_bytes = 16 << 20};
    hr_template_call call = {.variables = variables, .limits = limits, .now = 1};
    hr_rendered first = {0}, second = {0};
    if (status == HR_OK) {
      status = hr__template_render(parsed, &call, &arena, &first, &err);
      DEMAND(status == HR_OK ||
             ((status == HR_BAD_INPUT || status == HR_UNSUPPORTED) && err.message[0] && err.place[0]));
      hr_status again = hr__template_render(parsed, &call, &arena, &second, &err);
      DEMAND(status == again && first.bytes == second.bytes);
    }
    if (status == HR_OK && first.text) {
      rendered_check(&first, limits.output_bytes);
      DEMAND(memcmp(first.text, second.text, first.bytes) == 0);
    }
  }
  hr__template_destroy(parsed);
  hr__arena_fini(&arena);
  return 0;
}
