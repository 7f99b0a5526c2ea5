/* The table of sources, the settings of data, and what sources of bytes share. See source.h. */
#include "data/source.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "data/keys.h"
#include "data/packing.h"

static const hr_source *const sources[] = {
#define HR_SOURCE(name, meaning) &hr_source_##name,
#include "data/sources.def"
#undef HR_SOURCE
};

/* "text|lines|..." and "text: the bytes ...; lines: ...", behind a separator each. */
#define HR_SOURCE(name, meaning) "|" #name
static const char names[] =
#include "data/sources.def"
    ;
#undef HR_SOURCE
#define HR_SOURCE(name, meaning) "; " #name ": " meaning
static const char meanings[] =
#include "data/sources.def"
    ;
#undef HR_SOURCE

static const hr_key keys[] = {
    {.path = "data.sequence_length",
     .type = HR_KEY_INT,
     .required = true,
     .min = 1,
     .max = 1 << 24,
     .choices = "auto",
     .quality = true,
     .meaning = "tokens per sample, where there are tokens; longer ones are cut; auto: the largest power of two up to "
                "the model's longest that "
                "fits, 8192 at most"},
    {.path = "data.source", .type = HR_KEY_CHOICE, .fallback = "text", .choices = names + 1, .meaning = meanings + 2},
    {.path = "data.buckets",
     .type = HR_KEY_TREE,
     .example = "[64, 128, 256]",
     .meaning = "sources lines, rows, taxonomy, sensors, events and video: lengths to which samples are padded, "
                "ascending up to "
                "sequence_length; one "
                "unless given"},
    {.path = "data.packing",
     .type = HR_KEY_BOOL,
     .fallback = "false",
     .meaning = "true: lines, rows or recordings of events share samples of sequence_length, and files of a text its "
                "windows; none sees another, and no loss goes over a border"},
    {.path = "data.path",
     .type = HR_KEY_PATHS,
     .meaning = "what the source reads: a file, a list of them, a folder, or a pattern such as texts/*.txt"},
    {.path = "data.eval_path",
     .type = HR_KEY_PATHS,
     .meaning = "files to evaluate on, as data.path has those to train on; not given: the end of these is held out"},
    {.path = "data.tokenizer",
     .type = HR_KEY_PATH,
     .choices = "bytes",
     .meaning =
         "sources that read text: tokenizer.json or another vocabulary file, or a model's folder with one; "
         "bytes: bytes "
         "are the tokens; not given: the folder of model.path or of the part that reads the text, and bytes for a "
         "model without one"},
    {.path = "data.id_type",
     .type = HR_KEY_CHOICE,
     .choices = "u16|u32",
     .meaning = "source ids: how ids lie in .bin files; .npy files say it themselves"},
    {.path = "data.end_id",
     .type = HR_KEY_INT,
     .min = 0,
     .max = 2147483646,
     .meaning =
         "source ids with data.packing, sources sensors and video: the token that ends a document, an answer or a "
         "caption; not given: "
         "the tokenizer's"},
    {.path = "data.template",
     .type = HR_KEY_PATH,
     .meaning =
         "source rows: file of the chat template that messages are written by; not given: the tokenizer's folder"},
    {.path = "data.loss",
     .type = HR_KEY_CHOICE,
     .fallback = "answers",
     .choices = "answers|all",
     .meaning =
         "source rows: answers: only tokens of completions, outputs and the assistant are targets; all: every one"},
    {.path = "data.bad_rows",
     .type = HR_KEY_FLOAT,
     .fallback = "0",
     .min = 0,
     .max = 1,
     .meaning = "sources rows, sensors, video and clips: part of the rows that may be bad and is left out; with more "
                "the file is "
                "refused"},
    {.path = "data.eval_fraction",
     .type = HR_KEY_FLOAT,
     .fallback = "0.05",
     .min = 1e-6,
     .max = 0.9,
     .meaning =
         "end of the data held out for evaluation, where training.eval_every is given and data.eval_path is not"},
    {.path = "data.workers",
     .type = HR_KEY_INT,
     .fallback = "1",
     .min = 0,
     .max = 64,
     .meaning = "threads that make rows into tokens or read recordings, and that read the next batch while one is "
                "computed; 0: read "
                "between steps; "
                "results are the same"},
};
const hr_key_table hr_data_keys = {keys, sizeof keys / sizeof *keys};

const hr_source *hr__source_of(const hr_recipe *recipe) {
  const hr_source *named = hr__source_named(recipe);
  if (named->in_buckets && hr__recipe_has(recipe, "data.buckets")) return named->in_buckets;
  if (!hr__packing(recipe)) return named;
  return named->in_rows ? named->in_rows : named->scan ? &hr_source_packed : named;
}

const hr_source *hr__source_named(const hr_recipe *recipe) {
  const char *name = hr__recipe_text(recipe, "data.source");
  size_t i = 0;
  while (strcmp(sources[i]->name, name) != 0) /* a choice of the key: it is there */
    i++;
  return sources[i];
}

uint64_t hr__held_out(const hr_source_request *request, uint64_t samples) {
  if (request->held != HR_HOLD_PART) return request->held == HR_HOLD_ALL ? samples : 0;
  double held = hr__recipe_float(request->recipe, "data.eval_fraction") * (double)samples;
  return llround(held) < 1 ? 1 : (uint64_t)llround(held);
}

bool hr__samples_suffice(const hr_source_request *request, uint64_t samples) {
  return samples > (request->held == HR_HOLD_PART ? hr__held_out(request, samples) : 0);
}

hr_status hr__bytes_check(const hr_source_request *request, hr_error *err) {
  enum { BYTE_TOKENS = 256 };
  int tokens = hr__field_for(request->fields, HR_FOR_TOKENS), targets = hr__field_for(request->fields, HR_FOR_TARGETS);
  if (tokens < 0 || targets < 0)
    return hr__recipe_fail(request->recipe, "data.source", "choose another data.source", err,
                           "source %s gives tokens and their targets, which this model does not take",
                           hr__recipe_text(request->recipe, "data.source"));
  int64_t bound = request->fields->list[tokens].bound;
  if (bound >= BYTE_TOKENS) return HR_OK;
  return hr__recipe_fail(request->recipe, "data.source", "use a vocab_size of 256 or more", err,
                         "text has 256 byte tokens, but the model's vocabulary has only %" PRId64, bound);
}

/* The length + 1 bytes go to the end of the targets row, then are spread upwards from its beginning: number t is
 * written to bytes 4t..4t+3, the byte it comes from lies at 3 length + t, never before them. */
unsigned char *hr__bytes_room(int32_t *targets, int64_t length) {
  return (unsigned char *)targets + 3 * (size_t)length - 1;
}

void hr__bytes_spread(int32_t *tokens, int32_t *targets, int64_t bytes, int64_t length) {
  const unsigned char *raw = hr__bytes_room(targets, length);
  for (int64_t t = 0; t < bytes; t++) {
    int32_t here = raw[t], next = raw[t + 1];
    tokens[t] = here;
    targets[t] = next;
  }
  for (int64_t t = bytes; t < length; t++) {
    tokens[t] = 0;
    targets[t] = -1;
  }
}
