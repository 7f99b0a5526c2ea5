/* TensorBoard's event files of a run: what log.jsonl has, for people who look at curves there. Scalars, generated
 * texts, histograms; tags and steps are those of the log, and wall times the same.
 *
 * A run that goes on from a checkpoint first cuts off what older files have of later steps, and begins a file of its
 * own, which says where it goes on: no step is there twice, for TensorBoard nor for any other reader.
 *
 * It is never worth a run: whatever stands in the way of writing, a full disk or a folder that is gone, is told once,
 * and nothing more is written. Nothing is allocated while it is open.
 */
#ifndef HR_TRAIN_BOARD_H
#define HR_TRAIN_BOARD_H

#include "train/history.h"

typedef struct hr_board hr_board;

/* Called at most once, with why there will be no more events. */
typedef void (*hr_board_lost)(void *user, const char *path, const char *why);

/* In `folder`, for a run that goes on after `step`; NULL: it cannot be made, which `lost` has been told (or there is no
 * memory). */
hr_board *hr__board_open(const char *folder, int64_t step, hr_board_lost lost, void *user);
void hr__board_close(hr_board *board); /* NULL is fine */

/* Whatever of a record belongs there; others are passed over. */
void hr__board_record(hr_board *board, const hr_record *record);
/* A histogram of some numbers; those that are not finite are left out. */
void hr__board_histogram(hr_board *board, double time, int64_t step, const char *tag, const double *values,
                         size_t count);
/* Events are written every second, when there are many, and when asked: */
void hr__board_flush(hr_board *board);

#endif
