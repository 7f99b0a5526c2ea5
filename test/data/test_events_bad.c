/* Files of events that are no good: each is refused with its place and what to do. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/npy.h"
#include "part_events.h"
#include "support/faults.h"

static char folder[4096];

static void put(const char *file, const void *bytes, size_t count) {
  char path[4300];
  snprintf(path, sizeof path, "%s/%s", folder, file);
  file_put(path, bytes, count);
}

static void folder_begin(void) {
  snprintf(folder, sizeof folder, "%s/events-bad-%ld", HR_BINARY_DIR, (long)getpid());
  mkdir(folder, 0700);
}

static void folder_end(void) {
  DIR *dir = opendir(folder);
  for (const struct dirent *entry; dir && (entry = readdir(dir));) {
    char path[4600];
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (entry->d_name[0] != '.') unlink(path);
  }
  if (dir) closedir(dir);
  assert_int_equal(rmdir(folder), 0);
}

/* Opens a file of the folder, or any other, and looks at how it is refused. */
static int refused(const char *path, const char *place, const char *message) {
  char setting[4600];
  events_data o;
  hr_error err = {0};
  snprintf(setting, sizeof setting, "data.path=%s", path);
  hr_status status = events_open(&o, (const char *const[]){setting, NULL}, NULL, 0, false, &err);
  bool right = status == HR_BAD_INPUT && strstr(err.place, place) && strstr(err.message, message) && err.remedy[0];
  if (!right) print_message("%s: status %d at %s: %s (%s)\n", message, (int)status, err.place, err.message, err.remedy);
  events_close(&o);
  return !right;
}

#define M "file,label,split\n"
#define E "x,y,t,p\n"

static const struct {
  const char *manifest, *events; /* NULL: as it should be */
  const char *place, *message;
} texts[] = {
    {"", NULL, "manifest.csv", "the file has no header"},
    {M, NULL, "manifest.csv", "there is no recording in it"},
    {"file,label\na.csv,0\n", NULL, "manifest.csv:2", "column split is missing"},
    {M "a.csv,,train\n", NULL, "manifest.csv:2", "label is empty"},
    {M "a.csv,0\n", NULL, "manifest.csv:2", "2 fields where the header names 3"},
    {M "a.csv,0,train\nnowhere.csv,0,train\n", NULL, "manifest.csv:3", "cannot open"},
    {M ".,0,train\n", NULL, "manifest.csv:2", "folder"},
    {M "a.csv,8,train\n", NULL, "manifest.csv:2", "class 8 is above the 8 classes"},
    {M "a.csv,0,validation\n", NULL, "manifest.csv", "too few"},
    {M "a.csv,\xff,train\n", NULL, "manifest.csv:2", "not UTF-8"},
    {M "a.csv,\"0,train\n", NULL, "manifest.csv:2", "quote"},
    {NULL, "", "a.csv", "the file has no header"},
    {NULL, E, "a.csv", "there is no event in it"},
    {NULL, "x,y,t\n1,2,3\n", "a.csv:2", "column p is missing"},
    {NULL, E "1,2,3,1\n1,2,nan,1\n", "a.csv:3", "t is not a finite number"},
    {NULL, E "1,2,inf,1\n", "a.csv:2", "t is not a finite number"},
    {NULL, E "1,2,1e300,1\n", "a.csv:2", "not a finite time"},
    {NULL, E "-1,2,3,1\n", "a.csv:2", "x is -1"},
    {NULL, E "1,4096,3,1\n", "a.csv:2", "y is 4096"},
    {NULL, E "1.5,2,3,1\n", "a.csv:2", "x is 1.5"},
    {NULL, E "1,2,3,2\n", "a.csv:2", "p is 2"},
    {NULL, E "1,2,3\n", "a.csv:2", "3 fields where the header names 4"},
    {NULL, E "1,2,three,1\n", "a.csv:2", "t is not a finite number"},
    {NULL, E "1,2,0,1\n1,2,1e14,1\n", "a.csv", "intervals: at most"},
};

static void test_texts(void **state) {
  (void)state;
  int wrong = 0;
  char path[4200];
  folder_begin();
  snprintf(path, sizeof path, "%s/manifest.csv", folder);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    const char *manifest = texts[i].manifest ? texts[i].manifest : M "a.csv,0,train\n";
    const char *events = texts[i].events ? texts[i].events : E "1,2,3,1\n";
    put("manifest.csv", manifest, strlen(manifest));
    put("a.csv", events, strlen(events));
    wrong += refused(path, texts[i].place, texts[i].message);
  }
  folder_end();
  assert_int_equal(wrong, 0);
}

/* Arrays of events: headers as numpy writes them. */
static void npy_put(const char *descr, const char *shape, const void *data, size_t bytes) {
  char file[512] = "\x93NUMPY\x01";
  int length =
      snprintf(file + 10, sizeof file - 10, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", descr, shape);
  file[8] = (char)length;
  memcpy(file + 10 + length, data, bytes);
  put("a.npy", file, (size_t)(10 + length) + bytes);
}

static void test_arrays(void **state) {
  (void)state;
  static const float nan_time[] = {1, 2, __builtin_nanf(""), 1};
  static const double right[] = {1, 2, 3, 1, 4, 5, 6, 0};
  static const int16_t whole[] = {1, 2, 3, 1};
  char path[4200];
  events_data o;
  hr_error err = {0};
  folder_begin();
  snprintf(path, sizeof path, "%s/manifest.csv", folder);
  put("manifest.csv", M "a.npy,0,train\n", sizeof M + 13);
  npy_put("<f4", "(1, 4)", nan_time, sizeof nan_time);
  assert_int_equal(refused(path, "a.npy, event 0", "t is nan"), 0);
  npy_put("<f8", "(4, 2)", right, sizeof right);
  assert_int_equal(refused(path, "a.npy", "its shape is not [events, 4]"), 0);
  npy_put("<f8", "(3, 4)", right, sizeof right);
  assert_int_equal(refused(path, "a.npy", "the file is cut off"), 0);
  npy_put("<c8", "(2, 4)", right, sizeof right);
  assert_int_equal(refused(path, "a.npy", "elements of type '<c8'"), 0);
  npy_put("<f8", "(0, 4)", right, 0);
  assert_int_equal(refused(path, "a.npy", "there is no event in it"), 0);
  put("a.npy", "PK\x03\x04", 4);
  assert_int_equal(refused(path, "a.npy", "does not begin with"), 0);
  char setting[4600];
  snprintf(setting, sizeof setting, "data.path=%s", path);
  npy_put("<f8", "(2, 4)", right, sizeof right);
  for (int kind = 0; kind < 2; kind++) { /* floats and whole numbers */
    if (events_open(&o, (const char *const[]){setting, NULL}, NULL, 0, false, &err) != HR_OK)
      fail_msg("%s", err.message);
    assert_int_equal(hr__data_train_samples(o.data), 1);
    events_close(&o);
    npy_put("<i2", "(1, 4)", whole, sizeof whole);
  }
  folder_end();
}

static const struct {
  const char *file, *place, *message;
} hdf5[] = {
    {"no_labels", "labels", "there is no such dataset"},
    {"label_0", "sample 0", "below 1"},
    {"label_9", "sample 0", "above model.config.num_classes"},
    {"labels_floats", "labels", "does not hold whole numbers"},
    {"labels_square", "labels", "not a list of labels"},
    {"no_num_intervals", "num_intervals", "there is no such dataset"},
    {"more_intervals", "sample_000000/interval_001/real", "there is no such dataset"},
    {"fewer_counts", "num_intervals", "another number of elements"},
    {"below_0", "sample 0", "no number of intervals"},
    {"no_interval", "sample 0", "no vector in any interval"},
    {"no_real", "interval_000/real", "there is no such dataset"},
    {"width", "imag", "not [vectors, 64]"},
    {"lengths", "imag", "another number of vectors"},
    {"coords_3", "event_coords", "not [vectors, 4]"},
    {"nan_time", "sample 0, interval 0", "x of vector 0 is not a finite number"},
    {"nan_vector", "sample 0, interval 0", "a component of vector 0 is not a finite number"},
    {"texts", "real", "does not hold numbers"},
    {"names", "class_names", "a text for each class"},
    {"empty", "sample 0", "no vector in any interval"},
};

static bool hdf5_here(void) {
  hr_hdf5 *file = NULL;
  hr_error err = {0};
  hr_status status = hr__hdf5_open(HR_SOURCE_DIR "/test/data/events/small.h5", &file, &err);
  hr__hdf5_close(file);
  if (status == HR_UNSUPPORTED) print_message("skipped: %s (%s)\n", err.message, err.remedy);
  return status == HR_OK;
}

static void test_hdf5(void **state) {
  (void)state;
  if (!hdf5_here()) skip();
  int wrong = 0;
  for (size_t i = 0; i < sizeof hdf5 / sizeof *hdf5; i++) {
    char path[4200];
    snprintf(path, sizeof path, "%s/test/data/events/bad/%s.h5", HR_SOURCE_DIR, hdf5[i].file);
    wrong += refused(path, hdf5[i].place, hdf5[i].message);
  }
  assert_int_equal(wrong, 0);
}

/* Cut off anywhere: refused, or whole where nothing that is read was cut off. */
static void test_cut(void **state) {
  (void)state;
  if (!hdf5_here()) skip();
  static char bytes[1 << 16];
  char path[4200], setting[4600];
  FILE *file = fopen(HR_SOURCE_DIR "/test/data/events/small.h5", "rb");
  size_t count = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  folder_begin();
  snprintf(path, sizeof path, "%s/cut.h5", folder);
  snprintf(setting, sizeof setting, "data.path=%s", path);
  int wrong = 0;
  for (size_t cut = 0; cut < count; cut += 997) {
    events_data o;
    hr_error err = {0};
    put("cut.h5", bytes, cut);
    hr_status status = events_open(&o, (const char *const[]){setting, NULL}, NULL, 0, false, &err);
    wrong += status != HR_BAD_INPUT || !strstr(err.place, "cut.h5") || !err.remedy[0];
    events_close(&o);
  }
  folder_end();
  assert_int_equal(wrong, 0);
}

/* Files of prepare that somebody has changed. */
static const hr_safetensor whole[] = {{.name = "rows", .dtype = "F32", .rank = 2, .dim = {2, HR_EVENT_ROW}},
                                      {.name = "intervals", .dtype = "I64", .rank = 1, .dim = {3}},
                                      {.name = "samples", .dtype = "I64", .rank = 1, .dim = {2}},
                                      {.name = "labels", .dtype = "I64", .rank = 1, .dim = {1}}};

typedef struct made {
  hr_safetensor tensors[4];
  float rows[2 * HR_EVENT_ROW];
  int64_t intervals[3], samples[2], labels[1];
  const char *format;
} made;

static void made_write(const made *m, int count) {
  char path[4300], hex[HR_SHA256_HEX];
  hr_error err = {0};
  uint64_t bytes;
  hr_safetensors_writer *writer = NULL;
  const void *data[] = {m->rows, m->intervals, m->samples, m->labels};
  const char *metadata[] = {"format", m->format, NULL};
  snprintf(path, sizeof path, "%s/a.safetensors", folder);
  assert_int_equal(hr__safetensors_writer_open(path, m->tensors, (size_t)count, metadata, &writer, &err), HR_OK);
  for (int i = 0; i < count; i++) {
    size_t size = strcmp(m->tensors[i].dtype, "F32") == 0 ? 4 : 8;
    for (int k = 0; k < m->tensors[i].rank; k++)
      size *= (size_t)m->tensors[i].dim[k];
    assert_int_equal(hr__safetensors_writer_put(writer, data[i], size, &err), HR_OK);
  }
  assert_int_equal(hr__safetensors_writer_finish(writer, hex, &bytes, &err), HR_OK);
  hr__safetensors_writer_destroy(writer);
}

static made made_right(void) {
  made m = {.intervals = {0, 1, 2}, .samples = {0, 2}, .format = "headroom events 1"};
  memcpy(m.tensors, whole, sizeof whole);
  return m;
}

static void test_prepared(void **state) {
  (void)state;
  char path[4300];
  int wrong = 0;
  folder_begin();
  snprintf(path, sizeof path, "%s/a.safetensors", folder);
#define CASE(change, place, message)                                                                                   \
  do {                                                                                                                 \
    made m = made_right();                                                                                             \
    int count = 4;                                                                                                     \
    change;                                                                                                            \
    made_write(&m, count);                                                                                             \
    wrong += refused(path, place, message);                                                                            \
  } while (0)
  CASE(count = 3, "labels", "no such tensor");
  CASE(m.format = "other", "metadata", "not a file of headroom prepare");
  CASE(m.labels[0] = 8, "labels, sample 0", "none of model.config.num_classes");
  CASE(m.labels[0] = -1, "labels, sample 0", "none of model.config.num_classes");
  CASE(m.intervals[1] = 3, "intervals", "do not rise");
  CASE(m.intervals[2] = 1, "intervals", "do not rise");
  CASE(m.samples[1] = 3, "samples", "do not rise");
  CASE(m.tensors[1].dtype = "F32", "intervals", "another type");
  CASE(m.tensors[0].dim[0] = 1, "intervals", "do not rise");
  CASE((m.tensors[0].dim[0] = 4, m.tensors[0].dim[1] = HR_EVENT_ROW / 2), "rows", "not [vectors, 132]");
  CASE(m.rows[HR_EVENT_WIDTH + 2] = __builtin_nanf(""), "sample 0, interval 0", "t of vector 0 is not a finite number");
  CASE(m.rows[HR_EVENT_ROW] = __builtin_inff(), "sample 0, interval 1", "a component of vector 0");
  CASE((m.intervals[1] = m.intervals[2] = 0, m.tensors[0].dim[0] = 0), "sample 0", "no vector in any interval");
#undef CASE
  made right = made_right();
  events_data o;
  hr_error err = {0};
  char setting[4600];
  made_write(&right, 4);
  snprintf(setting, sizeof setting, "data.path=%s", path);
  if (events_open(&o, (const char *const[]){setting, NULL}, NULL, 0, false, &err) != HR_OK) fail_msg("%s", err.message);
  events_close(&o);
  assert_int_equal(truncate(path, 600), 0);
  wrong += refused(path, "a.safetensors", "");
  folder_end();
  assert_int_equal(wrong, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_texts), cmocka_unit_test(test_arrays),   cmocka_unit_test(test_hdf5),
      cmocka_unit_test(test_cut),   cmocka_unit_test(test_prepared),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
