/* Tokenizers inside of GGUF files, and text through them: two bytes give the length of the text at the end. */
#include <string.h>

#include "demand.h"
#include "text/kinds.h"
#include "tokenized.h"

static void tokenizer_check(const hr_gguf *file, const char *text, size_t bytes) {
  hr_tokenizer *t = NULL;
  hr_error err = {0};
  DEMAND(hr__build_create("nowhere/input", &t, &err) == HR_OK);
  hr_status status = hr__parse_gguf(t, file, "nowhere/input", &err);
  if (status == HR_OK) status = hr__build_finish(t, &err);
  bool failed = status == HR_BAD_INPUT || status == HR_UNSUPPORTED;
  DEMAND(status == HR_OK || (failed && err.message[0] && err.place[0]));
  if (status == HR_OK) tokenized_check(t, text, bytes);
  hr__tokenizer_close(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  size_t text = (size_t)data[0] | (size_t)data[1] << 8, bytes = size - 2;
  if (text > bytes) text = bytes;
  hr_gguf *file = NULL;
  hr_error err = {0};
  if (hr__gguf_parse("input", data + 2, bytes - text, bytes - text, &file, &err) == HR_OK)
    tokenizer_check(file, (const char *)data + 2 + bytes - text, text);
  hr__gguf_close(file);
  return 0;
}
