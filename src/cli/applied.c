/* See applied.h. */
#include "cli/applied.h"

#include <string.h>

#include "base/text.h"

/* Prints what may come from a file: hostile, and may be long. At most `most` characters. */
static void print_escaped(const char *text, size_t most, FILE *to) {
  char shown[512];
  hr__text_escape(text, strlen(text), shown, most < sizeof shown ? most : sizeof shown);
  fputs(shown, to);
}

static void edit_print(const hr_edit *edit, hr_style style, FILE *to) {
  enum { VALUE = 64, LINE = 400 };
  char path[LINE], value[VALUE], raw[LINE + VALUE], reason[sizeof raw];
  hr__text_escape(edit->path, strlen(edit->path), path, sizeof path);
  if (edit->line > 0)
    fprintf(to, "%6d  %-44s ", edit->line, path);
  else
    fprintf(to, "%6s  %-44s ", "-", path);
  switch (edit->outcome) {
  case HR_EDIT_WRITTEN:
  case HR_EDIT_INSERTED:
    fputs(style.bold, to);
    print_escaped(edit->old && *edit->old ? edit->old : "(none)", VALUE, to);
    fputs(" -> ", to);
    print_escaped(edit->now ? edit->now : "", VALUE, to);
    fprintf(to, "%s\n", style.end);
    break;
  case HR_EDIT_SAME:
    print_escaped(edit->old ? edit->old : "", VALUE, to);
    fputs(" already\n", to);
    break;
  case HR_EDIT_MISSING:
  case HR_EDIT_LEFT:
    fprintf(to, "%sleft alone%s: ", style.yellow, style.end);
    hr__text_escape(edit->value.text, strlen(edit->value.text), value, sizeof value);
    snprintf(raw, sizeof raw, "%s (would be %s)", edit->reason, value);
    hr__text_escape(raw, strlen(raw), reason, sizeof reason);
    hr__cli_wrap(to, reason, 8 + (strlen(path) < 44 ? 44 : strlen(path)) + 13, 10);
    fputc('\n', to);
    break;
  }
}

void hr__applied_print(const hr_cli *cli, const hr_applied *a, FILE *to) {
  hr_style style = hr__cli_style(cli, to);
  for (size_t f = 0; f < a->n_files; f++) {
    fputs(style.bold, to);
    print_escaped(a->files[f].config.name, SIZE_MAX, to);
    fprintf(to, "%s (", style.end);
    print_escaped(a->files[f].map->name, SIZE_MAX, to);
    fputs(")\n", to);
    for (size_t i = 0; i < a->files[f].count; i++) {
      char path[HR_APPLIED_PATH];
      hr_edit told;
      for (const void *last = NULL; hr__applied_told(&a->files[f], &a->files[f].edits[i], &last, path, &told);)
        edit_print(&told, style, to);
    }
  }
  for (size_t i = 0; i < a->n_notes; i++) {
    const hr_applied_note *note = &a->notes[i];
    char raw[4 * HR_MAP_PATH], text[sizeof raw]; /* keys and values are the file's, and may be anything */
    snprintf(raw, sizeof raw, "%s = %s; %s%s%s", note->setting ? note->setting : note->key, note->value, note->key,
             *note->key ? " " : "", note->reason);
    hr__text_escape(raw, strlen(raw), text, sizeof text);
    hr__cli_tell(cli, to, style.yellow, "not written:", text);
  }
  const char *warning = hr__applied_warning(a);
  if (warning) hr__cli_tell(cli, to, style.red, "warning:", warning);
  if (a->refusal) {
    char text[1024];
    hr__text_escape(a->refusal, strlen(a->refusal), text, sizeof text);
    hr__cli_tell(cli, to, style.red, "warning: without --dry-run this would be refused:", text);
  }
}

void hr__applied_held(const hr_applied *a, FILE *to) {
  char held[HR_SIZE_TEXT], budget[HR_SIZE_TEXT], margin[HR_SIZE_TEXT];
  if (!a->held_known) return;
  fprintf(to, "read back, PyTorch will hold %s of %s, margin %s\n", hr__size_text(a->held_bytes, held),
          hr__size_text(a->budget_bytes, budget), hr__size_text(a->margin_bytes, margin));
}
