/* sites: where a recipe may set a memory technique: its key, and, of keys that stand in the section of a model, the
 * same in the section of each part. */
#ifndef HR_FIT_SITES_H
#define HR_FIT_SITES_H

#include "model/parts.h"
#include "recipe/techniques.h"

enum { HR_SITES = HR_TECHNIQUE_KEYS * (1 + HR_MODEL_PARTS), HR_SITE_TEXT = HR_SECTION_TEXT + HR_TECHNIQUE_WORD };

typedef struct hr_site {
  const hr_technique_key *technique;
  const char *part; /* ""; of the whole model, or of no model */
  char path[HR_SITE_TEXT];
} hr_site;

/* All of them in the order of the table, those of parts behind the whole's. */
size_t hr__sites(const hr_recipe *recipe, hr_site out[HR_SITES]);

/* Another key of the technique's (a dependent, "model.path") at a site's section. */
const char *hr__site_path(const hr_recipe *recipe, const hr_site *site, const char *key, char out[HR_SITE_TEXT]);
/* The word that counts there: a part that gives none has that of the whole. NULL: none, or no word. */
const char *hr__site_word(const hr_recipe *recipe, const hr_site *site);

#endif
