/* Rows of training data: every format, from memory and from files, with bad rows among good ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/npy.h"
#include "format/rows.h"
#include "support/faults.h"

static hr_arena arena;

static int arena_teardown(void **state) {
  (void)state;
  hr__arena_fini(&arena);
  return hr_test_live_bytes() ? -1 : 0;
}

static hr_rows *rows_of(const char *name, const void *data, size_t bytes) {
  hr_rows *rows = NULL;
  hr_error err = {0};
  if (hr__rows_of(name, data, bytes, &rows, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  return rows;
}

static void flat(const hr_doc_node *node, char *out, size_t room) {
  size_t used = strlen(out);
  if (node->key) used += (size_t)snprintf(out + used, room - used, "%s=", node->key);
  if (node->kind == HR_DOC_SCALAR) {
    snprintf(out + used, room - used, node->quoted ? "'%s' " : "%s ", node->text);
    return;
  }
  snprintf(out + used, room - used, node->kind == HR_DOC_MAP ? "{" : "[");
  for (const hr_doc_node *child = node->child; child; child = child->next)
    flat(child, out, room);
  used = strlen(out);
  snprintf(out + used, room - used, node->kind == HR_DOC_MAP ? "}" : "]");
}

/* All rows as one text: LINE:{fields} or LINE!place: message, with a bar behind each. */
static const char *all_rows(hr_rows *rows) {
  static char out[8192];
  out[0] = 0;
  hr_row row;
  hr_error err = {0};
  uint64_t number = 0;
  for (bool there; hr__rows_next(rows, &arena, &row, &there, &err) == HR_OK && there;) {
    size_t used = strlen(out);
    assert_int_equal(row.number, number++);
    if (row.fields) {
      snprintf(out + used, sizeof out - used, "%llu:", (unsigned long long)row.place.line);
      flat(row.fields, out, sizeof out);
    } else {
      snprintf(out + used, sizeof out - used, "%s! %s", row.why.place, row.why.message);
    }
    strncat(out, "|", sizeof out - strlen(out) - 1);
  }
  assert_int_equal(err.status, HR_OK);
  return out;
}

static void check(const char *name, const char *text, const char *format, const char *expected) {
  size_t bytes = strlen(text);
  hr_rows *rows = rows_of(name, text, bytes);
  assert_string_equal(hr__rows_format(rows), format);
  assert_string_equal(all_rows(rows), expected);
  hr__rows_close(rows);
  /* From a file, the same. */
  char path[64] = "/tmp/hr_rows_XXXXXX";
  const char *ending = strrchr(name, '.');
  strcat(path, ending);
  int fd = mkstemps(path, (int)strlen(ending));
  assert_int_equal(write(fd, text, bytes), (ssize_t)bytes);
  close(fd);
  hr_error err = {0};
  rows = NULL;
  if (hr__rows_open(path, &rows, &err) != HR_OK) fail_msg("%s", err.message);
  const char *again = all_rows(rows);
  if (!strchr(expected, '!')) assert_string_equal(again, expected);
  hr__rows_close(rows);
  unlink(path);
}

static void json_lines(void **state) {
  (void)state;
  check("t.jsonl", "{\"a\": 1}\n\n  {\"a\": \"x\\n\", \"b\": [true, null]}\r\n{\"c\": 2.5}", "JSON lines",
        "1:{a=1 }|3:{a='x\n' b=[true null ]}|4:{c=2.5 }|");
  check("t.jsonl", "\xef\xbb\xbf{\"a\": 1}\n", "JSON lines", "1:{a=1 }|");
  check("t.json", " \n{\"a\": 1}\n{\"a\": 2}\n", "JSON lines", "2:{a=1 }|3:{a=2 }|");
  check("t.txt", "{\"a\": 1}", "JSON lines", "1:{a=1 }|");
  check("t.jsonl", "", "JSON lines", "");
  check("t.jsonl", "{\"a\": 1}\n{\"a\": \n[1]\n{\"a\": 1, \"a\": 2}\n{\"b\": \"\xff\"}\n{\"a\": 3}\n", "JSON lines",
        "1:{a=1 }|t.jsonl:2:6! not valid JSON: unexpected token near end of file|"
        "t.jsonl:3:1! a row is an object, {\"column\": value, ...}, and this is none|"
        "t.jsonl:4:12! not valid JSON: duplicate object key near '\"a\"'|"
        "t.jsonl:5:7! not valid JSON: unable to decode byte 0xff near '\"'|6:{a=3 }|");
}

static void json_list(void **state) {
  (void)state;
  check("t.json", "[{\"a\": \"],[\\\"\"},\n {\"b\": [1, {}]} ,\n{}]\n", "JSON list",
        "1:{a='],[\"' }|2:{b=[1 {}]}|3:{}|");
  check("t.json", "\n[]", "JSON list", "");
  check("t.json", "[{\"a\": 1}, [5], {\"a\": 2 2},\n{\"a\": 3}]", "JSON list",
        "1:{a=1 }|t.json:1:12! a row is an object, {\"column\": value, ...}, and this is none|"
        "t.json:1:25! not valid JSON: '}' expected near '2'|2:{a=3 }|");
  check("t.json", "[{\"a\": 1},\n{\"a\"", "JSON list",
        "1:{a=1 }|t.json:2:1! the file ends before its list is closed by ]|");
  check("t.json", "[{\"a\": 1},", "JSON list", "1:{a=1 }|t.json:1:11! the file ends before its list is closed by ]|");
  check("t.json", "[{\"a\": 1}]\n [2]", "JSON list",
        "1:{a=1 }|t.json:2:2! something stands behind the list, and is not read|");
}

static void csv(void **state) {
  (void)state;
  check("t.csv", "a,b\r\n1,\"x, \"\"y\"\"\nz\"\r\n\r\n,\"\"\n", "CSV", "2:{a='1' b='x, \"y\"\nz' }|5:{a= b='' }|");
  check("t.csv", "\xef\xbb\xbf\"a b\",c\nnull,7", "CSV", "2:{a b='null' c='7' }|");
  check("t.tsv", "a\tb\n1,2\t3\n", "CSV", "2:{a='1,2' b='3' }|");
  check("t.csv", "a\nx\"y\n", "CSV", "2:{a='x\"y' }|");
  check("t.csv", "a,b\n1\n1,2,3\n\"x\"y,2\n\xff,1\n5,6\n", "CSV",
        "t.csv:2! 1 fields where the header names 2 columns|t.csv:3! 3 fields where the header names 2 columns|"
        "t.csv:4! something stands between a closing quote and the end of its field|t.csv:5! a field is not UTF-8 "
        "text|6:{a='5' b='6' }|");
  /* A quote that is not closed costs its own line. */
  check("t.csv", "a,b\n1,\"x\n2,y\n3,z\n", "CSV",
        "t.csv:2! a quote that is opened here is not closed|3:{a='2' b='y' }|4:{a='3' b='z' }|");
}

static size_t npy_put(unsigned char *out, int version, const char *dict, const void *data, size_t bytes) {
  size_t before = version == 1 ? 10 : 12, text = strlen(dict);
  memcpy(out, "\x93NUMPY", 6);
  out[6] = (unsigned char)version;
  out[7] = 0;
  for (size_t i = 8; i < before; i++)
    out[i] = (unsigned char)(text >> 8 * (i - 8) & 0xff);
  memcpy(out + before, dict, text);
  memcpy(out + before + text, data, bytes);
  return before + text + bytes;
}

static void npy(void **state) {
  (void)state;
  static unsigned char file[512];
  static const unsigned char data[] = {1, 0, 2, 0, 0xff, 0xff, 4, 0, 5, 0, 6, 0};
  for (int version = 1; version <= 3; version++) {
    size_t bytes = npy_put(file, version, "{'descr': '<i2', 'fortran_order': False, 'shape': (3, 2), }   \n", data, 12);
    hr_rows *rows = rows_of("t.npy", file, bytes);
    assert_string_equal(hr__rows_format(rows), "npy");
    assert_string_equal(all_rows(rows), "1:{input_ids=[1 2 ]}|1:{input_ids=[-1 4 ]}|1:{input_ids=[5 6 ]}|");
    hr__rows_close(rows);
  }
  char path[] = "/tmp/hr_npy_XXXXXX";
  int fd = mkstemp(path);
  size_t bytes = npy_put(file, 1, "{'descr': '|u1', 'fortran_order': False, 'shape': (12,)}", data, 12);
  assert_int_equal(write(fd, file, bytes), (ssize_t)bytes);
  close(fd);
  hr_npy *array = NULL;
  hr_error err = {0};
  assert_int_equal(hr__npy_open(path, &array, &err), HR_OK);
  int64_t out[12];
  assert_int_equal(hr__npy_shape(array)->elements, 12);
  assert_int_equal(hr__npy_read(array, 4, 3, out, &err), HR_OK);
  assert_int_equal(out[0], 255);
  assert_int_equal(out[2], 4);
  assert_int_equal(hr__npy_read(array, 10, 3, out, &err), HR_USAGE);
  hr__npy_close(array);
  unlink(path);
}

static void npy_refusals(void **state) {
  (void)state;
  static const struct {
    const char *dict, *message;
  } rows[] = {
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2)}", "elements of type '<f4'"},
      {"{'descr': '>i4', 'fortran_order': False, 'shape': (1, 2)}", "elements of type '>i4'"},
      {"{'descr': '<i4', 'fortran_order': True, 'shape': (1, 2)}", "it lies columns first"},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (9, 9)}",
       "the file is cut off: its elements take 324 bytes, of which 8"},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999, 99999999999)}",
       "more elements than can be counted"},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (2,)}", "rows need two axes, and this array has 1"},
      {"{'descr': '<i4', 'fortran_order': False}", "lacks descr, fortran_order or shape"},
      {"{'descr': '<i4', 'descr': '<i4'}", "has other keys"},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (1 2)}", "no tuple of sizes"},
      {"{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (2,)}", "its type is no plain one"},
      {"{", "its header is no dict of texts"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    unsigned char file[512];
    size_t bytes = npy_put(file, 1, rows[i].dict, "12345678", 8);
    hr_rows *opened = NULL;
    hr_error err = {0};
    if (hr__rows_of("t.npy", file, bytes, &opened, &err) == HR_OK) fail_msg("%s is read", rows[i].dict);
    if (!strstr(err.message, rows[i].message)) fail_msg("%s: %s", rows[i].dict, err.message);
  }
}

static void refused(const char *name, const char *text, size_t bytes, hr_status status, const char *message,
                    const char *remedy) {
  hr_rows *rows = NULL;
  hr_error err = {0};
  assert_int_equal(hr__rows_of(name, text, bytes, &rows, &err), status);
  assert_null(rows);
  if (!strstr(err.message, message) || !strstr(err.remedy, remedy)) fail_msg("%s / %s", err.message, err.remedy);
}

static void files_refused(void **state) {
  (void)state;
  refused("t.parquet", "PAR1....", 8, HR_UNSUPPORTED, "a parquet file, which is not read",
          "python -c \"import pandas; pandas.read_parquet('IN.parquet').to_json('OUT.jsonl', orient='records', "
          "lines=True, force_ascii=False)\"");
  refused("t.jsonl.gz", "\x1f\x8b\x08\x00", 4, HR_UNSUPPORTED, "compressed by gzip", "gzip -d");
  refused("t.dat", "hello", 5, HR_UNSUPPORTED, "neither its name nor its first bytes", "name it .jsonl");
  refused("t.csv", "", 0, HR_BAD_INPUT, "the file has no header", "the first line names the columns");
  refused("t.csv", "a,a\n", 4, HR_BAD_INPUT, "two columns have the same name", "");
  refused("t.csv", "a,\n", 3, HR_BAD_INPUT, "a column has no name", "");
  hr_rows *rows = NULL;
  hr_error err = {0};
  assert_int_equal(hr__rows_open("/nonexistent/t.csv", &rows, &err), HR_BAD_INPUT);
}

/* Longer than any window, and longer than a row may be. */
static void large(void **state) {
  (void)state;
  char path[] = "/tmp/hr_rows_XXXXXX.jsonl";
  int fd = mkstemps(path, 6);
  FILE *file = fdopen(fd, "w");
  enum { ROWS = 3000, LONG = 1500 };
  for (int i = 0; i < ROWS; i++) {
    fprintf(file, "{\"n\": %d, \"text\": \"", i);
    if (i == LONG)
      for (int k = 0; k < (HR_DOC_MAX_BYTES >> 4) + 10; k++)
        fputs("0123456789abcdef", file);
    for (int k = 0; k < i % 700; k++)
      fputc('a' + k % 26, file);
    fputs("\"}\n", file);
  }
  fclose(file);
  hr_rows *rows = NULL;
  hr_error err = {0};
  assert_int_equal(hr__rows_open(path, &rows, &err), HR_OK);
  hr_row row, middle = {0};
  bool there;
  for (int i = 0; i < ROWS; i++) {
    hr_arena one = {0};
    assert_int_equal(hr__rows_next(rows, &one, &row, &there, &err), HR_OK);
    assert_true(there);
    assert_int_equal(row.place.line, i + 1);
    if (i == LONG) {
      assert_null(row.fields);
      assert_string_equal(row.why.message, "a row of more than 16777216 bytes");
    } else {
      int64_t n;
      assert_true(row.fields && hr__doc_int(hr__doc_get(row.fields, "n"), &n) && n == i);
      assert_int_equal(strlen(hr__doc_get(row.fields, "text")->text), i % 700);
    }
    if (i == 77) middle = row;
    hr__arena_fini(&one);
  }
  assert_int_equal(hr__rows_next(rows, &arena, &row, &there, &err), HR_OK);
  assert_false(there);
  hr__rows_go(rows, &middle);
  assert_int_equal(hr__rows_next(rows, &arena, &row, &there, &err), HR_OK);
  assert_true(there && row.number == 77 && row.place.line == 78);
  int64_t n;
  assert_true(hr__doc_int(hr__doc_get(row.fields, "n"), &n) && n == 77);
  hr__rows_close(rows);
  unlink(path);
}

static hr_status read_once(void *arg, hr_error *err) {
  const char *const *sample = arg;
  hr_rows *rows = NULL;
  hr_arena work = {0};
  hr_row row;
  bool there = true;
  hr_status status = hr__rows_of(sample[0], sample[1], strlen(sample[1]), &rows, err);
  while (status == HR_OK && there)
    status = hr__rows_next(rows, &work, &row, &there, err);
  hr__arena_fini(&work);
  hr__rows_close(rows);
  return status;
}

static void memory_runs_out(void **state) {
  (void)state;
  const char *samples[][2] = {
      {"t.jsonl", "{\"a\": [1]}\nx\n"}, {"t.json", "[{\"a\": {}}]"}, {"t.csv", "a,b\n1,2\n3\n"}};
  for (size_t i = 0; i < 3; i++)
    assert_true(hr_test_each_fault(read_once, samples[i]) > 2);
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest all[] = {
      cmocka_unit_test_teardown(json_lines, arena_teardown),
      cmocka_unit_test_teardown(json_list, arena_teardown),
      cmocka_unit_test_teardown(csv, arena_teardown),
      cmocka_unit_test_teardown(npy, arena_teardown),
      cmocka_unit_test_teardown(npy_refusals, arena_teardown),
      cmocka_unit_test_teardown(files_refused, arena_teardown),
      cmocka_unit_test_teardown(large, arena_teardown),
      cmocka_unit_test_teardown(memory_runs_out, arena_teardown),
  };
  return cmocka_run_group_tests(all, NULL, NULL);
}
