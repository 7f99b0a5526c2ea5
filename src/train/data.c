/* Text, lines and synthetic data; see data.h. */
#include "train/data.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/random.h"
#include "train/lines.h"

enum { BYTE_TOKENS = 256 };

struct hr_data {
  hr_data_shape shape;
  const char *path; /* text: owned by the recipe */
  int fd;           /* -1: synthetic */
  uint64_t bytes;
  struct stat opened; /* facts of the file then */
  int64_t train_windows, eval_windows;
  hr_lines *lines; /* NULL: text or synthetic */
  hr_random_key order, train_tokens, eval_tokens;
};

/* Splits the file into windows and checks that there is something to train on. */
static hr_status windows_split(hr_data *data, const hr_recipe *recipe, hr_error *err) {
  int64_t windows = data->bytes > 0 ? (int64_t)((data->bytes - 1) / (uint64_t)data->shape.length) : 0;
  if (data->shape.eval) {
    double held = hr__recipe_float(recipe, "data.eval_fraction") * (double)windows;
    data->eval_windows = (int64_t)llround(held);
    if (data->eval_windows < 1) data->eval_windows = 1;
  }
  data->train_windows = windows - data->eval_windows;
  if (data->train_windows < 1)
    return hr__fail(err, HR_BAD_INPUT, data->path, "use a longer text or a smaller data.sequence_length",
                    "%" PRIu64 " bytes are too few: %s of %" PRId64 " + 1 bytes needed", data->bytes,
                    data->shape.eval ? "two windows (one held out)" : "one window", data->shape.length);
  return HR_OK;
}

static hr_status lines_open(hr_data *data, const hr_recipe *recipe, hr_error *err) {
  hr_lines_source source = {.path = data->path,
                            .fd = data->fd,
                            .bytes = data->bytes,
                            .batch = data->shape.batch,
                            .buckets = data->shape.buckets,
                            .n_buckets = data->shape.n_buckets,
                            .seed = data->shape.seed,
                            .held_out = data->shape.eval ? hr__recipe_float(recipe, "data.eval_fraction") : 0};
  HR_TRY(hr__lines_open(&source, &data->lines, err));
  data->train_windows = hr__lines_train(data->lines);
  data->eval_windows = hr__lines_eval(data->lines);
  return HR_OK;
}

static hr_status file_open(hr_data *data, const hr_recipe *recipe, bool lines, hr_error *err) {
  if (!hr__recipe_has(recipe, "data.path"))
    return hr__recipe_fail(recipe, "data.source", "give data.path, or use source: synthetic", err,
                           "source %s needs data.path", hr__recipe_text(recipe, "data.source"));
  if (data->shape.vocabulary < BYTE_TOKENS)
    return hr__recipe_fail(recipe, "data.source", "use a vocab_size of 256 or more", err,
                           "text has 256 byte tokens, but the model's vocabulary has only %" PRId64,
                           data->shape.vocabulary);
  data->path = hr__recipe_text(recipe, "data.path");
  data->fd = open(data->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat facts;
  if (data->fd < 0 || fstat(data->fd, &facts) != 0)
    return hr__fail(err, HR_BAD_INPUT, data->path, "check data.path; relative paths begin at the recipe's folder",
                    "cannot open the text: %s", strerror(errno));
  if (!S_ISREG(facts.st_mode))
    return hr__fail(err, HR_BAD_INPUT, data->path, "data.path must name a plain file", "%s",
                    S_ISDIR(facts.st_mode) ? "this is a folder" : "this is not a plain file");
  data->bytes = (uint64_t)facts.st_size;
  data->opened = facts;
  return lines ? lines_open(data, recipe, err) : windows_split(data, recipe, err);
}

hr_status hr__data_open(const hr_recipe *recipe, const hr_data_shape *shape, hr_data **out, hr_error *err) {
  hr_data *data = hr__alloc_zero(1, sizeof *data);
  if (!data) return hr__nomem(err);
  data->shape = *shape;
  data->fd = -1;
  data->order = (hr_random_key){shape->seed, hr__random_stream("data.order")};
  data->train_tokens = (hr_random_key){shape->seed, hr__random_stream("data.synthetic")};
  data->eval_tokens = (hr_random_key){shape->seed, hr__random_stream("data.synthetic.eval")};
  hr_status status = HR_OK;
  const char *source = hr__recipe_text(recipe, "data.source");
  if (strcmp(source, "synthetic") != 0) status = file_open(data, recipe, strcmp(source, "lines") == 0, err);
  if (status != HR_OK) {
    hr__data_close(data);
    return status;
  }
  *out = data;
  return HR_OK;
}

void hr__data_close(hr_data *data) {
  if (!data) return;
  hr__lines_close(data->lines);
  if (data->fd >= 0) close(data->fd);
  hr__free(data);
}

int64_t hr__data_train_windows(const hr_data *data) {
  return data->train_windows;
}
int64_t hr__data_eval_windows(const hr_data *data) {
  return data->eval_windows;
}
int64_t hr__data_cut(const hr_data *data) {
  return data->lines ? hr__lines_cut(data->lines) : 0;
}
uint64_t hr__data_epoch_rows(const hr_data *data) {
  return data->lines ? hr__lines_epoch_rows(data->lines) : (uint64_t)data->train_windows;
}
uint64_t hr__data_bytes(const hr_data *data) {
  return data->bytes;
}

hr_status hr__data_trace(const hr_data *data, hr_trace *out, hr_error *err) {
  *out = (hr_trace){.whole = true};
  return data->fd >= 0 ? hr__trace_file(data->path, data->fd, data->bytes, data->lines != NULL, out, err) : HR_OK;
}

const char *hr__data_path(const hr_data *data) {
  return data->path;
}

const char *hr__data_fate(const hr_data *data) {
  struct stat now;
  const struct stat *then = &data->opened;
  if (data->fd < 0) return NULL;
  if (stat(data->path, &now) != 0) return errno == ENOENT ? "was removed" : "can no longer be reached";
  if (now.st_dev != then->st_dev || now.st_ino != then->st_ino) return "was replaced by another";
  bool same = now.st_size == then->st_size && now.st_mtim.tv_sec == then->st_mtim.tv_sec &&
              now.st_mtim.tv_nsec == then->st_mtim.tv_nsec;
  return same ? NULL : "was written to";
}

uint64_t hr__data_window(const hr_data *data, uint64_t sample) {
  uint64_t n = (uint64_t)data->train_windows;
  return hr__random_permute(data->order, sample / n, sample % n, n);
}

hr_status hr__data_read(const char *path, int fd, uint64_t at, void *to, size_t bytes, hr_error *err) {
  for (size_t got = 0; got < bytes;) {
    ssize_t n = pread(fd, (char *)to + got, bytes - got, (off_t)(at + got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return hr__fail_errno(err, path, "read", errno);
    if (n == 0)
      return hr__fail(err, HR_BAD_INPUT, path, "put the file back",
                      "the file became shorter while training: no data at byte %" PRIu64, at + got);
    got += (size_t)n;
  }
  return HR_OK;
}

/* The length + 1 bytes go to the end of the targets row, then are spread upwards from its beginning: number t is
 * written to bytes 4t..4t+3, the byte it comes from lies at 3 length + t, never before them. */
static hr_status window_row(const hr_data *data, uint64_t window, int32_t *tokens, int32_t *targets, hr_error *err) {
  size_t length = (size_t)data->shape.length;
  unsigned char *raw = (unsigned char *)targets + 3 * length - 1;
  HR_TRY(hr__data_read(data->path, data->fd, window * (uint64_t)length, raw, length + 1, err));
  for (size_t t = 0; t < length; t++) {
    int32_t here = raw[t], next = raw[t + 1];
    tokens[t] = here;
    targets[t] = next;
  }
  return HR_OK;
}

static void random_row(const hr_data *data, hr_random_key key, uint64_t sample, int32_t *tokens, int32_t *targets) {
  uint64_t vocabulary = (uint64_t)data->shape.vocabulary;
  int64_t length = data->shape.length;
  for (int64_t t = 0; t < length; t++)
    tokens[t] = (int32_t)hr__random_below(key, sample, (uint64_t)t, vocabulary);
  for (int64_t t = 0; t + 1 < length; t++)
    targets[t] = tokens[t + 1];
  targets[length - 1] = (int32_t)hr__random_below(key, sample, (uint64_t)length, vocabulary);
}

hr_status hr__data_train_row(hr_data *data, uint64_t sample, int32_t *tokens, int32_t *targets, hr_error *err) {
  if (data->fd >= 0) return window_row(data, hr__data_window(data, sample), tokens, targets, err);
  random_row(data, data->train_tokens, sample, tokens, targets);
  return HR_OK;
}

hr_status hr__data_eval_row(hr_data *data, uint64_t sample, int32_t *tokens, int32_t *targets, hr_error *err) {
  if (data->fd >= 0) {
    uint64_t window = (uint64_t)data->train_windows + sample % (uint64_t)data->eval_windows;
    return window_row(data, window, tokens, targets, err);
  }
  random_row(data, data->eval_tokens, sample, tokens, targets);
  return HR_OK;
}

/* Tokens of a row that are data. */
static int64_t row_length(const hr_data *data, const hr_micro *micro, int64_t row) {
  return data->lines ? hr__lines_length(data->lines, micro, row) : micro->length;
}

hr_micro hr__data_micro(const hr_data *data, uint64_t sample, bool eval) {
  int64_t rows = data->shape.batch, tokens = rows * data->shape.length;
  hr_micro micro = {
      .length = data->shape.length, .rows = rows, .tokens = tokens, .targets = tokens, .eval = eval, .sample = sample};
  if (data->lines) micro = hr__lines_micro(data->lines, sample, eval);
  if (data->shape.masking.part > 0) {
    micro.targets = 0;
    for (int64_t row = 0; row < micro.rows; row++)
      micro.targets += hr__masking_count(&data->shape.masking, row_length(data, &micro, row));
  }
  return micro;
}

hr_status hr__data_fill(hr_data *data, const hr_micro *micro, int32_t *tokens, int32_t *targets, int32_t *lengths,
                        hr_error *err) {
  size_t width = (size_t)micro->length;
  for (int64_t row = 0; row < data->shape.batch; row++) {
    int32_t *row_tokens = tokens + (size_t)row * width, *row_targets = targets + (size_t)row * width;
    if (data->lines)
      HR_TRY(hr__lines_row(data->lines, micro, row, row_tokens, row_targets, err));
    else
      HR_TRY((micro->eval ? hr__data_eval_row : hr__data_train_row)(data, micro->sample + (uint64_t)row, row_tokens,
                                                                    row_targets, err));
    int64_t count = row_length(data, micro, row);
    if (lengths) lengths[row] = (int32_t)count;
    if (data->shape.masking.part > 0)
      hr__masking_apply(&data->shape.masking, micro->eval, micro->sample + (uint64_t)row, count, micro->length,
                        row_tokens, row_targets);
  }
  return HR_OK;
}
