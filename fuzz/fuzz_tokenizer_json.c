/* tokenizer.json, and text through what it makes: the file goes up to the first NUL, the rest is text. */
#include <string.h>

#include "demand.h"
#include "text/kinds.h"
#include "tokenized.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *text = (const char *)data, *end = size > 0 ? memchr(data, 0, size) : NULL;
  size_t bytes = end ? (size_t)(end - text) : size, rest = end ? size - bytes - 1 : 0;
  hr_tokenizer *t = NULL;
  hr_error err = {0};
  DEMAND(hr__build_create("input", &t, &err) == HR_OK);
  hr_status status = hr__parse_tokenizer_json(t, "input", text, bytes, &err);
  if (status == HR_OK) status = hr__build_finish(t, &err);
  DEMAND(status == HR_OK || (status == HR_BAD_INPUT && err.message[0]) || (status == HR_FAILURE && err.message[0]));
  if (status == HR_OK) tokenized_check(t, end ? end + 1 : "", rest);
  hr__tokenizer_close(t);
  return 0;
}
