#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

struct hr_regex {
  pcre2_code *code;
};

struct hr_regex_room {
  pcre2_match_data *data;
  pcre2_match_context *limits;
};

static void *take(size_t bytes, void *user) {
  (void)user;
  return hr__alloc(bytes);
}

static void give(void *memory, void *user) {
  (void)user;
  hr__free(memory);
}

/* Words that fail to compile are a fault of the file; the caller adds the place. */
static hr_status compile_fail(int code, size_t offset, hr_error *err) {
  char text[160];
  if (code == PCRE2_ERROR_HEAP_FAILED || code == PCRE2_ERROR_NOMEMORY) return hr__nomem(err);
  pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text);
  return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "regular expression: %s (near its byte %zu)", text, offset);
}

hr_status hr__regex_create(const char *pattern, size_t bytes, hr_dialect dialect, hr_regex **out, hr_error *err) {
  hr_string text = {0};
  hr_status status = hr__dialect_write(pattern, bytes, dialect, &text, err);
  hr_regex *regex = status == HR_OK ? hr__alloc_zero(1, sizeof *regex) : NULL;
  pcre2_general_context *memory = pcre2_general_context_create(take, give, NULL);
  pcre2_compile_context *context = memory ? pcre2_compile_context_create(memory) : NULL;
  if (status == HR_OK && (!regex || !context)) status = hr__nomem(err);
  if (status == HR_OK) {
    int code = 0;
    size_t offset = 0;
    regex->code = pcre2_compile((PCRE2_SPTR)text.data, text.count, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &code,
                                &offset, context);
    if (!regex->code) status = compile_fail(code, offset, err);
  }
  /* Where PCRE2 has no compiler for the processor it interprets. */
  if (status == HR_OK && pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE) == PCRE2_ERROR_NOMEMORY) {
    pcre2_code_free(regex->code);
    status = hr__nomem(err);
  }
  pcre2_compile_context_free(context);
  pcre2_general_context_free(memory);
  hr__string_fini(&text);
  if (status == HR_OK)
    *out = regex;
  else
    hr__free(regex);
  return status;
}

void hr__regex_destroy(hr_regex *regex) {
  if (!regex) return;
  pcre2_code_free(regex->code);
  hr__free(regex);
}

/* A hostile pattern may not take forever: beyond these it is given up, with an error. */
enum { MATCH_STEPS = 2000000, HEAP_KIB = 65536 };

hr_status hr__regex_room_create(hr_regex_room **out, hr_error *err) {
  hr_regex_room *room = hr__alloc_zero(1, sizeof *room);
  pcre2_general_context *memory = pcre2_general_context_create(take, give, NULL);
  if (room && memory) {
    room->data = pcre2_match_data_create(1, memory); /* only where the whole match lies */
    room->limits = pcre2_match_context_create(memory);
  }
  pcre2_general_context_free(memory);
  if (!room || !room->data || !room->limits) {
    hr__regex_room_destroy(room);
    return hr__nomem(err);
  }
  pcre2_set_match_limit(room->limits, MATCH_STEPS);
  pcre2_set_heap_limit(room->limits, HEAP_KIB);
  *out = room;
  return HR_OK;
}

void hr__regex_room_destroy(hr_regex_room *room) {
  if (!room) return;
  pcre2_match_data_free(room->data);
  pcre2_match_context_free(room->limits);
  hr__free(room);
}

hr_status hr__regex_find(const hr_regex *regex, hr_regex_room *room, const char *text, size_t bytes, size_t from,
                         size_t *begin, size_t *end, hr_error *err) {
  uint32_t options = PCRE2_NO_UTF_CHECK;
  int found = pcre2_match(regex->code, (PCRE2_SPTR)text, bytes, from, options, room->data, room->limits);
  if (found == PCRE2_ERROR_JIT_STACKLIMIT) /* the interpreter takes its memory from the heap */
    found = pcre2_match(regex->code, (PCRE2_SPTR)text, bytes, from, options | PCRE2_NO_JIT, room->data, room->limits);
  if (found == PCRE2_ERROR_NOMATCH) {
    *begin = bytes + 1;
    return HR_OK;
  }
  if (found == PCRE2_ERROR_NOMEMORY) return hr__nomem(err);
  if (found < 0)
    return hr__fail(err, HR_FAILURE, NULL, "cut the text into smaller pieces",
                    "the tokenizer's regular expression takes too long on this text (PCRE2 error %d)", found);
  const PCRE2_SIZE *span = pcre2_get_ovector_pointer(room->data);
  *begin = span[0];
  *end = span[1] > span[0] ? span[1] : span[0];
  return HR_OK;
}
