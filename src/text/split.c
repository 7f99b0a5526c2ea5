#include "text/split.h"

#include "text/unicode.h"

const char *const hr__split_names[HR_SPLIT_WAYS] = {
    [HR_SPLIT_REMOVED] = "Removed",
    [HR_SPLIT_ISOLATED] = "Isolated",
    [HR_SPLIT_PREVIOUS] = "MergedWithPrevious",
    [HR_SPLIT_NEXT] = "MergedWithNext",
    [HR_SPLIT_CONTIGUOUS] = "Contiguous",
};

/* One text on its way through: spans come in order, a match or not, and go out when it is settled what they join. */
typedef struct cutting {
  const hr_split *split;
  hr_encoder *encoder;
  hr_span whole;
  bool waiting, waiting_matched; /* a span that may still be joined by the next one */
  size_t begin, end;
  hr_error *err;
} cutting;

static hr_status hand_on(const cutting *c, size_t begin, size_t end) {
  if (begin == end) return HR_OK;
  hr_span piece = {c->whole.text + begin, end - begin, c->whole.first && begin == 0};
  return hr__relay_next(&c->split->relay, c->encoder, piece, c->err);
}

static hr_status flush(cutting *c) {
  bool waiting = c->waiting;
  c->waiting = false;
  return waiting ? hand_on(c, c->begin, c->end) : HR_OK;
}

static bool joins(const cutting *c, bool matched) {
  switch (c->split->way) {
  case HR_SPLIT_PREVIOUS:
    return matched && !c->waiting_matched;
  case HR_SPLIT_NEXT:
    return !matched && c->waiting_matched;
  case HR_SPLIT_CONTIGUOUS:
    return matched == c->waiting_matched;
  default:
    return false;
  }
}

static hr_status take(cutting *c, size_t begin, size_t end, bool matched) {
  if (c->split->invert) matched = !matched;
  if (c->split->way == HR_SPLIT_ISOLATED) return hand_on(c, begin, end);
  if (c->split->way == HR_SPLIT_REMOVED) return matched ? HR_OK : hand_on(c, begin, end);
  if (c->waiting && joins(c, matched)) {
    c->end = end;
    if (c->split->way == HR_SPLIT_PREVIOUS) c->waiting_matched = true;
    if (c->split->way == HR_SPLIT_NEXT) c->waiting_matched = false;
    return HR_OK;
  }
  HR_TRY(flush(c));
  c->waiting = true;
  c->waiting_matched = matched;
  c->begin = begin;
  c->end = end;
  return HR_OK;
}

/* The first match at or behind `from`; *begin beyond the text: none. */
static hr_status find(const cutting *c, size_t from, size_t *begin, size_t *end) {
  const hr_split *split = c->split;
  const char *text = c->whole.text;
  size_t bytes = c->whole.bytes;
  if (split->regex) return hr__regex_find(split->regex, c->encoder->room, text, bytes, from, begin, end, c->err);
  if (split->known) {
    *begin = from;
    *end = (size_t)(split->known(text + from, text + bytes) - text);
    return HR_OK;
  }
  if (split->is) {
    for (size_t at = from, length; at < bytes; at += length)
      if (split->is(hr__utf8_get(text + at, &length))) {
        *begin = at;
        *end = at + length;
        return HR_OK;
      }
    *begin = bytes + 1;
    return HR_OK;
  }
  const char *found = split->bytes > 0 ? memmem(text + from, bytes - from, split->text, split->bytes) : NULL;
  *begin = found ? (size_t)(found - text) : bytes + 1;
  *end = *begin + split->bytes;
  return HR_OK;
}

hr_status hr__split_run(const hr_relay *relay, hr_encoder *encoder, hr_span span, hr_error *err) {
  const hr_split *split = (const hr_split *)relay;
  if (split->known && split->way == HR_SPLIT_ISOLATED) { /* the way of most tokenizers, without detours */
    const char *end = span.text + span.bytes;
    for (const char *at = span.text; at < end;) {
      const char *stop = split->known(at, end);
      hr_span piece = {at, (size_t)(stop - at), span.first && at == span.text};
      HR_TRY(hr__relay_next(relay, encoder, piece, err));
      at = stop;
    }
    return HR_OK;
  }
  cutting c = {.split = split, .encoder = encoder, .whole = span, .err = err};
  size_t done = 0, from = 0;
  while (from < span.bytes) {
    size_t begin = span.bytes + 1, end = begin;
    HR_TRY(find(&c, from, &begin, &end));
    if (begin >= span.bytes) break;
    if (begin > done) HR_TRY(take(&c, done, begin, false));
    if (end > begin) HR_TRY(take(&c, begin, end, true));
    done = end;
    from = end > begin ? end : begin + hr__utf8_length((unsigned char)span.text[begin]); /* an empty match only cuts */
  }
  if (done < span.bytes) HR_TRY(take(&c, done, span.bytes, false));
  return flush(&c);
}
