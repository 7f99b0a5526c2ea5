/* See page.h. */
#include "cli/page.h"

#include <stdarg.h>
#include <string.h>

#include "base/text.h"

bool hr__page_init(hr_page *page, size_t rows, size_t columns) {
  *page = (hr_page){.rows = rows, .columns = columns};
  page->lines = hr__alloc_zero(rows, sizeof *page->lines);
  return page->lines != NULL;
}

void hr__page_fini(hr_page *page) {
  hr__free(page->lines);
  *page = (hr_page){0};
}

static void line_put(hr_page *page, hr_page_style style, const char *text) {
  if (page->count == page->rows) return;
  hr_page_line *line = &page->lines[page->count++];
  size_t bytes = hr__text_fit(text, page->columns);
  line->style = style;
  if (bytes >= sizeof line->text) bytes = sizeof line->text - 1;
  memcpy(line->text, text, bytes);
  line->text[bytes] = 0;
}

void hr__page_add(hr_page *page, hr_page_style style, const char *format, ...) {
  char text[HR_PAGE_LINE];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  line_put(page, style, text);
}

void hr__page_add_sides(hr_page *page, hr_page_style style, const char *left, const char *right) {
  size_t used = hr__text_columns(left), more = hr__text_columns(right);
  if (*right == 0 || used + 2 + more > page->columns) {
    line_put(page, style, left);
    return;
  }
  hr__page_add(page, style, "%s%*s%s", left, (int)(page->columns - used - more), "", right);
}

size_t hr__page_left(const hr_page *page) {
  return page->rows - page->count;
}

void hr__page_fill(hr_page *page, size_t count) {
  while (page->count < count && page->count < page->rows)
    line_put(page, HR_PAGE_PLAIN, "");
}

void hr__page_print(const hr_page *page, FILE *to) {
  for (size_t i = 0; i < page->count; i++) {
    size_t length = strlen(page->lines[i].text);
    while (length > 0 && page->lines[i].text[length - 1] == ' ')
      length--;
    fprintf(to, "%.*s\n", (int)length, page->lines[i].text);
  }
}
