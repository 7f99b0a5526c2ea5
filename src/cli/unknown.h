/* What to say of an option or a command that there is not: how headroom says what other trainers call so, where else it
 * is, or the nearest that there is. */
#ifndef HR_CLI_UNKNOWN_H
#define HR_CLI_UNKNOWN_H

#include <getopt.h>

#include "cli/cli.h"

/* `typed` was refused; `known` are the options that there are, `next` (may be NULL) is the word behind it. `no_value`:
 * it is one of them and lacks its value. */
hr_status hr__cli_unknown_option(const hr_cli *cli, const struct option *known, size_t count, const char *typed,
                                 const char *next, bool no_value, hr_error *err);
/* Whether what was typed for the option `name` is short for it here, but the whole name of an option elsewhere. */
bool hr__cli_is_of_another(const char *typed, const char *name);
hr_status hr__cli_unknown_command(const char *name, hr_error *err);

#endif
