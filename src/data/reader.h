/* The reader: fills micro-batches ahead of their use, on threads of its own.
 *
 * There are two slots. `get` gives the slot that holds a micro-batch: filled ahead, if that was asked for, else now;
 * the one that was asked for last is not read again. What was read ahead and is not asked for after all is given up;
 * nothing depends on what was read when. The slot that `get` gave stays as it is until the next `get`.
 */
#ifndef HR_DATA_READER_H
#define HR_DATA_READER_H

#include "data/data.h"

typedef struct hr_reader hr_reader;

enum { HR_WORKERS_MAX = 64 };

/* `slots`: room for a batch of any bucket each, fields as hr__fields_place has them. workers: threads; 0: reading is
 * done in `get`. The data must have been opened for as many fillers (at least 1). */
hr_status hr__reader_create(const hr_data *data, int64_t batch, int workers, char *const slots[HR_BATCH_SLOTS],
                            hr_reader **out, hr_error *err);
void hr__reader_destroy(hr_reader *reader); /* waits for what is being read */

hr_status hr__reader_get(hr_reader *reader, const hr_micro *micro, int *slot, hr_error *err);
/* What slots hold is read again when it is asked for; nothing is being read behind this. */
void hr__reader_forget(hr_reader *reader);
/* Begins to fill the slot that the last `get` did not give. */
void hr__reader_ahead(hr_reader *reader, const hr_micro *micro);

#endif
