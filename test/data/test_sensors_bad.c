/* Folders of sensors that are no good: each is refused with file, line and what to do, and left out where some may be.
 */
#include <stdio.h>
#include <string.h>

#include "part_sensors.h"
#include "support/faults.h"

#define HEADER                                                                                                         \
  "subject,split,activity_index,activity_name,arm_csv,arm_rate_hz,arm_channels,ear_csv,ear_rate_hz,ear_channels\n"
#define FIRST                "S0,a,0,stir,arm.csv,10,2,ear.csv,20,1\n"
#define OTHERS               "S1,a,0,stir,arm.csv,10,2,ear.csv,20,1\nS1,a,1,wave,arm.csv,10,2,ear.csv,20,1\n"
#define REST                 "S0,a,1,chop,arm.csv,10,2,ear.csv,20,1\n" OTHERS
#define QUESTION(type, rest) "{\"question_type\": \"" type "\", \"subject\": \"S0\", \"split\": \"a\", " rest "}\n"
#define ASKED(rest)          QUESTION("multi_activity_existence", rest)
#define RIGHT                "\"question\": \"q?\", \"answer\": \"a\""

typedef struct broken {
  const char *file, *text;
  const char *place;   /* what the place ends with */
  const char *message; /* a part of it */
} broken;

static const char manifest[] = "manifest.csv", questions[] = "qa_pairs_templated.jsonl";

static const broken cases[] = {
    /* the manifest */
    {manifest, NULL, "manifest.csv", "cannot open"},
    {manifest, "", "manifest.csv", "the file has no header"},
    {manifest, HEADER, "manifest.csv", "there is no recording in it"},
    {manifest, "subject,split,activity_index,arm_csv,arm_rate_hz,arm_channels\nS0,a,0,arm.csv,10,2\n", "manifest.csv",
     "column activity_name is missing"},
    {manifest, "subject,split,activity_index,activity_name\nS0,a,0,stir\n", "manifest.csv", "there is no stream"},
    {manifest, "subject,split,activity_index,activity_name,arm_csv,arm_rate_hz\nS0,a,0,stir,arm.csv,10\n",
     "manifest.csv", "column arm_channels is missing"},
    {manifest, HEADER FIRST "S0,a,1,chop,arm.csv,10,2\n", "manifest.csv:3", "7 fields where the header names 10"},
    {manifest, HEADER "S0,a,0,stir,arm.csv,0,2,ear.csv,20,1\n", "manifest.csv:2",
     "arm_rate_hz is not a number above 0"},
    {manifest, HEADER "S0,a,0,stir,arm.csv,fast,2,ear.csv,20,1\n", "manifest.csv:2",
     "arm_rate_hz is not a number above 0"},
    {manifest, HEADER "S0,a,0,stir,arm.csv,1,2,ear.csv,20,1\n", "manifest.csv:2", "a patch has less than one sample"},
    {manifest, HEADER "S0,a,0,stir,arm.csv,10,0,ear.csv,20,1\n", "manifest.csv:2",
     "arm_channels is not a whole number above 0"},
    {manifest, HEADER FIRST "S0,a,1,chop,arm.csv,10,3,ear.csv,20,1\n", "manifest.csv:3",
     "arm_channels is 3, but 2 in recordings before"},
    {manifest, HEADER "S0,a,zero,stir,arm.csv,10,2,ear.csv,20,1\n", "manifest.csv:2",
     "activity_index is not a whole number"},
    {manifest, HEADER ",a,0,stir,arm.csv,10,2,ear.csv,20,1\n", "manifest.csv:2", "subject is empty"},
    {manifest, HEADER "S0,a,0,stir,,10,2,ear.csv,20,1\n", "manifest.csv:2", "arm_csv is empty"},
    {manifest, HEADER FIRST FIRST, "manifest.csv:3", "activity 0 of subject S0, split a is in line 2 already"},
    {manifest, HEADER "S0,a,0,stir,nowhere.csv,10,2,ear.csv,20,1\n" REST, "manifest.csv:2", "arm_csv: "},
    {manifest, HEADER "S0,a,0,stir,.,10,2,ear.csv,20,1\n" REST, "manifest.csv:2", "this is a folder"},
    {manifest,
     HEADER "S0,a,0,st\xff"
            "ir,arm.csv,10,2,ear.csv,20,1\n",
     "manifest.csv:2", "not UTF-8"},
    {manifest, HEADER "S0,a,0,\"stir,arm.csv,10,2,ear.csv,20,1\n", "manifest.csv:2", "quote"},
    {manifest, "subject,subject\nS0,S0\n", "manifest.csv:1", "two columns have the same name"},
    /* streams */
    {"arm.csv", NULL, "manifest.csv:2", "cannot open"},
    {"arm.csv", "", "arm.csv", "the file has no header"},
    {"arm.csv", "time_s,x,y\n", "arm.csv", "the stream is empty"},
    {"arm.csv", "t,x,y\n0,1,2\n", "arm.csv:2", "time_s is missing"},
    {"arm.csv", "time_s,x\n0,1\n", "arm.csv:2", "the stream has 1 columns beside time_s, but 2 in the manifest"},
    {"arm.csv", "time_s,x,y\n0,1,2\n0.1,nan,2\n", "arm.csv:3", "x is not a finite number"},
    {"arm.csv", "time_s,x,y\n0,1,2\n0.1,1,\n", "arm.csv:3", "y is not a finite number"},
    {"arm.csv", "time_s,x,y\n0,1,2\n0.1,inf,2\n", "arm.csv:3", "x is not a finite number"},
    {"arm.csv", "time_s,x,y\n0,1,2\n0.1,1e300,2\n", "arm.csv:3", "x is beyond 1e18"},
    {"arm.csv", "time_s,x,y\n0,1,2\n0.1,1\n", "arm.csv:3", "2 fields where the header names 3"},
    {"arm.csv", "time_s,x,y\n0,1,2\n0.1,one,2\n", "arm.csv:3", "x is not a finite number"},
    {"arm.csv", "time_s,x,y\n0.1,1,2\n0.1,1,2\n", "arm.csv:3", "time_s does not rise"},
    {"arm.csv", "time_s,x,y\n0,1,2\n0.05,1,2\n0.1,1,2\n", "arm.csv",
     "its times go with 20 rows a second, but the manifest says 10 Hz"},
    {"arm.csv", "time_s,x,y\n0,1,\xc3\n", "arm.csv:2", "not UTF-8"},
    /* questions */
    {questions, NULL, "qa_pairs_templated.jsonl", "cannot open"},
    {questions, "", "qa_pairs_templated.jsonl", "there is no question in it"},
    {questions, QUESTION("riddle", "\"activity_indices\": [0], " RIGHT), "jsonl:1", "there is no question type riddle"},
    {questions, "{\"subject\": \"S0\"}\n", "jsonl:1", "question_type is missing"},
    {questions, ASKED(RIGHT), "jsonl:1", "activity_indices is missing"},
    {questions, ASKED("\"activity_indices\": [], " RIGHT), "jsonl:1", "activity_indices is empty"},
    {questions, ASKED("\"activity_indices\": [\"x\"], " RIGHT), "jsonl:1", "not a list of whole numbers"},
    {questions, ASKED("\"activity_indices\": [0, 7], " RIGHT), "jsonl:1",
     "there is no activity 7 of subject S0, split a in the manifest"},
    {questions, ASKED("\"activity_indices\": [1], \"activity_names\": [\"stir\"], " RIGHT), "jsonl:1",
     "activity 1 is called stir here and chop in the manifest"},
    {questions, ASKED("\"activity_indices\": [0], \"answer\": \"a\""), "jsonl:1", "question is missing"},
    {questions, ASKED("\"activity_indices\": [0], \"question\": \"\", \"answer\": \"a\""), "jsonl:1",
     "question is empty"},
    {questions, ASKED("\"activity_indices\": [0], \"question\": \"q\""), "jsonl:1", "answer is missing"},
    {questions, ASKED("\"activity_indices\": [0], \"question\": \"q\", \"answer\": {}"), "jsonl:1",
     "answer is not a text"},
    {questions, ASKED("\"activity_indices\": [0], \"question\": \"q\", \"answer\": \"\xff\""), "jsonl:1",
     "unable to decode byte 0xff"},
    {questions, "{\"question_type\": \n", "jsonl:1", ""},
    {questions,
     ASKED("\"activity_indices\": [0], \"question\": \"a question of more than a hundred and ten characters, which "
           "is too long for a sample with as many positions as there are\", \"answer\": \"a\""),
     "jsonl:1", "more than the 200 of a sample"},
};
enum { CASES = sizeof cases / sizeof *cases };

static bool ends_with(const char *text, const char *ending) {
  size_t bytes = strlen(text), length = strlen(ending);
  return bytes >= length && strcmp(text + bytes - length, ending) == 0;
}

/* Places of rows that are no JSON have a column as well. */
static bool place_is(const char *place, const char *ending) {
  char cut[256];
  snprintf(cut, sizeof cut, "%s", place);
  char *colon = strrchr(cut, ':');
  if (ends_with(place, ending)) return true;
  if (colon) *colon = 0;
  return ends_with(cut, ending);
}

static void test_refused(void **state) {
  (void)state;
  int wrong = 0;
  for (int i = 0; i < CASES; i++) {
    const broken *c = &cases[i];
    sensors_data o;
    hr_error err = {0};
    folder_begin();
    if (c->text)
      folder_put(c->file, c->text);
    else
      folder_remove(c->file);
    hr_status status = sensors_open(&o, folder_path(), NULL, false, &err);
    if (status != HR_BAD_INPUT || !place_is(err.place, c->place) || !strstr(err.message, c->message) ||
        !err.remedy[0]) {
      print_message("case %d (%s): %s: %s (%s)\n", i, c->message, err.place, err.message, err.remedy);
      wrong++;
    }
    sensors_close(&o);
    folder_end();
  }
  assert_int_equal(wrong, 0);
}

/* Left out below a share, with what is asked about them; refused above it. */
static void test_left_out(void **state) {
  (void)state;
  sensors_data o;
  hr_error err = {0};
  char text[4096];
  folder_begin();
  folder_put("bad.csv", "time_s,x,y\n0,1,2\n0.1,nan,2\n");
  folder_put(manifest, HEADER FIRST "S0,a,1,chop,bad.csv,10,2,ear.csv,20,1\n" OTHERS);
  snprintf(text, sizeof text, "%s{\"question_type\": \"riddle\"}\n", folder_questions);
  folder_put(questions, text);
  static const char *const some[] = {"data.bad_rows=0.25", NULL}, *const fewer[] = {"data.bad_rows=0.22", NULL};
  if (sensors_open(&o, folder_path(), some, false, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  assert_int_equal(hr__data_train_samples(o.data), 3);
  const char *remark = hr__data_remark(o.data, false);
  assert_non_null(strstr(remark, "1 of 4 recordings are bad and left out, and questions about them (1): "));
  assert_non_null(strstr(remark, "bad.csv:3: x is not a finite number"));
  assert_non_null(strstr(remark, "1 of 5 questions are bad and left out: "));
  assert_non_null(strstr(remark, "jsonl:5: there is no question type riddle"));
  sensors_close(&o);
  assert_int_equal(sensors_open(&o, folder_path(), fewer, false, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "1 of 4 rows are bad, more than data.bad_rows allows: "));
  sensors_close(&o);
  folder_put("arm.csv", "time_s,x,y\n");
  static const char *const all[] = {"data.bad_rows=1", NULL};
  assert_int_equal(sensors_open(&o, folder_path(), all, false, &err), HR_BAD_INPUT);
  assert_string_equal(err.message, "no question is left");
  sensors_close(&o);
  folder_end();
}

/* Settings that do not go with the data. */
static void test_settings(void **state) {
  (void)state;
  static const struct {
    const char *set[2], *message;
  } wrong[] = {
      {{"data.sensors.streams=[arm, nose]"}, "column nose_csv is missing"},
      {{"data.sensors.streams=[arm, arm]"}, "stream arm is there twice"},
      {{"data.sensors.context_size=0"}, "a sample needs at least one patch"},
      {{"data.sensors.patch_duration_s=0.01"}, "a patch has less than one sample"},
      {{"data.end_id=300"}, "the questions have token 300, but the model's vocabulary has only 256"},
      {{"data.end_id=null"}, "which token ends an answer is not known"},
      {{"data.path=r.yaml"}, "is not a folder"},
      {{"data.sensors.questions=other.jsonl"}, "cannot open"},
  };
  folder_begin();
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    sensors_data o;
    hr_error err = {0};
    hr_status status = sensors_open(&o, folder_path(), wrong[i].set, false, &err);
    if (status != HR_BAD_INPUT || !strstr(err.message, wrong[i].message) || !err.remedy[0])
      fail_msg("%s: %s: %s", wrong[i].set[0], err.place, err.message);
    sensors_close(&o);
  }
  /* without answers questions can still be asked */
  sensors_data o;
  hr_error err = {0};
  static const char *const unanswered[] = {"data.sensors.unanswered=true", "data.end_id=null", NULL};
  folder_put(questions, ASKED("\"activity_indices\": 0, \"question\": \"q\""));
  if (sensors_open(&o, folder_path(), unanswered, false, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  sensors_batch b;
  void *at[HR_FIELDS];
  sensors_places(&b, at);
  assert_null(asked_of(o.data, false, 0, at).expected);
  sensors_close(&o);
  folder_end();
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_left_out),
      cmocka_unit_test(test_settings),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
