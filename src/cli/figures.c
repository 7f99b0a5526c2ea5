/* figures: see figures.h. */
#include "cli/figures.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool hr__utf8(void) {
  static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const char *value = getenv(names[i]);
    if (value != NULL && value[0] != '\0')
      return strstr(value, "UTF-8") != NULL || strstr(value, "utf8") != NULL || strstr(value, "UTF8") != NULL;
  }
  return false;
}

void hr__bar_print(double share, int width, FILE *to) {
  if (share * width * 8 < 0.5) return;
  fputs("  ", to);
  int eighths = (int)(share * width * 8 + 0.5);
  static const char *const parts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  bool utf8 = hr__utf8();
  for (int i = 0; i < eighths / 8; i++)
    fputs(utf8 ? "█" : "#", to);
  if (utf8) fputs(parts[eighths % 8], to);
}

const char *hr__count_text(uint64_t count, char out[HR_SIZE_TEXT]) {
  double value = (double)count;
  if (count >= 1000000000)
    snprintf(out, HR_SIZE_TEXT, "%.2f B", value / 1e9);
  else if (count >= 1000000)
    snprintf(out, HR_SIZE_TEXT, "%.2f M", value / 1e6);
  else if (count >= 1000)
    snprintf(out, HR_SIZE_TEXT, "%.1f k", value / 1e3);
  else
    snprintf(out, HR_SIZE_TEXT, "%" PRIu64, count);
  return out;
}

const char *hr__rate_text(double rate, char out[HR_SIZE_TEXT]) {
  snprintf(out, HR_SIZE_TEXT, rate >= 100 ? "%.0f" : "%.3g", rate);
  return out;
}

const char *hr__difference_text(int64_t bytes, char out[HR_SIZE_TEXT]) {
  char size[HR_SIZE_TEXT];
  hr__size_text(bytes < 0 ? 0 - (uint64_t)bytes : (uint64_t)bytes, size);
  snprintf(out, HR_SIZE_TEXT, "%s%.*s", bytes < 0 ? "-" : "", HR_SIZE_TEXT - 2, size);
  return out;
}

const char *hr__change_text(double from, double to, char out[HR_SIZE_TEXT]) {
  if (from > 0 && to < 1e4 * from)
    snprintf(out, HR_SIZE_TEXT, "%+.1f %%", 100 * (to - from) / from);
  else
    snprintf(out, HR_SIZE_TEXT, "%s", from == to ? "+0.0 %" : "-");
  return out;
}
