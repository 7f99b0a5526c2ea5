/* How two texts become one list of ids: a question and its passage, two sentences. Each id has a type, which tells
 * models which text it is of.
 */
#ifndef HR_TEXT_JOINT_H
#define HR_TEXT_JOINT_H

#include <stdbool.h>

#include "text/grow.h"

enum { HR_JOINT_PARTS = 32, HR_JOINT_FIRST = -1, HR_JOINT_SECOND = -2 };

typedef struct hr_joint_part {
  int32_t id; /* of a special token, or a text: HR_JOINT_FIRST, HR_JOINT_SECOND */
  int32_t type;
} hr_joint_part;

typedef struct hr_joint {
  hr_joint_part parts[HR_JOINT_PARTS]; /* in order, each text once */
  size_t count;                        /* 0: each text has round it what one alone has, and types are 0 and 1 */
  bool unknown;                        /* the file says how, in a way that is not known here */
} hr_joint;

/* Adds a part; too many make it unknown. */
void hr__joint_add(hr_joint *pair, int32_t id, int32_t type);
/* cls, first, sep of type 0, second, sep of type 1. */
hr_joint hr__joint_typed(int32_t cls, int32_t sep);
/* Whether each text is there once. */
bool hr__joint_is_whole(const hr_joint *pair);

#endif
