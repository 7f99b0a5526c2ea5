/* Document trees as text and their comparison, for the targets of the two document parsers. */
#ifndef HR_FUZZ_DOC_TEXT_H
#define HR_FUZZ_DOC_TEXT_H

#include "format/doc.h"

/* The tree as JSON, or as YAML in brackets, with every scalar quoted. free() it. */
char *doc_text(const hr_doc_node *root, bool yaml);

/* Demands the same shape, keys and scalar texts. */
void doc_same(const hr_doc_node *a, const hr_doc_node *b);

#endif
