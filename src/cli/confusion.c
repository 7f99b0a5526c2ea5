/* What was taken for what, as a table. */
#include <stdio.h>
#include <string.h>

#include "cli/table.h"

enum { SHOWN = 16, CELL = 6 }; /* classes that a terminal has room for */

void hr__table_confusion(const hr_confusion *confusion, FILE *to) {
  if (confusion->classes == 0 || confusion->classes > SHOWN) return;
  int wide = 0;
  for (int i = 0; i < confusion->classes; i++)
    if ((int)strlen(confusion->names[i]) > wide) wide = (int)strlen(confusion->names[i]);
  fprintf(to, "\n  held out, by class, and what samples were taken for\n  %*s", wide, "");
  for (int i = 0; i < confusion->classes; i++)
    fprintf(to, "%*d", CELL, i);
  for (int i = 0; i < confusion->classes; i++) {
    fprintf(to, "\n  %*s", wide, confusion->names[i]);
    for (int k = 0; k < confusion->classes; k++)
      fprintf(to, "%*.0u", CELL, confusion->counts[i][k]); /* nothing for 0 */
  }
  fputc('\n', to);
}
