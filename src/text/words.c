#include "text/words.h"

hr_status hr__words_init(hr_words *words, size_t most, hr_arena *arena, hr_error *err) {
  size_t slots = 16;
  while (slots / 2 <= most)
    slots *= 2;
  *words = (hr_words){.slots = hr__arena_array(arena, slots, sizeof *words->slots), .mask = slots - 1};
  return words->slots ? HR_OK : hr__nomem(err);
}

int32_t hr__words_add(hr_words *words, const char *text, size_t bytes, int32_t id) {
  size_t i = hr__word_hash(text, bytes) & words->mask;
  for (; words->slots[i].text; i = (i + 1) & words->mask)
    if (words->slots[i].bytes == bytes && memcmp(words->slots[i].text, text, bytes) == 0) return words->slots[i].id;
  words->slots[i] = (hr_word){.text = text, .bytes = (uint32_t)bytes, .id = id};
  words->count++;
  return id;
}
