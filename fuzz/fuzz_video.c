/* Folders of source video: captions, and behind 0x1e a letter that says what their video is: `n` an array, `f` a file
 * for FFmpeg's libraries, `i` a folder with one image, each with its bytes behind it. What is read can be made samples
 * of; what is refused says where and why. Without the libraries films and images are refused, which is checked as well.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cache.h"
#include "data/video.h"
#include "demand.h"

enum { FRAMES = 4, HEIGHT = 3, WIDTH = 4, TEXT = 4200 };

static char folder[4096], captions[TEXT], array[TEXT], film[TEXT], images[TEXT], image[TEXT], cache[TEXT];

static void folder_remove(void) {
  unlink(captions);
  unlink(array);
  unlink(film);
  unlink(image);
  rmdir(images);
  rmdir(cache);
  rmdir(folder);
}

static void folder_make(void) {
  if (folder[0]) return;
  const char *memory = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  snprintf(folder, sizeof folder, "%s/headroom-fuzz-video-%ld", memory, (long)getpid());
  DEMAND(mkdir(folder, 0700) == 0 || access(folder, W_OK) == 0);
  snprintf(captions, sizeof captions, "%s/captions.json", folder);
  snprintf(array, sizeof array, "%s/v.npy", folder);
  snprintf(film, sizeof film, "%s/v.mp4", folder);
  snprintf(images, sizeof images, "%s/v", folder);
  snprintf(image, sizeof image, "%s/1.png", images);
  snprintf(cache, sizeof cache, "%s/headroom", folder);
  setenv("XDG_CACHE_HOME", folder, 1);
  atexit(folder_remove);
}

static void file_write(const char *path, const uint8_t *data, size_t bytes) {
  FILE *file = fopen(path, "wb");
  DEMAND(file && fwrite(data, 1, bytes, file) == bytes && fclose(file) == 0);
}

/* One of the three is there. */
static void video_write(const uint8_t *data, size_t bytes) {
  unlink(array);
  unlink(film);
  unlink(image);
  rmdir(images);
  if (bytes == 0) return;
  if (data[0] == 'i') DEMAND(mkdir(images, 0700) == 0);
  file_write(data[0] == 'i' ? image : data[0] == 'f' ? film : array, data + 1, bytes - 1);
}

static void clip_check(const hr_videos *v, const hr_clip *clip) {
  static uint8_t pixels[FRAMES * HEIGHT * WIDTH * 3];
  int32_t triggers[FRAMES];
  hr_error err = {0};
  const hr_video_file *file = &v->files[clip->file];
  hr_window window = hr__clip_window(v, clip);
  DEMAND(clip->video[0] && clip->end >= clip->start && !file->bad);
  DEMAND(window.count >= 1 && window.count <= FRAMES && window.first >= 0);
  DEMAND(window.first + window.count <= file->frames);
  int64_t count = hr__clip_triggers(v, clip, window, triggers);
  DEMAND(count <= window.count && (count >= 1 || !clip->caption));
  DEMAND(hr__clip_pixels(v, clip, window, pixels, &err) == HR_OK);
  for (int64_t i = 0; i < window.count; i++)
    DEMAND(isfinite(hr__clip_time(v, clip, window.first + i)));
}

static void accepted(hr_videos *v) {
  DEMAND((v->n_clips > 0) == (v->n_files > 0)); /* all may be bad */
  for (size_t i = 0; i < v->n_clips; i++)
    if (!v->clips[i].bad) clip_check(v, &v->clips[i]);
}

/* Frames are kept under a hash; what one input has made the next one does not need. */
static void closed(hr_videos *v) {
  for (size_t i = 0; i < v->n_files; i++) {
    if (v->files[i].cache) unlink(v->files[i].cache);
    hr__free((void *)v->files[i].times);
    hr__free((void *)v->files[i].cache);
  }
  hr__data_file_close(&v->file);
  hr__arena_fini(&v->arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const uint8_t *stop = size > 0 ? memchr(data, 0x1e, size) : NULL;
  size_t text = stop ? (size_t)(stop - data) : size;
  folder_make();
  file_write(captions, data, text);
  video_write(stop ? stop + 1 : NULL, stop ? size - text - 1 : 0);
  for (int some = 0; some < 2; some++) { /* every fault at once, and each with others behind it */
    hr_error err = {0};
    hr_videos v = {.file.fd = -1,
                   .bad_videos.allowed = some,
                   .bad_captions.allowed = some,
                   .trace.whole = true,
                   .settings = {.folder = folder,
                                .captions = captions,
                                .fps = 2,
                                .frames = FRAMES,
                                .height = HEIGHT,
                                .width = WIDTH,
                                .uncaptioned = some}};
    hr__arena_init(&v.arena);
    hr_status status = hr__video_captions(&v, &err);
    if (status == HR_OK) status = hr__video_frames(&v, 1, &err);
    DEMAND(status == HR_OK || ((status == HR_BAD_INPUT || status == HR_UNSUPPORTED) && err.message[0] && err.place[0]));
    if (status == HR_OK) accepted(&v);
    closed(&v);
  }
  return 0;
}
