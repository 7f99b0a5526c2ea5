#include "report/page.h"

#include <string.h>

#include "base/hash.h"
#include "format/base64.h"
#include "format/json.h"
#include "report/assets.h"

static hr_status text_add(hr_string *out, const char *text, hr_error *err) {
  return hr__string_add(out, text, strlen(text), err);
}

/* 'sha256-...' of a part, as a policy names it. */
enum { POLICY_HASH = 64 };
static hr_status policy_hash(const unsigned char *data, size_t bytes, char out[POLICY_HASH], hr_error *err) {
  hr_hash *hash = NULL;
  char hex[HR_SHA256_HEX], digits[POLICY_HASH];
  unsigned char raw[(HR_SHA256_HEX - 1) / 2];
  hr_status status = hr__hash_create(HR_HASH_SHA256, &hash, err);
  if (status == HR_OK) status = hr__hash_update(hash, data, bytes, err);
  if (status == HR_OK) status = hr__hash_hex(hash, hex, err);
  hr__hash_destroy(hash);
  HR_TRY(status);
  for (size_t i = 0; i < sizeof raw; i++) {
    int high = hex[2 * i], low = hex[2 * i + 1];
    raw[i] =
        (unsigned char)((high <= '9' ? high - '0' : high - 'a' + 10) << 4 | (low <= '9' ? low - '0' : low - 'a' + 10));
  }
  hr__base64_write(raw, sizeof raw, digits);
  snprintf(out, POLICY_HASH, "'sha256-%.44s'", digits);
  return HR_OK;
}

static hr_status policy_add(hr_string *out, hr_error *err) {
  char script[POLICY_HASH], style[POLICY_HASH], text[4 * POLICY_HASH];
  HR_TRY(policy_hash(hr__page_script, hr__page_script_bytes, script, err));
  HR_TRY(policy_hash(hr__page_style, hr__page_style_bytes, style, err));
  snprintf(text, sizeof text, "default-src 'none'; script-src %s; style-src %s; base-uri 'none'; form-action 'none'",
           script, style);
  return text_add(out, text, err);
}

/* JSON inside of a script element: what could end it, or begin a comment, is written as an escape, which means the
 * same. All else beyond ASCII is one already. */
static hr_status data_add(const json_t *data, hr_string *out, hr_error *err) {
  hr_arena arena;
  char *text;
  size_t bytes;
  hr__arena_init(&arena);
  hr_status status =
      hr__json_text(data, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9), &arena, &text, &bytes, err);
  for (size_t i = 0; i < bytes && status == HR_OK;) {
    size_t plain = strcspn(text + i, "<>&");
    status = hr__string_add(out, text + i, plain, err);
    i += plain;
    if (i == bytes || status != HR_OK) break;
    status = text_add(out, text[i] == '<' ? "\\u003c" : text[i] == '>' ? "\\u003e" : "\\u0026", err);
    i++;
  }
  hr__arena_fini(&arena);
  return status;
}

static hr_status part_add(const char *name, size_t length, const json_t *data, hr_string *out, hr_error *err) {
  if (strncmp(name, "policy", length) == 0) return policy_add(out, err);
  if (strncmp(name, "style", length) == 0)
    return hr__string_add(out, (const char *)hr__page_style, hr__page_style_bytes, err);
  if (strncmp(name, "script", length) == 0)
    return hr__string_add(out, (const char *)hr__page_script, hr__page_script_bytes, err);
  return data_add(data, out, err);
}

/* The page's own file has {{policy}}, {{style}}, {{data}} and {{script}}. */
hr_status hr__page_make(const json_t *data, hr_string *out, hr_error *err) {
  const char *at = (const char *)hr__page_html, *end = at + hr__page_html_bytes;
  while (at < end) {
    const char *open = memmem(at, (size_t)(end - at), "{{", 2);
    const char *close = open ? memmem(open, (size_t)(end - open), "}}", 2) : NULL;
    if (!close) return hr__string_add(out, at, (size_t)(end - at), err);
    HR_TRY(hr__string_add(out, at, (size_t)(open - at), err));
    HR_TRY(part_add(open + 2, (size_t)(close - open - 2), data, out, err));
    at = close + 2;
  }
  return HR_OK;
}
