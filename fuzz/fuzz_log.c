/* A line of log.jsonl: whatever it holds, it is a record with all that its kind has, or none; and what it tells in
 * words has no control characters. */
#include <string.h>

#include "base/mem.h"
#include "demand.h"
#include "train/record.h"
#include "watch/watched.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  hr_arena arena = {0};
  hr_record r;
  bool good;
  hr_error err = {0};
  char text[HR_WATCH_TEXT];
  DEMAND(hr__record_read((const char *)data, size, &arena, &r, &good, &err) == HR_OK);
  if (good) {
    DEMAND(r.step >= 0 && r.tokens >= 0 && r.samples >= 0 && r.steps >= 0 && r.pid >= 0 && r.fields);
    DEMAND((r.kind == HR_RECORD_EVENT) == (r.event != NULL));
    DEMAND(r.kind != HR_RECORD_HEADER || r.fingerprint);
    for (size_t i = 0; i < r.n_generated; i++)
      DEMAND(r.generated[i].prompt && r.generated[i].text);
    hr__watch_text(&r, text);
    for (const char *c = text; *c; c++)
      DEMAND((unsigned char)*c >= ' ' && *c != 0x7f);
  }
  hr__arena_fini(&arena);
  return 0;
}
