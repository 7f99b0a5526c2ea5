/* Raw events and files of prepare: the first byte says which; a manifest, then a CSV file or an .npy array, with 0x1e
 * between them, or a file as prepare writes it. What is read has finite vectors in its intervals; what is refused says
 * where and why. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/events.h"
#include "data/keys.h"
#include "demand.h"

enum { FILES = 4, TEXT = 4200 };
static const char *const names[FILES] = {"manifest.csv", "a.csv", "b.npy", "c.safetensors"};
static char folder[4096], paths[FILES][TEXT];

static void folder_remove(void) {
  for (int i = 0; i < FILES; i++)
    unlink(paths[i]);
  rmdir(folder);
}

static void folder_make(void) {
  if (folder[0]) return;
  const char *memory = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  snprintf(folder, sizeof folder, "%s/headroom-fuzz-events-%ld", memory, (long)getpid());
  DEMAND(mkdir(folder, 0700) == 0 || access(folder, W_OK) == 0);
  for (int i = 0; i < FILES; i++)
    snprintf(paths[i], sizeof paths[i], "%s/%s", folder, names[i]);
  atexit(folder_remove);
}

static const uint8_t *file_write(const char *path, const uint8_t *at, const uint8_t *end, bool last) {
  const uint8_t *stop = end > at && !last ? memchr(at, 0x1e, (size_t)(end - at)) : NULL;
  if (!stop) stop = end;
  FILE *file = fopen(path, "wb");
  DEMAND(file && fwrite(at, 1, (size_t)(stop - at), file) == (size_t)(stop - at) && fclose(file) == 0);
  return stop < end ? stop + 1 : end;
}

static void accepted(hr_events *e) {
  hr_error err = {0};
  float *room = hr__alloc_zero(hr__events_room(e), sizeof *room);
  DEMAND(room && e->n_samples > 0);
  for (size_t i = 0; i < e->n_samples; i++) {
    uint64_t rows = 0;
    for (uint32_t k = 0; k < e->samples[i].n_intervals; k++) {
      uint32_t count = e->intervals[e->samples[i].intervals + k].rows;
      DEMAND(hr__events_rows(e, &e->samples[i], k, room, &err) == HR_OK);
      for (size_t n = 0; n < (size_t)count * HR_EVENT_ROW; n++)
        DEMAND(isfinite(room[n]));
      rows += count;
    }
    DEMAND(rows > 0 && e->samples[i].label >= 0 && e->samples[i].label < 8);
  }
  hr__free(room);
}

static void file_try(const char *path) {
  char setting[TEXT + 16];
  static const char text[] = "data: { source: events, sequence_length: 8, events: { interval_ms: 50 } }\n";
  const hr_key_table tables[] = {hr_data_keys, hr_events_keys};
  const char *settings[] = {setting};
  hr_recipe *recipe = NULL;
  hr_error err = {0};
  hr_events e;
  snprintf(setting, sizeof setting, "data.path=%s", path);
  DEMAND(hr__recipe_parse("r.yaml", ".", text, sizeof text - 1, settings, 1, tables, 2, &recipe, &err) == HR_OK);
  hr__events_begin(&e);
  hr__events_settings(recipe, 1, &e.settings);
  hr_status status = hr__events_read(&e, recipe, "data.path", 8, &err);
  DEMAND(status == HR_OK || ((status == HR_BAD_INPUT || status == HR_UNSUPPORTED) && err.message[0] && err.place[0]));
  if (status == HR_OK) accepted(&e);
  hr__events_close(&e);
  hr__recipe_destroy(recipe);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const uint8_t *at = data, *end = data + size;
  if (size == 0) return 0;
  folder_make();
  if (*at++ == 's') {
    file_write(paths[3], at, end, true);
    file_try(paths[3]);
    return 0;
  }
  at = file_write(paths[0], at, end, false);
  at = file_write(paths[1], at, end, false);
  file_write(paths[2], at, end, true);
  file_try(paths[0]);
  return 0;
}
