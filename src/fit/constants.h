/* constants: how long planning looks, and how far its estimates are trusted.
 *
 * None of them decides what is right: a plan is taken only when its own sketch or layout fits. Where
 * one was compared with others, what those lost stands beside it; the rest are the first that fit/test_closed and
 * bench/rungs held with.
 */
#ifndef HR_FIT_CONSTANTS_H
#define HR_FIT_CONSTANTS_H

#include <stdint.h>

/* Nodes of a graph with nothing moved, and bytes that may move, up to which looks have all tiles, and differ from plans
 * in nothing but layout. So many bytes are as many tiles as the few. */
enum { HR_SMALL_NODES = 1000 };
static const uint64_t hr_small_bytes = 2ull << 30;
/* Slots of a plan up to which the best layout takes next to no time. */
enum { HR_SMALL_SLOTS = 1024 };
/* Slots of a plan that is only to be judged, from which on it is not laid out where it leaves a per cent. */
enum { HR_JUDGED_SLOTS = 512 };
/* Nodes of sketches that are looked at in any case, and at most; nodes of plans for those that come close. */
enum { HR_LOOKS_NODES = 20000, HR_LOOKS_NODES_SMALL = 80000, HR_LOOKS_NODES_MOST = 400000, HR_PLANS_NODES = 200000 };
/* Looks in any case, and for a plan that is only to be judged at most. */
enum { HR_LOOKS_LEAST = 8, HR_LOOKS_JUDGED = 3 };
/* Beyond those in any case: looks without a better one after which there are no more. Half of it makes full training of
 * an 8B model with 64 GiB on the host 2.5 times slower. */
enum { HR_LOOKS_IDLE = 12 };
/* A kind is divided into so many shares; plans are filled by one or more of them, on the device looks with
 * few tiles by no fewer than four. Of what is left on the disk a share may take per cents of a step: the host is filled
 * by a quarter of one, in looks by half of one. */
enum { HR_SHARES = 256, HR_LOOKED_SHARES = 4, HR_HOST_STEPS = 4 };
/* Sketches for filling one tier, or for taking off what is too much; of small graphs more, for filling. */
enum { HR_FILL_TRIES = 3, HR_FILL_TRIES_SMALL = 8 };

/* What bounds promise beyond that much is looked for longest. */
static const double hr_near_enough = 0.03;
/* Where the best takes more than that many times a bound, looks go on for twice as long without a better one. */
static const double hr_far = 2;
/* Figures put together from other sketches are right but for that much, */
static const double hr_bounds_error = 0.01;
/* of placements that are alike they are all off by about the same where they are off by less than that, */
static const double hr_good_bound = 0.25;
/* differences between sketches with few tiles are right but for that much, */
static const double hr_looks_error = 0.01;
/* and few tiles take longer than many by at most that much. */
static const double hr_tiles_error = 0.10;
/* A plan that is only to be judged may be slower than the best by that much. */
static const double hr_judged_error = 0.10;

#endif
