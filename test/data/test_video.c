/* Source video: fields of samples from arrays and from videos that are made, what is held out, the cache of frames, and
 * how triggers are judged. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/frames.h"
#include "data/video.h"
#include "part_video.h"

static void opened(video_data *o, const char *path, const char *const *settings, bool eval) {
  hr_error err = {0};
  if (video_open(o, path, settings, eval, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
}

/* The row of a batch whose caption begins so; -1: it has none. */
static int row_of(const video_batch *b, char first, int32_t frames) {
  for (int r = 0; r < VIDEO_BATCH; r++)
    if (b->targets[r][frames - 1] == first) return r;
  return -1;
}

static void row_check(const video_batch *b, int r, const char *caption, int64_t first_frame, int value) {
  int32_t n = b->frame_lengths[r];
  int64_t ids = (int64_t)strlen(caption) + 1;
  assert_int_equal(n, VIDEO_FRAMES);
  for (int t = 0; t < VIDEO_FRAMES; t++) {
    assert_true(b->timestamps[r][t] == (float)(first_frame + t) / 2);
    assert_int_equal(b->frame_mask[r][t], 1);
    assert_int_equal(b->pair_mask[r][t], t > 0);
    for (int i = 0; i < 60; i++)
      assert_int_equal(((const uint8_t *)b->frames[r][t])[i], (value + (first_frame + t) * 10 + i) % 256);
  }
  for (int t = 0; t < VIDEO_LENGTH; t++) {
    int64_t number = t - n + 1;
    bool target = number >= 0 && number < ids;
    assert_int_equal(b->targets[r][t], target ? caption[number] : -1);
    assert_int_equal(b->tokens[r][t], number > 0 && number < ids ? caption[number - 1] : 0);
    assert_int_equal(b->caption_mask[r][t], target);
    assert_int_equal(b->placement[r][t], t < n ? VIDEO_LENGTH + t : t);
  }
}

/* Each caption has a window of its video that holds its segment, with a trigger for every frame within it. */
static void test_arrays(void **state) {
  (void)state;
  static const struct {
    const char *caption;
    int value;
    double start, end;
  } expected[] = {{"it rises", 0, 0.9, 2.1}, {"ends", 0, 3.4, 3.6}, {"begins", 100, 0, 0}, {"between", 100, 1.1, 1.2}};
  video_data o;
  video_batch b;
  int seen = 0;
  videos_begin();
  opened(&o, videos_path(), NULL, false);
  assert_int_equal(hr__data_train_samples(o.data), 4);
  for (uint64_t sample = 0; sample < 4; sample += 2) {
    video_fill(&o, sample, false, &b);
    for (size_t k = 0; k < 4; k++)
      for (int r = 0; r < 2; r++) {
        if (b.targets[r][VIDEO_FRAMES - 1] != expected[k].caption[0] ||
            b.targets[r][VIDEO_FRAMES] != expected[k].caption[1] || b.frames[r][0][0][0][0] < expected[k].value ||
            b.targets[r][VIDEO_FRAMES + 2] != expected[k].caption[3])
          continue;
        int64_t first = (int64_t)(b.timestamps[r][0] * 2);
        seen++;
        row_check(&b, r, expected[k].caption, first, expected[k].value);
        int count = 0;
        for (int t = 0; t < VIDEO_FRAMES; t++) {
          double at = (double)b.timestamps[r][t];
          bool within = at >= expected[k].start && at <= expected[k].end;
          count += b.triggers[r][t];
          if (k != 3) assert_int_equal(b.triggers[r][t], within);
          if (k == 3) assert_int_equal(b.triggers[r][t], at == 1.0); /* none is within: the nearest */
        }
        assert_int_equal(count, k == 0 ? 3 : 1);
      }
  }
  assert_int_equal(seen, 4);
  assert_true(row_of(&b, 'z', VIDEO_FRAMES) < 0);
  video_close(&o);
  videos_end();
}

/* Frames are brought to size, up to max_frames, and read from the cache the next time. */
static void test_sizes(void **state) {
  (void)state;
  video_data o;
  video_batch b;
  char path[4500];
  static const char *const settings[] = {"data.workers=2", NULL};
  cache_clear();
  videos_begin();
  videos_put_array("two.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 8, 10, 3)}", 3 * 240, 0);
  opened(&o, videos_path(), settings, false);
  assert_int_equal(hr__data_remark(o.data, false) == NULL, 1);
  assert_int_equal(cache_files(path), 2);
  bool short_one = false;
  for (uint64_t sample = 0; sample < 4; sample++) {
    video_fill(&o, sample, false, &b);
    if (b.frame_lengths[0] == VIDEO_FRAMES) continue;
    short_one = true;
    assert_int_equal(b.frame_lengths[0], 3);
    for (int t = 3; t < VIDEO_FRAMES; t++) {
      assert_true(b.timestamps[0][t] == 0);
      assert_int_equal(b.frame_mask[0][t], 0);
      assert_int_equal(b.frames[0][t][3][4][2], 0);
    }
    assert_true(b.targets[0][2] >= 0 && b.targets[0][1] == -1);
  }
  assert_true(short_one);
  video_close(&o);
  videos_put_array("one.npy", "broken", 0, 0); /* another content: another entry, and a bad one */
  hr_error err = {0};
  assert_int_equal(video_open(&o, videos_path(), settings, false, &err), HR_BAD_INPUT);
  video_close(&o);
  videos_end();
}

static void test_resize(void **state) {
  (void)state;
  /* Half of the size: the mean of neighbours, halves rounded up. Twice: a quarter between them. */
  const uint8_t four[4 * 3] = {0, 0, 0, 10, 20, 30, 21, 20, 30, 40, 50, 60};
  uint8_t two[2 * 3], eight[4 * 3];
  hr__video_resize(four, (hr_picture_size){1, 4}, (hr_picture_size){1, 2}, two);
  assert_int_equal(two[0], 5);
  assert_int_equal(two[1], 10);
  assert_int_equal(two[3], 31); /* 30.5 */
  hr__video_resize(four, (hr_picture_size){1, 2}, (hr_picture_size){1, 4}, eight);
  assert_int_equal(eight[0], 0);
  assert_int_equal(eight[4], 5);
  assert_int_equal(eight[7], 15);
  assert_int_equal(eight[11], 30);
}

/* Room for a batch of any length of samples. */
typedef struct bucket_batch {
  hr_fields fields;
  char *bytes;
  void *at[HR_FIELDS];
} bucket_batch;

static bucket_batch bucket_make(int64_t length) {
  bucket_batch b = {.fields = video_fields()};
  int64_t frames = hr__video_room(VIDEO_FRAMES, length);
  size_t begin[HR_FIELDS];
  for (int i = 0; i < b.fields.count; i++) {
    int64_t *dim = b.fields.list[i].desc.dim;
    if (dim[1] == VIDEO_FRAMES) dim[1] = frames;
    if (dim[1] == VIDEO_LENGTH) dim[1] = length;
  }
  b.bytes = calloc(1, hr__fields_place(&b.fields, begin));
  for (int i = 0; i < b.fields.count; i++)
    b.at[i] = b.bytes + begin[i];
  return b;
}

/* The field of a sample, and how many elements of it are there. */
static const void *row_at(const bucket_batch *b, const char *name, int64_t row) {
  const hr_field *field = hr__field_named(&b->fields, name);
  return (const char *)b->at[field - b->fields.list] + (size_t)row * hr__field_sample_bytes(field);
}

/* A sample in its bucket has what it has in the longest one, as far as it goes, and frames behind it are none. */
static void same_sample(const bucket_batch *b, int64_t row, int64_t length, const bucket_batch *long_one, int64_t at) {
  int32_t n = *(const int32_t *)row_at(b, "frame_lengths", row);
  int64_t room = hr__video_room(VIDEO_FRAMES, length);
  assert_in_range(n, 1, room);
  assert_int_equal(n, *(const int32_t *)row_at(long_one, "frame_lengths", at));
  static const struct {
    const char *name;
    size_t bytes; /* of a frame */
  } of_frames[] = {{"frames", 60}, {"timestamps", 4}, {"triggers", 4}, {"frame_mask", 1}, {"pair_mask", 1}};
  for (size_t i = 0; i < sizeof of_frames / sizeof *of_frames; i++)
    assert_memory_equal(row_at(b, of_frames[i].name, row), row_at(long_one, of_frames[i].name, at),
                        (size_t)room * of_frames[i].bytes);
  assert_memory_equal(row_at(b, "tokens", row), row_at(long_one, "tokens", at), (size_t)length * 4);
  assert_memory_equal(row_at(b, "targets", row), row_at(long_one, "targets", at), (size_t)length * 4);
  assert_memory_equal(row_at(b, "caption_mask", row), row_at(long_one, "caption_mask", at), (size_t)length);
  const int32_t *placement = row_at(b, "placement", row), *targets = row_at(long_one, "targets", at);
  for (int64_t t = 0; t < length; t++)
    assert_int_equal(placement[t], t < n ? length + t : t);
  for (int64_t t = length; t < VIDEO_LENGTH; t++)
    assert_int_equal(targets[t], -1);
}

/* Samples of each length go into the shortest bucket that holds them, with room for no more frames than it has
 * positions. */
static void test_buckets(void **state) {
  (void)state;
  enum { SHORT = 5, MIDDLE = 14 };
  static const int64_t buckets[] = {SHORT, MIDDLE, VIDEO_LENGTH};
  static const char captions[] =
      "[{\"video\": \"one\", \"start_time\": 0, \"end_time\": 1, \"caption\": \"it rises slowly\"},\n"
      " {\"video\": \"one\", \"start_time\": 0, \"end_time\": 1, \"caption\": \"falls\"},\n"
      " {\"video\": \"two\", \"start_time\": 0, \"end_time\": 1, \"caption\": \"a\"},\n"
      " {\"video\": \"two\", \"start_time\": 0, \"end_time\": 1, \"caption\": \"bb\"},\n"
      " {\"video\": \"two\", \"start_time\": 0, \"end_time\": 1, \"caption\": \"longer\"}]\n";
  hr_error err = {0};
  video_data plain, o;
  bucket_batch of[3], whole = bucket_make(VIDEO_LENGTH);
  hr_fields fields[3];
  cache_clear();
  videos_begin();
  videos_put("captions.json", captions, strlen(captions));
  videos_put_array("two.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 4, 5, 3)}", 3 * 60, 7);
  opened(&plain, videos_path(), NULL, false);
  assert_int_equal(video_open(&o, videos_path(), (const char *const[]){"data.buckets=[5, 14, 40]", NULL}, false, &err),
                   HR_OK);
  hr__data_close(o.data);
  for (int k = 0; k < 3; k++) {
    of[k] = bucket_make(buckets[k]);
    fields[k] = of[k].fields;
  }
  hr_data_shape shape = {
      .seed = 3, .batch = VIDEO_BATCH, .buckets = buckets, .fields = fields, .n_buckets = 3, .fillers = 1};
  assert_int_equal(hr__data_open(o.recipe, &shape, &o.data, &err), HR_OK);
  assert_int_equal(hr__data_train_samples(o.data), 5);
  int64_t rows[3] = {0};
  for (uint64_t sample = 0; sample < hr__data_epoch_rows(o.data); sample += VIDEO_BATCH) {
    hr_micro micro = hr__data_micro(o.data, sample, false);
    bucket_batch *b = &of[micro.bucket];
    rows[micro.bucket] += micro.rows;
    assert_int_equal(hr__data_fill(o.data, &micro, 0, VIDEO_BATCH, 0, b->at, &err), HR_OK);
    for (int64_t row = 0; row < micro.rows; row++) {
      bool found = false;
      for (uint64_t k = 0; k < 5 && !found; k++) { /* the same sample, by its caption */
        hr_micro one = hr__data_micro(plain.data, k, false);
        assert_int_equal(hr__data_fill(plain.data, &one, 0, 1, 0, whole.at, &err), HR_OK);
        found = memcmp(row_at(b, "targets", row), row_at(&whole, "targets", 0), (size_t)micro.length * 4) == 0;
      }
      assert_true(found);
      same_sample(b, row, micro.length, &whole, 0);
    }
    for (int64_t row = micro.rows; row < VIDEO_BATCH; row++)
      assert_int_equal(*(const int32_t *)row_at(b, "frame_lengths", row), 0);
  }
  assert_int_equal(rows[0], 2); /* 3 + 2 - 1 and 3 + 3 - 1 positions */
  assert_int_equal(rows[1], 2); /* 6 + 6 - 1 and 3 + 7 - 1 */
  assert_int_equal(rows[2], 1); /* 6 + 16 - 1 */
  for (int k = 0; k < 3; k++)
    free(of[k].bytes);
  free(whole.bytes);
  video_close(&plain);
  video_close(&o);
  videos_end();
}

/* All captions of a video are on one side. */
static void test_held(void **state) {
  (void)state;
  video_data o;
  video_batch b;
  static const char *const settings[] = {"data.eval_fraction=0.5", NULL};
  videos_begin();
  opened(&o, videos_path(), settings, true);
  assert_int_equal(hr__data_train_samples(o.data), 2);
  assert_int_equal(hr__data_eval_samples(o.data), 2);
  video_fill(&o, 0, true, &b);
  bool second = b.frames[0][0][0][0][0] >= 100;
  assert_int_equal(b.frames[1][0][0][0][0] >= 100, second);
  /* A model that triggers where it should, one that never does, and one that always does. */
  int64_t of_a_row;
  hr_judged judged;
  hr_error err = {0};
  float points[2 * VIDEO_FRAMES];
  assert_int_equal(hr__data_items(o.data, &of_a_row), 2);
  for (int i = 0; i < 2 * VIDEO_FRAMES; i++)
    points[i] = b.triggers[i / VIDEO_FRAMES][i % VIDEO_FRAMES] ? 1.0f : -1.0f;
  assert_int_equal(hr__data_judge(o.data, points, VIDEO_FRAMES, &judged, &err), HR_OK);
  assert_string_equal(judged.metric[0].name, "trigger_f1");
  assert_true(judged.metric[0].value == 1 && judged.metric[1].value == 0);
  memset(points, 0, sizeof points);
  assert_int_equal(hr__data_judge(o.data, points, VIDEO_FRAMES, &judged, &err), HR_OK);
  assert_true(judged.metric[0].value == 0 && judged.metric[1].value == 2.5);
  for (int i = 0; i < 2 * VIDEO_FRAMES; i++)
    points[i] = 1;
  assert_int_equal(hr__data_judge(o.data, points, VIDEO_FRAMES, &judged, &err), HR_OK);
  double meant = 0;
  for (int i = 0; i < 2 * VIDEO_FRAMES; i++)
    meant += b.triggers[i / VIDEO_FRAMES][i % VIDEO_FRAMES];
  assert_true(judged.metric[0].value == 2 * meant / (2 * VIDEO_FRAMES + meant));
  /* What losses are divided by is counted without a look at the pixels. */
  hr_micro micro = hr__data_micro(o.data, 0, true);
  int64_t count;
  assert_int_equal(hr__data_count(o.data, &micro, 5, &count, &err), HR_OK);
  assert_int_equal(count, 2 * (VIDEO_FRAMES - 1));
  video_close(&o);
  videos_end();
}

/* Videos that are made are the same whenever they are asked for, have what their captions say, and differ by seed. */
static void test_made(void **state) {
  (void)state;
  video_data o, again;
  video_batch b, c;
  static const char *const settings[] = {"data.video.made=40", "data.eval_fraction=0.25", NULL};
  opened(&o, NULL, settings, true);
  opened(&again, NULL, settings, true);
  assert_int_equal(hr__data_train_samples(o.data), 30);
  assert_int_equal(hr__data_eval_samples(o.data), 10);
  for (uint64_t sample = 0; sample < 30; sample += 2) {
    video_fill(&o, sample, false, &b);
    video_fill(&again, sample, false, &c);
    assert_memory_equal(&b, &c, sizeof b);
    for (int r = 0; r < 2; r++) {
      int there = 0;
      for (int t = 0; t < VIDEO_FRAMES; t++)
        there += b.triggers[r][t];
      assert_in_range(there, 3, VIDEO_FRAMES - 1);
      assert_int_equal(b.targets[r][VIDEO_FRAMES - 1], 'a');
    }
  }
  video_close(&again);
  video_close(&o);
}

/* A video without captions: all of its frames, in windows one behind the other. */
static void test_alone(void **state) {
  (void)state;
  video_data o;
  video_batch b;
  void *at[HR_FIELDS];
  hr_asked asked;
  hr_error err = {0};
  char path[4200];
  static const char *const settings[] = {"data.video.uncaptioned=true", NULL};
  videos_begin();
  snprintf(path, sizeof path, "%s/one.npy", videos_path());
  assert_int_equal(video_open(&o, path, NULL, false, &err), HR_BAD_INPUT);
  video_close(&o);
  opened(&o, path, settings, false);
  assert_int_equal(hr__data_train_samples(o.data), 2);
  video_places(&b, at);
  assert_int_equal(hr__data_ask(o.data, false, 1, at, &asked, &err), HR_OK);
  assert_int_equal(asked.positions, 2);
  assert_true(asked.first_seconds == 3 && !asked.expected);
  assert_int_equal(b.frames[0][1][0][0][0], 70);
  video_close(&o);
  videos_end();
}

/* Libraries of another major version are refused, with both named. */
static void test_versions(void **state) {
  (void)state;
  hr_error err = {0};
  assert_int_equal(hr__video_library_check("libavcodec", 59, 59, &err), HR_OK);
  assert_int_equal(hr__video_library_check("libavcodec", 59, 61, &err), HR_UNSUPPORTED);
  assert_non_null(strstr(err.message, "libavcodec 61 is here, but headroom was built with version 59"));
  assert_int_equal(hr__video_library_check("libavcodec", 59, 0, &err), HR_UNSUPPORTED);
  assert_non_null(strstr(err.remedy, "install"));
}

/* Each thread that decodes holds memory of its own; from the cache nothing is decoded. */
static void test_decoding(void **state) {
  (void)state;
  enum { FILMS = 3 };
  static const struct { int threads, decode; } cases[] = {{1, 1}, {2, 2}, {8, FILMS}};
  hr_error err = {0};
  char path[FILMS][4300], name[16], image[] = "P6 2 2 255\n............";
  if (hr__video_libraries(&err) != HR_OK) skip();
  videos_begin();
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    cache_clear();
    for (int again = 0; again < 2; again++) {
      hr_frames_task tasks[FILMS] = {0};
      uint64_t decoding;
      for (int i = 0; i < FILMS; i++) {
        snprintf(name, sizeof name, "%d.ppm", i);
        image[strlen(image) - 1] = (char)('a' + i);
        videos_put(name, image, strlen(image));
        snprintf(path[i], sizeof path[i], "%s/%s", videos_path(), name);
        tasks[i] = (hr_frames_task){.name = name, .line = "row", .path = path[i], .wanted = {{2, 2, 2, 1}, 3}};
      }
      assert_int_equal(hr__frames_all(tasks, FILMS, cases[k].threads, true, &decoding, &err), HR_OK);
      for (int i = 0; i < FILMS; i++)
        assert_int_equal(tasks[i].frames.frames, 1);
      assert_int_equal(decoding, again ? 0 : (uint64_t)cases[k].decode * HR_VIDEO_DECODING);
      hr__frames_tasks_free(tasks, FILMS);
    }
  }
  videos_end();
}

/* A film of large frames takes more: as many of them as decoders keep. */
static void test_large(void **state) {
  (void)state;
  enum { SIDE = 2000, HEAD = 17 };
  hr_error err = {0};
  char path[4300];
  uint64_t decoding;
  if (hr__video_libraries(&err) != HR_OK) skip();
  videos_begin();
  cache_clear();
  char *film = calloc(HEAD + 3 * SIDE, SIDE);
  assert_non_null(film);
  size_t head = (size_t)sprintf(film, "P6 %d %d 255\n", SIDE, SIDE);
  videos_put("large.ppm", film, head + (size_t)3 * SIDE * SIDE);
  free(film);
  snprintf(path, sizeof path, "%s/large.ppm", videos_path());
  hr_frames_task task = {.name = "large", .line = "row", .path = path, .wanted = {{2, 2, 2, 1}, 3}};
  assert_int_equal(hr__frames_all(&task, 1, 4, true, &decoding, &err), HR_OK);
  assert_true(decoding > (uint64_t)16 * 3 * SIDE * SIDE && decoding < (uint64_t)24 * 3 * SIDE * SIDE);
  hr__frames_tasks_free(&task, 1);
  videos_end();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_arrays),   cmocka_unit_test(test_sizes),   cmocka_unit_test(test_resize),
      cmocka_unit_test(test_held),     cmocka_unit_test(test_made),    cmocka_unit_test(test_alone),
      cmocka_unit_test(test_versions), cmocka_unit_test(test_buckets), cmocka_unit_test(test_decoding),
      cmocka_unit_test(test_large),
  };
  cache_begin("video");
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  cache_end();
  return failed;
}
