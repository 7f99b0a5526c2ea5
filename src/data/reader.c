/* See reader.h. */
#include "data/reader.h"

#include "base/courier.h"
#include "base/mem.h"

/* Rows [first, first + count) of a slot's batch, by one thread. */
typedef struct share {
  struct slot *slot;
  hr_errand errand;
  int filler;
  int64_t first, count;
  hr_status status;
  hr_error error;
} share;

typedef struct slot {
  const hr_data *data;
  void *at[HR_FIELDS]; /* of the fields of `micro` */
  char *room;
  hr_micro micro;
  bool holds; /* `micro` is there, or on its way */
  bool sent;  /* on its way */
  share *shares;
  int n_shares;
} slot;

struct hr_reader {
  const hr_data *data;
  int64_t batch;
  int workers;
  hr_courier *courier; /* NULL without workers */
  slot slots[HR_BATCH_SLOTS];
  share *shares;
  int given; /* slot of the last `get` */
};

static void share_run(void *arg) {
  share *s = arg;
  s->status = hr__data_fill(s->slot->data, &s->slot->micro, s->first, s->count, s->filler, s->slot->at, &s->error);
}

/* The same rows go to the same share whatever it holds: each is written by one thread. */
static void slot_create(hr_reader *r, int number, char *room) {
  slot *s = &r->slots[number];
  int shares = r->workers > 0 ? r->workers : 1;
  if (shares > r->batch) shares = (int)r->batch;
  *s = (slot){.data = r->data, .room = room, .shares = r->shares + number * shares, .n_shares = shares};
  for (int i = 0; i < shares; i++) {
    int64_t first = r->batch * i / shares, end = r->batch * (i + 1) / shares;
    s->shares[i] = (share){.slot = s, .filler = i, .first = first, .count = end - first};
    s->shares[i].errand = (hr_errand){.run = share_run, .arg = &s->shares[i]};
  }
}

hr_status hr__reader_create(const hr_data *data, int64_t batch, int workers, char *const slots[HR_BATCH_SLOTS],
                            hr_reader **out, hr_error *err) {
  hr_reader *r = hr__alloc_zero(1, sizeof *r);
  if (!r) return hr__nomem(err);
  *r = (hr_reader){.data = data, .batch = batch, .workers = workers};
  size_t shares = HR_BATCH_SLOTS * (size_t)(workers > 0 ? workers : 1);
  r->shares = hr__alloc_zero(shares, sizeof *r->shares);
  hr_status status = r->shares ? HR_OK : hr__nomem(err);
  for (int i = 0; status == HR_OK && i < HR_BATCH_SLOTS; i++)
    slot_create(r, i, slots[i]);
  if (status == HR_OK && workers > 0) status = hr__courier_create(&workers, 1, shares, &r->courier, err);
  if (status != HR_OK) {
    hr__reader_destroy(r);
    return status;
  }
  *out = r;
  return HR_OK;
}

void hr__reader_destroy(hr_reader *r) {
  if (!r) return;
  if (r->courier) hr__courier_destroy(r->courier);
  hr__free(r->shares);
  hr__free(r);
}

static bool slot_holds(const slot *s, const hr_micro *micro) {
  return s->holds && s->micro.sample == micro->sample && s->micro.eval == micro->eval && s->micro.items == micro->items;
}

static void slot_wait(hr_reader *r, slot *s) {
  for (int i = 0; s->sent && i < s->n_shares; i++)
    hr__courier_wait(r->courier, &s->shares[i].errand);
  s->sent = false;
}

static void slot_name(hr_reader *r, slot *s, const hr_micro *micro) {
  size_t begin[HR_FIELDS];
  const hr_fields *fields = hr__data_fields(r->data, micro->bucket);
  hr__fields_place(fields, begin);
  for (int i = 0; i < fields->count; i++)
    s->at[i] = s->room + begin[i];
  s->micro = *micro;
  s->holds = true;
}

static void slot_send(hr_reader *r, slot *s, const hr_micro *micro) {
  slot_wait(r, s); /* what was read in vain */
  slot_name(r, s, micro);
  for (int i = 0; i < s->n_shares; i++)
    hr__courier_send(r->courier, 0, &s->shares[i].errand);
  s->sent = true;
}

void hr__reader_forget(hr_reader *r) {
  for (int i = 0; i < HR_BATCH_SLOTS; i++) {
    slot_wait(r, &r->slots[i]);
    r->slots[i].holds = false;
  }
}

void hr__reader_ahead(hr_reader *r, const hr_micro *micro) {
  slot *s = &r->slots[1 - r->given];
  if (!r->courier || slot_holds(s, micro)) return;
  slot_send(r, s, micro);
}

hr_status hr__reader_get(hr_reader *r, const hr_micro *micro, int *number, hr_error *err) {
  slot *s = &r->slots[1 - r->given];
  if (!slot_holds(s, micro)) s = &r->slots[r->given]; /* what the other one holds may still be asked for */
  bool there = slot_holds(s, micro);
  if (!there && r->courier) slot_send(r, s, micro);
  if (!there && !r->courier) {
    slot_name(r, s, micro);
    for (int i = 0; i < s->n_shares; i++)
      share_run(&s->shares[i]);
  }
  slot_wait(r, s);
  r->given = (int)(s - r->slots);
  *number = r->given;
  for (int i = 0; i < s->n_shares; i++) {
    if (s->shares[i].status == HR_OK) continue;
    s->holds = false;
    if (err) *err = s->shares[i].error;
    return s->shares[i].status;
  }
  return HR_OK;
}
