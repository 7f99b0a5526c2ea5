/* What people are told of a run in PyTorch. See table.h. */
#include "base/text.h"
#include "cli/table.h"

void hr__table_torch(const hr_job *job, FILE *to) {
  const hr_torch_result *result = &job->run.result;
  const hr_torch_moment *peak = &result->allocated;
  const hr_torch_event *event = &job->run.events.items[peak->event];
  const char *owner = job->run.events.names[event->owner], *call = job->run.events.names[event->call];
  char allocated[HR_SIZE_TEXT], reserved[HR_SIZE_TEXT], driver[HR_SIZE_TEXT];
  fprintf(to, "PyTorch, eager, allocates %s, reserves %s, the driver shows %s\n",
          hr__size_text(peak->use.allocated_bytes, allocated),
          hr__size_text(result->reserved.use.reserved_bytes, reserved), hr__size_text(job->run.driver_bytes, driver));
  fprintf(to, "most is allocated in %s of step %u, at %s%s%s\n", hr__torch_phase_name(peak->phase), peak->step, call,
          *owner ? " of " : "", owner);
}
