/* See part_session.h. */
#include "part_session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void message_count(void *user, hr_message_kind kind, const char *text) {
  desk *d = user;
  if (kind != HR_MESSAGE_WARNING) return;
  d->warnings++;
  snprintf(d->last, sizeof d->last, "%s", text);
}

static void must(hr_status status, const hr_error *err) {
  if (status != HR_OK) fail_msg("%s: %s: %s", hr_status_name(status), err->place, err->message);
}

void desk_open(desk *d, const char *out, const char *const *overrides) {
  *d = (desk){.store = {.lock = -1, .keep = 2}};
  hr_error err = {0};
  must(tiny_open(&d->tiny, overrides, &err), &err);
  d->options = (hr_train_options){.recipe = d->tiny.recipe, .plan = d->tiny.plan, .device = d->tiny.device};
  must(hr__session_create(&d->options, false, &d->session, &err), &err);
  must(hr__session_begin(&d->session, &err), &err);
  d->store.message = message_count;
  d->store.message_user = d;
  snprintf(d->store.out, sizeof d->store.out, "%s", out);
  must(hr__run_names(d->tiny.recipe, &d->arena, &d->store.names, &err), &err);
  must(hr__run_files_open(d->tiny.recipe, &d->arena, &d->store.files, &err), &err);
  must(hr__run_files(d->tiny.recipe, &d->session.tensors, &d->arena, &d->store.files, &err), &err);
  d->manifest.seed = 7;
  memcpy(d->manifest.fingerprint, d->tiny.plan->fingerprint, sizeof d->manifest.fingerprint);
  must(hr__identity_list(d->tiny.recipe, d->session.data, &d->session.shape, "", "", &d->arena, &d->manifest.settings,
                         &d->manifest.n_settings, &err),
       &err);
  must(hr__settings_hash(d->manifest.settings, d->manifest.n_settings, d->manifest.recipe_hash, &err), &err);
}

void desk_close(desk *d) {
  hr__run_files_close(&d->store.files);
  hr__session_destroy(&d->session);
  hr__arena_fini(&d->arena);
  tiny_close(&d->tiny);
}

hr_status desk_save(desk *d, int64_t step, hr_error *err) {
  d->manifest.step = step;
  return hr__checkpoint_save(&d->store, &d->session.tensors, &d->manifest, err);
}

hr_status desk_load(desk *d, int64_t *step, hr_error *err) {
  d->warnings = 0;
  *step = -1;
  return hr__checkpoint_load(&d->store, &d->session.tensors, d->manifest.settings, d->manifest.n_settings, step, err);
}

void desk_sha256(desk *d, char hex[HR_SHA256_HEX]) {
  hr_error err = {0};
  must(hr__tensors_sha256(&d->session.tensors, hex, &err), &err);
}

void desk_steps(desk *d, int64_t first, int64_t last) {
  hr_error err = {0};
  hr_step_result result;
  for (int64_t step = first; step <= last; step++)
    must(hr__session_step(&d->session, step, &result, &err), &err);
}
