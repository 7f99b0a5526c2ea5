/* What the tests of data share: recipes of data alone, a file, and batches of tokens. */
#ifndef TEST_DATA_PART_DATA_H
#define TEST_DATA_PART_DATA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "data/data.h"

enum { VOCABULARY = 256 };

typedef struct fixture {
  hr_recipe *recipe;
  hr_data *data;
  char path[4096];
} fixture;

void file_put(const char *path, const void *bytes, size_t count);
hr_recipe *recipe_parse(const char *text, const char *const *overrides, size_t count);
/* A recipe with data.path at the fixture's own file. */
void recipe_make(fixture *f, const char *source);
/* Opens data over a file with these bytes (NULL: none), as a model of tokens takes it. */
hr_status fixture_try(fixture *f, const char *source, const void *text, size_t bytes, int64_t batch,
                      const int64_t *buckets, int n_buckets, bool eval, hr_error *err);
/* Opens data as a recipe's settings ("data.source=rows", ...; ended by NULL) say, data.path being the fixture's own
 * file with these bytes, named `file`; as a model of `vocabulary` tokens takes it. */
typedef struct data_request {
  const char *file;
  const void *text;
  size_t bytes;
  const char *const *settings;
  int64_t length, batch, vocabulary;
  hr_data_watch watch;
} data_request;
hr_status request_open(fixture *f, const data_request *request, hr_error *err);
void fixture_close(fixture *f);

/* A cache folder of the test's own: made the process's, how many files it has (the path of one of them), emptied, gone.
 */
void cache_begin(const char *name);
int cache_files(char path[4500]);
void cache_clear(void);
void cache_end(void);

/* Fields of a batch of tokens for each bucket. */
void token_fields(hr_fields *out, int64_t batch, const int64_t *buckets, int n_buckets, int64_t vocabulary,
                  bool lengths);
/* A whole micro-batch. */
hr_status fill(const hr_data *data, const hr_micro *micro, int32_t *tokens, int32_t *targets, int32_t *lengths,
               hr_error *err);

#endif
