/* A real video, as a Debian package has it, is decoded: at the wanted rate and size, the same every time, by one thread
 * and by two; and what is left of it when it is cut short is refused or shorter, never wrong. Skipped where FFmpeg's
 * libraries or all of the files are missing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "data/video.h"
#include "part_video.h"

/* The packages that have them. */
static const char *const known[] = {
    "/usr/share/doc/python3-hug/examples/streaming_movie_server/movie.mp4",  /* python3-hug-doc */
    "/usr/lib/python3/dist-packages/imageio/resources/images/realshort.mp4", /* python3-imageio */
    "/usr/share/doc/wx3.2-examples/examples/samples/splash/press.mpg",       /* wx3.2-examples */
    "/usr/share/help/C/gnome-help/figures/display-dual-monitors.webm",       /* gnome-user-docs */
};
static const char *real;

typedef struct seen {
  int64_t frames;
  double last, least_gap;
  hr_hash *hash;
  int least, most; /* of all pixels */
} seen;

static hr_status frame_seen(void *user, double seconds, const uint8_t *pixels, hr_error *err) {
  seen *s = user;
  if (s->frames > 0 && seconds - s->last < s->least_gap) s->least_gap = seconds - s->last;
  s->last = seconds;
  s->frames++;
  for (int i = 0; i < 24 * 32 * 3; i++) {
    if (pixels[i] < s->least) s->least = pixels[i];
    if (pixels[i] > s->most) s->most = pixels[i];
  }
  return hr__hash_update(s->hash, pixels, 24 * 32 * 3, err);
}

static seen video_see(const char *path, int64_t frames, char hex[HR_SHA256_HEX]) {
  hr_video_wanted wanted = {.fps = 4, .height = 24, .width = 32, .frames = frames};
  seen s = {.least_gap = 1e9, .least = 255};
  hr_error err = {0};
  assert_int_equal(hr__hash_create(HR_HASH_XXH128, &s.hash, &err), HR_OK);
  hr_status status = hr__video_read(path, &wanted, frame_seen, &s, NULL, &err);
  if (status != HR_OK) fail_msg("%s: %s", err.place, err.message);
  assert_int_equal(hr__hash_hex(s.hash, hex, &err), HR_OK);
  hr__hash_destroy(s.hash);
  return s;
}

static void test_decoded(void **state) {
  (void)state;
  char first[HR_SHA256_HEX], second[HR_SHA256_HEX];
  seen all = video_see(real, HR_VIDEO_FRAMES, first), again = video_see(real, HR_VIDEO_FRAMES, second);
  assert_string_equal(first, second);
  assert_true(all.frames >= 4 && all.frames == again.frames);
  assert_true(all.least_gap > 0);
  assert_true((double)all.frames <= all.last * 4 + 1.01); /* never more than four a second */
  assert_true(all.most - all.least > 50);                 /* it shows something */
  seen some = video_see(real, 3, second);
  assert_int_equal(some.frames, 3);
}

/* Cut anywhere, a file is refused by name or has the frames that are left. */
static void test_cut(void **state) {
  (void)state;
  static unsigned char bytes[4 << 20];
  FILE *file = fopen(real, "rb");
  assert_non_null(file);
  size_t count = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  const char *ending = strrchr(real, '.');
  char name[32], path[4200];
  snprintf(name, sizeof name, "cut%s", ending);
  videos_begin();
  snprintf(path, sizeof path, "%s/%s", videos_path(), name);
  for (int part = 0; part < 8; part++) {
    hr_video_wanted wanted = {.fps = 4, .height = 24, .width = 32, .frames = HR_VIDEO_FRAMES};
    seen s = {.least_gap = 1e9, .least = 255};
    hr_error err = {0};
    videos_put(name, bytes, count * (size_t)part / 8);
    assert_int_equal(hr__hash_create(HR_HASH_XXH128, &s.hash, &err), HR_OK);
    hr_status status = hr__video_read(path, &wanted, frame_seen, &s, NULL, &err);
    hr__hash_destroy(s.hash);
    if (status != HR_OK) {
      assert_int_equal(status, HR_BAD_INPUT);
      assert_non_null(strstr(err.place, name));
    } else {
      assert_true(s.frames > 0);
    }
  }
  videos_end();
}

/* As a source reads it: with a caption, and a trigger where its segment is. */
static void test_sample(void **state) {
  (void)state;
  video_data o;
  video_batch b;
  char text[512], name[64];
  hr_error err = {0};
  snprintf(name, sizeof name, "real%s", strrchr(real, '.'));
  videos_begin();
  snprintf(text, sizeof text, "%s/%s", videos_path(), name);
  assert_int_equal(symlink(real, text), 0);
  snprintf(text, sizeof text, "[{\"video\": \"real\", \"start_time\": 0.4, \"end_time\": 1.1, \"caption\": \"seen\"}]");
  if (strcmp(strrchr(real, '.'), ".mpg") == 0)
    snprintf(text, sizeof text, "[{\"video\": \"%s\", \"start_time\": 0.4, \"end_time\": 1.1, \"caption\": \"seen\"}]",
             name);
  videos_put("captions.json", text, strlen(text));
  static const char *const settings[] = {"data.workers=2", NULL};
  for (int i = 0; i < 2; i++) { /* decoded, then from the cache */
    if (video_open(&o, videos_path(), settings, false, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
    video_fill(&o, 0, false, &b);
    assert_true(b.frame_lengths[0] >= 2);
    assert_int_equal(b.triggers[0][0], b.timestamps[0][0] >= 0.4f);
    assert_int_equal(b.triggers[0][1], 1);
    video_close(&o);
  }
  videos_end();
}

int main(void) {
  hr_error err = {0};
  for (size_t i = 0; i < sizeof known / sizeof *known && !real; i++)
    if (access(known[i], R_OK) == 0) real = known[i];
  if (hr__video_libraries(&err) != HR_OK || !real) {
    printf("skipped: %s\n", real ? err.message : "no package with a video is installed (Debian: python3-hug-doc)");
    return 77;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_decoded),
      cmocka_unit_test(test_cut),
      cmocka_unit_test(test_sample),
  };
  cache_begin("video-real");
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  cache_end();
  return failed;
}
