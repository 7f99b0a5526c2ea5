/* headroom: trains neural networks inside a memory budget that it names beforehand, to the byte.
 *
 * The only public header. A job is a recipe (a file, with overrides) taken through every stage up to its plan; it can
 * be planned, profiled and trained, written into configs of other trainers, and answers as the JSON text that the
 * program prints with --json. A net is a graph built by hand, for those who want the planner without a recipe.
 *
 *     hr_error *error = hr_error_create();
 *     hr_job *job = NULL;
 *     char *json = NULL;
 *     if (hr_job_create("recipe.yaml", NULL, 0, &job, error) == HR_RESULT_OK &&
 *         hr_job_plan_json(job, &json, error) == HR_RESULT_OK)
 *       puts(json);
 *     else
 *       fprintf(stderr, "%s (%s)\n", hr_error_message(error), hr_error_place(error));
 *     hr_text_destroy(json);
 *     hr_job_destroy(job);
 *     hr_error_destroy(error);
 *
 * Every fallible function returns an hr_result and takes an hr_error (NULL where the message is not wanted). Results
 * are the exit codes of the program. Objects are opaque; whoever creates one destroys it, and destroying NULL does
 * nothing. One object belongs to one thread at a time.
 */
#ifndef HEADROOM_H
#define HEADROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HR_VERSION       "0.1.0"
#define HR_VERSION_MAJOR 0
#define HR_VERSION_MINOR 1
#define HR_VERSION_PATCH 0

#define HR_API __attribute__((visibility("default")))

/* Version of the library that is linked, as "major.minor.patch". */
HR_API const char *hr_version(void);

typedef enum hr_result {
  HR_RESULT_OK = 0,
  HR_RESULT_FAILURE = 1,       /* out of memory, input/output, not supported here */
  HR_RESULT_USAGE = 2,         /* a call that makes no sense */
  HR_RESULT_NO_FIT = 3,        /* the plan is larger than the budget */
  HR_RESULT_ABOVE_PLAN = 4,    /* the process held more than planned */
  HR_RESULT_BAD_INPUT = 5,     /* a recipe, a checkpoint or data that cannot be used as it is */
  HR_RESULT_HUNG_UP = 129,     /* SIGHUP: saved, then stopped */
  HR_RESULT_INTERRUPTED = 130, /* SIGINT: saved, then stopped */
  HR_RESULT_TERMINATED = 143   /* SIGTERM: saved, then stopped */
} hr_result;

/* ---- errors ---------------------------------------------------------------------------------------------------- */

/* What went wrong, for a person. The texts belong to the error and hold no control characters. */
typedef struct hr_error hr_error;
HR_API hr_error *hr_error_create(void); /* NULL when out of memory: every function takes a NULL error */
HR_API void hr_error_destroy(hr_error *error);
HR_API const char *hr_error_message(const hr_error *error); /* what is wrong */
HR_API const char *hr_error_place(const hr_error *error);   /* where: file, line, column, byte or node; may be "" */
HR_API const char *hr_error_remedy(const hr_error *error);  /* what to do; may be "" */

/* Releases a text that a function of this header has handed out. */
HR_API void hr_text_destroy(char *text);

/* ---- jobs ------------------------------------------------------------------------------------------------------ */

typedef struct hr_job hr_job;

/* Loads a recipe file, or a folder with config.json, applies overrides ("training.batch_size=4"), compiles and plans. A
 * plan over its budget is no failure here: ask hr_job_fits. Of a recipe with stages one is chosen by the override
 * "stage=NAME", and trained with `begin` of hr_job_train_options naming the run of the stage before. */
HR_API hr_result hr_job_create(const char *path, const char *const *overrides, size_t n_overrides, hr_job **job,
                               hr_error *error);
/* The same with every setting open that neither the recipe nor an override writes, as `--auto`: the fastest that fits.
 * What was open and what it came to is "search" and "settings" of hr_job_plan_json. Settings that the recipe itself
 * leaves open are closed either way. */
HR_API hr_result hr_job_create_auto(const char *path, const char *const *overrides, size_t n_overrides, hr_job **job,
                                    hr_error *error);
HR_API void hr_job_destroy(hr_job *job);

HR_API bool hr_job_fits(const hr_job *job);
HR_API uint64_t hr_job_peak_bytes(const hr_job *job); /* device tier, fixed costs of the process included */
HR_API double hr_job_step_seconds(const hr_job *job); /* predicted, one effective step */
/* The object of `headroom plan --json`. */
HR_API hr_result hr_job_plan_json(const hr_job *job, char **json, hr_error *error);

typedef struct hr_job_train_options {
  size_t size;       /* sizeof(hr_job_train_options), so that fields can be added */
  const char *out;   /* folder of the run; NULL: no log, no checkpoints */
  const char *begin; /* folder of a run whose weights this one begins with, by name (a stage before); NULL: none */
  int64_t steps;     /* instead of the recipe's; 0: as in the recipe */
  bool resume;       /* go on from the newest good checkpoint in `out`, or start fresh */
  bool accept_changed_data; /* go on although the data is not what the run was saved with */
} hr_job_train_options;

/* Trains; `json` receives the object of `headroom train --json`. `options` NULL: all defaults. Signals are the
 * caller's: with SIGXFSZ ignored, a limit of file sizes is an error of a save, after which the run goes on. */
HR_API hr_result hr_job_train(const hr_job *job, const hr_job_train_options *options, char **json, hr_error *error);

/* Runs a few real steps (1 to 64) and writes nothing; `json` receives the object of `headroom profile --json`. */
HR_API hr_result hr_job_profile(const hr_job *job, int steps, char **json, hr_error *error);

/* --- configs: a plan's settings in files of other trainers -------------------------------------------------------- */

/* YAML and JSON files of the user's, as `headroom apply --to` takes them. docs/apply.md has what is written into them,
 * and what is left alone. */
typedef struct hr_configs {
  size_t size;              /* sizeof(hr_configs), so that fields can be added */
  const char *const *paths; /* up to 256, written together or not at all */
  size_t count;
  const char *map; /* their kind ("lightning", "axolotl"), or a file with a map; NULL: by what each of them holds */
  bool insert;     /* keys that are not there are put in, as --insert */
  bool dry_run;    /* nothing is written, as --dry-run: neither by hr_job_apply nor by hr_configs_revert */
  bool force;      /* hr_configs_revert also puts back over changes that were made since, as --force */
} hr_configs;

/* As hr_job_create or, with `all_open`, hr_job_create_auto. Where `path` is a folder with config.json, what the configs
 * say of the training is planned as their trainers read it, unless an override gives it; what cannot be read is an
 * error. */
HR_API hr_result hr_job_create_for_configs(const char *path, const char *const *overrides, size_t n_overrides,
                                           const hr_configs *configs, bool all_open, hr_job **job, hr_error *error);

/* Writes the settings of the plan into the configs, each beside a backup. A plan that does not fit is
 * HR_RESULT_NO_FIT. After an error all files are as they were; what a disk that fails cuts off half way, the next call
 * for any of the files finishes or clears away. `json` receives the object of `headroom apply --json`, `diff` a unified
 * diff, empty where nothing changes; both may be NULL. */
HR_API hr_result hr_job_apply(const hr_job *job, const hr_configs *configs, char **json, char **diff, hr_error *error);

/* Puts the backups back, byte for byte; `map` and `insert` are not read. A file that was changed since is refused
 * unless `force`. `json` receives the object of
 * `headroom apply --revert --json`, `diff` what changes; both may be NULL. */
HR_API hr_result hr_configs_revert(const hr_configs *configs, char **json, char **diff, hr_error *error);

/* ---- devices --------------------------------------------------------------------------------------------------- */

/* Devices of this machine with their memory and rates: the object of `headroom devices --json`. */
HR_API hr_result hr_devices_json(char **json, hr_error *error);
/* GPUs that can be planned for without being here (memory.gpu): the object of `headroom devices --gpus --json`. */
HR_API hr_result hr_gpus_json(char **json, hr_error *error);

/* ---- nets: a graph by hand ------------------------------------------------------------------------------------- */

/* A graph under construction, f32 on the CPU, one program: forward, backward, AdamW. While it is built, errors stick:
 * after the first failure every call returns HR_NO_VALUE, and hr_net_compile tells what it was. */
typedef struct hr_net hr_net;
typedef uint32_t hr_value_id;
#define HR_NO_VALUE UINT32_MAX

HR_API hr_result hr_net_create(hr_net **net, hr_error *error);
HR_API void hr_net_destroy(hr_net *net);

/* Zero at first; what hr_net_write puts there stays for all steps until it is written again. Inputs and parameters are
 * known by name: the same name with the same shape is the same value, anything else under that name an error. */
HR_API hr_value_id hr_net_input(hr_net *net, const char *name, int64_t rows, int64_t columns);
/* Trained; begins as normal random numbers of standard deviation `std`. */
HR_API hr_value_id hr_net_parameter(hr_net *net, const char *name, int64_t rows, int64_t columns, float std);
HR_API hr_value_id hr_net_linear(hr_net *net, hr_value_id x, hr_value_id weight); /* y = x Wt, W [out, in] */
HR_API hr_value_id hr_net_add(hr_net *net, hr_value_id a, hr_value_id b);
HR_API hr_value_id hr_net_swiglu(hr_net *net, hr_value_id gate, hr_value_id up); /* y = silu(gate) up */
HR_API hr_value_id hr_net_mse(hr_net *net, hr_value_id y, hr_value_id target);   /* mean (y - target)^2 */

/* Adds backward and update for `loss`, plans, takes the memory and fills the parameters. Nothing can be added after,
 * and a net is compiled once: after a failure past the check of `loss` it can only be destroyed. */
HR_API hr_result hr_net_compile(hr_net *net, hr_value_id loss, uint64_t seed, hr_error *error);

/* After hr_net_compile. */
HR_API uint64_t hr_net_peak_bytes(const hr_net *net);
/* Every buffer with its offset, as `headroom dump --after plan --json` lists them. */
HR_API hr_result hr_net_plan_json(const hr_net *net, char **json, hr_error *error);
/* Whole inputs or parameters; `count` must be the value's number of elements. */
HR_API hr_result hr_net_write(hr_net *net, hr_value_id value, const float *data, size_t count, hr_error *error);
HR_API hr_result hr_net_read(hr_net *net, hr_value_id value, float *data, size_t count, hr_error *error);
/* One step of training on the inputs as they stand; `loss` is the one before the update. */
HR_API hr_result hr_net_step(hr_net *net, float learning_rate, float *loss, hr_error *error);

#ifdef __cplusplus
}
#endif
#endif
