/* See data.h. */
#include "data/data.h"

#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "data/index.h"
#include "data/tokens.h"

/* What is read: samples to train on, with those held out behind them; or, of data.eval_path, to evaluate on. */
typedef struct part {
  void *state;     /* of the source */
  hr_index *index; /* NULL: all samples have the same length */
} part;

struct hr_data {
  hr_data_shape shape; /* its arrays are our own */
  const hr_source *source;
  part parts[2];
  bool own_eval; /* there is a second part */
  uint64_t train, eval;
  hr_random_key order;
  char *scratch; /* of each filler: a sample of fields whose batch is not the first axis; NULL: there are none */
  size_t scratch_bytes;
  char *counted; /* room for one sample that is only counted in; NULL: nothing is */
  size_t count_bytes;
};

/* Which purposes are the source's; the rest is made here. */
static hr_status fields_check(const hr_data *data, const hr_recipe *recipe, hr_error *err) {
  const hr_fields *fields = &data->shape.fields[data->shape.n_buckets - 1];
  for (int i = 0; i < fields->count; i++) {
    const hr_field *field = &fields->list[i];
    if (field->purpose == HR_FOR_LENGTHS || field->purpose == HR_FOR_FACTOR ||
        data->source->purposes >> field->purpose & 1)
      continue;
    return hr__recipe_fail(recipe, "data.source", "choose another data.source", err,
                           "the model reads %s (%s), which source %s does not give", field->name,
                           hr_purpose_name(field->purpose), data->source->name);
  }
  return HR_OK;
}

static hr_status shape_copy(hr_data *data, const hr_data_shape *shape, hr_error *err) {
  size_t count = (size_t)shape->n_buckets;
  int64_t *buckets = hr__alloc_zero(count, sizeof *buckets);
  hr_fields *fields = hr__alloc_zero(count, sizeof *fields);
  data->shape = *shape;
  data->shape.buckets = buckets;
  data->shape.fields = fields;
  if (!buckets || !fields) return hr__nomem(err);
  memcpy(buckets, shape->buckets, count * sizeof *buckets);
  memcpy(fields, shape->fields, count * sizeof *fields);
  return HR_OK;
}

/* Samples of such fields lie in pieces: they are made whole and then dealt out. To count in samples all fields of one
 * need room. */
static hr_status scratch_create(hr_data *data, hr_error *err) {
  for (int b = 0; b < data->shape.n_buckets; b++) {
    size_t bytes = 0, begin[HR_FIELDS];
    hr_fields one = hr__fields_of_one(&data->shape.fields[b]);
    size_t whole = hr__fields_place(&one, begin);
    if (data->shape.counts && whole > data->count_bytes) data->count_bytes = whole;
    for (int i = 0; i < data->shape.fields[b].count; i++) {
      const hr_field *field = &data->shape.fields[b].list[i];
      if (field->batch_axis > 0) bytes += hr__field_sample_bytes(field);
    }
    if (bytes > data->scratch_bytes) data->scratch_bytes = bytes;
  }
  if (data->count_bytes > 0) {
    data->counted = hr__alloc_zero(1, data->count_bytes);
    if (!data->counted) return hr__nomem(err);
  }
  if (data->scratch_bytes == 0) return HR_OK;
  data->scratch = hr__alloc_zero((size_t)data->shape.fillers, data->scratch_bytes);
  return data->scratch ? HR_OK : hr__nomem(err);
}

static hr_status part_open(hr_data *data, part *p, const hr_source_request *request, hr_error *err) {
  const hr_data_shape *shape = &data->shape;
  HR_TRY(data->source->open(request, &p->state, err));
  if (data->source->scan) {
    hr_index_shape index = {.batch = shape->batch, .buckets = shape->buckets, .n_buckets = shape->n_buckets};
    HR_TRY(hr__index_make(data->source, p->state, request, &index, &p->index, err));
    data->train += (uint64_t)hr__index_train(p->index);
    data->eval += (uint64_t)hr__index_eval(p->index);
  } else if (!data->source->endless) {
    uint64_t samples = data->source->samples(p->state);
    uint64_t held = data->source->held ? data->source->held(p->state) : hr__held_out(request, samples);
    data->eval += held;
    data->train += samples - held;
  }
  return HR_OK;
}

static hr_status data_build(hr_data *data, const hr_recipe *recipe, const hr_data_shape *shape, hr_error *err) {
  HR_TRY(shape_copy(data, shape, err));
  HR_TRY(scratch_create(data, err));
  int longest = shape->n_buckets - 1;
  data->source = hr__source_of(recipe);
  data->order = (hr_random_key){shape->seed, hr__random_stream("data.order")};
  HR_TRY(fields_check(data, recipe, err));
  if (data->source->endless && hr__recipe_has(recipe, "data.eval_path"))
    return hr__recipe_fail(recipe, "data.eval_path", "leave it out", err, "source %s reads no files",
                           data->source->name);
  data->own_eval = shape->eval && hr__recipe_has(recipe, "data.eval_path");
  hr_source_request request = {.recipe = recipe,
                               .key = "data.path",
                               .fields = &data->shape.fields[longest],
                               .length = shape->buckets[longest],
                               .seed = shape->seed,
                               .watch = shape->watch,
                               .held = shape->eval && !data->own_eval ? HR_HOLD_PART : HR_HOLD_NONE};
  HR_TRY(part_open(data, &data->parts[0], &request, err));
  if (!data->own_eval) return HR_OK;
  request.key = "data.eval_path";
  request.held = HR_HOLD_ALL;
  return part_open(data, &data->parts[1], &request, err);
}

hr_status hr__data_open(const hr_recipe *recipe, const hr_data_shape *shape, hr_data **out, hr_error *err) {
  hr_data *data = hr__alloc_zero(1, sizeof *data);
  if (!data) return hr__nomem(err);
  hr_status status = data_build(data, recipe, shape, err);
  if (status != HR_OK) {
    hr__data_close(data);
    return status;
  }
  *out = data;
  return HR_OK;
}

hr_data_bytes hr__data_bytes(const hr_data *data) {
  hr_data_bytes all = {0};
  for (int i = 0; i < 2; i++) {
    const part *p = &data->parts[i];
    if (!p->state) continue;
    hr_data_bytes bytes = data->source->bytes ? data->source->bytes(p->state) : (hr_data_bytes){0};
    all.held += bytes.held + (p->index ? hr__index_bytes(p->index) : 0);
    all.making += bytes.making;
  }
  return all;
}

bool hr__data_reads_tokenizer(const hr_recipe *recipe) {
  return hr__source_named(recipe)->tokenizes && !hr__tokens_are_bytes(recipe);
}

void hr__data_close(hr_data *data) {
  if (!data) return;
  for (int i = 0; i < 2; i++) {
    hr__index_destroy(data->parts[i].index);
    if (data->parts[i].state) data->source->close(data->parts[i].state);
  }
  hr__free(data->scratch);
  hr__free(data->counted);
  hr__free((void *)data->shape.buckets);
  hr__free((void *)data->shape.fields);
  hr__free(data);
}

const hr_fields *hr__data_fields(const hr_data *data, int bucket) {
  return &data->shape.fields[bucket];
}
int64_t hr__data_train_samples(const hr_data *data) {
  return (int64_t)data->train;
}
int64_t hr__data_eval_samples(const hr_data *data) {
  return (int64_t)data->eval;
}
int64_t hr__data_cut(const hr_data *data) {
  int64_t cut = 0;
  for (int i = 0; i < 2; i++)
    cut += data->parts[i].index ? hr__index_cut(data->parts[i].index) : 0;
  return cut;
}
bool hr__data_own_eval(const hr_data *data) {
  return data->own_eval;
}
const char *hr__data_remark(const hr_data *data, bool eval) {
  const void *state = data->parts[eval].state;
  return state && data->source->remark ? data->source->remark(state) : NULL;
}
uint64_t hr__data_epoch_rows(const hr_data *data) {
  return data->parts[0].index ? hr__index_epoch_rows(data->parts[0].index) : data->train;
}
const hr_data_file *hr__data_file(const hr_data *data, bool eval, size_t number) {
  const void *state = data->parts[eval].state;
  return state && data->source->file ? data->source->file(state, number) : NULL;
}

hr_status hr__data_trace(const hr_data *data, bool eval, hr_trace *out, hr_error *err) {
  *out = (hr_trace){.whole = true};
  const void *state = data->parts[eval].state;
  const hr_trace *own = state && data->source->trace ? data->source->trace(state) : NULL;
  if (own) {
    *out = *own;
    return HR_OK;
  }
  const hr_data_file *file;
  for (size_t i = 0; (file = hr__data_file(data, eval, i)); i++) {
    hr_trace one;
    HR_TRY(hr__trace_file(file, &one, err));
    hr__trace_add(out, &one);
  }
  return HR_OK;
}

uint64_t hr__data_entry(const hr_data *data, uint64_t sample) {
  if (data->source->endless) return sample;
  uint64_t epoch = sample / data->train;
  uint64_t entry = hr__random_permute(data->order, epoch, sample % data->train, data->train);
  return data->source->anew ? entry | epoch << HR_ENTRY_BITS : entry;
}

static const part *part_of(const hr_data *data, bool eval) {
  return &data->parts[eval && data->own_eval];
}

static uint64_t entry_of(const hr_data *data, const hr_micro *micro, int64_t row) {
  uint64_t sample = micro->sample + (uint64_t)row;
  const hr_index *index = part_of(data, micro->eval)->index;
  uint64_t held = data->own_eval ? 0 : data->train; /* the first that is held out */
  if (micro->items) return data->source->items_held ? held + sample % data->eval : data->train + data->eval + sample;
  if (index) return hr__index_entry(index, micro, row);
  if (!micro->eval || data->source->endless) return hr__data_entry(data, sample);
  return held + sample % data->eval;
}

/* Positions of a row that hold data. */
static int64_t row_length(const hr_data *data, const hr_micro *micro, int64_t row) {
  if (row >= micro->rows) return 0;
  const part *p = part_of(data, micro->eval);
  return data->source->length ? data->source->length(p->state, entry_of(data, micro, row)) : micro->length;
}

/* Of `own` positions of a row: those that have a target. */
static int64_t row_targets(const hr_data *data, const hr_micro *micro, int64_t row, int64_t own) {
  const hr_masking *masking = &data->shape.masking;
  if (masking->part > 0) return hr__masking_count(masking, own);
  if (!data->source->targets) return own;
  return data->source->targets(part_of(data, micro->eval)->state, entry_of(data, micro, row));
}

static int64_t row_samples(const hr_data *data, const hr_micro *micro, int64_t row) {
  if (!data->source->within) return 1;
  return data->source->within(part_of(data, micro->eval)->state, entry_of(data, micro, row));
}

hr_micro hr__data_micro(const hr_data *data, uint64_t sample, bool eval) {
  int64_t rows = data->shape.batch, length = data->shape.buckets[data->shape.n_buckets - 1];
  hr_micro micro = {.length = length, .rows = rows, .eval = eval, .sample = sample};
  micro.bucket = data->shape.n_buckets - 1;
  const hr_index *index = part_of(data, eval)->index;
  if (index) micro = hr__index_micro(index, sample, eval);
  for (int64_t row = 0; row < micro.rows; row++)
    micro.samples += row_samples(data, &micro, row);
  if (hr__field_for(&data->shape.fields[micro.bucket], HR_FOR_TOKENS) < 0) {
    micro.targets = micro.rows; /* something to divide by, for losses that nobody has */
    return micro;
  }
  for (int64_t row = 0; row < micro.rows; row++) {
    int64_t own = row_length(data, &micro, row);
    micro.tokens += own;
    micro.targets += row_targets(data, &micro, row, own);
  }
  return micro;
}

/* What has the items: all of the data, or what is held out of it. */
static const void *items_of(const hr_data *data) {
  return part_of(data, data->source->items_held)->state;
}

uint64_t hr__data_items(const hr_data *data, int64_t *of_a_row) {
  return data->source->items ? data->source->items(items_of(data), of_a_row) : 0;
}

const char *hr__data_item(const hr_data *data, uint64_t number) {
  return data->source->item(items_of(data), number);
}

hr_micro hr__data_items_micro(const hr_data *data, uint64_t first) {
  int64_t of_a_row = 1;
  hr__data_items(data, &of_a_row);
  int longest = data->shape.n_buckets - 1;
  return (hr_micro){.bucket = longest,
                    .length = data->shape.buckets[longest],
                    .rows = data->shape.batch,
                    .samples = data->shape.batch,
                    .items = true,
                    .eval = data->source->items_held,
                    .sample = first / (uint64_t)of_a_row};
}

hr_status hr__data_judge(const hr_data *data, const float *points, int64_t width, hr_judged *out, hr_error *err) {
  *out = (hr_judged){0}; /* what a source does not speak of is not there */
  return data->source->judge(items_of(data), points, width, out, err);
}

hr_groups *hr__data_groups(hr_data *data) {
  return data->source->groups ? data->source->groups(data->parts[0].state) : NULL;
}

const hr_featured *hr__data_featured(const hr_data *data, bool eval, void **state) {
  *state = data->parts[eval].state;
  bool wanted = hr__field_named(&data->shape.fields[data->shape.n_buckets - 1], "features") != NULL;
  return *state && wanted ? data->source->features : NULL;
}

/* A row without data: all padding. */
static void row_clear(const hr_room *room) {
  for (int i = 0; i < room->fields->count; i++) {
    const hr_field *field = &room->fields->list[i];
    if (field->purpose == HR_FOR_FACTOR) continue;
    memset(room->at[i], field->purpose == HR_FOR_TARGETS ? 0xff : 0, hr__field_sample_bytes(field));
  }
}

static hr_status row_fill(const hr_data *data, const hr_micro *micro, int64_t row, const hr_room *room, hr_error *err) {
  const hr_masking *masking = &data->shape.masking;
  int64_t count = row_length(data, micro, row);
  if (row < micro->rows)
    HR_TRY(data->source->fill(part_of(data, micro->eval)->state, micro->eval, entry_of(data, micro, row), room, err));
  else
    row_clear(room);
  int32_t *length = hr__room_for(room, HR_FOR_LENGTHS);
  if (length) *length = (int32_t)count;
  if (masking->part > 0)
    hr__masking_apply(masking, micro->eval, micro->sample + (uint64_t)row, count, micro->length,
                      hr__room_for(room, HR_FOR_TOKENS), hr__room_for(room, HR_FOR_TARGETS));
  return HR_OK;
}

/* Brings the samples of fields that lie in pieces from the scratch to their places. */
static void pieces_put(const hr_room *room, int64_t row, void *const at[HR_FIELDS]) {
  for (int i = 0; i < room->fields->count; i++) {
    const hr_field *field = &room->fields->list[i];
    if (field->batch_axis == 0) continue;
    hr_pieces p = hr__field_pieces(field);
    const char *from = room->at[i];
    char *to = (char *)at[i] + (size_t)row * p.piece_bytes;
    for (int64_t k = 0; k < p.pieces; k++)
      memcpy(to + (size_t)k * p.stride_bytes, from + (size_t)k * p.piece_bytes, p.piece_bytes);
  }
}

hr_status hr__data_fill(const hr_data *data, const hr_micro *micro, int64_t first, int64_t count, int filler,
                        void *const at[HR_FIELDS], hr_error *err) {
  const hr_fields *fields = &data->shape.fields[micro->bucket];
  hr_room room = {.fields = fields, .length = micro->length};
  for (int64_t row = first; row < first + count; row++) {
    size_t used = (size_t)filler * data->scratch_bytes;
    for (int i = 0; i < fields->count; i++) {
      size_t bytes = hr__field_sample_bytes(&fields->list[i]);
      bool whole = fields->list[i].batch_axis == 0;
      room.at[i] = whole ? (char *)at[i] + (size_t)row * bytes : data->scratch + used;
      if (!whole) used += bytes;
    }
    HR_TRY(row_fill(data, micro, row, &room, err));
    if (data->scratch) pieces_put(&room, row, at);
  }
  return HR_OK;
}

bool hr__data_asks(const hr_data *data) {
  return data->source->ask != NULL;
}

hr_status hr__data_ask(const hr_data *data, bool eval, uint64_t number, void *const at[HR_FIELDS], hr_asked *out,
                       hr_error *err) {
  int longest = data->shape.n_buckets - 1;
  hr_fields one = hr__fields_of_one(&data->shape.fields[longest]);
  hr_room room = {.fields = &one, .length = data->shape.buckets[longest]};
  memcpy(room.at, at, sizeof room.at);
  uint64_t first = eval && !data->own_eval ? data->train : 0;
  return data->source->ask(part_of(data, eval)->state, first + number, &room, out, err);
}

static int64_t elements_count(const hr_field *field, const void *from) {
  size_t element = hr_dtype_bytes(field->desc.dtype), bytes = hr__field_sample_bytes(field);
  int64_t count = 0;
  for (const char *at = from, *end = at + bytes; at < end; at += element) {
    bool zero = true;
    for (size_t i = 0; i < element; i++)
      zero = zero && at[i] == 0;
    count += !zero;
  }
  return count;
}

hr_status hr__data_count(const hr_data *data, const hr_micro *micro, int field, int64_t *out, hr_error *err) {
  const hr_fields *fields = &data->shape.fields[micro->bucket];
  hr_fields one = hr__fields_of_one(fields);
  hr_room room = {.fields = &one, .length = micro->length, .only = &one.list[field]};
  size_t begin[HR_FIELDS];
  hr__fields_place(&one, begin);
  for (int i = 0; i < fields->count; i++)
    room.at[i] = data->counted + begin[i];
  *out = 0;
  for (int64_t row = 0; row < micro->rows; row++) {
    HR_TRY(row_fill(data, micro, row, &room, err));
    *out += elements_count(&one.list[field], room.at[field]);
  }
  return HR_OK;
}
