/* Features of frames in the cache folder: made once, found by what they are of and by what makes them, made again where
 * they are broken, and never there by halves, whatever fails and whoever else makes them at the same time. What stands
 * for a model here makes three numbers of a frame: its first pixel, its last, and their difference. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "part_video.h"
#include "support/file_faults.h"

enum { WIDTH = 3, FRAME = VIDEO_HEIGHT * VIDEO_WIDTH * 3, TWO_VIDEOS = 8 + 6, BATCH = 5 };

static const hr_features_maker maker = {"0123456789abcdef0123456789abcdef", WIDTH},
                               another = {"1123456789abcdef0123456789abcdef", WIDTH};

typedef struct featured {
  video_data o;
  const hr_featured *calls;
  void *state;
} featured;

static featured opened(const char *path, const char *const *settings) {
  featured f = {0};
  hr_error err = {0};
  hr_fields fields = video_fields();
  fields.list[0] =
      (hr_field){.name = "features", .purpose = HR_FOR_VALUES, .desc = {HR_F32, 3, {VIDEO_BATCH, VIDEO_FRAMES, WIDTH}}};
  if (video_open_fields(&f.o, path, settings, false, &fields, &err) != HR_OK)
    fail_msg("%s: %s", err.place, err.message);
  f.calls = hr__data_featured(f.o.data, false, &f.state);
  assert_non_null(f.calls);
  return f;
}

static uint64_t missing_of(const featured *f, const hr_features_maker *by) {
  uint64_t missing;
  hr_error err = {0};
  if (f->calls->find(f->state, by, &missing, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  return missing;
}

static void row_make(const uint8_t *frame, float row[WIDTH]) {
  row[0] = frame[0];
  row[1] = frame[FRAME - 1];
  row[2] = row[0] - row[1];
}

static hr_status make(const featured *f, const hr_features_maker *by, hr_error *err) {
  uint64_t missing;
  HR_TRY(f->calls->find(f->state, by, &missing, err));
  for (uint64_t first = 0; first < missing; first += BATCH) {
    uint64_t count = missing - first < BATCH ? missing - first : BATCH;
    uint8_t frames[BATCH][FRAME];
    float rows[BATCH][WIDTH];
    HR_TRY(f->calls->inputs(f->state, first, count, frames, err));
    for (uint64_t i = 0; i < count; i++)
      row_make(frames[i], rows[i]);
    HR_TRY(f->calls->put(f->state, count, rows[0], err));
  }
  return HR_OK;
}

static void made(const featured *f, const hr_features_maker *by) {
  hr_error err = {0};
  if (make(f, by, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  assert_int_equal(missing_of(f, by), 0);
}

/* Every sample has the features of the frames that it would have. */
static void samples_check(const featured *f, const char *path, const char *const *settings) {
  video_data plain;
  hr_error err = {0};
  assert_int_equal(video_open(&plain, path, settings, false, &err), HR_OK);
  for (uint64_t sample = 0; sample < (uint64_t)hr__data_train_samples(plain.data); sample += VIDEO_BATCH) {
    video_batch whole, b;
    float features[VIDEO_BATCH][VIDEO_FRAMES][WIDTH];
    void *at[HR_FIELDS];
    video_fill(&plain, sample, false, &whole);
    video_places(&b, at);
    at[0] = features;
    memset(features, 0xcd, sizeof features);
    hr_micro micro = hr__data_micro(f->o.data, sample, false);
    assert_int_equal(hr__data_fill(f->o.data, &micro, 0, VIDEO_BATCH, 0, at, &err), HR_OK);
    assert_memory_equal(b.tokens, whole.tokens, sizeof b.tokens);
    assert_memory_equal(b.triggers, whole.triggers, sizeof b.triggers);
    for (int r = 0; r < VIDEO_BATCH; r++)
      for (int t = 0; t < VIDEO_FRAMES; t++) {
        float row[WIDTH] = {0};
        if (t < whole.frame_lengths[r]) row_make((const uint8_t *)whole.frames[r][t], row);
        assert_memory_equal(features[r][t], row, sizeof row);
      }
  }
  video_close(&plain);
}

static void test_rows(void **state) {
  (void)state;
  videos_begin();
  cache_clear();
  featured f = opened(videos_path(), NULL);
  assert_int_equal(missing_of(&f, &maker), TWO_VIDEOS);
  made(&f, &maker);
  samples_check(&f, videos_path(), NULL);
  assert_int_equal(missing_of(&f, &another), TWO_VIDEOS); /* other weights: others */
  assert_int_equal(missing_of(&f, &(hr_features_maker){.hash = "0123456789abcdef0123456789abcdef", .width = 4}),
                   TWO_VIDEOS);
  video_close(&f.o);
  /* Another content of a video: its features are missing, and those of the other one are not. */
  videos_put_array("two.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (8, 4, 5, 3), }\n", 8 * 60, 90);
  f = opened(videos_path(), NULL);
  assert_int_equal(missing_of(&f, &maker), 6);
  made(&f, &maker);
  samples_check(&f, videos_path(), NULL);
  video_close(&f.o);
  videos_end();
}

/* Videos that are made have one file for all. */
static void test_made(void **state) {
  (void)state;
  static const char *const settings[] = {"data.video.made=9", "data.video.made_frames=7", NULL};
  cache_clear();
  featured f = opened(NULL, settings);
  assert_int_equal(missing_of(&f, &maker), 9 * 7);
  made(&f, &maker);
  samples_check(&f, NULL, settings);
  char path[4500];
  assert_int_equal(cache_files(path), 1);
  video_close(&f.o);
}

/* A file that is cut short, has a bit turned over, other bytes behind it, or another beginning is made again. */
static void test_broken(void **state) {
  (void)state;
  static const char *const settings[] = {"data.video.made=3", "data.video.made_frames=6", NULL};
  char path[4500];
  cache_clear();
  featured f = opened(NULL, settings);
  made(&f, &maker);
  assert_int_equal(cache_files(path), 1);
  struct stat facts;
  assert_int_equal(stat(path, &facts), 0);
  for (off_t at = 0; at < facts.st_size; at += 7) {
    unsigned char byte;
    int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    bool spare = at >= facts.st_size - 3 * 6 * WIDTH * 4 - 7 && at < facts.st_size - 3 * 6 * WIDTH * 4;
    byte ^= 4;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    if (!spare) assert_int_equal(missing_of(&f, &maker), 3 * 6);
    byte ^= 4;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
    assert_int_equal(missing_of(&f, &maker), 0);
  }
  static const off_t lengths[] = {0, 1, 20, 71, 72, 73, 100, -1};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    assert_int_equal(truncate(path, lengths[i] < 0 ? facts.st_size + 1 : lengths[i]), 0);
    assert_int_equal(missing_of(&f, &maker), 3 * 6);
    made(&f, &maker);
  }
  video_close(&f.o);
}

/* ---- faults ---- */

static hr_status body(void *arg, hr_error *err) {
  return make(arg, &maker, err);
}

static void after(void *arg, hr_status status) {
  featured *f = arg;
  char path[4500];
  if (status == HR_OK) assert_int_equal(missing_of(f, &maker), 0);
  while (cache_files(path) > 0)
    unlink(path);
}

/* Whatever call fails: the error is that of the system, and what is not whole is not there. */
static void test_faults(void **state) {
  (void)state;
  static const char *const settings[] = {"data.video.made=3", "data.video.made_frames=6", NULL};
  cache_clear();
  featured f = opened(NULL, settings);
  missing_of(&f, &maker);
  size_t injected = hr_test_each_file_fault(body, after, &f);
  assert_true(injected > 20);
  /* A disk that is full leaves nothing behind. */
  hr_error err = {0};
  char path[4500];
  hr_test_file_faults_arm(HR_TEST_ENOSPC, 3, false);
  hr_status status = make(&f, &maker, &err);
  assert_true(hr_test_file_faults_disarm());
  assert_int_equal(status, HR_NO_SPACE);
  assert_non_null(strstr(err.remedy, "make room"));
  assert_int_equal(cache_files(path), 0);
  made(&f, &maker);
  video_close(&f.o);
}

/* Processes that make the same at once: each comes to its end, and what is there is whole. */
static void test_at_once(void **state) {
  (void)state;
  enum { PROCESSES = 4, ROUNDS = 10 };
  videos_begin();
  cache_clear();
  for (int round = 0; round < ROUNDS; round++) {
    pid_t child[PROCESSES];
    featured f = opened(videos_path(), NULL);
    for (int p = 0; p < PROCESSES; p++) {
      child[p] = fork();
      if (child[p] == 0) _exit(make(&f, &maker, NULL) == HR_OK ? 0 : 1);
    }
    for (int p = 0; p < PROCESSES; p++) {
      int ended;
      assert_int_equal(waitpid(child[p], &ended, 0), child[p]);
      assert_int_equal(ended, 0);
    }
    assert_int_equal(missing_of(&f, &maker), 0);
    samples_check(&f, videos_path(), NULL);
    video_close(&f.o);
    cache_clear();
  }
  videos_end();
}

int main(void) {
  hr_test_faults_install();
  cache_begin("video-features");
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_made),
                                     cmocka_unit_test(test_broken), cmocka_unit_test(test_faults),
                                     cmocka_unit_test(test_at_once)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  cache_end();
  return failed;
}
