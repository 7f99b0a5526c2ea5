/* All references: the families of part_reference_*.c. */
#include "part_reference.h"

#include <string.h>

static const reference_family *const families[] = {
    &references_of_products, &references_of_convs,   &references_of_rows,     &references_of_attention,
    &references_of_caches,   &references_of_scans,   &references_of_elements, &references_of_programs,
    &references_of_losses,   &references_of_updates, &references_of_pools,    &references_of_recurrent,
    &references_of_volumes};

const reference *reference_find(const char *op) {
  for (size_t f = 0; f < sizeof families / sizeof *families; f++)
    for (size_t i = 0; i < families[f]->count; i++)
      if (strcmp(families[f]->ops[i].op, op) == 0) return &families[f]->ops[i];
  return NULL;
}
