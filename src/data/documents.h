/* Documents: where each begins in a row of tokens, one behind the other; and what that means for a window of them. */
#ifndef HR_DATA_DOCUMENTS_H
#define HR_DATA_DOCUMENTS_H

#include <stdint.h>

typedef struct hr_document_list {
  const uint64_t *begins; /* count + 1; the last is the number of all tokens */
  uint64_t count;
} hr_document_list;

/* Positions of a document as a sample by itself: its last token is only a target. */
int64_t hr__document_length(const hr_document_list *documents, uint64_t document);

/* For `length` positions from token `at` on: where the document of each begins in the window, and no target across a
 * border. at + length is less than the number of tokens. */
void hr__window_borders(const hr_document_list *documents, uint64_t at, int64_t length, int32_t *starts,
                        int32_t *targets);
/* Positions of such a window that keep their target. */
int64_t hr__window_targets(const hr_document_list *documents, uint64_t at, int64_t length);

#endif
