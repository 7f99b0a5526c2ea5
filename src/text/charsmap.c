#include "text/charsmap.h"

#include <string.h>

#include "format/doc.h"

static uint32_t little(const unsigned char *b) {
  return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

hr_status hr__charsmap_read(const void *data, size_t bytes, hr_arena *arena, hr_charsmap *out, hr_error *err) {
  const unsigned char *at = data;
  size_t trie = bytes >= 4 ? little(at) : 0;
  if (bytes < 4 || trie % 4 != 0 || trie == 0 || trie > bytes - 4)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL,
                    "the table of character rewrites is damaged: its sizes do not agree");
  size_t text_bytes = bytes - 4 - trie;
  char *texts = hr__arena_array(arena, text_bytes + 1, 1);
  *out = (hr_charsmap){.units = hr__arena_array(arena, trie / 4, sizeof *out->units),
                       .unit_count = trie / 4,
                       .texts = texts,
                       .text_bytes = text_bytes};
  if (!out->units || !texts) return hr__nomem(err);
  for (size_t i = 0; i < out->unit_count; i++)
    out->units[i] = little(at + 4 + 4 * i);
  memcpy(texts, at + 4 + trie, text_bytes);
  return HR_OK;
}

static size_t unit_offset(uint32_t unit) {
  return (size_t)(unit >> 10) << ((unit & (1u << 9)) >> 6);
}

const char *hr__charsmap_find(const hr_charsmap *map, const char *text, size_t bytes, bool longest, size_t *length) {
  const char *found = NULL;
  size_t node = unit_offset(map->units[0]);
  for (size_t i = 0; i < bytes && text[i] != 0; i++) {
    uint8_t byte = (uint8_t)text[i];
    node ^= byte;
    if (node >= map->unit_count) break;
    uint32_t unit = map->units[node];
    if ((unit & (1u << 31 | 0xff)) != byte) break;
    node ^= unit_offset(unit);
    if (node >= map->unit_count) break;
    if (unit >> 8 & 1) {
      size_t value = map->units[node] & ~(1u << 31);
      if (value >= map->text_bytes) break;
      found = map->texts + value;
      *length = i + 1;
      if (!longest) break;
    }
  }
  return found;
}

hr_status hr__charsmap_check(const char *text, size_t bytes, hr_error *err) {
  if (hr__utf8_check(text, bytes) == bytes) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, NULL, "copy the tokenizer's file again",
                  "the tokenizer's table of character rewrites is damaged: it makes text that is not UTF-8");
}
