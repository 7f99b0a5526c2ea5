/* What a command was given in place of a recipe. */
#ifndef HR_CLI_ARGUMENT_H
#define HR_CLI_ARGUMENT_H

#include "cli/cli.h"

/* For a command that failed: where its argument is no recipe at all (a name of a hub, a folder without a checkpoint, a
 * checkpoint's config.json, the config of another trainer) the error becomes one that says so, and what to give
 * instead. A place that is a setting by --set is the option that it came from. */
hr_status hr__cli_argument_explain(hr_cli *cli, hr_status status, hr_error *err);

/* The setting that an option of a command stands for, under a shorter name; NULL: none. */
const char *hr__cli_option_key(const char *option);

#endif
