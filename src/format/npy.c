/* The header of an .npy file is the text of a Python dict with three keys, descr, fortran_order and shape, behind the
 * magic, two bytes of version and the text's length (2 bytes in version 1, 4 later). */
#include "format/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/mem.h"
#include "format/file.h"

struct hr_npy {
  hr_npy_head head;
  char *path;
  int fd;
};

static const char save_anew[] = "save it anew: numpy.save(FILE, numpy.ascontiguousarray(array).astype('<i4'))";

/* The text of the dict, read from left to right. */
typedef struct reader {
  const char *name, *at, *end;
  bool floats; /* are taken too */
  hr_error *err;
} reader;

static const char save_floats[] = "save it anew: numpy.save(FILE, numpy.ascontiguousarray(array).astype('<f8'))";

static hr_status refuse(reader *r, const char *what) {
  return hr__fail(r->err, HR_BAD_INPUT, r->name, r->floats ? save_floats : save_anew, "not an .npy file of %s: %s",
                  r->floats ? "numbers" : "integers", what);
}

static void blanks(reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\n'))
    r->at++;
}

static bool skip(reader *r, const char *text) {
  blanks(r);
  size_t bytes = strlen(text);
  if (bytes > (size_t)(r->end - r->at) || memcmp(r->at, text, bytes) != 0) return false;
  r->at += bytes;
  return true;
}

/* A text in quotes of at most `room` - 1 bytes. */
static bool quoted(reader *r, char *out, size_t room) {
  blanks(r);
  char quote = r->at < r->end ? *r->at : 0;
  if (quote != '\'' && quote != '"') return false;
  const char *close = memchr(r->at + 1, quote, (size_t)(r->end - r->at - 1));
  if (!close || (size_t)(close - r->at - 1) >= room) return false;
  memcpy(out, r->at + 1, (size_t)(close - r->at - 1));
  out[close - r->at - 1] = 0;
  r->at = close + 1;
  return true;
}

static bool number(reader *r, int64_t *out) {
  blanks(r);
  *out = 0;
  const char *begin = r->at;
  for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
    if (!hr__mul_i64(*out, 10, out) || !hr__add_i64(*out, *r->at - '0', out)) return false;
  return r->at > begin;
}

static hr_status descr(reader *r, hr_npy_head *out) {
  char type[8];
  if (!quoted(r, type, sizeof type)) return refuse(r, "its type is no plain one");
  bool one = type[0] == '|';
  if (r->floats && (strcmp(type, "<f4") == 0 || strcmp(type, "<f8") == 0)) {
    out->is_float = out->is_signed = true;
    out->width = type[2] - '0';
    return HR_OK;
  }
  if (strlen(type) != 3 || (type[0] != '<' && !one) || (type[1] != 'i' && type[1] != 'u') || !strchr("1248", type[2]))
    return hr__fail(r->err, HR_BAD_INPUT, r->name, r->floats ? save_floats : save_anew,
                    "elements of type '%s'; little-endian integers of 1, 2, 4 or 8 bytes%s are read", type,
                    r->floats ? " and floats of 4 or 8" : "");
  out->is_signed = type[1] == 'i';
  out->width = type[2] - '0';
  if (one && out->width != 1) return refuse(r, "its byte order is not given");
  return HR_OK;
}

static hr_status shape(reader *r, hr_npy_head *out) {
  if (!skip(r, "(")) return refuse(r, "its shape is no tuple");
  out->elements = 1;
  for (out->rank = 0; !skip(r, ")"); out->rank++) {
    if (out->rank == HR_NPY_RANK) return refuse(r, "it has more than 4 axes");
    if (!number(r, &out->dim[out->rank])) return refuse(r, "its shape is no tuple of sizes");
    if (!hr__mul_i64(out->elements, out->dim[out->rank], &out->elements))
      return refuse(r, "it has more elements than can be counted");
    skip(r, "L"); /* Python 2 wrote long numbers so */
    if (!skip(r, ",") && !(skip(r, ")") && r->at--)) return refuse(r, "its shape is no tuple of sizes");
  }
  return HR_OK;
}

static hr_status dict(reader *r, hr_npy_head *out) {
  bool seen[3] = {false};
  static const char *const keys[] = {"descr", "fortran_order", "shape"};
  if (!skip(r, "{")) return refuse(r, "its header is no dict");
  while (!skip(r, "}")) {
    char key[24];
    size_t which = 0;
    if (!quoted(r, key, sizeof key) || !skip(r, ":")) return refuse(r, "its header is no dict of texts");
    while (which < 3 && strcmp(keys[which], key) != 0)
      which++;
    if (which == 3 || seen[which]) return refuse(r, "its header has other keys than descr, fortran_order and shape");
    seen[which] = true;
    if (which == 0) HR_TRY(descr(r, out));
    if (which == 1 && !skip(r, "False"))
      return refuse(r, skip(r, "True") ? "it lies columns first (Fortran order)" : "fortran_order is no boolean");
    if (which == 2) HR_TRY(shape(r, out));
    skip(r, ",");
  }
  blanks(r);
  if (!seen[0] || !seen[1] || !seen[2]) return refuse(r, "its header lacks descr, fortran_order or shape");
  return r->at == r->end ? HR_OK : refuse(r, "something stands behind its header");
}

static hr_status head_read(const char *name, const void *head, size_t head_bytes, uint64_t file_bytes, bool floats,
                           hr_npy_head *out, hr_error *err) {
  const unsigned char *at = head;
  reader r = {.name = name, .floats = floats, .err = err};
  *out = (hr_npy_head){0};
  if (head_bytes < 10 || memcmp(at, "\x93NUMPY", 6) != 0) return refuse(&r, "it does not begin with \\x93NUMPY");
  if (at[6] < 1 || at[6] > 3) return refuse(&r, "its version is none of 1 to 3");
  size_t before = at[6] == 1 ? 10 : 12;
  if (head_bytes < before) return refuse(&r, "it ends inside of its header");
  size_t text = (size_t)at[8] | (size_t)at[9] << 8;
  if (at[6] > 1) text |= (size_t)at[10] << 16 | (size_t)at[11] << 24;
  if (text > head_bytes - before) return refuse(&r, "its header is longer than the file, or than 64 KiB");
  r.at = (const char *)head + before;
  r.end = r.at + text;
  HR_TRY(dict(&r, out));
  out->data_begin = before + text;
  int64_t bytes;
  if (!hr__mul_i64(out->elements, out->width, &bytes)) return refuse(&r, "it has more bytes than can be counted");
  uint64_t there = file_bytes > out->data_begin ? file_bytes - out->data_begin : 0;
  if ((uint64_t)bytes > there)
    return hr__fail(err, HR_BAD_INPUT, name, "fetch or write the file again",
                    "the file is cut off: its elements take %lld bytes, of which %llu are there", (long long)bytes,
                    (unsigned long long)there);
  return HR_OK;
}

hr_status hr__npy_head(const char *name, const void *head, size_t head_bytes, uint64_t file_bytes, hr_npy_head *out,
                       hr_error *err) {
  return head_read(name, head, head_bytes, file_bytes, false, out, err);
}

bool hr__npy_element(const hr_npy_head *head, const unsigned char *elements, size_t index, int64_t *out) {
  const unsigned char *at = elements + index * (size_t)head->width;
  uint64_t bits = 0;
  for (int i = head->width; i > 0; i--)
    bits = bits << 8 | at[i - 1];
  if (head->is_signed && head->width < 8 && bits >> (8 * head->width - 1)) bits |= ~(uint64_t)0 << 8 * head->width;
  *out = (int64_t)bits;
  return head->is_signed || bits <= INT64_MAX;
}

static hr_status head_of_file(hr_npy *npy, uint64_t bytes, bool floats, hr_error *err) {
  hr_arena work = {0};
  size_t window = bytes < HR_NPY_HEAD ? (size_t)bytes : HR_NPY_HEAD;
  void *head = hr__arena_room(&work, window ? window : 1, 1);
  hr_status status = head ? hr__file_read_at(npy->fd, npy->path, 0, head, window, err) : hr__nomem(err);
  if (status == HR_OK) status = head_read(npy->path, head, window, bytes, floats, &npy->head, err);
  hr__arena_fini(&work);
  return status;
}

static hr_status array_open(const char *path, bool floats, hr_npy **out, hr_error *err) {
  size_t length = strlen(path) + 1;
  hr_npy *npy = hr__alloc_zero(1, sizeof *npy);
  if (!npy) return hr__nomem(err);
  npy->fd = -1;
  npy->path = hr__alloc(length);
  hr_status status = npy->path ? HR_OK : hr__nomem(err);
  uint64_t bytes = 0;
  if (npy->path) memcpy(npy->path, path, length);
  if (status == HR_OK) status = hr__file_open(path, &npy->fd, &bytes, err);
  if (status == HR_OK) status = head_of_file(npy, bytes, floats, err);
  if (status == HR_OK)
    *out = npy;
  else
    hr__npy_close(npy);
  return status;
}

hr_status hr__npy_open(const char *path, hr_npy **out, hr_error *err) {
  return array_open(path, false, out, err);
}

hr_status hr__npy_open_numbers(const char *path, hr_npy **out, hr_error *err) {
  return array_open(path, true, out, err);
}

void hr__npy_close(hr_npy *npy) {
  if (!npy) return;
  if (npy->fd >= 0) close(npy->fd);
  hr__free(npy->path);
  hr__free(npy);
}

const hr_npy_head *hr__npy_shape(const hr_npy *npy) {
  return &npy->head;
}

/* The number that has these bits, read as a whole number of the element's width. */
static double float_of(const hr_npy_head *head, int64_t bits) {
  if (head->width == 8) {
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
  }
  uint32_t half = (uint32_t)bits;
  float number;
  memcpy(&number, &half, sizeof number);
  return (double)number;
}

/* Elements of any kind, as whole numbers or as f64: one of the two is NULL. */
static hr_status elements_read(const hr_npy *npy, int64_t first, int64_t count, int64_t *whole, double *numbers,
                               hr_error *err) {
  const hr_npy_head *head = &npy->head;
  if (first < 0 || count < 0 || first > head->elements || count > head->elements - first)
    return hr__fail(err, HR_USAGE, npy->path, NULL, "read beyond the end of the array");
  unsigned char window[1 << 14];
  size_t width = (size_t)head->width;
  for (int64_t done = 0; done < count;) {
    size_t part = sizeof window / width;
    if ((int64_t)part > count - done) part = (size_t)(count - done);
    uint64_t at = head->data_begin + (uint64_t)(first + done) * width;
    HR_TRY(hr__file_read_at(npy->fd, npy->path, at, window, part * width, err));
    for (size_t i = 0; i < part; i++) {
      int64_t bits;
      if (!hr__npy_element(head, window, i, &bits))
        return hr__fail(err, HR_BAD_INPUT, npy->path, NULL, "element %lld has more than 63 bits",
                        (long long)(first + done) + (long long)i);
      if (whole)
        whole[done + (int64_t)i] = bits;
      else
        numbers[done + (int64_t)i] = head->is_float ? float_of(head, bits) : (double)bits;
    }
    done += (int64_t)part;
  }
  return HR_OK;
}

hr_status hr__npy_read(const hr_npy *npy, int64_t first, int64_t count, int64_t *out, hr_error *err) {
  return elements_read(npy, first, count, out, NULL, err);
}

hr_status hr__npy_read_numbers(const hr_npy *npy, int64_t first, int64_t count, double *out, hr_error *err) {
  return elements_read(npy, first, count, NULL, out, err);
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

hr_status hr__npy_write(const char *path, const float *values, int64_t rows, int64_t columns, hr_error *err) {
  enum { HEAD = 128, BEFORE = 10 }; /* magic, version and length of the text, which fills the rest and ends a line */
  size_t bytes = (size_t)rows * (size_t)columns * sizeof *values;
  char *file = hr__alloc(HEAD + bytes);
  if (!file) return hr__nomem(err);
  memcpy(file, "\x93NUMPY\x01\x00", 8);
  file[8] = HEAD - BEFORE;
  file[9] = 0;
  int length =
      snprintf(file + BEFORE, HEAD - BEFORE,
               "{'descr': '<f4', 'fortran_order': False, 'shape': (%" PRId64 ", %" PRId64 "), }", rows, columns);
  memset(file + BEFORE + length, ' ', (size_t)(HEAD - BEFORE - length));
  file[HEAD - 1] = '\n';
  memcpy(file + HEAD, values, bytes);
  hr_status status = hr__file_replace(path, file, HEAD + bytes, err);
  hr__free(file);
  return status;
}
