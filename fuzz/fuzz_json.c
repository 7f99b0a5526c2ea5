/* JSON documents. What is accepted comes back the same through JSON and through YAML. */
#include <string.h>

#include "demand.h"
#include "doc_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  hr_arena arena = {0};
  hr_doc_node *root = NULL, *again = NULL;
  hr_error err = {0};
  hr_status status = hr__json_parse("input", (const char *)data, size, &arena, &root, &err);
  DEMAND(status == HR_OK || (status == HR_BAD_INPUT && err.message[0] && err.place[0] && !root));
  for (int yaml = 0; yaml < 2 && status == HR_OK; yaml++) {
    char *text = doc_text(root, yaml);
    hr_status read = yaml ? hr__yaml_parse("again", text, strlen(text), &arena, &again, &err)
                          : hr__json_parse("again", text, strlen(text), &arena, &again, &err);
    DEMAND(read == HR_OK);
    doc_same(root, again);
    free(text);
  }
  hr__arena_fini(&arena);
  return 0;
}
