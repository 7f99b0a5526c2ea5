/* NFC, NFD, NFKC and NFKD by utf8proc, with the tables that tokenizers have: those of Unicode 9.
 *
 * What came later has neither a decomposition nor an order there, so it passes and ends a run; runs between are
 * normalized each by itself.
 */
#include <utf8proc.h>

#include "text/normalize.h"
#include "text/unicode.h"

static bool later(uint32_t c) {
  return (hr__class(c) & HR_CLASS_SINCE_10) != 0;
}

static hr_status run_normalize(const char *text, size_t bytes, bool compose, bool compat, hr_string *work,
                               hr_string *out, hr_error *err) {
  utf8proc_option_t options =
      (compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) | (compat ? UTF8PROC_COMPAT : 0) | UTF8PROC_STABLE;
  /* The longest decomposition has 18 code points; bytes bound characters. */
  utf8proc_ssize_t room = (utf8proc_ssize_t)(work->capacity / sizeof(utf8proc_int32_t));
  utf8proc_int32_t *points = (void *)work->data;
  utf8proc_ssize_t count =
      utf8proc_decompose((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)bytes, points, room, options);
  if (count > room) {
    HR_TRY(hr__string_room(work, (size_t)count * sizeof *points, err));
    points = (void *)work->data;
    count = utf8proc_decompose((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)bytes, points, count, options);
  }
  if (count < 0) return hr__fail(err, HR_FAILURE, NULL, NULL, "utf8proc: %s", utf8proc_errmsg(count));
  count = utf8proc_normalize_utf32(points, count, options);
  for (utf8proc_ssize_t i = 0; i < count; i++)
    HR_TRY(hr__string_add_char(out, (uint32_t)points[i], err));
  return HR_OK;
}

/* Bytes at the beginning that no form changes, up to where a character begins that the next one may join. */
static size_t unchanged(const char *text, size_t bytes, bool compose, bool compat) {
  size_t done = 0;
  uint32_t limit = compose && !compat ? 0x300 : compose ? 0xa0 : 0x80; /* below it, all is in the form already */
  for (size_t i = 0, length; i < bytes; i += length) {
    if (hr__utf8_get(text + i, &length) >= limit) return done;
    done = i; /* this one may still be joined by a mark */
  }
  return bytes;
}

hr_status hr__normal_form(const char *text, size_t bytes, bool compose, bool compat, hr_string *out, hr_error *err) {
  size_t plain = unchanged(text, bytes, compose, compat);
  HR_TRY(hr__string_add(out, text, plain, err));
  hr_string work = {0};
  hr_status status = HR_OK;
  for (size_t begin = plain, end = plain, length; begin < bytes && status == HR_OK; begin = end) {
    while (end < bytes && !later(hr__utf8_get(text + end, &length)))
      end += length;
    if (end > begin) status = run_normalize(text + begin, end - begin, compose, compat, &work, out, err);
    begin = end;
    while (end < bytes && later(hr__utf8_get(text + end, &length)))
      end += length;
    if (status == HR_OK) status = hr__string_add(out, text + begin, end - begin, err);
  }
  hr__string_fini(&work);
  return status;
}

hr_status hr__normal_form_run(const hr_normalizer *n, hr_regex_room *room, const char *text, size_t bytes,
                              hr_string *out, hr_error *err) {
  (void)room;
  return hr__normal_form(text, bytes, n->compose, n->compat, out, err);
}
