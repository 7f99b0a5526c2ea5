/* Text and synthetic data; see data.h. */
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

enum { BYTE_TOKENS = 256 };

struct hr_data {
  hr_data_shape shape;
  const char *path; /* text: owned by the recipe */
  int fd;           /* -1: synthetic */
  uint64_t bytes;
  int64_t train_windows, eval_windows;
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

static hr_status text_open(hr_data *data, const hr_recipe *recipe, hr_error *err) {
  if (!hr__recipe_has(recipe, "data.path"))
    return hr__recipe_fail(recipe, "data.source", "give data.path, or use source: synthetic", err,
                           "source text needs data.path");
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
  return windows_split(data, recipe, err);
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
  if (strcmp(hr__recipe_text(recipe, "data.source"), "text") == 0) status = text_open(data, recipe, err);
  if (status != HR_OK) {
    hr__data_close(data);
    return status;
  }
  *out = data;
  return HR_OK;
}

void hr__data_close(hr_data *data) {
  if (!data) return;
  if (data->fd >= 0) close(data->fd);
  hr__free(data);
}

int64_t hr__data_train_windows(const hr_data *data) {
  return data->train_windows;
}
int64_t hr__data_eval_windows(const hr_data *data) {
  return data->eval_windows;
}
uint64_t hr__data_bytes(const hr_data *data) {
  return data->bytes;
}

uint64_t hr__data_window(const hr_data *data, uint64_t sample) {
  uint64_t n = (uint64_t)data->train_windows;
  return hr__random_permute(data->order, sample / n, sample % n, n);
}

static hr_status bytes_read(const hr_data *data, uint64_t at, unsigned char *to, size_t bytes, hr_error *err) {
  for (size_t got = 0; got < bytes;) {
    ssize_t n = pread(data->fd, to + got, bytes - got, (off_t)(at + got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return hr__fail_errno(err, data->path, "read", errno);
    if (n == 0)
      return hr__fail(err, HR_BAD_INPUT, data->path, "restore the file and resume",
                      "the file became shorter while training: no data at byte %" PRIu64 " of %" PRIu64, at + got,
                      data->bytes);
    got += (size_t)n;
  }
  return HR_OK;
}

/* The length + 1 bytes go to the end of the targets row, then are spread upwards from its beginning: number t is
 * written to bytes 4t..4t+3, the byte it comes from lies at 3 length + t, never before them. */
static hr_status window_row(const hr_data *data, uint64_t window, int32_t *tokens, int32_t *targets, hr_error *err) {
  size_t length = (size_t)data->shape.length;
  unsigned char *raw = (unsigned char *)targets + 3 * length - 1;
  HR_TRY(bytes_read(data, window * (uint64_t)length, raw, length + 1, err));
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
