/* The error path: see base/status.h. */
#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

hr_status hr__fail(hr_error *err, hr_status status, const char *place, const char *remedy, const char *format, ...) {
  if (!err) return status;
  /* Formatted aside first: place, remedy and arguments may point into *err. Larger than the message, so that the only
   * cut is the one made by hr__text_escape, which falls between characters. */
  char text[1024], where[sizeof err->place], what_next[sizeof err->remedy];
  va_list args;
  va_start(args, format);
  int length = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (length < 0) text[0] = '\0';
  hr__text_escape(place ? place : "", place ? strlen(place) : 0, where, sizeof where);
  hr__text_escape(remedy ? remedy : "", remedy ? strlen(remedy) : 0, what_next, sizeof what_next);
  hr__text_escape(text, strlen(text), err->message, sizeof err->message);
  memcpy(err->place, where, sizeof where);
  memcpy(err->remedy, what_next, sizeof what_next);
  err->status = status;
  return status;
}

hr_status hr__nomem(hr_error *err) {
  if (!err) return HR_NOMEM;
  err->status = HR_NOMEM;
  err->place[0] = '\0';
  strcpy(err->message, "out of memory");
  strcpy(err->remedy, "free memory on this machine or make the model, batch or budget smaller");
  return HR_NOMEM;
}

hr_status hr__fail_errno(hr_error *err, const char *path, const char *what, int errno_value) {
  if (errno_value == ENOMEM) return hr__nomem(err);
  char buffer[128];
  const char *reason = strerror_r(errno_value, buffer, sizeof buffer); /* the GNU form, which always gives a text */
  const char *remedy = NULL;
  bool full = errno_value == ENOSPC || errno_value == EDQUOT;
  if (full) remedy = "make room on this file system and try again";
  if (errno_value == EFBIG) remedy = "raise the limit of file sizes (ulimit -f) and try again";
  if (errno_value == EACCES || errno_value == EPERM) remedy = "check the permissions of the file and its folder";
  if (errno_value == EROFS) remedy = "choose a folder that can be written";
  hr_status status = full || errno_value == EFBIG ? HR_NO_SPACE : HR_IO;
  return hr__fail(err, status, path, remedy, "cannot %s: %s", what, reason);
}

static const struct {
  const char *name, *text;
  int exit_code;
} statuses[] = {
#define HR_STATUS_ROW(code, exit_code, text) [code] = {#code, text, exit_code},
    HR_STATUS_MAP(HR_STATUS_ROW)
#undef HR_STATUS_ROW
};

static size_t status_row(hr_status status) {
  size_t row = (size_t)status;
  return row < sizeof statuses / sizeof statuses[0] ? row : HR_FAILURE;
}

const char *hr_status_text(hr_status status) {
  return statuses[status_row(status)].text;
}

const char *hr_status_name(hr_status status) {
  return statuses[status_row(status)].name;
}

int hr_status_exit_code(hr_status status) {
  return statuses[status_row(status)].exit_code;
}
