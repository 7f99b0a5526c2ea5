/* Folders of source sensors: a manifest, questions and one stream, with 0x1e between them, in files of a folder of its
 * own. What is read can be made samples of; what is refused says where and why. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/sensors.h"
#include "demand.h"

enum { FILES = 3, POINTS = 4, PATCHES = 3, TEXT = 4200 };
static const char *const names[FILES] = {"manifest.csv", "q.jsonl", "s.csv"};

static char folder[4096], paths[FILES][TEXT];

static void folder_remove(void) {
  for (int i = 0; i < FILES; i++)
    unlink(paths[i]);
  rmdir(folder);
}

static void folder_make(void) {
  if (folder[0]) return;
  const char *memory = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  snprintf(folder, sizeof folder, "%s/headroom-fuzz-sensors-%ld", memory, (long)getpid());
  DEMAND(mkdir(folder, 0700) == 0 || access(folder, W_OK) == 0);
  for (int i = 0; i < FILES; i++)
    snprintf(paths[i], sizeof paths[i], "%s/%s", folder, names[i]);
  atexit(folder_remove);
}

static const uint8_t *file_write(const char *path, const uint8_t *at, const uint8_t *end) {
  const uint8_t *stop = end > at ? memchr(at, 0x1e, (size_t)(end - at)) : NULL;
  if (!stop) stop = end;
  FILE *file = fopen(path, "wb");
  DEMAND(file && fwrite(at, 1, (size_t)(stop - at), file) == (size_t)(stop - at) && fclose(file) == 0);
  return stop < end ? stop + 1 : end;
}

static void recording_check(const hr_sensors *s, const hr_recording *recording) {
  DEMAND(recording->patches > 0 && recording->patch_size >= 1 && recording->patch_size <= HR_PATCH_SIZE_MOST);
  for (int64_t i = 0; i < recording->patches * s->channels * POINTS; i++)
    DEMAND(isfinite(recording->values[i]));
  for (int64_t i = 0; i < recording->patches * s->channels * HR_STATISTICS; i++)
    DEMAND(isfinite(recording->statistics[i]));
}

static void accepted(hr_sensors *s) {
  hr_error err = {0};
  hr_source_request request = {.held = HR_HOLD_NONE};
  DEMAND(s->n_streams > 0 && s->channels > 0 && s->n_recordings > 0 && s->n_questions > 0);
  DEMAND(hr__sensors_split(s, &request, &err) == HR_OK && s->n_samples == s->n_questions);
  for (size_t i = 0; i < s->n_questions; i++) {
    const hr_question *question = &s->questions[i];
    DEMAND(question->type && question->text[0] && question->answer[0] && question->n_recordings > 0);
    DEMAND(question->patches >= 1 && question->patches <= PATCHES);
    for (size_t k = 0; k < question->n_recordings; k++)
      recording_check(s, &s->recordings[question->recordings[k]]);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  hr_sensors s;
  hr_error err = {0};
  const uint8_t *at = data;
  folder_make();
  for (int i = 0; i < FILES; i++)
    at = file_write(paths[i], at, data + size);
  for (int some = 0; some < 2; some++) { /* every fault at once, and each with others behind it */
    hr__sensors_begin(&s, some);
    s.settings = (hr_sensors_settings){
        .folder = folder, .manifest = paths[0], .questions = paths[1], .patch_seconds = 0.5, .patches = PATCHES};
    hr_status status = hr__sensors_read(&s, POINTS, 1, &err);
    DEMAND(status == HR_OK || ((status == HR_BAD_INPUT || status == HR_UNSUPPORTED) && err.message[0] && err.place[0]));
    if (status == HR_OK && some == 0) accepted(&s);
    hr__sensors_close(&s);
  }
  return 0;
}
