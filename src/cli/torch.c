/* What people are told of a run in PyTorch. See table.h. */
#include "base/text.h"
#include "cli/table.h"

enum { COLUMNS = 80 };

void hr__table_torch(const hr_job *job, FILE *to) {
  const hr_torch_result *result = &job->run.result;
  const hr_torch_moment *peak = &result->allocated;
  const hr_torch_event *event = &job->run.events.items[peak->event];
  const char *owner = job->run.events.names[event->owner], *call = job->run.events.names[event->call];
  char allocated[HR_SIZE_TEXT], reserved[HR_SIZE_TEXT], driver[HR_SIZE_TEXT];
  fprintf(to, "PyTorch allocates %s, reserves %s, the driver shows %s\n",
          hr__size_text(peak->use.allocated_bytes, allocated),
          hr__size_text(result->reserved.use.reserved_bytes, reserved), hr__size_text(job->run.driver_bytes, driver));
  char text[512];
  snprintf(text, sizeof text, "most is allocated in %s of step %u, at %.200s%s%.200s",
           hr__torch_phase_name(peak->phase), peak->step, call, *owner ? " of " : "", owner);
  hr__text_wrap(text, 0, 2, COLUMNS, to);
  fputc('\n', to);
  if (!hr__engine_estimate(&job->run)) return;
  snprintf(text, sizeof text, "an estimate: %s", hr__engine_estimate(&job->run));
  hr__text_wrap(text, 0, 2, COLUMNS, to);
  fputc('\n', to);
}
