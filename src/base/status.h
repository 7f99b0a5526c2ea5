/* Status: the one error path of headroom.
 *
 * Every fallible function returns an hr_status. A human message (what, where, what to do) is left in the hr_error that
 * is always the last parameter. The site that finds the fault writes the message with hr__fail; everybody else only
 * passes the status on with HR_TRY. Out of memory never formats: it is safe to report at any moment.
 */
#ifndef HR_BASE_STATUS_H
#define HR_BASE_STATUS_H

/*      code         exit  text                                        */
#define HR_STATUS_MAP(X)                                                                                               \
  X(HR_OK, 0, "ok")                                                                                                    \
  X(HR_FAILURE, 1, "failure")                                                                                          \
  X(HR_NOMEM, 1, "out of memory")                                                                                      \
  X(HR_IO, 1, "input/output error")                                                                                    \
  X(HR_NO_SPACE, 1, "no room to write")                                                                                \
  X(HR_UNSUPPORTED, 1, "not supported")                                                                                \
  X(HR_USAGE, 2, "wrong usage")                                                                                        \
  X(HR_NO_FIT, 3, "does not fit")                                                                                      \
  X(HR_ABOVE_PLAN, 4, "measured peak above the plan")                                                                  \
  X(HR_BAD_INPUT, 5, "bad or damaged input")                                                                           \
  X(HR_HUNG_UP, 129, "terminal closed, after saving")                                                                  \
  X(HR_INTERRUPTED, 130, "interrupted after saving")                                                                   \
  X(HR_TERMINATED, 143, "terminated after saving")

typedef enum hr_status {
#define HR_STATUS_ENUM(code, exit_code, text) code,
  HR_STATUS_MAP(HR_STATUS_ENUM)
#undef HR_STATUS_ENUM
} hr_status;

/* What went wrong, for a person. All three texts are NUL-terminated and hold no control bytes (names from files are
 * hostile text, so hr__fail escapes what it formats). */
typedef struct hr_error {
  hr_status status;
  char place[256];   /* "recipe.yaml:12:7", "model.safetensors, byte 96", "node 14 (linear)"; may be empty */
  char message[512]; /* what is wrong */
  char remedy[384];  /* what to do next; may be empty */
} hr_error;

/* Records an error and returns its status, so that a failing site reads `return hr__fail(...)`. `err` may be NULL.
 * `place` and `remedy` may be NULL. */
__attribute__((format(printf, 5, 6))) hr_status hr__fail(hr_error *err, hr_status status, const char *place,
                                                         const char *remedy, const char *format, ...);

/* Out of memory: fixed text, nothing formatted. */
hr_status hr__nomem(hr_error *err);

/* HR_IO with the text of `errno_value`; `what` is the action, such as "write". Lack of memory is HR_NOMEM; of room on a
 * disk, in a quota or under a limit of file sizes HR_NO_SPACE: what failed may succeed later. */
hr_status hr__fail_errno(hr_error *err, const char *path, const char *what, int errno_value);

const char *hr_status_text(hr_status status);
const char *hr_status_name(hr_status status);
int hr_status_exit_code(hr_status status);

/* The only flow macro: leave at once with the status of a failed call. */
#define HR_TRY(call)                                                                                                   \
  do {                                                                                                                 \
    hr_status try_status_ = (call);                                                                                    \
    if (try_status_ != HR_OK) return try_status_;                                                                      \
  } while (0)

#endif
