/* The library from C: plan a recipe, show what that changes in a config of another trainer, and train a small net built
 * by hand: example RECIPE CONFIG. Build with
 *     cc example.c $(pkg-config --cflags --libs --static headroom)
 */
#include <headroom.h>
#include <stdio.h>

enum { ROWS = 64, WIDTH = 8, HIDDEN = 32 };

static int complain(const hr_error *error) {
  fprintf(stderr, "error: %s\n  at %s\n  try: %s\n", hr_error_message(error), hr_error_place(error),
          hr_error_remedy(error));
  return 1;
}

static int plan_recipe(const char *path, hr_error *error) {
  const char *overrides[] = {"training.batch_size=4"};
  hr_job *job = NULL;
  if (hr_job_create(path, overrides, 1, &job, error) != HR_RESULT_OK) return complain(error);
  printf("%s: %llu bytes at the peak, %s\n", path, (unsigned long long)hr_job_peak_bytes(job),
         hr_job_fits(job) ? "fits" : "does not fit");
  double seconds = hr_job_step_seconds(job);
  hr_job_destroy(job);
  /* the same with all open that nobody has written: the fastest settings that fit */
  if (hr_job_create_auto(path, overrides, 1, &job, error) != HR_RESULT_OK) return complain(error);
  printf("%.3f s a step as written, %.3f s with what is left open\n", seconds, hr_job_step_seconds(job));
  hr_job_destroy(job);
  return 0;
}

/* What `headroom apply RECIPE --to CONFIG --dry-run` shows. */
static int show_diff(const char *recipe, const char *config, hr_error *error) {
  hr_configs configs = {.size = sizeof configs, .paths = &config, .count = 1, .dry_run = true};
  hr_job *job = NULL;
  char *diff = NULL;
  hr_result result = hr_job_create_for_configs(recipe, NULL, 0, &configs, false, &job, error);
  if (result == HR_RESULT_OK) result = hr_job_apply(job, &configs, NULL, &diff, error);
  if (result == HR_RESULT_OK) fputs(diff, stdout);
  hr_text_destroy(diff);
  hr_job_destroy(job);
  return result == HR_RESULT_OK ? 0 : complain(error);
}

/* Learns y = x shifted by one column. */
static int train_net(hr_error *error) {
  hr_net *net = NULL;
  if (hr_net_create(&net, error) != HR_RESULT_OK) return complain(error);
  hr_value_id x = hr_net_input(net, "x", ROWS, WIDTH);
  hr_value_id target = hr_net_input(net, "target", ROWS, WIDTH);
  hr_value_id gate = hr_net_linear(net, x, hr_net_parameter(net, "gate.weight", HIDDEN, WIDTH, 0.3f));
  hr_value_id up = hr_net_linear(net, x, hr_net_parameter(net, "up.weight", HIDDEN, WIDTH, 0.3f));
  hr_value_id down = hr_net_parameter(net, "down.weight", WIDTH, HIDDEN, 0.3f);
  hr_value_id y = hr_net_add(net, x, hr_net_linear(net, hr_net_swiglu(net, gate, up), down));

  float in[ROWS * WIDTH], out[ROWS * WIDTH], first = 0, last = 0;
  for (int row = 0; row < ROWS; row++)
    for (int column = 0; column < WIDTH; column++) {
      in[row * WIDTH + column] = (float)((row * 31 + column * 17) % 64) / 32.0f - 1.0f;
      out[row * WIDTH + (column + 1) % WIDTH] = in[row * WIDTH + column];
    }
  hr_result result = hr_net_compile(net, hr_net_mse(net, y, target), 1, error);
  if (result == HR_RESULT_OK) result = hr_net_write(net, x, in, ROWS * WIDTH, error);
  if (result == HR_RESULT_OK) result = hr_net_write(net, target, out, ROWS * WIDTH, error);
  for (int step = 0; step < 300 && result == HR_RESULT_OK; step++)
    result = hr_net_step(net, 1e-2f, step == 0 ? &first : &last, error);
  if (result == HR_RESULT_OK)
    printf("a net of %llu bytes: loss %.4f -> %.4f\n", (unsigned long long)hr_net_peak_bytes(net), first, last);
  hr_net_destroy(net);
  if (result != HR_RESULT_OK) return complain(error);
  return last < first / 10 ? 0 : 1;
}

int main(int argc, char **argv) {
  hr_error *error = hr_error_create();
  int failed = argc > 1 && plan_recipe(argv[1], error) != 0;
  failed = (argc > 2 && show_diff(argv[1], argv[2], error) != 0) || failed;
  failed = train_net(error) != 0 || failed;
  hr_error_destroy(error);
  return failed;
}
