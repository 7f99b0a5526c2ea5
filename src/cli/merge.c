/* headroom merge: what a run has trained and the base that it began from, as one model. */
#include "train/merge.h"

#include <string.h>

#include "cli/cli.h"
#include "format/json.h"

static hr_status dtype_read(const hr_cli *cli, hr_dtype *out, hr_error *err) {
  static const hr_dtype types[] = {HR_F32, HR_BF16, HR_F16};
  const char *name = hr__cli_value(cli, "dtype");
  *out = HR_DTYPE_COUNT;
  if (!name) return HR_OK;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strcmp(name, hr_dtype_name(types[i])) == 0) *out = types[i];
  if (*out != HR_DTYPE_COUNT) return HR_OK;
  return hr__fail(err, HR_USAGE, "--dtype", "use f32, bf16 or f16", "'%.60s' is no type of weights", name);
}

static json_t *result_json(const hr_merge_options *options, const hr_merge_result *result) {
  return json_pack("{s:{s:o, s:I, s:I, s:I, s:I}}", "merged", "folder", hr__json_string(options->out), "tensors",
                   (json_int_t)result->tensors, "adapters", (json_int_t)result->adapters, "bytes",
                   (json_int_t)result->bytes, "held_bytes", (json_int_t)result->held_bytes);
}

static void result_print(const hr_merge_options *options, const hr_merge_result *result) {
  char bytes[HR_SIZE_TEXT], held[HR_SIZE_TEXT];
  printf("%zu tensors, %s", result->tensors, hr__size_text(result->bytes, bytes));
  if (result->adapters > 0) printf(", %zu adapters merged", result->adapters);
  printf("\nat most %s of them were in memory\nsaved in %s\n", hr__size_text(result->held_bytes, held), options->out);
}

static hr_status merge_run(hr_cli *cli, hr_error *err) {
  hr_merge_options options = {.run = cli->arguments[0],
                              .base = hr__cli_value(cli, "base"),
                              .out = hr__cli_value(cli, "out"),
                              .progress = hr__cli_progress(cli)};
  hr_merge_result result;
  HR_TRY(dtype_read(cli, &options.dtype, err));
  if (!options.out)
    return hr__fail(err, HR_USAGE, NULL, "headroom merge RUN --out DIR", "--out is missing: where the model goes");
  HR_TRY(hr__merge_run(&options, &result, err));
  if (cli->json) return hr__cli_put_json(result_json(&options, &result), err);
  if (result.left > 0 && !cli->quiet)
    fprintf(stderr, "%zu tensors that are no weights (whole numbers, such as position ids) are left out\n",
            result.left);
  if (!cli->quiet) result_print(&options, &result);
  return hr__cli_flush(err);
}

static const hr_cli_option options[] = {
    {"out", "DIR", "folder of the model; it must not be there yet"},
    {"dtype", "TYPE", "of its weights: f32, bf16 or f16 (default: as they are)"},
    {"base", "DIR", "where the base is now, if not where it was"},
};

const hr_cli_command hr_cli_merge = {
    .name = "merge",
    .usage = "RUN",
    .summary = "a run's adapters and their base as one model",
    .details = "RUN is the folder of a run, of one of its checkpoints, or of adapters that PEFT wrote. "
               "Tensors go through one by one. Without adapters it is only converted.",
    .subject = "the folder of a run",
    .examples = "merge out/example --out out/example-merged --dtype bf16",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .min_arguments = 1,
    .max_arguments = 1,
    .run = merge_run,
};
