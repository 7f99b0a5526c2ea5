/* A source: where samples come from. One file each, one row in sources.def.
 *
 * Samples are numbered, and a sample is the same whenever and in whatever order it is asked for: `fill` is a pure
 * function of the number, so that the position in the data is all that resuming needs, and several threads may fill at
 * once. What is held out, the order of an epoch, buckets and masking are data.c's.
 */
#ifndef HR_DATA_SOURCE_H
#define HR_DATA_SOURCE_H

#include "data/asked.h"
#include "data/bytes.h"
#include "data/confusion.h"
#include "data/featured.h"
#include "data/field.h"
#include "data/files.h"
#include "data/trace.h"
#include "data/watch.h"
#include "recipe/recipe.h"

/* How many samples are held out for evaluation. */
typedef enum hr_hold { HR_HOLD_NONE, HR_HOLD_PART, HR_HOLD_ALL } hr_hold;

/* What a source is opened for. */
typedef struct hr_source_request {
  const hr_recipe *recipe;
  const char *key;         /* "data.path" or "data.eval_path": which files it reads */
  const hr_fields *fields; /* of the longest samples */
  int64_t length;          /* positions of the longest samples */
  uint64_t seed;
  hr_hold held;
  hr_data_watch watch;
} hr_source_request;

/* Room for one sample: for each field that is filled by sources its bytes, dense, in the order of the fields. */
typedef struct hr_room {
  const hr_fields *fields;
  void *at[HR_FIELDS];
  int64_t length;       /* positions that there is room for; those behind the sample are token 0, target -1 */
  const hr_field *only; /* (optional) the one field that is looked at: others need not be written */
} hr_room;
static inline void *hr__room_for(const hr_room *room, hr_purpose purpose) {
  int i = hr__field_for(room->fields, purpose);
  return i < 0 ? NULL : room->at[i];
}

enum { HR_ENTRY_BITS = 40 };

/* Told of each sample in order: a number by which `fill` finds it again, and its length, which may be more than the
 * request's: it is cut then. */
typedef void (*hr_each_sample)(void *user, uint64_t entry, int64_t length);

/* Metrics of all of the data at once. */
typedef struct hr_judged {
  int count;
  struct {
    const char *name;
    double value;
  } metric[8];
  const hr_confusion *confusion; /* of a classification, owned by the source; NULL: it is none */
} hr_judged;

typedef struct hr_source {
  const char *name;
  /* (optional) The same with samples that have lengths of their own, where the recipe has data.buckets. */
  const struct hr_source *in_buckets;
  /* (optional) The same with entries that several samples share, where the recipe has data.packing and they are no
   * sequences of tokens. */
  const struct hr_source *in_rows;
  bool endless;          /* there is no number of samples, and so are no epochs */
  bool tokenizes;        /* makes tokens of text, unless they are its bytes */
  const char *tokenizer; /* (optional) the folder of the part that reads the tokens: "model.parts.text.path"; "*" in it
                          * stands for the first of model.config.texts */
  bool threaded;         /* opens its files with data.workers threads */
  bool anew;             /* samples are drawn anew in every epoch, whose number is in entries, above HR_ENTRY_BITS */
  unsigned purposes;     /* bits of hr_purpose: what it can fill */
  hr_status (*open)(const hr_source_request *request, void **state, hr_error *err);
  void (*close)(void *state);
  /* Samples there are; entry i is sample i. Neither for endless sources nor for those with `scan`. */
  uint64_t (*samples)(const void *state);
  /* (optional) How many of them, the last ones, are held out, where the source has chosen them: it has seen that there
   * are as many as are needed. */
  uint64_t (*held)(const void *state);
  /* (optional) Of samples that have lengths of their own: goes through all of them. Such a source has buckets, and its
   * steps end with the epoch. */
  hr_status (*scan)(const void *state, hr_each_sample each, void *user, hr_error *err);
  /* With `scan`: length of a sample, cut; else (optional) positions of it that hold data. */
  int64_t (*length)(const void *state, uint64_t entry);
  /* (optional) Of the positions of a sample, those that have a target; else all. */
  int64_t (*targets)(const void *state, uint64_t entry);
  /* (optional) How many samples share an entry, that what is a mean over samples counts; else one. */
  int64_t (*within)(const void *state, uint64_t entry);
  const char *(*remark)(const void *state); /* (optional) what of the file was left out; NULL: nothing */
  /* Writes a sample. `eval` only matters to endless sources: held-out samples of others have entries of their own. */
  hr_status (*fill)(const void *state, bool eval, uint64_t entry, const hr_room *room, hr_error *err);
  /* (optional) Of samples that are questions: writes one without its answer, and tells what is asked. */
  hr_status (*ask)(const void *state, uint64_t entry, const hr_room *room, hr_asked *out, hr_error *err);
  /* (optional) Entries behind all others that hold every item of the data once, in order: how many items there are,
   * and how many of them an entry has. Points of all of them are judged together. */
  uint64_t (*items)(const void *state, int64_t *of_an_entry);
  bool items_held; /* these are the samples that are held out, and have no entries of their own */
  const char *(*item)(const void *state, uint64_t number); /* what it is called */
  hr_status (*judge)(const void *state, const float *points, int64_t width, hr_judged *out, hr_error *err);
  /* (optional) Of a source with items: groups of them, made by their points, that its samples go by; NULL: this one
   * has none. They change between samples, never while one is filled. */
  struct hr_groups *(*groups)(void *state);
  const hr_data_file *(*file)(const void *state, size_t number); /* (optional) what it reads; NULL: no more of them */
  /* (optional) What it takes to find samples again; nothing that grows with them without it. */
  hr_data_bytes (*bytes)(const void *state);
  const hr_featured *features; /* (optional) */
  /* (optional) What tells its samples from others, where the file alone does not. */
  const hr_trace *(*trace)(const void *state);
} hr_source;

#define HR_SOURCE(name, meaning) extern const hr_source hr_source_##name;
#include "data/sources.def"
#undef HR_SOURCE

/* The source that a recipe names, and the one that gives its samples: with packing, that of packed ones. */
const hr_source *hr__source_named(const hr_recipe *recipe);
const hr_source *hr__source_of(const hr_recipe *recipe);

/* How many of `samples` samples are held out: data.eval_fraction of them, at least one, where a part is. */
uint64_t hr__held_out(const hr_source_request *request, uint64_t samples);
/* Whether there are as many as are needed: one to evaluate where any is to be, and one to train on unless all are. */
bool hr__samples_suffice(const hr_source_request *request, uint64_t samples);

/* Files of text end so. */
#define HR_TEXT_ENDINGS ".txt|.text|.md"
#define HR_IDS_ENDINGS  ".npy|.bin"

/* HR_BAD_INPUT where the model does not take tokens with targets, or its vocabulary does not hold all bytes. */
hr_status hr__bytes_check(const hr_source_request *request, hr_error *err);

/* Spreads `bytes` bytes and the one behind them into tokens[t] and targets[t] = the byte behind; both have `length`
 * numbers. Reading goes straight into `targets`: hr__bytes_room is where the bytes + 1 must lie. */
unsigned char *hr__bytes_room(int32_t *targets, int64_t length);
void hr__bytes_spread(int32_t *tokens, int32_t *targets, int64_t bytes, int64_t length);

#endif
