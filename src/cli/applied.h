/* What apply has done or would do, for a person. */
#ifndef HR_CLI_APPLIED_H
#define HR_CLI_APPLIED_H

#include "apply/apply.h"
#include "cli/cli.h"

void hr__applied_print(const hr_cli *cli, const hr_applied *a, FILE *to);
/* The last line: what PyTorch will hold with the files as they then are. */
void hr__applied_held(const hr_applied *a, FILE *to);

#endif
