/* Characters of UTF-8 text as Python counts and maps them. Text is well-formed: it was checked when it came in.
 *
 * Tables are of Unicode 14 (tools/unicode_tables writes them).
 */
#ifndef HR_TEXT_TEMPLATE_UNICODE_H
#define HR_TEXT_TEMPLATE_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The character at text[0], and its bytes. */
uint32_t hr__utf8_decode(const char *text, size_t *bytes);
/* Writes a character; its bytes, at most 4. */
size_t hr__utf8_encode(uint32_t character, char out[4]);
size_t hr__utf8_count(const char *text, size_t bytes);
/* Byte offset of character `index`, or `bytes` beyond the end. */
size_t hr__utf8_offset(const char *text, size_t bytes, size_t index);
/* Bytes of the last character of text[0, bytes). */
size_t hr__utf8_last(const char *text, size_t bytes);

bool hr__py_isspace(uint32_t character);     /* str.isspace */
bool hr__py_isprintable(uint32_t character); /* str.isprintable */

typedef enum hr_case { HR_CASE_LOWER, HR_CASE_UPPER, HR_CASE_TITLE } hr_case;
enum { HR_CASE_MAX = 3 }; /* characters that one becomes */
/* What a character becomes; how many characters that is. */
size_t hr__py_case(uint32_t character, hr_case to, uint32_t out[HR_CASE_MAX]);
bool hr__py_cased(uint32_t character);          /* has the Unicode property Cased */
bool hr__py_case_ignorable(uint32_t character); /* has the property Case_Ignorable */

#endif
