/* Signs that guides tell people to look for while a model trains. Each says what is seen, and what to do about it. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/line.h"
#include "base/text.h"
#include "watch/watched.h"

__attribute__((format(printf, 3, 4))) static void sign_add(hr_watched *w, const char *name, const char *format, ...) {
  if (w->n_signs == HR_WATCH_SIGNS) return;
  hr_watch_sign *sign = &w->signs[w->n_signs++];
  va_list list;
  sign->name = name;
  va_start(list, format);
  vsnprintf(sign->text, sizeof sign->text, format, list);
  va_end(list);
}

static void ending_judge(hr_watched *w, const hr_watch_now *now) {
  char clock[HR_CLOCK_TEXT], from[64] = "nothing is saved";
  if (w->saved > 0) snprintf(from, sizeof from, "--resume goes on from step %" PRId64, w->saved);
  double silent = now->time - w->time;
  if (w->state == HR_WATCH_DEAD)
    sign_add(w, "dead", "process %" PRId64 " is gone and did not say why (killed?): %s", w->pid, from);
  else if (w->state == HR_WATCH_FAILED)
    sign_add(w, "failed", "%s; %s", w->n_events > 0 ? w->events[w->n_events - 1].text : "it failed", from);
  else if (w->state == HR_WATCH_PAUSED)
    sign_add(w, "paused", "process %" PRId64 " is stopped: kill -CONT %" PRId64 " lets it go on", w->pid, w->pid);
  else if (w->state == HR_WATCH_SILENT)
    sign_add(w, "silent", "no line for %s, and %s tells nothing of its process", hr__clock_text(silent, clock),
             *w->machine ? w->machine : "the log");
  else if (w->state == HR_WATCH_RUNNING && w->local && silent > 60 && silent > 20 * hr__watched_step_seconds(w))
    sign_add(w, "stalled", "no line for %s, while its process runs", hr__clock_text(silent, clock));
}

/* As hr__within_plan: 2 % or 16 MiB. */
static double accuracy(double bytes) {
  return bytes / 50 > 16 << 20 ? bytes / 50 : 16 << 20;
}

static void memory_judge(hr_watched *w) {
  char size[2][HR_SIZE_TEXT];
  uint64_t planned = w->tiers[HR_TIER_DEVICE].planned_bytes, held = w->tiers[HR_TIER_DEVICE].held_bytes;
  if (planned > 0 && (double)held > (double)planned + accuracy((double)planned))
    sign_add(w, "above_plan", "it holds %s, the plan says %s: please report this with the recipe",
             hr__size_text(held, size[0]), hr__size_text(planned, size[1]));
  bool grows = w->n_memory >= 4;
  for (size_t i = 1; i < w->n_memory; i++)
    grows = grows && w->memory[i] >= w->memory[i - 1];
  if (grows && w->memory[w->n_memory - 1] > w->memory[0] + accuracy(w->memory[0]) / 2)
    sign_add(w, "creeping", "memory creeps up: %s now, %s %zu looks ago", hr__size_text(held, size[0]),
             hr__size_text((uint64_t)w->memory[0], size[1]), w->n_memory - 1);
  if (w->process.swapped_bytes > 1 << 20)
    sign_add(w, "swapped", "%s of it are swapped out, which makes steps slow: close other programs",
             hr__size_text(w->process.swapped_bytes, size[0]));
}

static void use_judge(hr_watched *w) {
  enum { LOOKS = 10 };
  double sum = 0;
  if (w->uses.count < LOOKS || w->state != HR_WATCH_RUNNING) return;
  for (size_t i = w->uses.count - LOOKS; i < w->uses.count; i++)
    sum += w->uses.value[i];
  if (sum / LOOKS >= 0.5) return;
  if (w->gpu >= 0)
    sign_add(w, "low_use", "the GPU is idle %.0f %% of the time: a larger batch, or more data.workers, may use it",
             100 * (1 - sum / LOOKS));
  else
    sign_add(w, "low_use", "it uses %.0f %% of the processors: data, the disk or other programs hold it up",
             100 * sum / LOOKS);
}

static void loss_judge(hr_watched *w) {
  double sum = 0, squares = 0;
  size_t skipped = 0, last = 0;
  for (size_t i = 0; i < w->n_recent; i++) {
    skipped += w->recent[i].skipped;
    if (!isfinite(w->recent[i].loss)) continue;
    sum += w->recent[i].loss;
    last++;
  }
  if (w->n_recent == HR_WATCH_RECENT && skipped * 10 > w->n_recent)
    sign_add(w, "skipping", "%zu of the last %d steps overflowed and were skipped: bf16-mixed needs no loss scale",
             skipped, HR_WATCH_RECENT);
  if (last < HR_WATCH_RECENT || isnan(w->first_mean)) return;
  double mean = sum / (double)last, gained = w->first_mean - w->lowest_mean;
  for (size_t i = 0; i < w->n_recent; i++)
    squares += (w->recent[i].loss - mean) * (w->recent[i].loss - mean);
  double spread = sqrt(squares / (double)last);
  if (mean - w->lowest_mean > 0.5 * gained + 0.1 * fabs(w->lowest_mean))
    sign_add(w, "rising", "the loss rises: mean %.4f of the last %d steps, it was %.4f: a lower lr may help", mean,
             HR_WATCH_RECENT, w->lowest_mean);
  else if (spread > 0.25 * fabs(mean) && spread > 0.5 * gained)
    sign_add(w, "erratic", "the loss is erratic: %.3g +- %.2g over %d steps: a larger batch or a lower lr may help",
             mean, spread, HR_WATCH_RECENT);
  if (isfinite(w->eval_loss) && w->eval_loss > 1.1 * w->best_loss && w->eval_step > w->best_step)
    sign_add(w, "overfitting", "held-out loss %.4f, it was %.4f after step %" PRId64 ": training.patience would stop",
             w->eval_loss, w->best_loss, w->best_step);
}

static void others_judge(hr_watched *w, const hr_watch_now *now) {
  enum { LEAST = 64 << 20 };
  char size[HR_SIZE_TEXT];
  if (w->gpu < 0) return;
  const hr_nvml_gpu *gpu = &now->gpus[w->gpu];
  for (size_t p = 0; p < gpu->n_processes; p++)
    if (gpu->processes[p].pid != w->pid && gpu->processes[p].bytes > LEAST) {
      sign_add(w, "shared_gpu", "another process is on this GPU: %" PRId64 " holds %s", gpu->processes[p].pid,
               hr__size_text(gpu->processes[p].bytes, size));
      return;
    }
}

void hr__signs_find(hr_watched *w, const hr_watch_now *now) {
  ending_judge(w, now);
  if (!hr__watch_is_alive(w->state)) return;
  memory_judge(w);
  others_judge(w, now);
  use_judge(w);
  loss_judge(w);
}
