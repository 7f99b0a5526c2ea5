/* Pictures of questions: well-formed XML whatever the texts and the measurements hold. HR_PICTURE=FILE writes one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/picture.h"
#include "format/doc.h"
#include "part_data.h"
#include "support/faults.h"

enum { PATCHES = 3, POINTS = 16, CHANNELS = 12 };

static const hr_asked_stream streams[] = {{"arm", 2}, {"<ear> & \"nose\"", 10}};
static const hr_asked plain = {.type = "simple_activity_recognition",
                               .question = "What is the person doing?",
                               .expected = "stirring",
                               .subject = "S0",
                               .patches = PATCHES,
                               .patch_seconds = 2,
                               .streams = streams,
                               .n_streams = 2};

static void patches_make(float out[PATCHES * CHANNELS * POINTS]) {
  for (int p = 0; p < PATCHES; p++)
    for (int c = 0; c < CHANNELS; c++)
      for (int i = 0; i < POINTS; i++)
        out[(p * CHANNELS + c) * POINTS + i] = (float)(sin((p * POINTS + i) * 0.2 * (c + 1)) + 0.3 * c);
}

static hr_string draw(const hr_asked *asked, const char *answer, const float *patches) {
  hr_string out = {0};
  hr_error err = {0};
  hr_picture picture = {asked, answer, patches, POINTS};
  assert_int_equal(hr__picture(&picture, &out, &err), HR_OK);
  assert_int_equal(hr__string_add(&out, "", 1, &err), HR_OK);
  out.count--;
  return out;
}

/* Behind the name of a tag: attributes with quotes round their values. Returns what stands behind '>'. */
static const char *attributes_check(const char *at, bool *closed) {
  while (*at != '>' && *at != '/') {
    assert_true(*at == ' ');
    at += 1 + strcspn(at + 1, "=<>\" ");
    assert_true(at[0] == '=' && at[1] == '"');
    at += 2 + strcspn(at + 2, "\"<&");
    assert_true(*at++ == '"');
  }
  *closed = *at == '/';
  at += *closed;
  assert_true(*at == '>');
  return at + 1;
}

/* Tags are closed in order, entities are those of XML, bytes are characters that XML may hold; counts elements. */
static int xml_check(const hr_string *text) {
  char open[16][16];
  int depth = 0, elements = 0;
  assert_int_equal(hr__utf8_check(text->data, text->count), text->count);
  assert_int_equal(strlen(text->data), text->count);
  for (const char *at = text->data; *at;) {
    assert_true((unsigned char)*at >= 0x20 || *at == '\n');
    assert_true(*at != '>');
    if (*at == '&') {
      assert_true(strncmp(at, "&amp;", 5) == 0 || strncmp(at, "&lt;", 4) == 0 || strncmp(at, "&gt;", 4) == 0 ||
                  strncmp(at, "&quot;", 6) == 0);
      at++;
    } else if (*at != '<') {
      assert_true(depth > 0 || *at == '\n');
      at++;
    } else if (at[1] == '/') {
      size_t bytes = strcspn(at + 2, ">");
      assert_true(depth > 0 && strlen(open[depth - 1]) == bytes && strncmp(open[depth - 1], at + 2, bytes) == 0);
      depth--;
      at += bytes + 3;
    } else {
      size_t bytes = strspn(at + 1, "abcdefghijklmnopqrstuvwxyz");
      bool closed;
      assert_true(bytes > 0 && bytes < 16 && depth < 16);
      snprintf(open[depth], sizeof open[depth], "%.*s", (int)bytes, at + 1);
      at = attributes_check(at + 1 + bytes, &closed);
      depth += !closed;
      elements++;
    }
  }
  assert_int_equal(depth, 0);
  return elements;
}

static int count(const hr_string *text, const char *what) {
  int found = 0;
  for (const char *at = text->data; (at = strstr(at, what)); at++)
    found++;
  return found;
}

static void test_plain(void **state) {
  (void)state;
  float patches[PATCHES * CHANNELS * POINTS];
  patches_make(patches);
  hr_string text = draw(&plain, "chopping", patches);
  assert_true(xml_check(&text) > 20);
  assert_int_equal(count(&text, "<polyline"), 2 + 8);
  assert_int_equal(count(&text, "8 of 10 channels"), 1);
  assert_int_equal(count(&text, "What is the person doing?"), 1);
  assert_int_equal(count(&text, ">stirring<"), 1);
  assert_int_equal(count(&text, ">chopping<"), 1);
  assert_int_equal(count(&text, "&lt;ear&gt; &amp; &quot;nose&quot;"), 1);
  assert_int_equal(count(&text, "6 s, 3 patches"), 1);
  const char *file = getenv("HR_PICTURE");
  if (file) file_put(file, text.data, text.count);
  hr__string_fini(&text);
}

static void test_hostile(void **state) {
  (void)state;
  static const char *const texts[] = {
      "",
      "</text></svg><script>alert(1)</script>",
      "a & b < c > d \" e ' f ]]> <!-- --> <?xml ?>",
      "\x01\x02\x1b[31m\x7f\t\r\n\n\n",
      "\xff\xfe\xc3 \xed\xa0\x80 \xf4\x90\x80\x80 \xe2\x82",
      "\xef\xbf\xbe\xef\xbf\xbf",
      "\xf0\x9f\xa5\x84\xf0\x9f\xa5\x84 \xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d",
      "&#0; &undefined; &amp;",
  };
  static const float extremes[] = {INFINITY, -INFINITY, NAN, 3e38F, -3e38F, 0};
  float patches[PATCHES * CHANNELS * POINTS];
  for (size_t i = 0; i < PATCHES * CHANNELS * POINTS; i++)
    patches[i] = extremes[i % 6];
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    hr_asked asked = plain;
    asked.question = asked.subject = asked.expected = texts[i];
    hr_string text = draw(&asked, texts[i], patches);
    xml_check(&text);
    assert_int_equal(count(&text, "<script"), 0);
    assert_int_equal(count(&text, "nan"), 0);
    assert_int_equal(count(&text, "inf"), 0);
    hr__string_fini(&text);
  }
}

/* Long texts are cut into lines, and behind the last of them. */
static void test_long(void **state) {
  (void)state;
  enum { LETTERS = 5000 };
  float patches[PATCHES * CHANNELS * POINTS];
  patches_make(patches);
  for (int blanks = 0; blanks < 2; blanks++) {
    char long_text[2 * LETTERS + 1];
    for (int i = 0; i < LETTERS; i++)
      memcpy(long_text + 2 * i, blanks && i % 7 == 6 ? "  " : "\xc3\xa4", 2);
    long_text[2 * LETTERS] = 0;
    hr_asked asked = plain;
    asked.question = long_text;
    asked.expected = NULL;
    hr_string text = draw(&asked, "", patches);
    xml_check(&text);
    assert_int_equal(count(&text, "\xe2\x80\xa6"), 1);
    assert_int_equal(count(&text, ">expected<"), 0);
    assert_true(text.count < 60000);
    hr__string_fini(&text);
  }
}

static hr_status draw_body(void *arg, hr_error *err) {
  hr_string out = {0};
  hr_picture picture = {&plain, "chopping", arg, POINTS};
  hr_status status = hr__picture(&picture, &out, err);
  hr__string_fini(&out);
  return status;
}

static void test_faults(void **state) {
  (void)state;
  float patches[PATCHES * CHANNELS * POINTS];
  patches_make(patches);
  assert_true(hr_test_each_fault(draw_body, patches) > 3);
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_plain),
      cmocka_unit_test(test_hostile),
      cmocka_unit_test(test_long),
      cmocka_unit_test(test_faults),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
