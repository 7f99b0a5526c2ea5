/* The motion of an object as an observer at the origin sees it: at three instants, one unit of time apart, place,
 * velocity, range, bearing and elevation; and what is made of them, in f64.
 */
#ifndef HR_DATA_MOTION_H
#define HR_DATA_MOTION_H

enum { HR_MOTION_INSTANTS = 3, HR_MOTION_NUMBERS = 9, HR_MOTION_FEATURES = 24 };
/* Numbers of an instant. */
enum { HR_MOTION_PLACE = 0, HR_MOTION_VELOCITY = 3, HR_MOTION_RANGE = 6, HR_MOTION_BEARING, HR_MOTION_ELEVATION };

/* Fills in range, bearing and elevation (radians) of an instant from its place. */
void hr__motion_seen(double instant[HR_MOTION_NUMBERS]);

/* Distance at each instant (3); change of range between them (2); speed of approach at each (3); change of bearing, the
 * short way round, and of elevation (2 + 2); how far the line of flight passes by the observer (3); acceleration at
 * each instant, by differences, one-sided at the ends (9). Where nothing moves or stands at the origin they are 0. */
void hr__motion_features(const double motion[HR_MOTION_INSTANTS][HR_MOTION_NUMBERS], double out[HR_MOTION_FEATURES]);

#endif
