/* The alphabet of byte-level vocabularies: one printable character for each byte.
 *
 * Bytes 21-7E, A1-AC, AE-FF are the characters of the same number; the other 68, in rising order, are U+0100 and on.
 */
#ifndef HR_TEXT_ALPHABET_H
#define HR_TEXT_ALPHABET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/grow.h"

uint32_t hr__alphabet_char(unsigned char byte);
int hr__alphabet_byte(uint32_t c); /* -1: no character of the alphabet */

/* Text of the alphabet as the bytes it stands for, appended; false: it has a foreign character and nothing is added. */
hr_status hr__alphabet_bytes(const char *text, size_t bytes, hr_string *out, bool *whole, hr_error *err);

#endif
