#include "text/normalize.h"

#include "text/unicode.h"

hr_status hr__normalize(const hr_normalizer *normalizers, size_t count, hr_regex_room *room, hr_string buffers[2],
                        const char **text, size_t *bytes, hr_error *err) {
  size_t from = *bytes;
  for (size_t i = 0; i < count; i++) {
    hr_string *out = &buffers[i % 2];
    out->count = 0;
    HR_TRY(hr__string_room(out, *bytes + 4, err)); /* an address also for an empty text */
    HR_TRY(normalizers[i].run(&normalizers[i], room, *text, *bytes, out, err));
    HR_TRY(hr__string_bounded(out, from, err));
    *text = out->data;
    *bytes = out->count;
  }
  return HR_OK;
}

hr_status hr__normal_lower_run(const hr_normalizer *n, hr_regex_room *room, const char *text, size_t bytes,
                               hr_string *out, hr_error *err) {
  (void)n, (void)room;
  for (size_t i = 0, length; i < bytes; i += length) {
    uint32_t lower[2];
    int count = hr__lower(hr__utf8_get(text + i, &length), lower);
    for (int k = 0; k < count; k++)
      HR_TRY(hr__string_add_char(out, lower[k], err));
  }
  return HR_OK;
}

hr_status hr__normal_accents_run(const hr_normalizer *n, hr_regex_room *room, const char *text, size_t bytes,
                                 hr_string *out, hr_error *err) {
  (void)n, (void)room;
  for (size_t i = 0, length; i < bytes; i += length) {
    uint32_t c = hr__utf8_get(text + i, &length);
    if (!hr__was(c, HR_MARKS, 9)) HR_TRY(hr__string_add(out, text + i, length, err));
  }
  return HR_OK;
}

hr_status hr__normal_strip_run(const hr_normalizer *n, hr_regex_room *room, const char *text, size_t bytes,
                               hr_string *out, hr_error *err) {
  (void)room;
  size_t begin = 0, end = bytes, length;
  while (n->left && begin < end && hr__is_space(hr__utf8_get(text + begin, &length)))
    begin += length;
  while (n->right && begin < end && hr__is_space(hr__utf8_before(text + end, &length)))
    end -= length;
  return hr__string_add(out, text + begin, end - begin, err);
}

hr_status hr__normal_prepend_run(const hr_normalizer *n, hr_regex_room *room, const char *text, size_t bytes,
                                 hr_string *out, hr_error *err) {
  (void)room;
  if (bytes > 0) HR_TRY(hr__string_add(out, n->content, n->content_bytes, err));
  return hr__string_add(out, text, bytes, err);
}

hr_status hr__normal_replace_run(const hr_normalizer *n, hr_regex_room *room, const char *text, size_t bytes,
                                 hr_string *out, hr_error *err) {
  size_t done = 0, from = 0;
  while (from <= bytes) {
    size_t begin = bytes + 1, end = begin;
    if (n->regex) {
      HR_TRY(hr__regex_find(n->regex, room, text, bytes, from, &begin, &end, err));
    } else {
      const char *found = n->pattern_bytes > 0 ? memmem(text + from, bytes - from, n->pattern, n->pattern_bytes) : NULL;
      if (found) {
        begin = (size_t)(found - text);
        end = begin + n->pattern_bytes;
      }
    }
    if (begin > bytes) break;
    HR_TRY(hr__string_add(out, text + done, begin - done, err));
    HR_TRY(hr__string_add(out, n->content, n->content_bytes, err));
    HR_TRY(hr__string_bounded(out, bytes, err));
    done = end;
    from = end > begin ? end : end < bytes ? end + hr__utf8_length((unsigned char)text[end]) : bytes + 1;
  }
  return hr__string_add(out, text + done, bytes - done, err);
}
