/* Captions and videos that are no good: each is refused with its place and what to do, and left out where some may be.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "data/video.h"
#include "part_video.h"
#include "support/faults.h"

#define CAPTION(video, start, end, text)                                                                               \
  "{\"video\": " video ", \"start_time\": " start ", \"end_time\": " end ", \"caption\": " text "}"
#define GOOD   CAPTION("\"two\"", "0", "1", "\"fine\"")
#define ONE(c) "[" GOOD ",\n" c "]"

static const struct {
  const char *captions;
  const char *place, *message; /* what the place ends with; a part of the message */
} captions[] = {
    {"", "captions.json", ""},
    {"[]", "captions.json", "there is no caption in it"},
    {"{}", "captions.json:1", "video is missing"},
    {"[" GOOD, "", ""},
    {ONE("3"), "", ""},
    {ONE("[1, 2]"), "", ""},
    {ONE("{\"start_time\": 0, \"end_time\": 1, \"caption\": \"c\"}"), "captions.json:2", "video is missing"},
    {ONE("{\"video\": \"one\", \"end_time\": 1, \"caption\": \"c\"}"), "captions.json:2", "start_time is missing"},
    {ONE("{\"video\": \"one\", \"start_time\": 1, \"caption\": \"c\"}"), "captions.json:2", "end_time is missing"},
    {ONE("{\"video\": \"one\", \"start_time\": 0, \"end_time\": 1}"), "captions.json:2", "caption is missing"},
    {ONE(CAPTION("[\"one\"]", "0", "1", "\"c\"")), "captions.json:2", "video is not a text"},
    {ONE(CAPTION("\"\"", "0", "1", "\"c\"")), "captions.json:2", "video is empty"},
    {ONE(CAPTION("null", "0", "1", "\"c\"")), "captions.json:2", "video is missing"},
    {ONE(CAPTION("\"one\"", "0", "1", "\"\"")), "captions.json:2", "caption is empty"},
    {ONE(CAPTION("\"one\"", "0", "1", "{\"en\": \"c\"}")), "captions.json:2", "caption is not a text"},
    {ONE(CAPTION("\"one\"", "-0.5", "1", "\"c\"")), "captions.json:2", "start_time is no time within a video"},
    {ONE(CAPTION("\"one\"", "0", "-1", "\"c\"")), "captions.json:2", "end_time is no time within a video"},
    {ONE(CAPTION("\"one\"", "2", "1", "\"c\"")), "captions.json:2",
     "the segment ends at 1 s, before it begins, at 2 s"},
    {ONE(CAPTION("\"one\"", "NaN", "1", "\"c\"")), "captions.json:2", ""},
    {ONE(CAPTION("\"one\"", "\"nan\"", "1", "\"c\"")), "captions.json:2", "start_time is no number"},
    {ONE(CAPTION("\"one\"", "0", "1e400", "\"c\"")), "captions.json:2", ""},
    {ONE(CAPTION("\"one\"", "0", "Infinity", "\"c\"")), "captions.json:2", ""},
    {ONE(CAPTION("\"one\"", "0", "\"late\"", "\"c\"")), "captions.json:2", "end_time is no number"},
    {ONE(CAPTION("\"one\"", "0", "[1]", "\"c\"")), "captions.json:2", "end_time is no number"},
    {ONE(CAPTION("\"one\"", "5000", "5001", "\"c\"")), "captions.json:2",
     "but the last frame of one is shown at 3.5 s"},
    {ONE(CAPTION("\"three\"", "0", "1", "\"c\"")), "captions.json:2", "there is no video three"},
    {ONE(CAPTION("\"one\"", "0", "1", "\"far more text than a sample of forty positions has room for\"")),
     "captions.json:2", "more than the 40 of a sample"},
    {ONE(CAPTION("\"one\"", "0", "1", "\"c\\ud800\"")), "captions.json:2", ""},
    {ONE("{\"video\": \"one\", \"video\": \"two\", \"start_time\": 0, \"end_time\": 1, \"caption\": \"c\"}"), "", ""},
};

static const struct {
  const char *dict;
  size_t bytes;
  const char *message;
} arrays[] = {
    {"{'descr': '|u1', 'fortran_order': False, 'shape': (8, 4, 5, 3)}", 100, "bytes"},
    {"{'descr': '|u1', 'fortran_order': False, 'shape': (0, 4, 5, 3)}", 0, "there is no frame in it"},
    {"{'descr': '|u1', 'fortran_order': False, 'shape': (8, 0, 5, 3)}", 0, "a frame has 1 to"},
    {"{'descr': '|u1', 'fortran_order': False, 'shape': (8, 4, 5)}", 160, "the array has 3 axes"},
    {"{'descr': '|u1', 'fortran_order': False, 'shape': (8, 4, 5, 4)}", 640, "the last of 4"},
    {"{'descr': '|u1', 'fortran_order': False, 'shape': ()}", 1, "the array has 0 axes"},
    {"{'descr': '|i1', 'fortran_order': False, 'shape': (8, 4, 5, 3)}", 480, "bytes from 0 to 255"},
    {"{'descr': '<i4', 'fortran_order': False, 'shape': (1, 4, 5, 3)}", 240, "bytes from 0 to 255"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4, 5, 3)}", 240, "elements of type"},
    {"{'descr': '|u1', 'fortran_order': True, 'shape': (8, 4, 5, 3)}", 480, "Fortran"},
    {"{'descr': '|u1', 'shape': (8, 4, 5, 3)}", 480, "lacks"},
    {"{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999999, 4, 5, 3)}", 480, ""},
    {"not a dict", 480, "dict"},
};

static int refused(int number, const char *place, const char *message) {
  video_data o;
  hr_error err = {0};
  hr_status status = video_open(&o, videos_path(), NULL, false, &err);
  size_t had = strlen(err.place), end = strlen(place);
  bool there = had >= end && strstr(err.place, place) != NULL;
  bool good = status == HR_BAD_INPUT && there && strstr(err.message, message) && err.message[0];
  if (!good)
    print_message("case %d (%s): %d %s: %s (%s)\n", number, message, status, err.place, err.message, err.remedy);
  video_close(&o);
  return !good;
}

static void test_captions(void **state) {
  (void)state;
  int wrong = 0;
  for (int i = 0; i < (int)(sizeof captions / sizeof *captions); i++) {
    videos_begin();
    videos_put("captions.json", captions[i].captions, strlen(captions[i].captions));
    wrong += refused(i, captions[i].place, captions[i].message);
    videos_end();
  }
  assert_int_equal(wrong, 0);
}

static void test_arrays(void **state) {
  (void)state;
  int wrong = 0;
  for (int i = 0; i < (int)(sizeof arrays / sizeof *arrays); i++) {
    videos_begin();
    videos_put_array("one.npy", arrays[i].dict, arrays[i].bytes, 0);
    wrong += refused(i, "one.npy", arrays[i].message);
    videos_end();
  }
  assert_int_equal(wrong, 0);
}

/* Files that are no videos: empty, text, the beginning of a video, an empty folder, a folder of text. */
static void test_files(void **state) {
  (void)state;
  static const struct {
    const char *name, *bytes;
    size_t count;
  } files[] = {
      {"one.mp4", "", 0},
      {"one.mp4", "not a video at all, only some text that is long enough to be probed\n", 68},
      {"one.mp4",
       "\0\0\0\x20"
       "ftypisom\0\0\2\0isomiso2avc1mp41\0\0\0\x08"
       "free",
       40},
      {"one.avi", "RIFF\xff\xff\0\0AVI LIST", 16},
      {"one.mkv", "\x1a\x45\xdf\xa3\x9f\x42\x86\x81\1", 9},
      {"one.webm", "\x1a\x45\xdf\xa3", 4},
  };
  hr_error err = {0};
  if (hr__video_libraries(&err) != HR_OK) {
    print_message("skipped: %s\n", err.message);
    skip();
  }
  int wrong = 0;
  for (int i = 0; i < (int)(sizeof files / sizeof *files); i++) {
    char text[512];
    videos_begin();
    videos_put(files[i].name, files[i].bytes, files[i].count);
    snprintf(text, sizeof text, ONE(CAPTION("\"%s\"", "0", "1", "\"c\"")), files[i].name);
    videos_put("captions.json", text, strlen(text));
    wrong += refused(i, files[i].name, "");
    videos_end();
  }
  for (int i = 0; i < 2; i++) {
    char path[4200];
    static const char text[] = ONE(CAPTION("\"images\"", "0", "1", "\"c\""));
    videos_begin();
    videos_put("captions.json", text, strlen(text));
    snprintf(path, sizeof path, "%s/images", videos_path());
    mkdir(path, 0700);
    if (i == 1) videos_put("images/0001.png", "no image", 8);
    wrong += refused(i, "images", i == 0 ? "there is no frame in it" : "");
    if (i == 1) videos_remove("images/0001.png");
    videos_end();
  }
  assert_int_equal(wrong, 0);
}

/* Left out below a share, with what is said about them; refused above it. */
static void test_left_out(void **state) {
  (void)state;
  static const char text[] =
      "[" GOOD ",\n" CAPTION("\"one\"", "0", "1", "\"c\"") ",\n" CAPTION("\"two\"", "3", "2", "\"d\"") "]";
  static const char *const some[] = {"data.bad_rows=0.5", NULL}, *const fewer[] = {"data.bad_rows=0.4", NULL},
                           *const all[] = {"data.bad_rows=1", NULL};
  video_data o;
  hr_error err = {0};
  videos_begin();
  videos_put("captions.json", text, strlen(text));
  videos_put_array("one.npy", "no", 0, 0);
  if (video_open(&o, videos_path(), some, false, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  assert_int_equal(hr__data_train_samples(o.data), 1);
  const char *remark = hr__data_remark(o.data, false);
  assert_non_null(strstr(remark, "1 of 2 videos are bad and left out, and their captions (1): "));
  assert_non_null(strstr(remark, "one.npy"));
  assert_non_null(strstr(remark, "1 of 3 captions are bad and left out: "));
  video_close(&o);
  assert_int_equal(video_open(&o, videos_path(), fewer, false, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "1 of 2 rows are bad, more than data.bad_rows allows"));
  video_close(&o);
  videos_put_array("two.npy", "no", 0, 0);
  assert_int_equal(video_open(&o, videos_path(), all, false, &err), HR_BAD_INPUT);
  assert_string_equal(err.message, "no caption is left");
  video_close(&o);
  videos_end();
}

static void test_settings(void **state) {
  (void)state;
  static const struct {
    const char *set[3], *message;
  } wrong[] = {
      {{"data.path=null"}, "source video needs data.path or data.video.made"},
      {{"data.path=r.yaml"}, "is not a folder"},
      {{"data.path=[a, b]"}, "source video reads one folder"},
      {{"data.video.captions=other.json"}, "has no other.json"},
      {{"data.end_id=300"}, "the captions have token 300, but the model's vocabulary has only 256"},
      {{"data.end_id=null"}, "which token ends a caption is not known"},
      {{"data.max_frames=null"}, "has no room for frames"},
      {{"data.max_frames=7"}, "which this model does not take"},
      {{"data.video.height=9"}, "which this model does not take"},
      {{"data.video.fps=0"}, "data.video.fps"},
  };
  videos_begin();
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    video_data o;
    hr_error err = {0};
    hr_status status = video_open(&o, videos_path(), wrong[i].set, false, &err);
    if (status != HR_BAD_INPUT || !strstr(err.message, wrong[i].message) || !err.remedy[0])
      fail_msg("%s: %s: %s (%s)", wrong[i].set[0], err.place, err.message, err.remedy);
    video_close(&o);
  }
  videos_end();
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_captions), cmocka_unit_test(test_arrays),   cmocka_unit_test(test_files),
      cmocka_unit_test(test_left_out), cmocka_unit_test(test_settings),
  };
  cache_begin("video-bad");
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  cache_end();
  return failed;
}
