/* See diary.h. */
#include "train/diary.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

static const double memory_seconds = 10; /* between two looks at memory */

void hr__diary_open(hr_diary *d, hr_log *log) {
  *d = (hr_diary){.log = log, .statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC)};
}

void hr__diary_close(hr_diary *d) {
  if (d->statm >= 0) close(d->statm);
  d->statm = -1;
}

double hr__diary_phase(hr_diary *d, hr_run_phase phase, double begin) {
  double seconds = hr__seconds_now() - begin;
  d->phases[phase] += seconds;
  return seconds;
}

void hr__diary_begin(hr_diary *d, int64_t step, int64_t steps) {
  d->begun = true;
  hr__log_event(
      d->log,
      &(hr_log_event){
          .step = step, .name = "started", .started = true, .resumed = step > 0, .steps = steps, .phases = d->phases});
  for (size_t at = 0; at < d->early_bytes; at += strlen(d->early + at) + 1)
    hr__diary_warning(d, step, d->early + at);
  d->early_bytes = 0;
}

void hr__diary_warning(hr_diary *d, int64_t step, const char *text) {
  size_t bytes = strlen(text) + 1;
  if (d->begun) {
    hr__log_event(d->log, &(hr_log_event){.step = step, .name = "warning", .text = text});
  } else if (bytes <= sizeof d->early - d->early_bytes) {
    memcpy(d->early + d->early_bytes, text, bytes);
    d->early_bytes += bytes;
  }
}

void hr__diary_saved(hr_diary *d, int64_t step, double seconds, uint64_t bytes) {
  hr__log_event(d->log, &(hr_log_event){.step = step, .name = "saved", .seconds = seconds, .bytes = bytes});
}

uint64_t hr__diary_resident(const hr_diary *d) {
  char text[128];
  ssize_t n = d->statm >= 0 ? pread(d->statm, text, sizeof text - 1, 0) : 0;
  uint64_t all, resident; /* pages: the first two numbers of the line */
  if (n <= 0) return 0;
  text[n] = 0;
  return sscanf(text, "%" SCNu64 " %" SCNu64, &all, &resident) == 2 ? resident * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* As plans count: what the process holds beside its arenas belongs to the device's tier, which on the CPU is memory of
 * the process too. */
void hr__diary_memory(hr_diary *d, int64_t step, const hr_run *run, hr_device *device) {
  double now = hr__seconds_now();
  if (d->log->fd < 0 || now < d->next_memory) return;
  uint64_t process = hr__diary_resident(d),
           held[HR_TIER_COUNT] = {
               [HR_TIER_HOST] = hr__run_held(run, HR_TIER_HOST), [HR_TIER_DISK] = hr__run_held(run, HR_TIER_DISK)};
  if (device->facts.kind == HR_CPU)
    held[HR_TIER_DEVICE] = process > held[HR_TIER_HOST] ? process - held[HR_TIER_HOST] : 0;
  else if (device->functions->process_bytes(device, &held[HR_TIER_DEVICE], NULL) != HR_OK)
    held[HR_TIER_DEVICE] = 0;
  hr__log_event(d->log, &(hr_log_event){.step = step, .name = "memory", .held = held, .bytes = process});
  double took = hr__seconds_now() - now;
  d->next_memory = now + (100 * took > memory_seconds ? 100 * took : memory_seconds);
}

void hr__diary_end(hr_diary *d, int64_t step, hr_status status, const char *text, uint64_t measured_bytes) {
  if (!d->begun) return;
  hr__log_event(d->log, &(hr_log_event){.step = step,
                                        .name = "ended",
                                        .status = hr_status_name(status),
                                        .text = text,
                                        .bytes = measured_bytes,
                                        .phases = d->phases});
}
