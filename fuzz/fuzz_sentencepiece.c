/* sentencepiece models, and text through them: two bytes give the length of the text at the end. */
#include <string.h>

#include "demand.h"
#include "text/kinds.h"
#include "text/sentencepiece.h"
#include "tokenized.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  size_t text = (size_t)data[0] | (size_t)data[1] << 8, bytes = size - 2;
  if (text > bytes) text = bytes;
  hr_tokenizer *t = NULL;
  hr_error err = {0};
  DEMAND(hr__build_create("nowhere/input", &t, &err) == HR_OK);
  hr_status status = hr__sentencepiece_parse(t, "nowhere/input", data + 2, bytes - text, &err);
  if (status == HR_OK) status = hr__build_finish(t, &err);
  DEMAND(status == HR_OK || (status == HR_BAD_INPUT && err.message[0] && err.place[0]));
  if (status == HR_OK) tokenized_check(t, (const char *)data + 2 + bytes - text, text);
  hr__tokenizer_close(t);
  return 0;
}
