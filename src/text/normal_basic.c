/* The normalizer of BERT, in its order: clean text, spaces round ideographs, accents off, lower case. Categories are
 * those of Unicode 8: later characters are neither dropped nor marks. */
#include "text/normalize.h"
#include "text/unicode.h"

static bool ideograph(uint32_t c) {
  static const uint32_t ranges[][2] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df}, {0x2a700, 0x2b73f},
                                       {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
    if (c >= ranges[i][0] && c <= ranges[i][1]) return true;
  return false;
}

static bool dropped(uint32_t c) {
  if (c == 0 || c == 0xfffd) return true;
  if (c == '\t' || c == '\n' || c == '\r') return false;
  return hr__was(c, HR_IN(HR_CC) | HR_IN(HR_CF) | HR_IN(HR_CO), 8);
}

/* Cleaned, with spaces round ideographs. */
static hr_status clean(const hr_normalizer *n, const char *text, size_t bytes, hr_string *out, hr_error *err) {
  for (size_t i = 0, length; i < bytes; i += length) {
    uint32_t c = hr__utf8_get(text + i, &length);
    if (n->clean && dropped(c)) continue;
    if (n->clean && hr__is_space(c)) c = ' ';
    bool apart = n->cjk && ideograph(c);
    if (apart) HR_TRY(hr__string_add(out, " ", 1, err));
    HR_TRY(hr__string_add_char(out, c, err));
    if (apart) HR_TRY(hr__string_add(out, " ", 1, err));
  }
  return HR_OK;
}

/* Without marks that do not space, and in lower case. */
static hr_status lower(const hr_normalizer *n, const char *text, size_t bytes, hr_string *out, hr_error *err) {
  for (size_t i = 0, length; i < bytes; i += length) {
    uint32_t c = hr__utf8_get(text + i, &length), small[2] = {c, 0};
    if (n->accents && hr__was(c, HR_IN(HR_MN), 8)) continue;
    int count = n->lower ? hr__lower(c, small) : 1;
    for (int k = 0; k < count; k++)
      HR_TRY(hr__string_add_char(out, small[k], err));
  }
  return HR_OK;
}

hr_status hr__normal_basic_run(const hr_normalizer *n, hr_regex_room *room, const char *text, size_t bytes,
                               hr_string *out, hr_error *err) {
  (void)room;
  hr_string cleaned = {0}, decomposed = {0};
  hr_status status = clean(n, text, bytes, &cleaned, err);
  const hr_string *from = &cleaned;
  if (status == HR_OK && n->accents) {
    status = hr__normal_form(cleaned.data, cleaned.count, false, false, &decomposed, err);
    from = &decomposed;
  }
  if (status == HR_OK) status = lower(n, from->data, from->count, out, err);
  hr__string_fini(&cleaned);
  hr__string_fini(&decomposed);
  return status;
}
